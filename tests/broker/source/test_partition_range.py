"""Parts of real partitions, read as columns by a client of no group."""

import pickle
from collections.abc import Generator
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

import psutil
import pytest
import trustme
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.errors import SlidestatError
from slidestat.kafka.fetches import partition_range
from slidestat.kafka.fetches.partition_range import PartitionRange, read_range
from slidestat.kafka.read.scan import open_scanner, scan_ranges
from slidestat.kafka.settings import BrokerSecurity, CarriedSecurity
from slidestat.spark.kafka import topic_state
from tests.conftest import MakeTopic

PLAINTEXT = CarriedSecurity(BrokerSecurity())
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


def rows(
    bootstrap: str, wanted: PartitionRange, max_records: int = 1_000
) -> Generator[Row, None, None]:
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


def test_records_of_an_open_transaction_are_not_waited_for(
    bootstrap_servers: str, mixed: str
) -> None:
    """A job reads up to the first of them, as what it is told is the end."""
    before = topic_state(bootstrap_servers, mixed).end[0]
    settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": uuid4().hex}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(mixed, b"open")
    assert producer.flush(30) == 0
    plain = Producer({"bootstrap.servers": bootstrap_servers})
    plain.produce(mixed, b"behind it")
    assert plain.flush(30) == 0
    end = topic_state(bootstrap_servers, mixed).end[0]
    assert end == before
    assert len(list(rows(bootstrap_servers, PartitionRange(mixed, 0, 0, end)))) == 6 * 30 + 3 * 20
    producer.abort_transaction(30)


def test_a_reader_that_is_left_leaves_nothing(bootstrap_servers: str, mixed: str) -> None:
    """As when Spark wants no more of a task: no connection, and no folder of certificates."""
    before = _connections()
    reading = rows(bootstrap_servers, PartitionRange(mixed, 0, 0, 100), 5)
    assert next(reading)[0] == 0
    opened = _connections() - before
    assert opened
    reading.close()
    assert not opened & _connections()


def _connections() -> set[object]:
    """The own ends of this process's connections."""
    return {connection.laddr for connection in psutil.Process().net_connections()}


def test_security_is_carried_with_its_files(tmp_path: Path) -> None:
    """To a process that has none of them; they are written for a moment."""
    authority = trustme.CA()
    client = authority.issue_cert("ann@example.org")
    ca_file, chain, key = (tmp_path / name for name in ("ca.pem", "chain.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca_file)
    chain.write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
    client.private_key_pem.write_to_path(key)
    settings = BrokerSecurity("SASL_SSL", "PLAIN", "ann", "secret", ca_file, chain, key)
    carried = pickle.loads(pickle.dumps(CarriedSecurity.of(settings)))  # noqa: S301 - our own
    for path in (ca_file, chain, key):
        path.unlink()
    context = carried.tls_context()
    assert context is not None
    assert [one["subject"] for one in context.get_ca_certs()]
    assert carried.settings == settings
    assert not list(Path(gettempdir()).glob("slidestat-tls-*"))
    assert "secret" not in repr(carried)
    assert "PRIVATE" not in repr(carried)
    assert PLAINTEXT.tls_context() is None
