"""Stored bytes of an exponential histogram of counts, beside the lower bound on what they need.

    python -m benchmarks.size.space_of_counts [largest number of events in the window]

Two streams: one event a tick, and one a second on average in milliseconds (gaps drawn evenly from 0
to 1,999, seed 1). The window always holds N' events. The lower bound is that of Datar et al. 2002,
theorem 3.1, for deterministic algorithms: (k/16) log2^2(N/k) bits for a window of N = N' elements,
k = 1/epsilon <= 4 sqrt(N).

Then, for each N', the worst ratio of stored bytes to the lower bound: of the two streams, and of
the second to the bound of a window of as many elements as it has milliseconds.
"""

from collections.abc import Iterator, Sequence
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from benchmarks.harness.command import typed
from slidestat.synopses import CountParameters, ExponentialHistogram

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


class Ratios(NamedTuple):
    """The worst ratios to the lower bound over the epsilons that have one, for one N'."""

    events: int
    ticks: float
    seconds: float
    milliseconds: float


def worst_ratios(rows_of_all: Sequence[Row]) -> list[Ratios]:
    """Of the rows of each N', in their order."""
    found: dict[int, Ratios] = {}
    for row in rows_of_all:
        before = found.get(row.events, Ratios(row.events, 0.0, 0.0, 0.0))
        least = row.lower_bound or inf
        of_milliseconds = lower_bound_bytes(row.epsilon, 1_000 * row.events) or inf
        found[row.events] = Ratios(
            row.events,
            max(before.ticks, row.ticks / least),
            max(before.seconds, row.seconds / least),
            max(before.milliseconds, row.seconds / of_milliseconds),
        )
    return list(found.values())


def row_text(row: Row) -> str:
    """A row of the first table."""
    least = "-" if row.lower_bound is None else f"{row.lower_bound:,.0f}"
    number = _power(row.events)
    return f"| {number} | {row.epsilon} | {row.ticks:,} | {row.seconds:,} | {least} |"


def ratios_text(ratios: Ratios) -> str:
    """A row of the second table: ratios rounded up, so that each is at most what stands there."""
    cells = (ceil(10 * ratio) / 10 for ratio in ratios[1:])
    return f"| {_power(ratios.events)} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |"


def _power(events: int) -> str:
    return f"10^{len(str(events)) - 1}"


def main(largest: int) -> None:
    """Print both tables, in Markdown."""
    print("| N' | epsilon | one a tick, bytes | one a second, bytes | lower bound, bytes |")
    print("|---|---|---|---|---|")
    seen = []
    for row in rows(largest):
        print(row_text(row), flush=True)
        seen.append(row)
    print("\n| N' | one a tick | one a second | one a second, of its milliseconds |")
    print("|---|---|---|---|")
    for ratios in worst_ratios(seen):
        print(ratios_text(ratios))


if __name__ == "__main__":
    main(*typed(__doc__, largest=10**9))
