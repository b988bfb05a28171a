"""Parts of real partitions, read as columns by a client of no group."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.errors import SlidestatError
from slidestat.kafka.carried_security import CarriedSecurity
from slidestat.kafka.fetches import partition_range
from slidestat.kafka.fetches.partition_range import PartitionRange, read_range
from slidestat.kafka.read.scan import open_scanner, scan_ranges
from slidestat.kafka.settings import BrokerSecurity
from tests.conftest import MakeTopic

PLAINTEXT = BrokerSecurity()
Row = tuple[int, bytes | None, bytes | None]


@pytest.fixture
def mixed(bootstrap_servers: str, make_topic: MakeTopic) -> str:
    """A topic of one partition: records of transactions that were committed and aborted in turn,
    the last one aborted, and others between them.
    """
    topic = make_topic()
    plain = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": "lz4"})
    of_transactions = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": uuid4().hex}
    )
    of_transactions.init_transactions(30)
    for turn in range(6):
        for i in range(30):
            plain.produce(topic, f"{turn}/{i}", f"k{i}" if i % 7 else None)
        assert plain.flush(60) == 0
        of_transactions.begin_transaction()
        for i in range(20):
            of_transactions.produce(topic, f"in {turn}/{i}" if i % 5 else None, f"k{i}")
        assert of_transactions.flush(60) == 0
        if turn % 2:
            of_transactions.abort_transaction(60)
        else:
            of_transactions.commit_transaction(60)
    return topic


def rows(bootstrap: str, wanted: PartitionRange, max_records: int = 1_000) -> Iterator[Row]:
    """The records of a range."""
    for part in read_range(bootstrap, PLAINTEXT, wanted, max_records):
        assert 0 < len(part) <= max_records
        yield from zip(part.offsets.tolist(), part.keys, part.values, strict=True)


@pytest.mark.parametrize("max_records", [1, 17, 50_000])
def test_they_are_the_committed_records(
    bootstrap_servers: str, mixed: str, max_records: int
) -> None:
    """From any offset to any other; what is aborted is left out, and a range that ends with marks
    of transactions ends.
    """
    scanner = open_scanner(bootstrap_servers)
    _, end = scanner.get_watermark_offsets(TopicPartition(mixed, 0), 30)
    assert end == 6 * 51
    for first, until in ((0, end), (0, end - 1), (31, 95), (100, 101), (end - 21, end), (7, 7)):
        ours = list(rows(bootstrap_servers, PartitionRange(mixed, 0, first, until), max_records))
        ranges = {0: (first, until)}
        theirs = [(it.offset(), it.key(), it.value()) for it in scan_ranges(scanner, mixed, ranges)]
        assert ours == theirs
    scanner.close()


def test_records_that_are_gone_are_missed(
    bootstrap_servers: str, admin: AdminClient, mixed: str
) -> None:
    """No other records come in their place."""
    deleted = admin.delete_records([TopicPartition(mixed, 0, 40)])
    for done in deleted.values():
        done.result(30)
    assert len(list(rows(bootstrap_servers, PartitionRange(mixed, 0, 40, 60)))) > 0
    with pytest.raises(SlidestatError, match=r"has lost records from offset 10 on: retention"):
        list(rows(bootstrap_servers, PartitionRange(mixed, 0, 10, 60)))


def test_what_never_comes_is_not_waited_for(
    bootstrap_servers: str, mixed: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records behind the last, a topic that is not there, and a broker that is away."""
    monkeypatch.setattr(partition_range, "_SILENCE_S", 2.0)
    with pytest.raises(SlidestatError, match="no records came for 2 s"):
        list(rows(bootstrap_servers, PartitionRange(mixed, 0, 0, 1_000)))
    with pytest.raises(SlidestatError, match=r"Partition 0 of '.*-none' cannot be read"):
        list(rows(bootstrap_servers, PartitionRange(f"{topic_name}-none", 0, 0, 1)))
    with pytest.raises(SlidestatError, match=r"cannot be read: .*\n?.*127.0.0.1:9"):
        list(rows("127.0.0.1:9", PartitionRange(mixed, 0, 0, 1)))


def test_security_is_carried_with_its_files(tmp_path: Path) -> None:
    """To a process that has none of them; they are there for its user alone, and go again."""
    paths = {name: tmp_path / name for name in ("ca_file", "certificate_file", "key_file")}
    for name, path in paths.items():
        path.write_text(f"the content of {name}")
    settings = BrokerSecurity("SASL_SSL", "PLAIN", "ann", "secret", *paths.values(), "secret, too")
    carried = pickle.loads(pickle.dumps(CarriedSecurity.of(settings)))  # noqa: S301 - our own
    for path in paths.values():
        path.unlink()
    with carried.here() as found:
        assert (found.protocol, found.username, found.password) == ("SASL_SSL", "ann", "secret")
        here = [getattr(found, name) for name in paths]
        for name, path in zip(paths, here, strict=True):
            assert path.read_text() == f"the content of {name}"
            assert path.parent.stat().st_mode & 0o077 == 0
    assert not any(path.exists() for path in here)
    assert "secret" not in repr(carried)
    assert "content" not in repr(carried)


def test_security_without_files_is_as_it_was() -> None:
    with CarriedSecurity.of(PLAINTEXT).here() as found:
        assert found == PLAINTEXT
