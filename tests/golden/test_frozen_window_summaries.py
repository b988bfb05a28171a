"""Window summaries of format version 1, written once: read back forever, and written the same."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slidestat.synopses import (
    CountParameters,
    DistinctParameters,
    DistinctWave,
    ExponentialHistogram,
    Extreme,
    ExtremeParameters,
    FrequentItems,
    FrequentParameters,
    NamedItems,
    QuantileParameters,
    Quantiles,
    Spread,
    SpreadParameters,
    SumParameters,
    WindowDistinct,
    WindowExtreme,
    WindowItems,
    WindowQuantiles,
    WindowSpread,
    WindowTotals,
    merge_summaries,
    read_summary,
    take_summary,
)

FROZEN = Path(__file__).parent / "frozen" / "window-summary-1"
HOUR = 3_600_000

# What each file was made of, in arithmetic alone: another NumPy may draw other random numbers.
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
}


def facts(data: bytes) -> list[str]:
    read = read_summary(data)
    if isinstance(read, WindowTotals | WindowExtreme | WindowDistinct):
        return [repr(read.answer())]
    if isinstance(read, WindowSpread):
        return [repr(read.mean()), repr(read.variance()), repr(read.deviation())]
    if isinstance(read, WindowQuantiles):
        return [repr(answer) for answer in read.quantiles((0, 0.5, 0.9, 1))]
    assert isinstance(read, WindowItems)
    return [repr(item) for item in read.items(0.02)]


@pytest.mark.parametrize("name", MADE)
def test_frozen_bytes_are_read_back(name: str) -> None:
    """A summary of version 1 answers what it answered then."""
    data = (FROZEN / f"{name}.bin").read_bytes()
    assert facts(data) == json.loads((FROZEN / "facts.json").read_text())[name]


@pytest.mark.parametrize("name", MADE)
def test_the_same_windows_write_the_same_bytes(name: str) -> None:
    """While version 1 is what is written, equal windows give the bytes that they gave then."""
    assert _hours(MADE[name]) == (FROZEN / f"{name}.bin").read_bytes()


def test_two_hand_made_windows() -> None:
    """Few enough events to be exact: a day's figures are those of all its events."""
    count, values = (
        ExponentialHistogram.create(CountParameters(0.1, 10)),
        Quantiles.create(QuantileParameters(0.5, 10)),
    )
    count.insert([1, 2, 3])
    values.insert([1, 2, 3], [4.0, 8.0, 6.0])
    first = take_summary(count.to_bytes(), 2), take_summary(values.to_bytes(), 10, 10)
    count.insert([13, 14])
    values.insert([13, 14], [5.0, 5.0])
    second = take_summary(count.to_bytes(), 10, 20), take_summary(values.to_bytes(), 10, 20)
    counted, ranked = (
        read_summary(merge_summaries(pair)) for pair in zip(first, second, strict=True)
    )
    assert isinstance(counted, WindowTotals)
    assert isinstance(ranked, WindowQuantiles)
    assert counted.answer() == (4, 4, 4, 0)
    assert [ranked.quantile(p) for p in (0, 0.5, 1)] == [(4, 4, 4, 0), (5, 5, 5, 0), (8, 8, 8, 0)]
