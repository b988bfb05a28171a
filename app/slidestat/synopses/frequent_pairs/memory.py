"""Frequent items in pairs while they are in memory: what a kernel finds where.

Items are codes, 0 to the number of different ones, which codes.py gives them for one call.
"""

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.frequent_pairs.layout import MARKED
from slidestat.synopses.frequent_pairs.marks import marks_room
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel

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
