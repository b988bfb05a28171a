"""Frequent items in pairs as bytes, and back: one encoder, one decoder.

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
before, or now - 1; of the marks of events to that of the tail. Expired entries are not written, nor
are the numbers of marks, which follow (marks.py).
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks.blocks import EVENT_LIMIT
from slidestat.synopses.blocks.columns import column_limit, doubles, get_column, put_column
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.wire import get_varint, put_varint
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
from slidestat.synopses.frequent_pairs.marks import compact, next_mark

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


HELD_LIMIT = 1 << 42
"""Entries stand for fewer events than this: a window has at most 2^40 (layout.py: H <= 2 m)."""

MOST_LEVELS = 44


@kernel
def read_parameters(data: Bytes, start: int, end: int, kind: int) -> tuple[int, int, float, int]:
    """Check the envelope; return (error, its number or the span, epsilon, offset)."""
    error_code, number, at = open_body(data, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0.0, at
    bits = np.empty(1, np.int64)
    at = get_column(data, at, end, bits, True)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0.0, at
    span, at = get_varint(data, at, end)
    if not (1 <= span <= 1 << 53):
        return error_codes.CORRUPTED, 0, 0.0, at
    return error_codes.OK, span, float(doubles(bits)[0]), at


@borrowing_kernel
def read_numbers(data: Bytes, at: int, end: int, state: Integers) -> tuple[int, int]:
    """Fill `state`; return (how many items are held, offset after, or -1)."""
    total, at = get_varint(data, at, end)
    now, at = get_now(data, at, end)
    if at < 0 or not (0 <= total <= EVENT_LIMIT):
        return 0, -1
    number, at = get_varint(data, at, end)
    if number < 0 or number > end - at:
        return 0, -1
    state[TOTAL] = total
    state[NOW] = now
    state[MARKS] = 0
    return number, at


@borrowing_kernel
def _skip(data: Bytes, at: int, end: int, count: int, each: int) -> int:
    """Return the offset after `count` times `each` numbers, or one beyond `end`; the count is any
    that was read, also -1.
    """
    if at > end or count < 0 or count > (end - at) // each:
        return end + 1
    for _ in range(count * each):
        while at < end and data[at] >= 0x80:
            at += 1
        at += 1
    return at


@borrowing_kernel
def measure(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Return (levels or -1, entries of the tail, events held, most drops of a room): O(bytes)."""
    tail, at = get_varint(data, at, end)
    at = _skip(data, at, end, tail, 2)
    if at > end:
        return -1, 0, 0, 0
    depth, at = get_varint(data, at, end)
    if depth < 0 or depth >= MOST_LEVELS:
        return -1, 0, 0, 0
    held = tail
    most = 0
    for level in range(1, depth + 1):
        wait, at = get_varint(data, at, end)
        at = _skip(data, at, end, wait, 2)
        if at > end:
            return -1, 0, 0, 0
        queue, at = get_varint(data, at, end)
        at = _skip(data, at, end, queue, 2)
        # Checked before they are shifted: a number that does not fit would come out as a small one.
        if at > end or wait > HELD_LIMIT >> (level - 1) or queue > HELD_LIMIT >> level:
            return -1, 0, 0, 0
        marks, at = get_varint(data, at, end)
        if marks > 0:
            drops, at = get_varint(data, at, end)
            if not (0 <= drops <= EVENT_LIMIT):
                return -1, 0, 0, 0
            most = max(most, drops)
        at = _skip(data, at, end, marks, 1)
        held += (queue << level) + (wait << (level - 1))
        if at > end or held > HELD_LIMIT:
            return -1, 0, 0, 0
    return depth + 1, tail, held, most


@borrowing_kernel
def _get_time(data: Bytes, at: int, end: int, later: int, edge: int) -> tuple[int, int]:
    """Read a difference; return (the time, the offset after or -1)."""
    number, at = get_varint(data, at, end)
    if number < 0 or number > later - edge:
        return 0, -1
    return later - number, at


@borrowing_kernel
def _get_entries(
    data: Bytes,
    at: int,
    end: int,
    edge: int,
    later: int,
    rows: Integers,
    first: int,
    size: int,
    items: int,
) -> tuple[int, int]:
    """Fill rows[:, first:first + size], the last of them first; return (offset or -1, oldest)."""
    for i in range(first + size - 1, first - 1, -1):
        later, at = _get_time(data, at, end, later, edge)
        if at < 0:
            return -1, 0
        item, at = get_varint(data, at, end)
        if not (0 <= item < items):
            return -1, 0
        rows[ITEM, i] = item
        rows[TIME, i] = later
    return at, later


@borrowing_kernel
def _get_marks(
    data: Bytes,
    at: int,
    end: int,
    edge: int,
    later: int,
    marks: Integers,
    size: int,
    first: int,
    last: int,
    share: int,
) -> int:
    """Fill marks[:, :size], of numbers below `first`; return the offset after, or -1."""
    if not (0 <= size <= marks.shape[1]) or last < 0:
        return -1
    number = first
    for i in range(size - 1, -1, -1):
        later, at = _get_time(data, at, end, later, edge)
        number = next_mark(number, last, share)
        if at < 0 or number == 0:
            return -1
        marks[ITEM, i] = number
        marks[TIME, i] = later
    return at


@borrowing_kernel
def _get_room(
    data: Bytes,
    at: int,
    end: int,
    edge: int,
    later: int,
    most: int,
    level: Integers,
    room: Integers,
    places: Integers,
) -> int:
    """Read what waits in a room; return the offset after, or -1."""
    wait, at = get_varint(data, at, end)
    if not (0 <= wait <= most):
        return -1
    at, _ = _get_entries(data, at, end, edge, later, room, 0, wait, len(places))
    if at < 0:
        return -1
    for i in range(wait):
        if places[room[ITEM, i]] >= 0:
            return -1
        places[room[ITEM, i]] = i
    level[WAIT] = wait
    level[TAKEN] = wait
    return at


@borrowing_kernel
def _get_queue(
    data: Bytes,
    at: int,
    end: int,
    edge: int,
    later: int,
    most: int,
    items: int,
    level: Integers,
    entries: Integers,
) -> tuple[int, int]:
    """Read what is queued; return (the offset after, or -1, and the oldest time)."""
    queue, at = get_varint(data, at, end)
    if not (0 <= queue <= min(most, level[RING])):
        return -1, 0
    level[QUEUE] = queue
    return _get_entries(data, at, end, edge, later, entries, level[BEGIN], queue, items)


@borrowing_kernel
def _are_in_order(uses: Integers, items: Integers) -> bool:
    """Return whether each item is used and the items are in the order of `put_items`."""
    for code in range(len(items)):
        if uses[code] == 0:
            return False
        if code > 0 and len(items) > FEW and uses[code] > uses[code - 1]:
            return False
        alike = len(items) <= FEW or uses[code] == uses[max(code - 1, 0)]
        if code > 0 and alike and items[code] <= items[code - 1]:
            return False
    return True


@kernel
def decode(
    data: Bytes, at: int, end: int, head: Integers, state: Integers, memory: Memory, items: Integers
) -> int:
    """Read what follows the items, of which `items` are those held; return an error code.

    memory has room for what `measure` found, and more items. Cost: O(bytes + items).
    """
    levels, entries, rooms, places, drops, counted = memory
    edge = state[NOW] - head[SPAN]
    number = len(items)
    total = state[TOTAL]
    later = state[NOW] - 1
    at, oldest = _get_queue(data, at, end, edge, later, head[TAIL], number, levels[0], entries)
    if at < 0:
        return error_codes.CORRUPTED
    tail = oldest
    more, at = get_varint(data, at, end)
    if not (0 <= more < len(levels)) or levels[0, QUEUE] > total:
        return error_codes.CORRUPTED
    for depth in range(1, more + 1):
        level = levels[depth]
        later = oldest
        waits = places[depth, :number]
        at = _get_room(data, at, end, edge, later, head[WAITING], level, rooms[depth], waits)
        if at < 0:
            return error_codes.CORRUPTED
        at, oldest = _get_queue(data, at, end, edge, later, head[QUEUED], number, level, entries)
        if at < 0:
            return error_codes.CORRUPTED
        marks, at = get_varint(data, at, end)
        if marks > 0:
            level[DROPS], at = get_varint(data, at, end)
        level[DROP_MARKS] = marks
        last = level[DROPS]
        at = _get_marks(data, at, end, edge, later, drops[depth], marks, last + 1, last, MARKED)
        if at < 0 or (depth == more and level[QUEUE] + level[WAIT] + marks == 0):
            return error_codes.CORRUPTED
    state[MARKS], at = get_varint(data, at, end)
    first = total - levels[0, QUEUE] + 1
    at = _get_marks(data, at, end, edge, tail, counted, state[MARKS], first, total, head[COUNTED])
    uses = np.empty(number, np.int64)
    if at == end:
        count_entries(memory, uses)
    return error_codes.OK if at == end and _are_in_order(uses, items) else error_codes.CORRUPTED
