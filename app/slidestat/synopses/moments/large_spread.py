"""Mean, variance and deviation of several windows together, in whole numbers of any length.

The moments of one window are 64-bit numbers, and so are those of a union that is not too large
(merge/spreads.py). Larger ones are added up here, with the same formulas and so with the same
promises.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.envelope import refused
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
from slidestat.synopses.moments.kernel import (
    STATISTICS,
    put_spread,
    spread_of_all,
    spread_of_cut,
)
from slidestat.synopses.moments.moments import ABOVE, BELOW, COUNT, HIGH, LOW


@dataclass
class _Moments:
    """The number of values, in units, their sum and the sum of their squares."""

    count: int = 0
    total: int = 0
    squares: int = 0

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
    head = np.empty(HEAD_SIZE, np.int64)
    inexact = 0
    for data, start in zip(states, starts, strict=True):
        array = np.frombuffer(bytearray(data), np.uint8)
        state = np.empty(STATE_SIZE, np.int64)
        empty = np.empty((BUCKET_ROWS, 0), np.int64)
        error_code, number, buckets = read(array, 0, len(array), head, state, empty)
        if error_code != error_codes.OK:
            raise refused(data, error_code, int(number), SPREAD)
        for i in range(int(state[KEPT]) - 1, -1, -1):
            if buckets[NEWEST, i] < start:
                break
            (cut if buckets[FIRST, i] < start else newer).add(buckets, i)
            inexact |= int(state[INEXACT])
    found: Floats = np.full((STATISTICS, 3), np.nan)
    if not newer.count:
        return found
    if cut.count:
        told = spread_of_cut(
            float(newer.count),
            float(cut.count),
            newer.squared,
            (newer + cut).squared,
            float(cut.mean - newer.mean),
            cut.squared,
            float(newer.mean),
        )
    else:
        told = spread_of_all(newer.squared, float(newer.count), float(newer.mean))
    put_spread(told, int(head[DECIMALS]), inexact, found)
    return found
