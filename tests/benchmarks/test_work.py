"""Work done for an event, counted: it does not grow in silence. No clock is looked at."""

import json

import pytest

from benchmarks.harness.inside import batches
from benchmarks.harness.workload import KeyDistribution, draw
from benchmarks.speed.work import EXPECTED, lines_run, measure
from slidestat.declare.statistics import Count, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.testing.records import MemoryStore

# Other releases of Python and NumPy count and allocate a little otherwise.
TOLERANCE = 0.1


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return measure()


def expected() -> dict[str, float]:
    counts: dict[str, float] = json.loads(EXPECTED.read_text())
    return counts


@pytest.mark.parametrize("name", list(expected()))
def test_an_event_takes_no_more_work_than_is_written_down(
    name: str, measured: dict[str, float]
) -> None:
    """Lines of each kernel, lines around them and bytes at once are at most a tenth above
    benchmarks/results/work.json, which `python -m benchmarks.speed.work --write` writes anew.
    """
    assert measured[name] <= expected()[name] * (1 + TOLERANCE)


def test_whatever_is_counted_is_written_down(measured: dict[str, float]) -> None:
    """A statistic that is new has its work written down too."""
    assert set(measured) == set(expected())


def test_work_that_doubles_is_seen() -> None:
    """Lines are counted as they run, those of the package alone."""
    events = draw(400, 10, KeyDistribution.UNIFORM, 1)
    topology = Topology(name="work", source="events", span="1h", every="1m", statistics=(Count(),))
    (batch,) = batches(events, topology.source, len(events))

    def once() -> None:
        PartitionProcessor(topology, topology.source, 0, MemoryStore()).process(batch)

    def twice() -> None:
        once()
        once()

    once()
    assert lines_run(twice) == 2 * lines_run(once) > 0


def test_a_commit_writes_each_key_once_however_many_batches_touched_it() -> None:
    """Between two snapshots a key's state is written once, and a key that had no event not at
    all; an emission tick brings one record for each key that had events.
    """
    events = draw(20_000, 50, KeyDistribution.UNIFORM, 1)
    statistics = (Count(), Sum())
    topology = Topology(name="work", source="events", span="1h", every="1m", statistics=statistics)
    processor = PartitionProcessor(topology, topology.source, 0, MemoryStore())
    records = 0
    for batch in batches(events, topology.source, 1_000):
        records += len(processor.process(batch).emissions)
    snapshot = processor.snapshot()
    assert snapshot is not None
    assert len(snapshot.states) == 50
    ticks = (events.times // 60_000 + 1) * 60_000
    due = ticks <= events.times[-1]
    assert records == len(set(zip(events.keys[due].tolist(), ticks[due].tolist(), strict=True)))

    processor.written()
    few = draw(1, 1, KeyDistribution.UNIFORM, 1)
    last = int(events.times[-1])
    few.times[:] = last
    (batch,) = batches(few, topology.source, 1)
    later = type(batch)(
        batch.topic, 0, batch.offsets + len(events), batch.keys, batch.values, [last], len(events)
    )
    processor.process(later)
    snapshot = processor.snapshot()
    assert snapshot is not None
    assert list(snapshot.states) == [few.key_text(0)]
