"""Batches that do not follow on from one another: events that Faust dropped are never passed over.

A broker cannot be made to show this failure at will, so batches and offsets are made here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    stored_mark,
)
from slidestat.engine.records import LogMark, RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.pipeline import Pipeline, flush_all
from slidestat.faust.progress import Progress
from slidestat.faust.table import StateTable
from slidestat.kafka.producer import BulkProducer
from tests.engine.memory import MemoryStore

TOPOLOGY = Topology(name="order", source="events", span="1h", every="1h")


class Offsets:
    """A consumer's knowledge: the first record that the broker has, and where the last one ends."""

    def __init__(
        self, earliest: int = 0, end: int | None = None, jumps: Sequence[int] = ()
    ) -> None:
        self._jumps = list(jumps)
        self._earliest = max(earliest, *jumps, 0)
        self._end = end
        self.on_earliest = lambda: None

    def end(self, _partition: int) -> int | None:
        return self._end

    def waiting(self, _partition: int) -> int:
        return 0

    def is_end(self, _partition: int, _offset: int) -> bool:
        return True

    topic_id = ""

    async def first_difference(self, _partition: int, _mark: LogMark) -> int | None:
        return None

    async def confirm_source(self, _fetched_at: float = 0) -> None:
        return None

    def jumped_to(self, _partition: int, _offset: int) -> int | None:
        return self._jumps.pop(0) if self._jumps else None

    async def earliest(self, _partition: int) -> int:
        self.on_earliest()
        return self._earliest


class Table:
    changelog_topic = "changelog"

    def __init__(self, next_offset: int) -> None:
        stored = encode_checkpoint(Checkpoint(next_offset), TOPOLOGY.state_meaning)
        self._store = MemoryStore([(None, stored)] if next_offset else [])

    def owns(self, _partition: int) -> bool:
        return True

    def partition(self, _partition: int) -> MemoryStore:
        return self._store


class Outputs:
    def __init__(self, sending: asyncio.Lock | None = None) -> None:
        self._sending = sending

    def produce(self, *record: object) -> None:
        raise AssertionError(record)

    async def room(self) -> None:
        return None

    def send_now(self) -> None:
        """Nothing is queued."""

    async def flush(self) -> None:
        assert self._sending is not None
        assert self._sending.locked()
        raise KeyboardInterrupt


def pipeline(
    next_offset: int = 0, offsets: Offsets | None = None, *, allow_loss: bool = False
) -> Pipeline:
    """One whose state has read up to `next_offset`."""
    table, outputs = cast(StateTable, Table(next_offset)), cast(BulkProducer, Outputs())
    offsets, told = offsets or Offsets(), Progress("order")
    return Pipeline(
        TOPOLOGY, table, outputs, offsets, told, checkpoint_interval_s=0.0, allow_loss=allow_loss
    )


def batch(start: int, first: int, last: int) -> RecordBatch:
    """Records first to last, fetched from `start` on."""
    offsets = np.arange(first, last + 1, dtype=np.int64)
    count = len(offsets)
    events = [b'{"key":"a","time":1600000000000,"value":1}'] * count
    return RecordBatch("events", 0, offsets, [None] * count, events, [0] * count, start)


def take(one: Pipeline, *batches: RecordBatch) -> list[bool]:
    async def run() -> list[bool]:
        taken = []
        for some in batches:
            taken.append(await one.order.check(some))
            if taken[-1]:
                await one.steps.process(some)
        return taken

    return asyncio.run(run())


def test_batches_that_follow_on_or_overlap_are_taken() -> None:
    """Also with holes in the offsets, and from where a stored state ends."""
    assert take(pipeline(), batch(0, 0, 4), batch(5, 8, 9), batch(3, 3, 9)) == [True] * 3
    assert take(pipeline(70), batch(70, 75, 80)) == [True]
    assert take(pipeline(70), batch(0, 75, 80)) == [True]


def test_a_missing_batch_stops_the_worker() -> None:
    """The error names the records; nothing of the batch is counted."""
    one = pipeline()
    with pytest.raises(SlidestatError, match="Records 5 to 6 of 'events' partition 0") as caught:
        take(one, batch(0, 0, 4), batch(7, 7, 9))
    assert "where its state ends" in caught.value.advice
    with pytest.raises(SlidestatError, match="Records 70 to 74"):
        take(pipeline(70), batch(75, 75, 80))


def test_a_topic_that_was_made_anew_stops_the_worker() -> None:
    """Its first records are not those that the state has read, also if the partition was opened
    before anything came.
    """
    one = pipeline(70, Offsets(end=5))
    asyncio.run(one.partitions.open([0]))
    with pytest.raises(SlidestatError, match="ends at offset 5"):
        take(one, batch(0, 0, 4))


def test_a_partition_that_was_never_read_begins_with_what_there_is() -> None:
    """What the broker had deleted by then is no loss; what it deletes from then on is."""
    one = pipeline(0, Offsets(earliest=50))
    assert take(one, batch(40, 40, 44)) == [True]
    with pytest.raises(SlidestatError, match="Records 45 to 49 of 'events' partition 0 are gone"):
        take(one, batch(50, 50, 54))
    waiting = pipeline(0, Offsets(earliest=40, jumps=[40, 60]))
    asyncio.run(waiting.partitions.open([0]))
    asyncio.run(waiting.order.look_for_losses())
    with pytest.raises(SlidestatError, match="Records 40 to 59"):
        asyncio.run(waiting.order.look_for_losses())


def test_what_was_deleted_before_it_was_read_stops_a_worker_or_is_counted() -> None:
    """As the worker was told; with --allow-loss it goes on with the first record that there is."""
    with pytest.raises(SlidestatError, match="Records 5 to 39") as caught:
        take(pipeline(5, Offsets(earliest=40)), batch(40, 41, 44))
    assert "--allow-loss" in caught.value.advice
    one = pipeline(5, Offsets(earliest=40), allow_loss=True)
    assert take(one, batch(40, 41, 44)) == [True]
    (snapshot,) = one.snapshots().values()
    checkpoint = decode_checkpoint(snapshot.checkpoint, TOPOLOGY.state_meaning)
    assert checkpoint.counters == Counters(read=4, counted=4, lost=35)
    assert checkpoint.next_offset == 45


def test_a_batch_of_a_partition_given_up_meanwhile_is_left_alone() -> None:
    """A rebalance may come while the broker is asked: the batch is then another worker's."""
    offsets = Offsets(earliest=40)
    one = pipeline(5, offsets)
    offsets.on_earliest = one.forget
    assert take(one, batch(40, 40, 44)) == [False]


def test_nothing_is_queued_while_a_flush_waits() -> None:
    """A producer's flush ends when its queue is empty: under steady output it never would be."""
    one = pipeline()
    take(one, batch(0, 0, 4))
    sending = asyncio.Lock()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(flush_all([one], cast(BulkProducer, Outputs(sending)), sending))


def test_what_is_committed_is_durable_for_every_topology() -> None:
    """Of two that read a topic, the one that is further on does not wait, and is not counted."""
    behind, ahead = pipeline(), pipeline()
    take(behind, batch(0, 0, 4))
    take(ahead, batch(0, 0, 9))
    for one, reached in ((behind, 5), (ahead, 10)):
        one.snapshots()
        assert list(one.durable().values()) == [reached]

    class Acknowledged(Outputs):
        async def flush(self) -> None:
            return None

    outputs = cast(BulkProducer, Acknowledged())
    committed = asyncio.run(flush_all([ahead, behind], outputs, asyncio.Lock()))
    assert list(committed.values()) == [5]


class Parted(Offsets):
    """A log that is another one from offset `first` on."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__(end=end)
        self._first = first
        self.asked: list[int] = []

    async def first_difference(self, _partition: int, mark: LogMark) -> int | None:
        self.asked.append(mark.offset)
        return self._first if self._first <= mark.offset else None


MARK = LogMark(9, 3, 0)


def parted(next_offset: int, first: int, end: int = 40, *, allow_loss: bool = True) -> Pipeline:
    """One that has read up to offset 9, of a log that is another one from `first` on, and whose
    state needs it from `next_offset` on.
    """
    table = Table(0)
    stored = encode_checkpoint(
        Checkpoint(next_offset, counters=Counters(next_offset, next_offset)),
        TOPOLOGY.state_meaning,
        Checkpoint(10, counters=Counters(10, 10)),
        mark=MARK,
    )
    table._store = MemoryStore([(None, stored)])
    return Pipeline(
        TOPOLOGY,
        cast(StateTable, table),
        cast(BulkProducer, Outputs()),
        Parted(first, end),
        Progress("order"),
        checkpoint_interval_s=0.0,
        allow_loss=allow_loss,
    )


def of_epoch(some: RecordBatch, epoch: int) -> RecordBatch:
    return replace(some, leader_epochs=(epoch, epoch))


@pytest.mark.parametrize("end", [8, 9, 40])
def test_a_log_that_lost_its_end_stops_a_worker(end: int) -> None:
    """Before anything is counted, with the offsets, also where it has not grown beyond them."""
    one = parted(10, 7, end, allow_loss=False)
    with pytest.raises(
        SlidestatError, match="Records 7 to 9 of 'events' partition 0 are not those"
    ):
        take(one, batch(0, 0, 7))


@pytest.mark.parametrize("next_offset", range(11))
@pytest.mark.parametrize("first", [1, 4, 9])
@pytest.mark.parametrize("sizes", [(40,), (5, 35), (8, 1, 1, 1, 29), (1,) * 40])
def test_offsets_that_are_used_again_are_lost_once(
    next_offset: int, first: int, sizes: Sequence[int]
) -> None:
    """What comes before them is read as ever, from where the state needs it; they are lost, however
    batches are cut, and what comes behind them is counted.
    """
    one = parted(next_offset, first)
    ends = np.cumsum(sizes).tolist()
    batches = [
        of_epoch(batch(end - size, end - size, end - 1), 4)
        for size, end in zip(sizes, ends, strict=True)
    ]
    assert all(take(one, *batches))
    reached = one.partitions.processors[0].reached
    lost = 10 - first
    counted = max(next_offset, first) + 30
    assert reached.counters == Counters(counted, counted, lost=lost)
    assert reached.next_offset == 40
    assert one.partitions.processors[0].mark == batches[-1].mark


def test_a_new_leader_is_asked_once() -> None:
    """Each epoch brings one comparison, of the last record that was read before."""
    one = parted(10, 99)
    take(one, of_epoch(batch(10, 10, 12), 3), of_epoch(batch(13, 13, 14), 5))
    take(one, of_epoch(batch(15, 15, 16), 5))
    assert one.offsets.asked == [9, 12]  # type: ignore[attr-defined]


def test_a_loss_is_stored_before_the_next_record() -> None:
    """A worker that starts anew does not count it a second time."""
    one = parted(10, 7, 8)
    assert all(take(one, batch(0, 0, 5), batch(6, 6, 7)))
    (snapshot,) = one.snapshots(whole=True).values()
    assert stored_mark(snapshot.checkpoint) is None
    stored = decode_checkpoint(snapshot.checkpoint, TOPOLOGY.state_meaning)
    assert stored.counters == decode_emitted(snapshot.checkpoint, stored).counters
    assert stored.counters == Counters(10, 10, lost=3)
