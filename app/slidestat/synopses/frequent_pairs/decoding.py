"""Frequent items in pairs, read from bytes: encoding.py says what they are."""

import numpy as np

from slidestat.synopses.blocks.blocks import EVENT_LIMIT
from slidestat.synopses.blocks.columns import doubles, get_column
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.keyed import get_now, open_body
from slidestat.synopses.core.wire import get_varint
from slidestat.synopses.frequent_pairs.encoding import FEW, count_entries
from slidestat.synopses.frequent_pairs.layout import (
    BEGIN,
    COUNTED,
    DROP_MARKS,
    DROPS,
    ITEM,
    MARKED,
    MARKS,
    NOW,
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
from slidestat.synopses.frequent_pairs.marks import next_mark
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel

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
    """Return (levels, entries of the tail, events held, most drops of a room), or -1 for levels.

    Cost: O(bytes).
    """
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
        # Before they are shifted: what does not fit would come out as something small.
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
