"""The items of a wave in memory: a queue for each level and one list through all, in flat arrays.

Source: Gibbons and Tirthapura 2002, section 3.2 (figures 3 and 4). Everything here is O(1), but
for `drop_all_dead`, which is O(items dropped).

items[row, slot] holds an item; slots are linked from old to new, of all items and of each level.
An item that expires leaves a trace, the paper's r1 (z1): the newest that was in the wave when its
time ran out. Expiry may be late: an item that was pushed out of its queue after its time had run
out leaves the same trace, so it does not show when dead items are dropped.
"""

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Integers

# Rows of an item: its time; the units (of a position: events) up to its end; how many of them are
# its own (of a position: the distance from the event before); and events of this time (positions).
TIME, THROUGH, VALUE, GROUP = 0, 1, 2, 3
NEWER, OLDER, LEVEL, LEVEL_NEWER = 4, 5, 6, 7
ITEM_ROWS = 8

# Rows of a level.
OLDEST_SLOT, NEWEST_SLOT, HELD = 0, 1, 2
LEVEL_ROWS = 3

TOP = 60
"""The highest level: a window has less than 2^62 units, so what it holds of them are a few items,
and a total may be lowered by multiples of 2^TOP without any item changing its level."""

LEVELS = TOP + 1

_TOP_HOLDS = 8  # no fewer, whatever the error: then the top level drops nothing that is live

# Places in the array of a wave's numbers while it is in memory.
TOTAL, NOW, LOST, LOST_TIME, HEAD, TAIL, SIZE, FRESH, FREE = 0, 1, 2, 3, 4, 5, 6, 7, 8
STATE_SIZE = 9


@kernel
def clear(state: Integers, levels: Integers) -> None:
    """Make the pool empty; the numbers of the wave itself are left alone."""
    state[HEAD] = -1
    state[TAIL] = -1
    state[SIZE] = 0
    state[FRESH] = 0
    state[FREE] = -1
    levels[OLDEST_SLOT, :] = -1
    levels[NEWEST_SLOT, :] = -1
    levels[HELD, :] = 0


@borrowing_kernel
def level_between(before: int, after: int) -> int:
    """Return the largest i <= TOP such that a multiple of 2^i is in (before, after].

    0 <= before < after < 2^63. It is the highest bit that is 0 in `before` and 1 in `after`
    (section 3.3): where the two first differ, from the top.
    """
    bits = after & ~before
    level = 0
    for step in (32, 16, 8, 4, 2, 1):
        if bits >> step:
            bits >>= step
            level += step
    return min(level, TOP)


@borrowing_kernel
def most_items(per_level: int) -> int:
    """Return how many items a wave can have, whatever its events."""
    return TOP * per_level + max(per_level, _TOP_HOLDS)


@borrowing_kernel
def _lose(state: Integers, items: Integers, slot: int) -> None:
    if items[THROUGH, slot] > state[LOST]:
        state[LOST] = items[THROUGH, slot]
        state[LOST_TIME] = items[TIME, slot]


@borrowing_kernel
def _remove(state: Integers, items: Integers, levels: Integers, slot: int) -> None:
    """Unlink an item that is the oldest of its level."""
    older = items[OLDER, slot]
    newer = items[NEWER, slot]
    if older < 0:
        state[HEAD] = newer
    else:
        items[NEWER, older] = newer
    if newer < 0:
        state[TAIL] = older
    else:
        items[OLDER, newer] = older
    level = items[LEVEL, slot]
    levels[OLDEST_SLOT, level] = items[LEVEL_NEWER, slot]
    if items[LEVEL_NEWER, slot] < 0:
        levels[NEWEST_SLOT, level] = -1
    levels[HELD, level] -= 1
    state[SIZE] -= 1
    items[NEWER, slot] = state[FREE]
    state[FREE] = slot


@borrowing_kernel
def is_full(levels: Integers, level: int, per_level: int) -> bool:
    """Return whether the queue of `level` has no place left."""
    return bool(levels[HELD, level] >= (max(per_level, _TOP_HOLDS) if level == TOP else per_level))


@borrowing_kernel
def append(
    state: Integers, items: Integers, levels: Integers, per_level: int, level: int, oldest: int
) -> int:
    """Make room in `level`, add an item as the newest, and return its slot, to be filled.

    The oldest of a full queue is dropped; it leaves its trace if its time is before `oldest`.
    """
    if is_full(levels, level, per_level):
        slot = levels[OLDEST_SLOT, level]
        if items[TIME, slot] < oldest:
            _lose(state, items, slot)
        _remove(state, items, levels, slot)
    slot = state[FREE]
    if slot >= 0:
        state[FREE] = items[NEWER, slot]
    else:
        slot = state[FRESH]
        state[FRESH] += 1
    tail = state[TAIL]
    items[OLDER, slot] = tail
    items[NEWER, slot] = -1
    if tail < 0:
        state[HEAD] = slot
    else:
        items[NEWER, tail] = slot
    state[TAIL] = slot
    items[LEVEL, slot] = level
    items[LEVEL_NEWER, slot] = -1
    newest = levels[NEWEST_SLOT, level]
    if newest < 0:
        levels[OLDEST_SLOT, level] = slot
    else:
        items[LEVEL_NEWER, newest] = slot
    levels[NEWEST_SLOT, level] = slot
    levels[HELD, level] += 1
    state[SIZE] += 1
    return int(slot)


@borrowing_kernel
def drop_dead(
    state: Integers, items: Integers, levels: Integers, oldest: int, at_most: int
) -> None:
    """Drop up to `at_most` items, oldest first, whose time is before `oldest`."""
    while at_most > 0 and state[HEAD] >= 0 and items[TIME, state[HEAD]] < oldest:
        _lose(state, items, state[HEAD])
        _remove(state, items, levels, state[HEAD])
        at_most -= 1


@borrowing_kernel
def drop_all_dead(state: Integers, items: Integers, levels: Integers, oldest: int) -> None:
    """Drop all items whose time is before `oldest`."""
    drop_dead(state, items, levels, oldest, state[SIZE])


@borrowing_kernel
def lower(state: Integers, items: Integers, by: int) -> None:
    """Lower the total, and all that is counted with it, by a multiple of 2^TOP, at most LOST."""
    state[TOTAL] -= by
    state[LOST] -= by
    slot = state[HEAD]
    while slot >= 0:
        items[THROUGH, slot] -= by
        slot = items[NEWER, slot]
