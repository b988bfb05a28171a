"""Counts of a window: bounds of each item that is held, and of any other (layout.py)."""

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.frequent.frequent_answer import PARTS, with_columns
from slidestat.synopses.frequent_pairs.layout import MARKED
from slidestat.synopses.frequent_pairs.marks import since
from slidestat.synopses.frequent_pairs.memory import (
    BEGIN,
    COUNTED,
    DROP_MARKS,
    DROPS,
    ITEM,
    MARKS,
    OLDEST,
    QUEUE,
    RING,
    TAIL,
    TAKEN,
    TIME,
    TOTAL,
    Memory,
)
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel


@borrowing_kernel
def tally(
    levels: Integers, entries: Integers, rooms: Integers, start: int, counts: Integers
) -> None:
    """Add up the entries of each item with times from `start` on: counts[0], and the events of the
    oldest of them: counts[1]. Cost: O(entries).
    """
    counts[:] = 0
    for depth in range(len(levels)):
        level = levels[depth]
        for i in range(level[TAKEN]):
            item = rooms[depth, ITEM, i]
            if item >= 0 and rooms[depth, TIME, i] >= start:
                counts[0, item] += 1 << (depth - 1)
                counts[1, item] = 1 << (depth - 1)
        for i in range(level[QUEUE] - 1, -1, -1):
            at = level[OLDEST] + i
            at = level[BEGIN] + (at - level[RING] if at >= level[RING] else at)
            if entries[TIME, at] < start:
                return  # all that follow are older
            item = entries[ITEM, at]
            counts[0, item] += 1 << depth
            counts[1, item] = 1 << depth


@borrowing_kernel
def count_window(head: Integers, state: Integers, memory: Memory, start: int) -> tuple[int, int]:
    """Return the fewest and the most events that came from `start` on. Cost: O(tail)."""
    levels, entries, _, _, _, counted = memory
    level = levels[0]
    size = level[QUEUE]
    for i in range(size - 1, -1, -1):
        at = level[OLDEST] + i
        if entries[TIME, at - level[RING] if at >= level[RING] else at] < start:
            return int(size - 1 - i), int(size - 1 - i)
    if size < head[TAIL]:  # all before has expired
        return int(size), int(size)
    total = state[TOTAL]
    return since(counted, state[MARKS], total, head[COUNTED], start, total - size + 1)


@borrowing_kernel
def count_dropped(levels: Integers, drops: Integers, start: int) -> int:
    """Return how many events an item may have lost at most in drops from `start` on."""
    lost = 0
    for depth in range(1, len(levels)):
        last = levels[depth, DROPS]
        _, most = since(drops[depth], levels[depth, DROP_MARKS], last, MARKED, start, last + 1)
        lost += most << (depth - 1)
    return int(lost)


@kernel
def list_pairs(
    head: Integers,
    state: Integers,
    memory: Memory,
    items: Integers,
    start: int,
    part: int,
    instead: int,
    facts: Integers,
    counts: Integers,
    lists: Integers,
    listed: int,
) -> tuple[Integers, int]:
    """Append the items that may have part/PARTS of the window from `start` on to `lists`, rising.

    As `list_items` of frequent_answer.py does. items[code] is the item of a code; counts:
    int64[2, codes] to work in. Cost: O(entries + items listed * log).
    """
    levels, entries, rooms, _, drops, _ = memory
    tally(levels, entries, rooms, start, counts)
    fewest, most = count_window(head, state, memory, start)
    dropped = count_dropped(levels, drops, start)
    size = counts.shape[1]
    found = np.empty(size, np.int64)
    number = 0
    held = 0
    are_exact = dropped == 0
    for code in range(size):
        held += counts[0, code] > 0
        are_exact = are_exact and counts[1, code] <= 1
        if counts[0, code] > 0 and min(counts[0, code] + dropped, most) * PARTS >= part * fewest:
            found[number] = code
            number += 1
    chosen = found[:number]
    if number == 0 and are_exact and instead > 0:
        # Of equals, those of the least numbers.
        order = np.argsort(items[:size])
        order = order[np.argsort(-counts[0][order], kind="mergesort")]
        chosen = order[: min(instead, held)]
    else:
        chosen = chosen[np.argsort(items[:size][chosen])]
    lists = with_columns(lists, listed, len(chosen))
    for code in chosen:
        lists[0, listed] = items[code]
        lists[1, listed] = counts[0, code] - counts[1, code] + 1
        lists[2, listed] = min(counts[0, code] + dropped, most)
        listed += 1
    facts[0] = min(dropped, most)
    facts[1] = fewest
    facts[2] = most
    return lists, listed
