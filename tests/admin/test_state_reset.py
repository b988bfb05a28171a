"""A state is replaced by one command alone; what others write meanwhile ends it."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from slidestat.admin import state_reset
from slidestat.admin.state_reset import ChangelogWriter, Contents, replace_state
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    BEING_SEEDED,
    CHECKPOINT_KEY,
    Checkpoint,
    encode_checkpoint,
)
from slidestat.errors import SlidestatError
from slidestat.faust import restore
from slidestat.faust.fencing import NO_EPOCH, Headers
from slidestat.faust.restore import Row
from slidestat.kafka.connection import MAX_MESSAGE_BYTES
from slidestat.kafka.letter_record import AROUND_BYTES
from tests.faust.simulation.worker import Disk, Store, WriteBatch

TOPOLOGY = Topology(name="orders", source="s", span="1h", every="1m", statistics=(Count(),))


class Sent(NamedTuple):
    """A record that was acknowledged."""

    place: tuple[int, int]
    key: bytes

    def partition(self) -> int:
        return self.place[0]

    def offset(self) -> int:
        return self.place[1]


class Broker:
    """Two partitions of a changelog; `disturb` has others write to them, after each record."""

    def __init__(self) -> None:
        self.ends: Counter[int] = Counter({0: 5, 1: 0})
        self.keys: list[bytes] = []
        self.rows: dict[int, list[Row]] = {0: [], 1: []}
        self.disturb: Callable[[], object] = str
        # Now, and after each wait.
        self.unacknowledged = [0]

    def producer(self, config: dict[str, Any]) -> "Broker":
        self.deliver = config["on_delivery"]
        return self

    def produce(
        self,
        _topic: str,
        value: bytes | None,
        key: bytes,
        partition: int,
        headers: Headers,
        timestamp: int,
    ) -> None:
        assert timestamp == 0  # Now: as a worker's states have it.
        self.rows[partition].append((self.ends[partition], key, value, headers))
        self.deliver(None, Sent((partition, self.ends[partition]), key))
        self.ends[partition] += 1
        self.keys.append(key)
        self.disturb()

    def __len__(self) -> int:
        return self.unacknowledged[0]

    def flush(self, _timeout_s: float) -> int:
        if len(self.unacknowledged) > 1:
            del self.unacknowledged[0]
        return len(self)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(state_reset, "client_config", lambda _: {})
    monkeypatch.setattr(state_reset, "Producer", made.producer)
    monkeypatch.setattr(state_reset, "count_workers", lambda *_: 0)
    monkeypatch.setattr(state_reset, "_set_offsets", lambda *_: None)
    contents = Contents({b"kold"}, None, NO_EPOCH)
    monkeypatch.setattr(state_reset, "changelog_contents", lambda *_: contents)
    return made


def replaced() -> int:
    whole = {0: b"whole", 1: b"whole"}
    rows = lambda number: [(b"k%d" % number, b"state")]  # noqa: E731
    return replace_state("", TOPOLOGY, whole, {0: 0, 1: 0}, BEING_SEEDED, rows)


def test_alone(broker: Broker) -> None:
    """Marks; marks and tombstones in the new epoch; states, marks again, then the checkpoints."""
    assert replaced() == 2
    marks = [CHECKPOINT_KEY] * 2
    begun = [CHECKPOINT_KEY, b"kold"] * 2
    assert broker.keys == [*marks, *begun, b"k0", b"k1", *marks, *marks]


@pytest.mark.parametrize("partition", [0, 1])
def test_what_is_broken_off_refuses_every_table(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    """Also one that drops what it had before the new epoch: until the checkpoint is there, the mark
    is.
    """
    monkeypatch.setattr(restore, "rocksdict", SimpleNamespace(WriteBatch=WriteBatch))
    replaced()
    rows = broker.rows[partition]
    mark = encode_checkpoint(Checkpoint(0), BEING_SEEDED)
    for sent in range(1, len(rows)):
        store = Store("", SimpleNamespace(disk=(disk := Disk())), SimpleNamespace(name="t"))
        store.restore(partition, rows[:sent])
        (database,) = disk.values()
        assert database.rows[CHECKPOINT_KEY] == mark


@pytest.mark.parametrize("after", range(1, 9))
@pytest.mark.parametrize("partition", [0, 1])
def test_records_of_others_between_ones_own(broker: Broker, after: int, partition: int) -> None:
    """Written at any time from its first record on the partition on, before the checkpoints: none
    of these is written.
    """

    def disturb() -> None:
        is_there = broker.ends[partition] > 5 * (partition == 0)
        broker.ends[partition] += len(broker.keys) == after and is_there

    broker.disturb = disturb
    if (after, partition) == (1, 1):
        assert replaced() == 2  # It lies before all of its own.
        return
    with pytest.raises(SlidestatError, match=f"Others wrote to .* partition {partition}") as error:
        replaced()
    assert "run the same command again" in error.value.advice
    assert broker.keys.count(CHECKPOINT_KEY) <= 6


def test_a_worker_that_began_before_the_marks(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold what the marks replace."""
    monkeypatch.setattr(state_reset, "count_workers", lambda *_: 1)
    with pytest.raises(SlidestatError, match="1 of orders's workers began meanwhile") as error:
        replaced()
    assert "Stop its workers" in error.value.advice
    assert broker.keys == [CHECKPOINT_KEY] * 2


@pytest.mark.usefixtures("broker")
def test_a_record_whose_offset_is_not_known_is_ones_own() -> None:
    """One that was sent again, as its acknowledgement was lost."""
    writer = ChangelogWriter("", "t")
    for partition, offset in [(0, 7), (0, -1001), (0, 9)]:
        writer._delivered(None, Sent((partition, offset), b"k"))  # type: ignore[arg-type]
    writer.flush()


@pytest.mark.parametrize(
    ("counts", "waits"), [((9, 7, 3, 0), 3), ((9, 9, 0), 1), ((9, 4, 4, 0), 2), ((0,), 0)]
)
def test_a_slow_broker_is_waited_for(broker: Broker, counts: tuple[int, ...], waits: int) -> None:
    """As long as it acknowledges some of what is queued, which may be a gigabyte."""
    writer = ChangelogWriter("", "t")
    broker.unacknowledged = list(counts)
    if counts[waits]:
        with pytest.raises(SlidestatError, match=f"{counts[waits]} records .* not acknowledged"):
            writer.flush()
    else:
        writer.flush()
    assert len(broker.unacknowledged) == len(counts) - waits


def test_a_state_may_be_as_large_as_one_of_a_worker() -> None:
    """The client refuses what is larger than it was told, before any broker has seen it."""
    writer = ChangelogWriter("127.0.0.1:9", "t")
    writer.send(0, b"k", bytes(MAX_MESSAGE_BYTES - AROUND_BYTES))
    with pytest.raises(SlidestatError, match="does not allow"):
        writer.send(0, b"k", bytes(MAX_MESSAGE_BYTES))


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (KafkaError.NO_ERROR, True),
        (KafkaError.UNKNOWN_MEMBER_ID, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_offsets_that_are_refused_one_by_one(
    monkeypatch: pytest.MonkeyPatch, code: int, passes: bool
) -> None:
    """A group whose workers began when all was there keeps its own; other errors are told."""

    class Place(NamedTuple):
        error: KafkaError | None

    class Admin:
        def alter_consumer_group_offsets(
            self, requests: list[ConsumerGroupTopicPartitions]
        ) -> dict[str, Future[Any]]:
            assert requests[0].topic_partitions == [TopicPartition("s", 0, 3)]
            done: Future[Any] = Future()
            found = Place(KafkaError(code) if code else None)
            done.set_result(type("Result", (), {"topic_partitions": [found]}))
            return {requests[0].group_id: done}

    monkeypatch.setattr(state_reset, "admin_client", lambda _: Admin())
    if passes:
        state_reset._set_offsets("", TOPOLOGY, {0: 3})
    else:
        with pytest.raises(SlidestatError, match="does not allow"):
            state_reset._set_offsets("", TOPOLOGY, {0: 3})
