"""Waves as the paper's text has them, one bit at a time, and exact answers to compare with."""

from typing import NamedTuple

import numpy as np

from slidestat.synopses.core.arrays import Integers


class Bracket(NamedTuple):
    """What a basic wave knows of a window: the two neighbours of its start, and the estimate."""

    p1: int
    r1: int
    p2: int
    r2: int
    estimate: float


class BasicWave:
    """Section 3.1 of Gibbons and Tirthapura 2002, word for word; 1 / epsilon is a whole number.

    `bound` is the N of the levels: the most ones that a window can hold.
    """

    def __init__(self, inverse: int, bound: int) -> None:
        self.levels = 0
        while inverse << self.levels < 2 * bound:  # ceil(log2(2 epsilon N))
            self.levels += 1
        self.kept = inverse + 1
        self.queues: list[list[tuple[int, int]]] = [[(0, 0)] for _ in range(self.levels)]
        self.pos = 0
        self.rank = 0

    def insert(self, bit: int) -> None:
        self.pos += 1
        self.rank += bit
        for level, queue in enumerate(self.queues):
            if bit and self.rank % (1 << level) == 0:
                queue.append((self.pos, self.rank))
                del queue[: -self.kept]

    def bracket(self, n: int) -> Bracket | None:
        """Steps 1 and 2 of the query; None if the answer is exact without them."""
        start = self.pos - n + 1
        stored = sorted({pair for queue in self.queues for pair in queue})
        inside = [pair for pair in stored if pair[0] >= start and pair[1] > 0]
        if n >= self.pos or not inside:
            return None
        (p1, r1), (p2, r2) = [pair for pair in stored if pair[0] < start][-1], inside[0]
        return Bracket(p1, r1, p2, r2, self.rank + 1 - (r1 + r2) / 2)


def ranks_of_a_wave(total: int, per_level: int) -> list[int]:
    """The ranks in the optimal wave: of each level the newest, by looking at all of them."""
    held: dict[int, int] = {}
    kept = []
    for rank in range(total, 0, -1):
        level = (rank & -rank).bit_length() - 1
        held[level] = held.get(level, 0) + 1
        if held[level] <= per_level:
            kept.append(rank)
    return kept


class LiteralSumWave:
    """Figure 5, with level queues as lists and expiry before each event; `per_level` a level."""

    def __init__(self, per_level: int, span: int) -> None:
        self.per_level = per_level
        self.span = span
        self.total = 0
        self.lost = 0
        self.queues: dict[int, list[tuple[int, int, int]]] = {}

    def expire(self, now: int) -> None:
        for queue in self.queues.values():
            while queue and queue[0][0] < now - self.span:
                self.lost = max(self.lost, queue.pop(0)[2])

    def insert(self, time: int, value: int) -> None:
        self.expire(time + 1)
        if value == 0:
            return
        level = 0
        while (self.total + value) >> (level + 1) > self.total >> (level + 1):
            level += 1
        self.total += value
        queue = self.queues.setdefault(level, [])
        queue.append((time, value, self.total))
        del queue[: -self.per_level]

    def items(self) -> list[tuple[int, int, int]]:
        """(time, units before, units through), oldest first."""
        found = [(t, z - v, z) for queue in self.queues.values() for t, v, z in queue]
        return sorted(found, key=lambda item: item[2])


def exact_sums(times: Integers, units: Integers, queries: Integers, spans: Integers) -> Integers:
    """int64[queries, spans]: the units with q - n <= time < q."""
    prefix = np.concatenate([[0], np.cumsum(units)])
    end = np.searchsorted(times, queries)[:, None]
    start = np.searchsorted(times, queries[:, None] - spans[None, :])
    return np.asarray(prefix[end] - prefix[start], np.int64)


def moments(times: Integers, span: int) -> Integers:
    """Right after each event's time, a little later, and when the last ones expire."""
    after = [times, times + 1, times + 30, times[-1] + span + np.arange(-1, 3)]
    return np.unique(np.concatenate(after))
