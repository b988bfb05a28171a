"""What a partition stores, in each version, written once: it is read forever, and goes on."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from slidestat import TopologyDriver
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Mean, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import (
    decode_standings,
    encode_standings,
)
from slidestat.engine.checkpoints.checkpoint import (
    Counters,
    decode_checkpoint,
)
from slidestat.engine.emissions.output_records import OutputRecord
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.testing.records import MemoryStore, Row
from tests.golden.cases.stored import STANDING, STANDINGS, TABLES
from tests.golden.golden import FROZEN, NOON

LARGEST = 2**40 // 1000

Processor = PartitionProcessor | RefereeProcessor

TOPOLOGY = Topology(
    name="frozen",
    source="events",
    span="10m",
    every="1m",
    lateness="5s",
    ahead="1h",
    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1), Mean(epsilon=0.2)),
)
REFEREE = Referee(
    of=Topology(
        name="parties",
        source="events",
        span="10m",
        every="1m",
        publish="partition",
        statistics=(Count(epsilon=0.1),),
    ),
    patience="5m",
)


# Of two keys, a second apart; the large ones are charged to the quota of the hot key.
SMALL = [
    b'{"key":"%s","time":%d,"value":%d}' % (b"hot" if i % 2 else b"cold", NOON + i * 1_000, i % 9)
    for i in range(400)
]
LARGE = [
    b'{"key":"%s","time":%d,"value":%d}'
    % (b"hot" if i % 2 else b"cold", NOON + i * 1_000, LARGEST if i % 2 else 4)
    for i in range(400, 440)
]
# A tick passes.
AFTER = [b'{"key":"last","time":%d,"value":1}' % (NOON + i * 1_000) for i in range(440, 540)]


def take(processor: Processor, values: list[bytes], start: int = 0) -> Sequence[OutputRecord]:
    """The emissions that records from offset `start` on lead to."""
    offsets = np.arange(start, start + len(values), dtype=np.int64)
    none = [None] * len(values)
    times = [NOON] * len(values)
    batch = RecordBatch("events", 0, offsets, none, values, times, start)
    return processor.process(batch).emissions


def partition(store: MemoryStore) -> PartitionProcessor:
    return PartitionProcessor(TOPOLOGY, "events", 0, store)


def rows(processor: Processor) -> list[Row]:
    """What a processor stores, as a file of frozen bytes has it."""
    snapshot = processor.snapshot()
    assert snapshot is not None
    return [*sorted(snapshot.states.items()), (None, snapshot.checkpoint)]


def states(stored: list[Row]) -> list[Row]:
    """The rows of keys."""
    return [row for row in stored if row[0] is not None]


def position(stored: list[Row]) -> tuple[int, int, Counters]:
    """What the row of the checkpoint has in common with that of version 1."""
    (checkpoint,) = (value for key, value in stored if key is None)
    found = decode_checkpoint(checkpoint, TOPOLOGY.state_label)
    return found.next_offset, found.max_time, found.counters


def frozen(name: str) -> list[Row]:
    found: list[Row] = msgspec.msgpack.decode(
        (FROZEN / f"{name}.bin").read_bytes(), type=list[tuple[str | None, bytes | None]]
    )
    return found


def published() -> tuple[list[bytes], list[bytes], list[int]]:
    """Keys, values and times of what a partition of the referee's topology publishes."""
    driver = TopologyDriver(REFEREE.of)
    for i in range(200):
        driver.send({"key": "k", "time": NOON + i * 1_000, "value": i})
    found = driver.published
    return [r.key for r in found], [r.value for r in found], [r.timestamp for r in found]


def referee(store: MemoryStore) -> RefereeProcessor:
    return RefereeProcessor(REFEREE, REFEREE.source, 0, store)


def hear(processor: RefereeProcessor, first: int, last: int) -> Sequence[OutputRecord]:
    """The answers that the published records `first` to `last` - 1 lead to."""
    keys, values, times = (column[first:last] for column in published())
    offsets = np.arange(first, first + len(keys), dtype=np.int64)
    batch = RecordBatch(REFEREE.source, 0, offsets, keys, values, times, first)
    return processor.process(batch).emissions


def test_frozen_standings_of_alerts_are_read() -> None:
    """In whatever order they are given; none are no bytes, others are refused."""
    assert decode_standings(STANDING) == STANDINGS
    assert encode_standings(dict(reversed(STANDINGS.items()))) == STANDING
    assert (encode_standings({}), decode_standings(b"")) == (b"", {})
    for wrong in (b"\2" + STANDING[1:], STANDING[:-1]):
        with pytest.raises(SlidestatError, match="state of alerts"):
            decode_standings(wrong)


def test_a_frozen_partition_goes_on_as_if_never_stopped() -> None:
    """Of version 1: its states are read, become version 2 where a quota is charged and stay version
    1 elsewhere; what is emitted and stored then is what one that never stopped has.
    """
    upgraded, never_stopped = (
        partition(MemoryStore(frozen("partition-1"))),
        partition(MemoryStore()),
    )
    take(never_stopped, SMALL)
    assert upgraded.next_offset < never_stopped.next_offset == len(SMALL)
    stored = dict(frozen("partition-1"))
    assert {key: state[2] for key, state in stored.items() if key and state} == dict.fromkeys(
        ("cold", "hot"), 1
    )
    take(upgraded, SMALL[upgraded.next_offset :], upgraded.next_offset)
    outputs = [
        take(one, LARGE, len(SMALL)) + take(one, AFTER, len(SMALL) + len(LARGE))
        for one in (upgraded, never_stopped)
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0]


def test_a_state_of_version_1_becomes_version_2_where_a_quota_is_charged() -> None:
    """The other key's stays in version 1, and both versions are those that were frozen."""
    upgraded = partition(MemoryStore(frozen("partition-1")))
    take(upgraded, [*SMALL, *LARGE])
    stored = rows(upgraded)
    assert states(stored) == states(frozen("partition-2"))
    assert position(stored) == position(frozen("partition-2"))
    versions = {key: state[2] for key, state in frozen("partition-2") if key and state}
    assert versions == {"cold": 1, "hot": 2}
    again = partition(MemoryStore(frozen("partition-2")))
    records = [*SMALL, *LARGE, *AFTER]
    emitted = take(again, records[again.next_offset :], again.next_offset)
    assert emitted == take(upgraded, AFTER, len(SMALL) + len(LARGE))


def test_the_same_events_store_the_same_bytes() -> None:
    """States as ever; the checkpoint of version 2, with what came later in it."""
    small = partition(MemoryStore())
    take(small, SMALL)
    stored = rows(small)
    assert stored == frozen("partition-1-checkpoint-2")
    assert states(stored) == states(frozen("partition-1"))
    assert position(stored) == position(frozen("partition-1"))
    one = referee(MemoryStore())
    hear(one, 0, 3)
    assert states(rows(one)) == states(frozen("referee-1-with-offsets"))


@pytest.mark.parametrize("name", ["referee-1", "referee-1-with-offsets"])
def test_a_frozen_referee_goes_on_as_if_never_stopped(name: str) -> None:
    """What waits for other parties is read, and answered, whether or not the offsets of the
    parties' clocks were kept.
    """
    restored, never_stopped = referee(MemoryStore(frozen(name))), referee(MemoryStore())
    hear(never_stopped, 0, 3)
    answers = hear(restored, 3, 1_000)
    assert answers == hear(never_stopped, 3, 1_000)
    assert answers


@pytest.mark.parametrize("name", TABLES)
def test_what_a_newer_version_stored_is_refused(name: str) -> None:
    """By the checkpoint, before any state is looked at, with what to do."""
    newer = [
        (key, value if key or not value else value[:1] + bytes([5]) + value[2:])
        for key, value in frozen(name)
    ]
    make = referee if name.startswith("referee") else partition
    with pytest.raises(SlidestatError, match="version 5") as raised:
        make(MemoryStore(newer))
    assert "the version that wrote it" in raised.value.advice
