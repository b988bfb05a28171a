"""What is exactly true of a workload: any key, any window."""

from fractions import Fraction

import numpy as np

from benchmarks.harness.workload import Workload
from slidestat.synopses.core.arrays import Integers


class Exact:
    """Answers by searching the events, sorted by key and time."""

    def __init__(self, workload: Workload) -> None:
        self._start = int(workload.times[0])
        self._stride = int(workload.times[-1]) - self._start + 2
        codes = workload.keys * self._stride + (workload.times - self._start)
        order = np.argsort(codes, kind="stable")
        self._codes = codes[order]
        self._cents = workload.cents[order]
        self._sums = np.concatenate(([0], np.cumsum(self._cents)))

    def of(self, keys: Integers, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """Counts and sums (in cents) of the events of keys[i] in [starts[i], ends[i])."""
        below = self._position(keys, starts)
        above = self._position(keys, ends)
        return above - below, self._sums[above] - self._sums[below]

    def cents(self, key: int, start: int, end: int) -> Integers:
        """The values of one window in cents, ascending."""
        below, above = self._position(np.array([key, key]), np.array([start, end])).tolist()
        return np.sort(self._cents[below:above])

    def _position(self, keys: Integers, times: Integers) -> Integers:
        since_start = np.clip(times - self._start, 0, self._stride - 1)
        return np.searchsorted(self._codes, keys * self._stride + since_start)


def variance(cents: Integers) -> Fraction:
    """The population variance of values, given in cents."""
    # Squares of large values, added up, need not fit in 64 bits: those of their halves do.
    high, low = cents >> 20, cents & ((1 << 20) - 1)
    parts = (int((high**2).sum()), int((high * low).sum()), int((low**2).sum()))
    total, squares = int(cents.sum()), (parts[0] << 40) + (parts[1] << 21) + parts[2]
    return Fraction(len(cents) * squares - total**2, (100 * len(cents)) ** 2)
