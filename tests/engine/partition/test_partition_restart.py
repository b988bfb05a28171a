"""Restarts told step by step: states that are ahead of the offset from which reading starts again.

Times are milliseconds after a tick; ticks come every 100 ms, records may be 150 ms late.
"""

from collections.abc import Sequence

import pytest

from slidestat.engine.partition import PartitionProcessor
from tests.engine.cases import topology
from tests.engine.checks import emissions_of
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Record
from tests.engine.streams import encode

TICK = 1_600_000_000_000
DECLARED = topology(lateness="150ms")

Timeline = Sequence[tuple[str, int]]


def records_of(timeline: Timeline) -> list[Record]:
    """A record for each (key, time), its offset the place in the timeline."""
    return [
        Record(offset, None, encode(key, TICK + time, 1), TICK)
        for offset, (key, time) in enumerate(timeline)
    ]


def emitted(store: MemoryStore, batches: Sequence[Sequence[Record]]) -> list[tuple[str, int]]:
    """(key, tick) of what a new processor emits over the batches; its states are stored after."""
    processor = PartitionProcessor(DECLARED, SOURCE, PARTITION, store)
    outputs = [
        output for batch in batches for output in outputs_of(processor.process(batch_of(batch)))
    ]
    snapshot = processor.snapshot()
    assert snapshot is not None
    store.write(rows_of(snapshot))
    return [(emission.key, emission.window_end_ms - TICK) for emission in emissions_of(outputs)]


def test_an_event_that_is_not_read_again_keeps_its_emission() -> None:
    """k is absorbed at watermark 125, x waits at 130, so reading starts again at x, where the
    watermark was 120 - 150: the tick after k is two ticks ahead of it, and is emitted after all.
    """
    records = records_of([("k", 120), ("x", 130), ("y", 275), ("z", 400)])
    store = MemoryStore()
    assert emitted(store, [records[:3]]) == []
    assert store.newest_checkpoint(DECLARED).next_offset == 1
    assert emitted(store, [records[1:]]) == [("k", 200), ("x", 200)]


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_an_event_read_again_does_not_close_a_later_tick(first: int) -> None:
    """k is absorbed at 80 and at 120 and emitted at 100; after a restart its event at 80 is read
    again, not that at 120: the tick at 200 stays open, however the batches fall.
    """
    records = records_of([("k", 120), ("x", 130), ("k", 80), ("w", 240), ("y", 275), ("z", 400)])
    store = MemoryStore()
    assert emitted(store, [records[:5]]) == [("k", 100)]
    assert store.newest_checkpoint(DECLARED).next_offset == 1
    again = [records[1 : 1 + first], records[1 + first :]]
    assert emitted(store, again) == [("k", 200), ("x", 200)]


@pytest.mark.parametrize("after", range(1, 20))
def test_no_counter_goes_back_over_a_restart(after: int) -> None:
    """Whether the jump counts is not known when states are written. The worker that comes after
    refuses it, and adds no other in its place, where its counter would go below 0 otherwise.
    """
    steady = [("k", 10 * place) for place in range(20)]
    records = records_of([*steady, ("x", 200_000), *(("k", 200 + it) for it in range(20))])
    store = MemoryStore()
    emitted(store, [records[:21]])
    processor = PartitionProcessor(DECLARED, SOURCE, PARTITION, store)
    before = processor.reached.counters
    assert (before.read, before.counted) == (21, 21)
    processor.process(batch_of(records[: 21 + after]))
    taken = processor.reached.counters.since(before)
    is_refused = not len(processor._intake.suspects)
    assert (taken.counted, taken.dead) == (after - 1, is_refused)
    assert taken.read == taken.counted + taken.dead
