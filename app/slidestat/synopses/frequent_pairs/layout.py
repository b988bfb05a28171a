"""Which events of frequent items are kept in pairs, how many, and why every window has its bound.

Source: Misra and Gries, "Finding repeated elements" (1982), and Lee and Ting, "A simpler and more
efficient deterministic scheme for finding frequent items over sliding windows" (2006): counters of
Misra and Gries whose steps carry times. Here the steps of a counter are the buckets of an
exponential histogram of its item, whose sizes follow from how much there is behind them in the
whole stream. It serves every window at once, as Arasu and Manku's levels do, without their blocks.

**What is kept.** Queue 0, the tail, has the last R events: (time, item). Queue j >= 1 has at most Q
entries (time, item), each for 2^j events of the item, the time that of the newest. An entry that
arrives at a full queue j pushes its oldest entry out, into waiting room j + 1. If an entry of the
same item waits there, the two leave it as one, with the newer time, for queue j + 1. If none does,
the entry waits. If more than k wait, all k + 1 are dropped, and the time of the newest is noted: a
drop of room j + 1, in which no item has more than 2^j events. An entry whose time is a span old at
the time of the event that comes is none: it leaves a queue to nowhere, nothing is paired with it,
and it is not counted in a room. So the state follows from the events alone, wherever batches end,
and whether what had expired was thrown away before or not.

All queues and rooms take entries in the order of their times, and an item's entries in the order of
the events: those of the tail are newer than the one in room 1, that is newer than those in queue 1,
and so on; between two entries of an item lie none of its events, but for dropped ones.

Bounds, their widths and the space: docs/proofs.md.

**In memory** they are as the names below have it.

Items are codes, 0 to the number of different ones, which feeding.py gives them for one call.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import ClassVar

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks.parameters import SummaryParameters
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.frequent_pairs.marks import marks_room

MARKED = 8
"""One of MARKED drops of a room in a window may be counted twice."""

EXACT = 10
"""A window of EXACT / epsilon events is in the tail, with one event before it."""


@lru_cache(maxsize=256)
def choose(epsilon: float) -> tuple[int, int, int, int]:
    """Return (k, Q, R, how many events of a window one may be counted twice of).

    This is part of the stored format: bytes name epsilon alone.
    """
    waiting = ceil((1 + 1 / MARKED) / epsilon) - 1
    queued = waiting + ceil((waiting + 1) / (1 + 1 / MARKED))
    return waiting, queued, max(2 * queued, ceil(EXACT / epsilon)) + 1, ceil(1 / epsilon)


def promise(waiting: int) -> float:
    """Return epsilon', by which share of the window's events bounds lie apart at most."""
    return (1 + 1 / MARKED) / (waiting + 1)


@dataclass(frozen=True)
class PairedParameters(SummaryParameters):
    """Frequent items of windows of up to `span`, in pairs; the two as for `FrequentParameters`.

    Raises SynopsisError for anything else.
    """

    what: ClassVar[str] = "frequent items"

    @property
    def head(self) -> Integers:
        """The whole numbers that kernels take: the names below."""
        return np.array([self.span, *choose(self.epsilon)], np.int64)

    @property
    def relative_width(self) -> float:
        """The promise, as that of `FrequentParameters`."""
        return promise(choose(self.epsilon)[0])


PAIRED = 28
"""The kind (wire.py)."""

# Places in the array of what a summary was made with.
SPAN, WAITING, QUEUED, TAIL, COUNTED = 0, 1, 2, 3, 4

# Places in the array of a summary's numbers: events so far, time, marks of events.
TOTAL, NOW, MARKS = 0, 1, 2
STATE_SIZE = 3

# Rows of what is known of a level: where its ring of entries begins, and how long that is; where
# the oldest entry is in it, and how many there are; how many places of the waiting room were taken,
# and how many of these still are; drops of the room so far, and how many marks they have.
BEGIN, RING, OLDEST, QUEUE, TAKEN, WAIT, DROPS, DROP_MARKS = 0, 1, 2, 3, 4, 5, 6, 7
LEVEL_SIZE = 8

ITEM, TIME = 0, 1

# levels[l]: the rows above. entries[ITEM or TIME]: the rings of all queues. rooms[l, ITEM or TIME]:
# what waits, in the order it came, with item -1 where something left. places[l, item]: where the
# item waits, or -1. drops[l]: marks of drops. counted: marks of events.
Memory = tuple[Integers, Integers, Integers, Integers, Integers, Integers]


@borrowing_kernel
def levels_needed(head: Integers, events: int) -> int:
    """Return how many levels, the tail included, may be in use when so many events are held."""
    top = 0
    while head[TAIL] + head[QUEUED] * ((2 << top) - 2) < events:
        top += 1
    return top + 1


@kernel
def make_memory(
    head: Integers, depth: int, tail: int, items: int, drops: int, total: int
) -> Memory:
    """Return room for `depth` levels, for at most so many events in the tail, different items,
    drops of a room and events in all.
    """
    levels = np.zeros((depth, LEVEL_SIZE), np.int64)
    levels[0, RING] = min(tail, head[TAIL] + 1)
    end = levels[0, RING]
    for level in range(1, depth):
        levels[level, BEGIN] = end
        levels[level, RING] = head[QUEUED] + 1
        end += head[QUEUED] + 1
    wide = 2 * (head[WAITING] + 1) if depth > 1 else 0
    dropped = marks_room(MARKED, drops) if depth > 1 else 0
    counted = marks_room(head[COUNTED], total) if depth > 1 else 0
    return (
        levels,
        np.empty((2, end), np.int64),
        np.empty((depth, 2, wide), np.int64),
        np.full((depth if depth > 1 else 0, items), -1, np.int64),
        np.empty((depth, 2, dropped), np.int64),
        np.empty((2, counted), np.int64),
    )
