"""Summaries of windows, each merged of three hours."""

from collections.abc import Callable
from functools import partial

import numpy as np

from slidestat.synopses import (
    CountParameters,
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
    QuantileParameters,
    Quantiles,
    Spread,
    SpreadParameters,
    SumParameters,
    WindowDistinct,
    WindowExtreme,
    WindowItems,
    WindowLeanDistinct,
    WindowQuantiles,
    WindowSpread,
    WindowTotals,
    merge_summaries,
    read_summary,
    take_summary,
)
from tests.golden.golden import HOUR, Golden

STEPS = np.arange(2_400, dtype=np.int64)
TIMES = STEPS * 4_321
VALUES = (STEPS * 7_919 % 100_003) / 100
ITEMS = STEPS * 7_919 % 1_009 % (1 + STEPS % 97)

Insert = Callable[[slice], None]


def _hours(made: Callable[[], tuple[object, Insert]]) -> bytes:
    """The summary of three hours, each taken of the state as it was at its end, and merged."""
    synopsis, insert = made()
    summaries = []
    for hour in range(3):
        first, last = np.searchsorted(TIMES, [hour * HOUR, (hour + 1) * HOUR])
        insert(slice(first, last))
        data = synopsis.to_bytes()  # type: ignore[attr-defined]
        summaries.append(take_summary(data, HOUR, (hour + 1) * HOUR))
    return merge_summaries(summaries)


def _of(synopsis: object, *columns: object) -> tuple[object, Insert]:
    def insert(at: slice) -> None:
        synopsis.insert(TIMES[at], *(column[at] for column in columns))  # type: ignore[attr-defined, index]

    return synopsis, insert


MADE: dict[str, Callable[[], tuple[object, Insert]]] = {
    "count": lambda: _of(ExponentialHistogram.create(CountParameters(0.1, HOUR))),
    "sum": lambda: _of(ExponentialHistogram.create(SumParameters(0.05, HOUR, 2)), VALUES),
    "thirds": lambda: _of(ExponentialHistogram.create(SumParameters(0.05, HOUR, 2)), VALUES / 3),
    "maximum": lambda: _of(Extreme.create(ExtremeParameters("maximum", HOUR, 0.1)), VALUES),
    "spread": lambda: _of(Spread.create(SpreadParameters(0.2, HOUR, 2)), VALUES - 300),
    "quantiles": lambda: _of(Quantiles.create(QuantileParameters(0.1, HOUR)), VALUES),
    "items": lambda: _of(FrequentItems.create(FrequentParameters(0.1, HOUR)), ITEMS),
    "names": lambda: _of(
        NamedItems.create(FrequentParameters(0.1, HOUR)),
        np.array([f"Zürich/{item}" for item in ITEMS.tolist()]),
    ),
    "distinct": lambda: _of(
        DistinctWave.create(DistinctParameters(0.3, 0.1, HOUR, 3)), STEPS * 7_919
    ),
    "lean-distinct": lambda: _of(
        LeanDistinct.create(LeanDistinctParameters(0.3, 0.1, HOUR, 3)), STEPS * 7_919
    ),
}


def facts(data: bytes) -> list[str]:
    read = read_summary(data)
    if isinstance(read, WindowTotals | WindowExtreme | WindowDistinct | WindowLeanDistinct):
        return [repr(read.answer())]
    if isinstance(read, WindowSpread):
        return [repr(read.mean()), repr(read.variance()), repr(read.deviation())]
    if isinstance(read, WindowQuantiles):
        return [repr(answer) for answer in read.quantiles((0, 0.5, 0.9, 1))]
    assert isinstance(read, WindowItems)
    return [repr(item) for item in read.items(0.02)]


GOLDEN = [
    Golden(f"window-summary-1/{name}", facts, partial(_hours, made)) for name, made in MADE.items()
]
