"""What an event costs against how many events the span holds, from a thousand to ten million.

    python -m benchmarks.speed.spans [largest power of ten]

One key, an event each millisecond, so that a span of so many milliseconds holds so many events.
Everything of a worker but Kafka and RocksDB: JSON in, statistics, states as bytes, emissions out
once a minute. All subjects take the same last batches in turn, each with its span full by then:
the machine's moods are the same for all. A flat or a logarithmic line is what is claimed.
"""

import os
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.harness.command import typed
from benchmarks.harness.inside import batches
from benchmarks.harness.results import machine
from benchmarks.harness.workload import KeyDistribution, Workload, draw
from slidestat.declare.kinds import DEFAULT
from slidestat.declare.statistics import Count, Mean, Statistic, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.synopses.core.arrays import Integers
from slidestat.testing.records import MemoryStore

SETS: dict[str, Sequence[Statistic]] = {
    "count": (Count(),),
    "sum": (Sum(),),
    "mean": (Mean(),),
    "default": DEFAULT,
}
_SMALLEST, _LARGEST = 3, 7
_BATCH, _TIMED = 10_000, 40


class Subject:
    """A partition with one set of statistics over one span."""

    def __init__(self, name: str, exponent: int) -> None:
        self.name = name
        self.exponent = exponent
        topology = Topology(
            name="spans",
            source="events",
            span=f"{10**exponent}ms",
            every="1m",
            statistics=SETS[name],
        )
        self._processor = PartitionProcessor(topology, topology.source, 0, MemoryStore())
        self.costs: list[float] = []
        self.state_bytes = 0

    def take(self, batch: RecordBatch, *, timed: bool) -> None:
        """Take in a batch and snapshot, as a worker does once a second; note ns an event."""
        start = time.process_time()
        self._processor.process(batch)
        snapshot = self._processor.snapshot()
        self._processor.written()
        seconds = time.process_time() - start
        if snapshot is not None:
            (state,) = snapshot.states.values()
            self.state_bytes = len(state or b"")
        if timed:
            self.costs.append(seconds / len(batch) * 1e9)


def _events(count: int) -> Workload:
    drawn = draw(count, 1, KeyDistribution.UNIFORM, 1)
    times: Integers = drawn.times[0] + np.arange(count, dtype=np.int64)
    return Workload(1, 1, drawn.keys, times, drawn.cents)


class Row(NamedTuple):
    """Median and middle half of ns an event, its cost by that of 10^3 events, bytes at the end."""

    name: str
    exponent: int
    ns: float
    low_ns: float
    high_ns: float
    ratio: float
    state_bytes: int


def rows(largest: int) -> Iterator[Row]:
    """A row for each set of statistics and span, all measured on the same batches."""
    subjects = [Subject(name, e) for name in SETS for e in range(_SMALLEST, largest + 1)]
    full = 10**largest // _BATCH
    for place, batch in enumerate(batches(_events((full + _TIMED) * _BATCH), "events", _BATCH)):
        left = (full - place) * _BATCH
        for subject in subjects:
            # Subjects of short spans begin later, with a batch more than their span holds.
            if left <= 10**subject.exponent + _BATCH:
                subject.take(batch, timed=left <= 0)
    for subject in subjects:
        first = next(s for s in subjects if s.name == subject.name)
        ratio = median(a / b for a, b in zip(subject.costs, first.costs, strict=True))
        low, high = np.percentile(subject.costs, (25, 75)).tolist()
        middle = median(subject.costs)
        yield Row(subject.name, subject.exponent, middle, low, high, ratio, subject.state_bytes)


def main(largest: int) -> None:
    """Print a row for each set of statistics and span, as a Markdown table."""
    print(machine(), flush=True)
    print(
        "| statistics | events in the span | ns an event | middle half | of 10^3 | state, bytes |"
    )
    print("|---|---|---|---|---|---|")
    for row in rows(largest):
        print(
            f"| {row.name} | 10^{row.exponent} | {row.ns:,.0f} |"
            f" {row.low_ns:,.0f} - {row.high_ns:,.0f} | {row.ratio:.2f} | {row.state_bytes:,} |"
        )
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(*typed(__doc__, largest=_LARGEST))
