"""Take events in, one by one: entries that are pushed out, wait, leave in pairs, or are dropped.

The different items of one call have numbers: 0, 1, 2, ... in the order they come.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.frequent_pairs import layout
from slidestat.synopses.frequent_pairs.layout import Memory
from slidestat.synopses.frequent_pairs.marks import mark


@borrowing_kernel
def _leave(level: Integers, room: Integers, places: Integers, at: int) -> None:
    """Take out what waits at place `at`."""
    places[room[layout.ITEM, at]] = -1
    room[layout.ITEM, at] = -1
    level[layout.WAIT] -= 1


@borrowing_kernel
def tidy(level: Integers, room: Integers, places: Integers, edge: int) -> None:
    """Close the gaps in a waiting room, and take out what came before `edge`."""
    kept = 0
    for i in range(level[layout.TAKEN]):
        item = room[layout.ITEM, i]
        if item < 0:
            continue
        if room[layout.TIME, i] < edge:
            places[item] = -1
            continue
        room[layout.ITEM, kept] = item
        room[layout.TIME, kept] = room[layout.TIME, i]
        places[item] = kept
        kept += 1
    level[layout.TAKEN] = kept
    level[layout.WAIT] = kept


@borrowing_kernel
def _drop(
    level: Integers, room: Integers, places: Integers, drops: Integers, time: int, edge: int
) -> None:
    """Drop all that wait, and mark that."""
    for i in range(level[layout.TAKEN]):
        if room[layout.ITEM, i] >= 0:
            places[room[layout.ITEM, i]] = -1
    level[layout.TAKEN] = 0
    level[layout.WAIT] = 0
    # Numbers start again where all drops have expired, so that their number need not be kept.
    if level[layout.DROP_MARKS] > 0 and drops[layout.TIME, level[layout.DROP_MARKS] - 1] < edge:
        level[layout.DROP_MARKS] = 0
        level[layout.DROPS] = 0
    level[layout.DROPS] += 1
    number = level[layout.DROPS]
    level[layout.DROP_MARKS] = mark(
        drops, level[layout.DROP_MARKS], number, time, number, layout.MARKED, edge
    )


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
        alive = room[layout.TIME, at] >= edge
        _leave(level, room, places, at)
        if alive:
            return True
    if level[layout.TAKEN] == room.shape[1] or level[layout.WAIT] == most:
        tidy(level, room, places, edge)
    if level[layout.WAIT] == most:
        _drop(level, room, places, drops, time, edge)
        return False
    at = level[layout.TAKEN]
    room[layout.ITEM, at] = item
    room[layout.TIME, at] = time
    places[item] = at
    level[layout.TAKEN] += 1
    level[layout.WAIT] += 1
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
        edge = time + 1 - head[layout.SPAN]
        state[layout.TOTAL] += 1
        state[layout.NOW] = time + 1
        depth = 0
        while True:
            level = levels[depth]
            ring = level[layout.RING]
            at = level[layout.OLDEST] + level[layout.QUEUE]
            at = level[layout.BEGIN] + (at - ring if at >= ring else at)
            most = head[layout.QUEUED] if depth > 0 else head[layout.TAIL]
            entries[layout.ITEM, at] = item
            entries[layout.TIME, at] = time
            level[layout.QUEUE] += 1
            if level[layout.QUEUE] <= most:
                break
            at = level[layout.BEGIN] + level[layout.OLDEST]
            item = entries[layout.ITEM, at]
            time = entries[layout.TIME, at]
            level[layout.OLDEST] = (
                level[layout.OLDEST] + 1 if level[layout.OLDEST] + 1 < ring else 0
            )
            level[layout.QUEUE] -= 1
            if time < edge:
                break
            if depth == 0:
                number = state[layout.TOTAL] - most
                state[layout.MARKS] = mark(
                    counted,
                    state[layout.MARKS],
                    number,
                    time,
                    state[layout.TOTAL],
                    head[layout.COUNTED],
                    edge,
                )
            depth += 1
            if not meet(
                levels[depth],
                rooms[depth],
                places[depth],
                drops[depth],
                head[layout.WAITING],
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
