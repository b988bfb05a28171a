"""Frequent items in pairs as bytes, and back: this is the encoder (decoding.py).

The body (envelope and numbers: wire.py; columns: columns.py) is, in this order:

    epsilon, span                        a column of one value; a number
    total
    now, zigzag coded                    last event time + 1, or what it was advanced to
    how many different items are held
    these items                          a column: rising, or if they are more than FEW, those with
                                         the most entries first, of equals the least
    how many entries the tail has        and these, newest to oldest
    how many levels follow               the last of them has something
    for each of them
        how many entries wait            and these, newest to oldest
        how many are queued              and these, newest to oldest
        how many marks drops have        and if there is one, how many drops there were; then the
                                         times of the marks, newest to oldest
    how many marks events have           and their times, newest to oldest

An entry is its time, and which of the items it is of. A time is the difference to the later one
before it; the first one of a waiting room, of a queue and of marks to the oldest time of the queue
before, or now - 1; of the marks of events to that of the tail. What has expired is not written, nor
are the numbers of marks, which follow (marks.py).
"""

import numpy as np

from slidestat.synopses.blocks.columns import column_limit, put_column
from slidestat.synopses.core import wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.keyed import open_envelope, seal
from slidestat.synopses.core.wire import put_varint
from slidestat.synopses.frequent_pairs.feeding import tidy
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
    PAIRED,
    QUEUE,
    RING,
    SPAN,
    TIME,
    TOTAL,
    WAIT,
    Memory,
)
from slidestat.synopses.frequent_pairs.marks import compact
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel

FEW = 128
"""Which of so few items an entry is of takes a byte in any order."""

_PARAMETERS_LIMIT = 10 + wire.MAX_VARINT


@kernel
def put_parameters(epsilon: float, span: int) -> Bytes:
    """Return the bytes of the parameters, which are those before `total`."""
    data = np.empty(_PARAMETERS_LIMIT, np.uint8)
    share = np.array([epsilon])
    at = put_column(data, 0, share.view(np.int64), True)  # positive: its bits are in order
    at = put_varint(data, at, span)
    return data[:at]


@borrowing_kernel
def settle(head: Integers, state: Integers, memory: Memory) -> int:
    """Drop what has expired; return how many entries and marks there are."""
    levels, entries, rooms, places, drops, counted = memory
    edge = state[NOW] - head[SPAN]
    size = 0
    for depth in range(len(levels)):
        level = levels[depth]
        while level[QUEUE] > 0 and entries[TIME, level[BEGIN] + level[OLDEST]] < edge:
            level[OLDEST] = level[OLDEST] + 1 if level[OLDEST] + 1 < level[RING] else 0
            level[QUEUE] -= 1
        if depth > 0:
            tidy(level, rooms[depth], places[depth], edge)
            level[DROP_MARKS] = compact(drops[depth], level[DROP_MARKS], level[DROPS], MARKED, edge)
            if level[DROP_MARKS] == 0:
                level[DROPS] = 0
        size += level[QUEUE] + level[WAIT] + level[DROP_MARKS]
    if len(levels) > 1:
        state[MARKS] = compact(counted, state[MARKS], state[TOTAL], head[COUNTED], edge)
    return int(size + state[MARKS])


@borrowing_kernel
def encoded_limit(size: int, depth: int, items: int) -> int:
    """Return how many bytes a state of `size` entries and marks takes at most."""
    numbers = 2 * size + 4 * depth + 8
    return int(wire.BODY + _PARAMETERS_LIMIT + wire.MAX_VARINT * numbers + column_limit(items))


@borrowing_kernel
def count_entries(memory: Memory, uses: Integers) -> None:
    """Count the entries of each item."""
    levels, entries, rooms, _, _, _ = memory
    uses[:] = 0
    for depth in range(len(levels)):
        level = levels[depth]
        for i in range(level[WAIT]):
            uses[rooms[depth, ITEM, i]] += 1
        for i in range(level[QUEUE]):
            at = level[OLDEST] + i
            uses[entries[ITEM, level[BEGIN] + (at - level[RING] if at >= level[RING] else at)]] += 1


@borrowing_kernel
def _sort_few(order: Integers, items: Integers) -> None:
    """Sort places by their items; what was held is in order already, and only new ones move."""
    for i in range(1, len(order)):
        code = order[i]
        at = i
        while at > 0 and items[order[at - 1]] > items[code]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = code


@kernel
def put_items(
    data: Bytes, at: int, memory: Memory, items: Integers
) -> tuple[int, Integers, Integers]:
    """Write the items that are held; return (offset after, they, which one each code is)."""
    uses = np.empty(len(items), np.int64)
    count_entries(memory, uses)
    places = np.empty(len(items), np.int64)
    number = 0
    for code in range(len(items)):
        if uses[code] > 0:
            places[number] = code
            number += 1
    order = places[:number]
    if number <= FEW:
        _sort_few(order, items)
    else:
        order = order[np.argsort(items[order])]
        order = order[np.argsort(-uses[order], kind="mergesort")]
    held = np.empty(number, np.int64)
    for i in range(number):
        held[i] = items[order[i]]
        uses[order[i]] = i
    at = put_varint(data, at, number)
    return put_column(data, at, held, False), held, uses


@borrowing_kernel
def _put_marks(data: Bytes, at: int, marks: Integers, size: int, later: int) -> int:
    """Write the times of marks[:, :size], newest to oldest; return the offset after."""
    for i in range(size - 1, -1, -1):
        at = put_varint(data, at, later - marks[TIME, i])
        later = marks[TIME, i]
    return at


@borrowing_kernel
def _put_level(
    data: Bytes, at: int, depth: int, later: int, memory: Memory, ranks: Integers
) -> tuple[int, int]:
    """Write a level, whose times are `later` at most; return (offset after, its oldest queued)."""
    levels, entries, rooms, _, drops, _ = memory
    level = levels[depth]
    if depth > 0:
        at = put_varint(data, at, level[WAIT])
        before = later
        for i in range(level[WAIT] - 1, -1, -1):
            at = put_varint(data, at, before - rooms[depth, TIME, i])
            at = put_varint(data, at, ranks[rooms[depth, ITEM, i]])
            before = rooms[depth, TIME, i]
    at = put_varint(data, at, level[QUEUE])
    oldest = later
    for i in range(level[QUEUE] - 1, -1, -1):
        place = level[OLDEST] + i
        place = level[BEGIN] + (place - level[RING] if place >= level[RING] else place)
        at = put_varint(data, at, oldest - entries[TIME, place])
        at = put_varint(data, at, ranks[entries[ITEM, place]])
        oldest = entries[TIME, place]
    if depth > 0:
        at = put_varint(data, at, level[DROP_MARKS])
        if level[DROP_MARKS] > 0:
            at = put_varint(data, at, level[DROPS])
            at = _put_marks(data, at, drops[depth], level[DROP_MARKS], later)
    return at, oldest


@kernel
def encode(
    data: Bytes, start: int, made_with: Bytes, state: Integers, memory: Memory, items: Integers
) -> tuple[int, Integers]:
    """Write a settled state at `start`; return (the offset after it, the items held).

    data has `encoded_limit` bytes from `start`. Cost: O(bytes written + items * log).
    """
    levels = memory[0]
    at = open_envelope(data, start, PAIRED)
    data[at : at + len(made_with)] = made_with
    at += len(made_with)
    at = put_varint(data, at, state[TOTAL])
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at, held, ranks = put_items(data, at, memory, items)
    depth = len(levels) - 1
    while depth > 0 and levels[depth, QUEUE] + levels[depth, WAIT] + levels[depth, DROP_MARKS] == 0:
        depth -= 1
    at, tail = _put_level(data, at, 0, state[NOW] - 1, memory, ranks)
    at = put_varint(data, at, depth)
    later = tail
    for i in range(1, depth + 1):
        at, later = _put_level(data, at, i, later, memory, ranks)
    at = put_varint(data, at, state[MARKS])
    at = _put_marks(data, at, memory[5], state[MARKS], tail)
    seal(data, start, at)
    return at, held
