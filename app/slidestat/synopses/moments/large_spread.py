"""Mean, variance and deviation of several windows together, in whole numbers of any length.

The moments of one window are 64-bit numbers, and so are those of a union that is not too large
(merge/spreads.py). Larger ones are added up here, with the same formulas and so with the same
promises. So are those of a window that ended before now (past/past.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Self

import numpy as np

from slidestat.synopses.core import envelope
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.moments.codec import (
    BUCKET_ROWS,
    DECIMALS,
    FIRST,
    HEAD_SIZE,
    INEXACT,
    KEPT,
    NEWEST,
    SPREAD,
    STATE_SIZE,
    read,
)
from slidestat.synopses.moments.kernel import STATISTICS, put_spread, spread_of_all, spread_of_cut
from slidestat.synopses.moments.moments import ABOVE, BELOW, COUNT, HIGH, LOW

_ROUNDING = 2.0**-46
"""Outward, as that of kernel.py, in units and as a share."""


@dataclass
class _Moments:
    """The number of values, in units, their sum and the sum of their squares."""

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, buckets: Integers) -> Self:
        """Return those of all events of buckets of one state, whose sums are 64-bit numbers."""
        column = buckets.sum(axis=1).tolist()
        squares = (column[HIGH] << 40) + column[LOW]
        return cls(column[COUNT], column[ABOVE] - column[BELOW], squares)

    def add(self, buckets: Integers, at: int) -> None:
        column = buckets[:, at].tolist()
        self.count += column[COUNT]
        self.total += column[ABOVE] - column[BELOW]
        self.squares += (column[HIGH] << 40) + column[LOW]

    def __add__(self, other: "_Moments") -> "_Moments":
        return _Moments(
            self.count + other.count, self.total + other.total, self.squares + other.squares
        )

    @property
    def mean(self) -> Fraction:
        return Fraction(self.total, self.count)

    @property
    def squared(self) -> float:
        """The sum of squared deviations from the mean, nearest double."""
        return float(self.squares - self.total * self.mean)


def large_spread(states: Sequence[bytes], starts: Sequence[int]) -> Floats:
    """Return float64[statistic, 3], estimate, lower and upper, of the events of all `states` from
    their `starts` on; NaN where there are none. Raises SynopsisError for bytes that are no state.

    Cost: O(buckets), about 5 microseconds each.
    """
    newer, cut = _Moments(), _Moments()
    inexact = decimals = 0
    for data, start in zip(states, starts, strict=True):
        head, state, buckets = decoded(data)
        decimals = int(head[DECIMALS])
        for i in range(int(state[KEPT]) - 1, -1, -1):
            if buckets[NEWEST, i] < start:
                break
            (cut if buckets[FIRST, i] < start else newer).add(buckets, i)
            inexact |= int(state[INEXACT])
    found: Floats = np.full((STATISTICS, 3), np.nan)
    if newer.count:
        put_spread(_told(newer, cut), decimals, inexact, found)
    return found


def spreads_between(data: bytes, windows: Sequence[tuple[int, int]]) -> Floats:
    """Return float64[windows, statistic, 3], the same of the events of one state in each window
    [start, end), any in its span: NaN where there is certainly none (past/past.py).

    Cost: O(bytes), and some tens of microseconds a window.
    """
    head, state, buckets = decoded(data)
    buckets = buckets[:, : int(state[KEPT])]
    found: Floats = np.full((len(windows), STATISTICS, 3), np.nan)
    for place, (start, end) in enumerate(windows):
        is_there = (buckets[NEWEST] >= start) & (buckets[FIRST] < end)
        is_older, is_newer = buckets[FIRST] < start, buckets[NEWEST] >= end
        whole = _Moments.of(buckets[:, is_there & ~is_older & ~is_newer])
        cut = _Moments.of(buckets[:, is_there & (is_older | is_newer)])
        # At least so many events of the buckets that are cut are outside.
        outside = np.count_nonzero(is_there & is_older) + np.count_nonzero(is_there & is_newer)
        if whole.count:
            told = _told(whole, cut)
        elif cut.count > outside:
            center, reach = float(cut.mean), sqrt(cut.squared * ((cut.count - 1) / cut.count))
            reach += (abs(center) + reach) * _ROUNDING + _ROUNDING
            told = 0.0, cut.squared / 2, center, reach
        else:
            continue
        put_spread(told, int(head[DECIMALS]), int(state[INEXACT]), found[place])
        if cut.count:
            numbers = found[place]
            numbers[:, 0] = numbers[:, 1] + (numbers[:, 2] - numbers[:, 1]) / 2
    return found


def _told(newer: _Moments, cut: _Moments) -> tuple[float, float, float, float]:
    if not cut.count:
        return spread_of_all(newer.squared, float(newer.count), float(newer.mean))
    return spread_of_cut(
        float(newer.count),
        float(cut.count),
        newer.squared,
        (newer + cut).squared,
        float(cut.mean - newer.mean),
        cut.squared,
        float(newer.mean),
    )


def decoded(data: bytes) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; return what it was made with, its numbers, and its buckets."""
    head, state = np.empty(HEAD_SIZE, np.int64), np.empty(STATE_SIZE, np.int64)
    empty = np.empty((BUCKET_ROWS, 0), np.int64)
    (buckets,) = envelope.decoded(read, data, (SPREAD,), head, state, empty)
    return head, state, buckets
