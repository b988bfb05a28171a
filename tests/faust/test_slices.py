"""Ticks of many keys: a slice at a time, and what happens between two of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import numpy as np
import pytest

from slidestat.declare.topology import Topology
from slidestat.engine.records import LogMark, RecordBatch
from slidestat.faust.partitions.batch_steps import BACKLOG_RECORDS
from slidestat.faust.pipeline import Pipeline
from slidestat.faust.progress import Progress
from slidestat.faust.table import StateTable
from slidestat.kafka.producer import BulkProducer, ExpiringProducer
from tests.engine.memory import MemoryStore, SmallMemoryProcessor

KEYS = 9
START = 1_600_000_000_000
TOPOLOGY = Topology(
    name="slices", source="events", span="1m", every="1s", idle="1ms", emit="events"
)


class Table:
    """One partition's, in memory."""

    changelog_topic = "changelog"

    def __init__(self) -> None:
        self.store = MemoryStore()

    def owns(self, _partition: int) -> bool:
        return True

    def partition(self, _partition: int) -> MemoryStore:
        return self.store


class Outputs:
    """Keeps what is sent; `between` is awaited after each slice."""

    def __init__(self, between: Callable[[], Awaitable[None]]) -> None:
        self.sent: list[tuple[object, ...]] = []
        self.slices: list[int] = []
        self.acknowledged = 0
        self.sent_now: list[int] = []
        self._between = between

    def produce(self, *record: object) -> None:
        self.sent.append(record)

    produce_columns = BulkProducer.produce_columns

    async def room(self) -> None:
        self.slices.append(len(self.sent) - sum(self.slices))
        await self._between()

    def send_now(self) -> None:
        self.sent_now.append(len(self.sent))

    async def flush(self) -> None:
        self.acknowledged = len(self.sent)

    async def flush_while(self, _wanted: Callable[[], bool]) -> None:
        await self.flush()


class Offsets:
    """Nothing more is to come, if `at_end`."""

    at_end = True
    topic_id = ""

    async def first_difference(self, _partition: int, _mark: LogMark) -> int | None:
        return None

    async def confirm_source(self, _fetched_at: float = 0) -> None:
        """It is the only one there is."""

    def jumped_to(self, _partition: int, _offset: int) -> int | None:
        return None

    def end(self, _partition: int) -> int | None:
        return None

    def waiting(self, _partition: int) -> int:
        return 0

    def is_end(self, _partition: int, _offset: int) -> bool:
        return self.at_end

    async def earliest(self, _partition: int) -> int:
        return 0


async def nothing() -> None:
    """Happens between slices."""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "slidestat.faust.partitions.held_partitions.PartitionProcessor", SmallMemoryProcessor
    )


def pipeline(
    outputs: Outputs, table: Table | None = None, topology: Topology = TOPOLOGY
) -> Pipeline:
    stored, producer = cast(StateTable, table or Table()), cast(BulkProducer, outputs)
    expiring = cast(ExpiringProducer, outputs)
    progress = Progress("slices")
    return Pipeline(
        topology,
        stored,
        producer,
        Offsets(),
        progress,
        checkpoint_interval_s=0.0,
        provisional=expiring,
    )


def batch(start: int, *events: tuple[str, int]) -> RecordBatch:
    """Events (key, seconds after START) from offset `start` on."""
    values = [
        b'{"key":"%b","time":%d,"value":1}' % (k.encode(), START + s * 1000) for k, s in events
    ]
    offsets = np.arange(start, start + len(events), dtype=np.int64)
    nothing = [None] * len(events)
    return RecordBatch("events", 0, offsets, nothing, values, [0] * len(events), start)


EVERYONE = batch(0, *((f"key-{i}", 0) for i in range(KEYS)))
LATER = batch(KEYS, *[("key-4", 2)] * 9)


def test_a_tick_of_many_keys_is_emitted_in_slices() -> None:
    """No slice has more than it may, but for the keys that have events in the batch; together they
    are in order of their ticks and keys.
    """
    outputs = Outputs(nothing)
    one = pipeline(outputs)

    async def run() -> None:
        assert await one.steps.process(EVERYONE)
        assert outputs.sent == []
        assert await one.steps.process(LATER)

    asyncio.run(run())
    keys = [f'["slices","key-{i}",{START + 1000}]'.encode() for i in range(KEYS)]
    assert [record[2] for record in outputs.sent] == keys
    assert max(outputs.slices) <= SmallMemoryProcessor.LIMITS.slices.keys + 1


def test_what_fills_no_request_is_sent_unless_more_follows() -> None:
    """After the last slice of a batch, so that no emission waits for a second; while a backlog is
    read the next batch fills it.
    """
    outputs = Outputs(nothing)
    one = pipeline(outputs)

    async def run() -> None:
        assert await one.steps.process(EVERYONE)
        assert await one.steps.process(LATER)
        assert outputs.sent_now == [0, KEYS]
        one.offsets.end = lambda _partition: 2 * BACKLOG_RECORDS
        assert await one.steps.process(batch(KEYS + 9, ("key-5", 4)))
        assert outputs.sent_now == [0, KEYS]
        # Ticks that were kept back, here none, are sent where the source brings nothing more.
        one.steps._kept_since[0] = 0.0
        await one.steps.emit_all_kept()
        assert outputs.sent_now == [0, KEYS, KEYS]

    asyncio.run(run())


def test_a_partition_given_up_between_slices_sends_no_more() -> None:
    """What is left of the batch is another worker's, and nothing of it is written."""

    async def give_up() -> None:
        one.forget()

    outputs = Outputs(nothing)
    one = pipeline(outputs)

    async def run() -> None:
        assert await one.steps.process(EVERYONE)
        outputs._between = give_up
        assert not await one.steps.process(LATER)
        assert one.snapshots() == {}

    asyncio.run(run())
    assert len(outputs.sent) <= SmallMemoryProcessor.LIMITS.slices.keys


def test_the_source_is_asked_for_before_a_tick_is_computed() -> None:
    """So the answer comes meanwhile; and nothing is sent before it has come."""
    outputs, asked = Outputs(nothing), []

    async def run() -> None:
        answered = asyncio.Event()

        def ask(_fetched_at: float) -> Awaitable[object]:
            asked.append(one.partitions.processors[0].keeps_ticks)
            return answered.wait()

        assert await one.steps.process(EVERYONE)
        one.offsets.confirm_source = ask
        processing = asyncio.ensure_future(one.steps.process(LATER))
        await asyncio.sleep(0.01)
        assert asked == [True]
        assert not outputs.sent
        answered.set()
        assert await processing

    one = pipeline(outputs)
    asyncio.run(run())
    assert asked == [True]
    assert len(outputs.sent) == KEYS


@pytest.mark.parametrize("error", [asyncio.CancelledError, RuntimeError])
def test_half_of_a_batch_is_never_written(error: type[BaseException]) -> None:
    """A worker that is stopped, or fails, between two slices makes no checkpoint behind the tick:
    its emissions that are missing would be missing for ever.
    """

    async def fail() -> None:
        processor = one.partitions.processors[0]
        with pytest.raises(RuntimeError, match="half done"):
            processor.snapshot()
        raise error

    outputs = Outputs(nothing)
    one = pipeline(outputs)

    async def run() -> None:
        assert await one.steps.process(EVERYONE)
        outputs._between = fail
        with pytest.raises(error):
            await one.steps.process(LATER)
        assert one.snapshots() == {}
        assert one.durable() == {}

    asyncio.run(run())


def test_a_provisional_emission_is_acknowledged_before_anything_else_happens() -> None:
    """Queued longer, it could come after the final one of another worker, and replace it."""
    outputs = Outputs(nothing)
    one = pipeline(outputs)

    async def run() -> None:
        await one.steps.process(EVERYONE)
        await asyncio.sleep(0.002)
        await one.look_ahead()

    asyncio.run(run())
    assert len(outputs.sent) == outputs.acknowledged == KEYS
    assert all(b'"provisional":true' in cast(bytes, record[3]) for record in outputs.sent)


def test_a_provisional_emission_is_wanted_as_long_as_its_partition_is_held() -> None:
    """What the broker did not take in time is queued again, until a rebalance takes the partition:
    then it is left to expire.
    """
    said = []

    class Unreachable(Outputs):
        async def flush_while(self, wanted: Callable[[], bool]) -> None:
            said.append(wanted())
            one.forget()
            said.append(wanted())

    one = pipeline(Unreachable(nothing))

    async def run() -> None:
        await one.steps.process(EVERYONE)
        await asyncio.sleep(0.002)
        await one.look_ahead()

    asyncio.run(run())
    assert said == [True, False]


def test_nothing_is_provisional_while_more_may_have_come() -> None:
    """A worker that was stopped for a while does not know what the partition has brought: it asks
    first.
    """
    outputs = Outputs(nothing)
    one = pipeline(outputs)

    async def run() -> None:
        await one.steps.process(EVERYONE)
        await asyncio.sleep(0.002)
        cast(Offsets, one.offsets).at_end = False
        await one.look_ahead()

    asyncio.run(run())
    assert outputs.sent == []


def test_keys_that_were_silent_before_a_restart_are_deleted_without_new_events() -> None:
    """A partition that brings nothing more is opened all the same, and its keys that have had their
    last emission go, some with each flush.
    """
    table = Table()
    processor = SmallMemoryProcessor(TOPOLOGY, "events", 0, table.store)
    for some in (EVERYONE, batch(KEYS, *[("busy", 100)] * 9)):
        processor.process(some)
    snapshot = processor.snapshot()
    assert snapshot is not None
    table.store.write([*snapshot.states.items(), (None, snapshot.checkpoint)])
    assert len(table.store.keys()) == KEYS + 1

    one = pipeline(Outputs(nothing), table)
    asyncio.run(one.partitions.open([0]))
    for _ in range(KEYS):
        (snapshot,) = one.snapshots().values()
        assert len(snapshot.states) == SmallMemoryProcessor.LIMITS.deleted_keys
        table.store.write([*snapshot.states.items(), (None, snapshot.checkpoint)])
        one.partitions.processors[0].written()
    assert one.snapshots() == {}
    assert table.store.keys() == {"busy"}
