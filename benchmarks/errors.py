"""Observed errors beside promised ones, for every statistic that promises one.

    python -m benchmarks.errors [events]

A partition's code with ten keys, emitting each minute windows of 1 minute, 5 minutes and 1 hour;
each figure's error as a share of what its own fields promise: 1 is the promise. Bounds are checked
on the way: a statistic whose bounds do not hold ends the run.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import msgspec
import numpy as np

from app.streaming.partition import PartitionProcessor
from app.streaming.statistics import (
    Count,
    Deviation,
    Distinct,
    Mean,
    Quantiles,
    Rate,
    Statistic,
    Sum,
    Variance,
)
from app.streaming.topology import Topology
from app.testing.memory_store import MemoryStore
from benchmarks.exact import Exact
from benchmarks.figures import Figure
from benchmarks.inside import batches
from benchmarks.workload import Int64s, KeyDistribution, draw

EVENTS = 200_000
_KEYS = 10
_BATCH = 10_000
_STATISTICS: tuple[Statistic, ...] = (
    Count(),
    Rate(),
    Sum(decimals=2),
    Mean(),
    Variance(),
    Deviation(),
    Quantiles(),
    Distinct(field="value"),
)


class Row(NamedTuple):
    """How a statistic's errors lie, as shares of their promise; `kept` is the share of figures that
    keep it, which is less than 1 only where chance comes in.
    """

    statistic: str
    figures: int
    median: float
    most: float
    kept: float


class _Emission(msgspec.Struct, gc=False):
    key: str
    window_end_ms: int
    figures: list[Figure]


def rows(events: int) -> Iterator[Row]:
    """A row for each statistic."""
    workload = draw(events, _KEYS, KeyDistribution.ZIPF, 1)
    topology = Topology(
        name="errors",
        source="events",
        span="1h",
        every="1m",
        windows=("1m", "5m", "1h"),
        statistics=_STATISTICS,
    )
    processor = PartitionProcessor(topology, topology.source, 0, MemoryStore())
    exact = Exact(workload)
    shares: dict[str, list[float]] = defaultdict(list)
    decode = msgspec.json.Decoder(_Emission).decode
    for batch in batches(workload, topology.source, _BATCH):
        for _, value, _ in processor.process(batch).emissions:
            emission = decode(value)
            key, end = workload.key_number(emission.key), emission.window_end_ms
            windows: dict[int, Int64s] = {}
            for figure in emission.figures:
                length = figure.window_ms
                if length not in windows:
                    windows[length] = exact.cents(key, end - length, end)
                if len(windows[length]):
                    shares[figure.statistic].append(_share(figure, windows[length]))
    for name, found in shares.items():
        kept = sum(share <= 1 + 1e-12 for share in found) / len(found)
        yield Row(name, len(found), float(np.median(found)), max(found), kept)


def _share(figure: Figure, cents: Int64s) -> float:
    """The error of a figure by what it promises."""
    if figure.estimate is None:
        raise AssertionError(f"{figure} of a window with events")
    if figure.quantile is not None:
        return _share_of_rank(figure.estimate, figure.quantile, figure.share_error, cents)
    deviation = float(np.std(cents / 100))
    wanted = {
        "count": float(len(cents)),
        "rate": len(cents) / (figure.window_ms / 1000),
        "sum": int(cents.sum()) / 100,
        "mean": float(np.mean(cents / 100)),
        "variance": deviation**2,
        "deviation": deviation,
        "distinct": float(len(np.unique(cents))),
    }[figure.statistic]
    allowed = figure.relative_error * wanted + figure.absolute_error
    allowed += figure.deviation_error * deviation
    error = abs(figure.estimate - wanted)
    # The exact figure is a double too.
    return 0.0 if error <= 1e-9 * max(1.0, abs(wanted)) else error / allowed


def _share_of_rank(
    estimate: float, quantile: float, share_error: float, cents: Sequence[int] | Int64s
) -> float:
    values = np.asarray(cents) / 100
    rank = max(1, ceil(Fraction(repr(quantile)) * len(values)))
    first = int(np.searchsorted(values, estimate, "left"))
    last = int(np.searchsorted(values, estimate, "right"))
    off = max(first + 1 - rank, rank - max(last, 1), 0)
    return off / (share_error * len(values)) if off else 0.0


def main(events: int) -> None:
    """Print a row for each statistic, as a Markdown table."""
    print("| statistic | figures | median error by its promise | largest | promise kept |")
    print("|---|---|---|---|---|")
    for row in rows(events):
        print(
            f"| {row.statistic} | {row.figures:,} | {row.median:.3f} | {row.most:.3f} |"
            f" {row.kept:.2%} |"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
