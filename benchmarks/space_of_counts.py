"""Stored bytes of an exponential histogram of counts, beside the least that any algorithm needs.

    python -m benchmarks.space_of_counts [largest number of events in the window]

Two streams: one event a tick, and one a second on average in milliseconds (gaps drawn evenly from 0
to 1,999, seed 1). The window always holds N' events. The lower bound is that of Datar et al. 2002,
theorem 3.1: (k/16) log2^2(N/k) bits for a window of N = N' elements, k = 1/epsilon <= 4 sqrt(N).
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from app.synopses import CountParameters, ExponentialHistogram

EPSILONS = (0.1, 0.01, 0.001)
CHUNK = 5_000_000


class Row(NamedTuple):
    """Stored bytes with one event a tick and one a second, and the lower bound, where there is
    one.
    """

    events: int
    epsilon: float
    ticks: int
    seconds: int
    lower_bound: float | None


def lower_bound_bytes(epsilon: float, events: int) -> float | None:
    """Return theorem 3.1's bound in bytes, or None where the theorem does not speak."""
    k = round(1 / epsilon)
    if k > 4 * events**0.5:
        return None
    return float(k / 16 * np.log2(events / k) ** 2 / 8)


def stored_bytes(events: int, longest_gap: int) -> list[int]:
    """Feed 1.5 windows of events to a histogram for each epsilon; return what each stores."""
    mean_gap = max(1, longest_gap // 2)
    span = events * mean_gap
    histograms = [ExponentialHistogram.create(CountParameters(e, span)) for e in EPSILONS]
    rng = np.random.default_rng(1)
    last = 0
    left = events + events // 2
    while left > 0:
        size = min(CHUNK, left)
        gaps = rng.integers(0, longest_gap, size) if longest_gap > 1 else np.ones(size, np.int64)
        times = last + np.cumsum(gaps)
        for histogram in histograms:
            histogram.insert(times)
        last = int(times[-1])
        left -= size
    return [len(histogram.to_bytes()) for histogram in histograms]


def rows(largest: int) -> Iterator[Row]:
    """A row for each number of events up to `largest` and epsilon."""
    events = 1_000
    while events <= largest:
        columns = zip(EPSILONS, stored_bytes(events, 1), stored_bytes(events, 2_000), strict=True)
        for epsilon, ticks, seconds in columns:
            yield Row(events, epsilon, ticks, seconds, lower_bound_bytes(epsilon, events))
        events *= 10


def main(largest: int) -> None:
    """Print one row for each number of events and epsilon, as a Markdown table."""
    print("| N' | epsilon | one a tick, bytes | one a second, bytes | lower bound, bytes |")
    print("|---|---|---|---|---|")
    for row in rows(largest):
        least = "-" if row.lower_bound is None else f"{row.lower_bound:,.0f}"
        exponent = len(str(row.events)) - 1
        print(
            f"| 10^{exponent} | {row.epsilon} | {row.ticks:,} | {row.seconds:,} | {least} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**9)
