"""A worker stops where the first records of a topology are all refused, and writes none of them."""

import asyncio
from typing import cast

import numpy as np
import pytest
from faust.types import TP

from slidestat import Topology
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.effects import Effects
from slidestat.engine.intake.letters import Letter
from slidestat.engine.records import LogMark, RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.partitions.batch_steps import (
    MOST_PASSED_OVER,
    MOST_REFUSED,
    MOST_REFUSED_BYTES,
    FirstRecords,
    Step,
)
from slidestat.faust.pipeline import Pipeline, flush_all
from slidestat.faust.progress import Progress
from slidestat.faust.table import StateTable
from slidestat.kafka.producer import BulkProducer
from slidestat.schemas.dead_letter import Reason
from tests.engine.memory import MemoryStore

TOPOLOGY = Topology(name="t", source="s", span="1h", every="1m")
NONE_TAKEN = Counters(dead=7, passed_over=4)


def step(partition: int, first: int, count: int, reason: Reason = Reason.BAD_TIME) -> Step:
    """One that refuses `count` records from the offset `first` on."""
    letters = [Letter(first + i, None, b"{}", 0, reason, f"time {first + i}") for i in range(count)]
    return Step(Effects(dead_letters=letters), partition, 0.0)


def test_it_stops_at_the_last_of_ten_thousand() -> None:
    """Over all partitions, those passed over aside; the first of the commonest reason is told."""
    first = FirstRecords(TOPOLOGY, is_watched=True)
    assert not first.due(step(1, 40, 3, Reason.NOT_JSON), NONE_TAKEN)
    assert not first.due(step(0, 7, MOST_REFUSED - 4), NONE_TAKEN)
    with pytest.raises(SlidestatError) as raised:
        first.due(step(1, 43, 1), NONE_TAKEN)
    assert "all of the first 10,000 records" in raised.value.message
    assert "(9,997 bad-time, 3 not-json)" in raised.value.message
    assert "'s', partition 0, offset 7: bad-time, time 7." in raised.value.message
    assert raised.value.advice.startswith("Check time_field, and time_format")
    assert raised.value.exit_code == 2  # A parent of several does not start it again.


def test_it_stops_where_fewer_fill_the_memory() -> None:
    """Records of a mebibyte: it may hold 127 of them, whatever they are made of."""
    first = FirstRecords(TOPOLOGY, is_watched=True)
    size, third = 2**20, 2**20 // 4
    letter = Letter(
        0, bytes(third), bytes(size - 2 * third), 0, Reason.NOT_JSON, "", [("h", bytes(third))]
    )
    large = Step(Effects(dead_letters=[letter]), 0, 0.0)
    most = MOST_REFUSED_BYTES // size - 1
    for _ in range(most):
        assert not first.due(large, NONE_TAKEN)
    with pytest.raises(SlidestatError, match=f"all of the first {most + 1} records"):
        first.due(large, NONE_TAKEN)


@pytest.mark.parametrize("taken", [Counters(counted=1), Counters(late=1)])
def test_a_record_that_is_taken_in_ends_the_watch(taken: Counters) -> None:
    """What was held back is sent, in order; whatever is refused from then on is sent at once, also
    in the same batch and in other partitions.
    """
    first = FirstRecords(TOPOLOGY, is_watched=True)
    steps = [step(0, 0, MOST_REFUSED - 1), Step(Effects(), 0, 0.0), step(1, 0, 1)]
    assert not first.due(steps[0], NONE_TAKEN)
    assert not first.due(steps[1], NONE_TAKEN)
    assert first.are_held
    assert first.due(steps[2], taken) == [steps[0], steps[2]]
    assert not first.are_held
    further = step(0, 0, MOST_REFUSED)
    assert first.due(further, Counters(dead=2 * MOST_REFUSED)) == [further]


def test_those_sent_at_the_end_of_the_source_are_sent_once_and_counted_on() -> None:
    """What comes later may still make ten thousand of them."""
    first = FirstRecords(TOPOLOGY, is_watched=True)
    some = step(0, 0, MOST_REFUSED - 1)
    assert not first.due(some, NONE_TAKEN)
    assert first.released() == [some]
    assert not first.are_held
    assert not first.released()
    with pytest.raises(SlidestatError):
        first.due(step(0, MOST_REFUSED - 1, 1), NONE_TAKEN)


def test_commits_wait_not_for_a_rare_record() -> None:
    """Once many were passed over, by all partitions since each was taken up, nothing is held back;
    where ten thousand are refused all the same, it stops.
    """
    first = FirstRecords(TOPOLOGY, is_watched=True)
    some, none = step(0, 0, 1), Step(Effects(), 1, 0.0)
    assert not first.due(some, Counters(passed_over=7, dead=1))
    assert not first.due(none, Counters(passed_over=3 * MOST_PASSED_OVER))
    assert not first.due(none, Counters(passed_over=4 * MOST_PASSED_OVER - 1))
    last = step(0, 1, 1)
    assert first.due(last, Counters(passed_over=8, dead=2)) == [some, last]
    assert not first.are_held
    with pytest.raises(SlidestatError):
        first.due(step(0, 2, MOST_REFUSED - 2), Counters(passed_over=8, dead=MOST_REFUSED))


def test_what_is_forgotten_is_read_again_and_counted_once() -> None:
    """After a rebalance, which drops what is held back."""
    first = FirstRecords(TOPOLOGY, is_watched=True)
    some = step(0, 0, MOST_REFUSED - 1)
    assert not first.due(some, NONE_TAKEN)
    first.forget()
    assert not first.are_held
    assert not first.due(some, NONE_TAKEN)
    assert first.due(step(0, MOST_REFUSED, 1), Counters(counted=1))[0] == some


def test_nothing_is_watched_anyway() -> None:
    """Nor where a record was taken in before this start."""
    first = FirstRecords(TOPOLOGY, is_watched=False)
    many = step(0, 0, 2 * MOST_REFUSED)
    assert first.due(many, Counters(dead=2 * MOST_REFUSED)) == [many]
    assert not first.are_held


def test_a_batch_is_taken_in_by_parts_while_all_are_refused() -> None:
    """Else ten thousand would be set aside for one that was fetched with them. Near the last of
    them the parts stay long: those that are passed over may be many.
    """
    first = FirstRecords(TOPOLOGY, is_watched=True)
    offsets = np.arange(100, 130_100, 2)
    column = [b"x"] * len(offsets)
    batch = RecordBatch("s", 0, offsets, column, column, offsets, 100)
    assert first.part(batch).offsets.tolist() == offsets[:MOST_REFUSED].tolist()
    assert not first.due(step(1, 0, MOST_REFUSED - 3_000), NONE_TAKEN)
    assert len(first.part(batch)) == 3_000
    assert not first.due(step(1, 0, 2_999), NONE_TAKEN)
    assert len(first.part(batch)) == 1_000
    rest = batch.since(int(offsets[-700]))
    assert first.part(rest) is rest
    first.due(step(1, 0, 0), Counters(counted=1))
    assert first.part(batch) is batch
    assert FirstRecords(TOPOLOGY, is_watched=False).part(batch) is batch


class Offsets:
    """A source that has more records, or none."""

    topic_id = ""
    has_more = True

    async def first_difference(self, _partition: int, _mark: LogMark) -> int | None:
        return None

    async def confirm_source(self, _fetched_at: float = 0) -> None:
        """It is the only one there is."""

    def end(self, _partition: int) -> int | None:
        return None

    def waiting(self, _partition: int) -> int:
        return 0

    def is_end(self, partition: int, _offset: int) -> bool:
        return partition == 0 or not self.has_more

    def jumped_to(self, _partition: int, _offset: int) -> int | None:
        return None

    async def earliest(self, _partition: int) -> int:
        return 0


class Outputs:
    """Keeps the offsets of letters that are sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []

    def produce(self, _topic: str, partition: int, key: bytes, *_record: object) -> None:
        self.sent.append((partition, int(key.split(b"/")[-1])))

    async def room(self) -> None:
        """There is enough."""

    def send_now(self) -> None:
        """All is sent at once."""

    async def flush(self) -> None:
        """All is acknowledged."""


class Store(MemoryStore):
    """That of a partition."""

    def __init__(self, partition: int) -> None:
        super().__init__()
        self.partition = partition


class Table:
    """Two partitions in memory, and how often they were written."""

    changelog_topic = "changelog"

    def __init__(self) -> None:
        self._stores = [Store(0), Store(1)]
        self.written = 0

    def owns(self, _partition: int) -> bool:
        return True

    def partition(self, partition: int) -> MemoryStore:
        return self._stores[partition]

    async def write(self, _snapshots: object) -> None:
        self.written += 1


def refused(partition: int, start: int, count: int) -> RecordBatch:
    offsets = np.arange(start, start + count, dtype=np.int64)
    none = [None] * count
    return RecordBatch("s", partition, offsets, none, [b"{}"] * count, [0] * count, start)


def test_nothing_is_written_before_it_is_known_whether_letters_are() -> None:
    """Neither letters nor checkpoints, while any partition has more to be read; then all of them,
    in order. What a rebalance drops is never sent.
    """
    offsets, outputs, table = Offsets(), Outputs(), Table()
    one = Pipeline(
        TOPOLOGY,
        cast(StateTable, table),
        cast(BulkProducer, outputs),
        offsets,
        Progress("t"),
        checkpoint_interval_s=0.0,
        is_first_start=True,
    )

    async def flush() -> dict[TP, int]:
        return await flush_all([one], cast(BulkProducer, outputs), asyncio.Lock(), whole=True)

    async def run() -> None:
        await one.partitions.open([0, 1])
        assert await one.steps.process(refused(0, 0, 3))
        assert await flush() == {}
        one.forget()
        await one.partitions.open([0, 1])
        assert await one.steps.process(refused(1, 0, 2))
        assert await one.steps.process(refused(0, 0, 2))
        assert await flush() == {}
        assert not outputs.sent
        assert not table.written
        offsets.has_more = False
        assert await flush() == {TP("s", 0): 2, TP("s", 1): 2}
        assert outputs.sent == [(1, 0), (1, 1), (0, 0), (0, 1)]
        assert table.written == 1
        assert await one.steps.process(refused(0, 2, 1))
        offsets.has_more = True
        # Behind again: what was durable may be committed, and no more.
        assert await flush() == {TP("s", 0): 2, TP("s", 1): 2}
        assert len(outputs.sent) == 4

    asyncio.run(run())
