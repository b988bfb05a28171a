"""What laws of window summaries share: streams cut into windows, and ways to merge them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.synopses import (
    CountParameters,
    CountWave,
    DistinctParameters,
    DistinctWave,
    ExponentialHistogram,
    Extreme,
    ExtremeParameters,
    FrequentItems,
    FrequentParameters,
    LeanDistinct,
    LeanDistinctParameters,
    NamedItems,
    PairedItems,
    PairedParameters,
    QuantileParameters,
    Quantiles,
    Spread,
    SpreadParameters,
    SumParameters,
    SumWave,
    ValueQuantileParameters,
    ValueQuantiles,
    WaveParameters,
    merge_summaries,
    take_summary,
)
from tests.synopses.streams import VALUES

SPAN = 400
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Family:
    """How a synopsis is made, and what of a stream's values (multiples of 0.01) it is fed."""

    create: Callable[[], Any]
    column: Callable[[Values], Any] | None


def _prices(values: Values) -> Values:
    return np.round(np.minimum(values, 1e6), 2)


def _signed(values: Values) -> Values:
    return np.round(np.minimum(values, 1e6) * np.where(np.arange(len(values)) % 3, 1, -1), 2)


def _items(values: Values) -> Values:
    return np.minimum(values, 1e6).astype(np.int64)


def _texts(values: Values) -> Values:
    return np.array([f"/{item}" for item in _items(values).tolist()])


FAMILIES: dict[str, Family] = {
    "count": Family(lambda: ExponentialHistogram.create(CountParameters(0.1, SPAN)), None),
    "sum": Family(lambda: ExponentialHistogram.create(SumParameters(0.5, SPAN, 2)), _prices),
    "sum of any doubles": Family(
        lambda: ExponentialHistogram.create(SumParameters(0.1, SPAN, 2)),
        lambda values: np.minimum(values, 1e6) / 3,
    ),
    "count wave": Family(lambda: CountWave.create(WaveParameters(0.2, SPAN)), None),
    "coarsest count wave": Family(lambda: CountWave.create(WaveParameters(1.0, SPAN)), None),
    "sum wave": Family(lambda: SumWave.create(WaveParameters(1 / 3, SPAN)), _items),
    "minimum": Family(lambda: Extreme.create(ExtremeParameters("minimum", SPAN)), _signed),
    "rough maximum": Family(
        lambda: Extreme.create(ExtremeParameters("maximum", SPAN, 0.1)), _signed
    ),
    "spread": Family(lambda: Spread.create(SpreadParameters(0.3, SPAN, 2)), _signed),
    "quantiles": Family(lambda: Quantiles.create(QuantileParameters(0.2, SPAN)), _signed),
    "quantiles by value": Family(
        lambda: ValueQuantiles.create(ValueQuantileParameters(0.05, 0.2, SPAN)), _signed
    ),
    "items": Family(lambda: FrequentItems.create(FrequentParameters(0.2, SPAN)), _items),
    "items in pairs": Family(lambda: PairedItems.create(PairedParameters(0.2, SPAN)), _items),
    "named items": Family(lambda: NamedItems.create(PairedParameters(0.2, SPAN)), _texts),
    "lean distinct": Family(
        lambda: LeanDistinct.create(LeanDistinctParameters(0.3, 1e-6, SPAN, 7)), _items
    ),
    "distinct": Family(lambda: DistinctWave.create(DistinctParameters(0.5, 1e-6, SPAN, 7)), _items),
}


@dataclass(frozen=True)
class Cut:
    """A stream's windows, one behind another: the values of each, and its summary."""

    windows: list[Values]
    summaries: list[bytes]

    @property
    def values(self) -> Values:
        return np.concatenate(self.windows)


def cut(name: str, values: str, size: int, seed: int) -> Cut:
    """A stream of about `size` events in windows of 1 to SPAN ticks, some of them empty."""
    family = FAMILIES[name]
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0, 0, 1, 2], size) + (rng.random(size) < 0.002) * 3 * SPAN)
    column = np.empty(size) if family.column is None else family.column(VALUES[values](rng, size))
    synopsis = family.create()
    windows, summaries = [], []
    done, now = 0, 0
    while done < size:
        n = int(rng.integers(1, SPAN + 1))
        until = int(np.searchsorted(times, now + n))
        fed = times[done:until]
        if family.column is None:
            synopsis.insert(fed)
        else:
            synopsis.insert(fed, column[done:until])
        now += n
        # part of the state's span, at its own time, or the same looked ahead to
        if rng.integers(0, 2):
            synopsis.advance(now)
        summaries.append(take_summary(synopsis.to_bytes(), n, now))
        windows.append(column[done:until])
        done = until
    return Cut(windows, summaries)


def chain(summaries: Sequence[bytes], rng: np.random.Generator) -> bytes:  # noqa: ARG001
    """One after another."""
    merged = summaries[0]
    for summary in summaries[1:]:
        merged = merge_summaries([merged, summary])
    return merged


def tree(summaries: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Any tree: some at a time, until one is left."""
    left = list(summaries)
    while len(left) > 1:
        at = int(rng.integers(0, len(left) - 1))
        some = left[at : at + int(rng.integers(2, 6))]
        left[at : at + len(some)] = [merge_summaries(some)]
    return left[0]


def at_once(summaries: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """All at once, in any order."""
    return merge_summaries([summaries[i] for i in rng.permutation(len(summaries))])


GROUPINGS: dict[str, Callable[[Sequence[bytes], np.random.Generator], bytes]] = {
    "a chain": chain,
    "any tree": tree,
    "at once": at_once,
}
