"""Exact and literal answers to compare synopses with: plain Python, none of the product's code."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

Bucket = tuple[int, int]  # size, time of the newest unit


class ExactWindow:
    """The exact sum of exact values over any window, by prefix sums."""

    def __init__(self, times: Sequence[int], values: Iterable[int | Fraction]) -> None:
        self.times = list(times)
        self.prefix = [0, *accumulate(values)]

    def sum(self, start: int, end: int) -> int | Fraction:
        """The sum of the values with start <= time < end."""
        return (
            self.prefix[bisect_left(self.times, end)] - self.prefix[bisect_left(self.times, start)]
        )


class Cascade:
    """Algorithm Insert of Datar et al. 2002: one unit at a time, merging upwards.

    A merged bucket has the time of its newest unit: the paper's text has that of the older bucket,
    which is wrong (tests/golden/test_l_canonical.py). Nothing is forgotten when it expires.
    """

    def __init__(self, per_level: int) -> None:
        self.per_level = per_level
        self.levels: list[deque[int]] = []  # times of level i, newest first

    def insert(self, time: int) -> None:
        carried: int | None = time
        level = 0
        while carried is not None:
            if level == len(self.levels):
                self.levels.append(deque())
            times = self.levels[level]
            times.appendleft(carried)
            carried = None
            if len(times) == self.per_level + 2:
                times.pop()
                carried = times.pop()
            level += 1

    def buckets(self) -> list[Bucket]:
        """Oldest to newest."""
        newest_first = [(1 << i, time) for i, times in enumerate(self.levels) for time in times]
        return newest_first[::-1]


def l_canonical(total: int, per_level: int) -> list[int]:
    """Procedure l-Canonical of the paper's section 4: k_0, k_1, ..., k_j (the last may be 0)."""
    j = 0
    while per_level * (2 ** (j + 1) - 1) <= total:
        j += 1
    rest = total - per_level * (2**j - 1)
    return [per_level + (rest % 2**j >> i & 1) for i in range(j)] + [rest // 2**j]


def canonical_buckets(times: Sequence[int], units: Sequence[int], per_level: int) -> list[Bucket]:
    """All buckets of events of so many units each, oldest to newest, by the procedure."""
    ends = list(accumulate(units))
    position = ends[-1] if ends else 0
    newest_first = []
    for level, number in enumerate(l_canonical(position, per_level)):
        for _ in range(number):
            newest_first.append((1 << level, times[bisect_left(ends, position)]))
            position -= 1 << level
    return newest_first[::-1]


def live(buckets: list[Bucket], oldest: int) -> list[Bucket]:
    """Those whose newest unit has time >= `oldest`."""
    return [bucket for bucket in buckets if bucket[1] >= oldest]


def decimal(value: float) -> Fraction:
    """The number that a double, or a whole number, is written as, exactly."""
    return Fraction(value if isinstance(value, int) else repr(float(value)))
