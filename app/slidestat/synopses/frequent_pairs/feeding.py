"""Take events in, one by one: entries that are pushed out, wait, leave in pairs, or are dropped.

The different items of one call have numbers: 0, 1, 2, ... in the order they come.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.frequent_pairs.layout import (
    BEGIN,
    COUNTED,
    DROP_MARKS,
    DROPS,
    ITEM,
    MARKED,
    MARKS,
    NOW,
    OLDEST,
    QUEUE,
    QUEUED,
    RING,
    SPAN,
    TAIL,
    TAKEN,
    TIME,
    TOTAL,
    WAIT,
    WAITING,
    Memory,
)
from slidestat.synopses.frequent_pairs.marks import mark


@borrowing_kernel
def _leave(level: Integers, room: Integers, places: Integers, at: int) -> None:
    """Take out what waits at place `at`."""
    places[room[ITEM, at]] = -1
    room[ITEM, at] = -1
    level[WAIT] -= 1


@borrowing_kernel
def tidy(level: Integers, room: Integers, places: Integers, edge: int) -> None:
    """Close the gaps in a waiting room, and take out what came before `edge`."""
    kept = 0
    for i in range(level[TAKEN]):
        item = room[ITEM, i]
        if item < 0:
            continue
        if room[TIME, i] < edge:
            places[item] = -1
            continue
        room[ITEM, kept] = item
        room[TIME, kept] = room[TIME, i]
        places[item] = kept
        kept += 1
    level[TAKEN] = kept
    level[WAIT] = kept


@borrowing_kernel
def _drop(
    level: Integers, room: Integers, places: Integers, drops: Integers, time: int, edge: int
) -> None:
    """Drop all that wait, and mark that."""
    for i in range(level[TAKEN]):
        if room[ITEM, i] >= 0:
            places[room[ITEM, i]] = -1
    level[TAKEN] = 0
    level[WAIT] = 0
    # Numbers start again where all drops have expired, so that their number need not be kept.
    if level[DROP_MARKS] > 0 and drops[TIME, level[DROP_MARKS] - 1] < edge:
        level[DROP_MARKS] = 0
        level[DROPS] = 0
    level[DROPS] += 1
    number = level[DROPS]
    level[DROP_MARKS] = mark(drops, level[DROP_MARKS], number, time, number, MARKED, edge)


@borrowing_kernel
def meet(
    level: Integers,
    room: Integers,
    places: Integers,
    drops: Integers,
    most: int,
    item: int,
    time: int,
    edge: int,
) -> bool:
    """Put an entry into a waiting room; return whether it leaves it in a pair."""
    at = places[item]
    if at >= 0:
        alive = room[TIME, at] >= edge
        _leave(level, room, places, at)
        if alive:
            return True
    if level[TAKEN] == room.shape[1] or level[WAIT] == most:
        tidy(level, room, places, edge)
    if level[WAIT] == most:
        _drop(level, room, places, drops, time, edge)
        return False
    at = level[TAKEN]
    room[ITEM, at] = item
    room[TIME, at] = time
    places[item] = at
    level[TAKEN] += 1
    level[WAIT] += 1
    return False


@borrowing_kernel
def take(
    head: Integers,
    state: Integers,
    memory: Memory,
    codes: Integers,
    times: Integers,
    event: int,
    to: int,
) -> None:
    """Take in events[event:to], with their times. Cost: O(1) amortised each."""
    levels, entries, rooms, places, drops, counted = memory
    for i in range(event, to):
        item = codes[i]
        time = times[i]
        edge = time + 1 - head[SPAN]
        state[TOTAL] += 1
        state[NOW] = time + 1
        depth = 0
        while True:
            level = levels[depth]
            ring = level[RING]
            at = level[OLDEST] + level[QUEUE]
            at = level[BEGIN] + (at - ring if at >= ring else at)
            most = head[QUEUED] if depth > 0 else head[TAIL]
            entries[ITEM, at] = item
            entries[TIME, at] = time
            level[QUEUE] += 1
            if level[QUEUE] <= most:
                break
            at = level[BEGIN] + level[OLDEST]
            item = entries[ITEM, at]
            time = entries[TIME, at]
            level[OLDEST] = level[OLDEST] + 1 if level[OLDEST] + 1 < ring else 0
            level[QUEUE] -= 1
            if time < edge:
                break
            if depth == 0:
                number = state[TOTAL] - most
                state[MARKS] = mark(
                    counted, state[MARKS], number, time, state[TOTAL], head[COUNTED], edge
                )
            depth += 1
            if not meet(
                levels[depth],
                rooms[depth],
                places[depth],
                drops[depth],
                head[WAITING],
                item,
                time,
                edge,
            ):
                break


@kernel
def make_table(most: int) -> Integers:
    """Return a table that has room for `most` items."""
    size = 8
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int64)


@borrowing_kernel
def code_of(table: Integers, items: Integers, count: int, item: int) -> int:
    """Return the place of `item` in items[:count], or `count`, where it is put then."""
    last = len(table) - 1
    mixed = item ^ ((item >> 32) & 0xFFFFFFFF)
    mixed = (mixed ^ (mixed << 7) ^ ((mixed >> 15) & 0xFFFF)) & 0x7FFFFFFF
    at = ((mixed * 2_654_435_769) >> 15) & last
    while table[at] >= 0 and items[table[at]] != item:
        at = (at + 1) & last
    if table[at] < 0:
        table[at] = count
        items[count] = item
    return int(table[at])
