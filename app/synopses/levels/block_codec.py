"""A summary of blocks as bytes, and back: one encoder, one decoder.

The body (envelope and numbers: see wire.py; columns: columns.py) is, in this order:

    epsilon                                    a column of one value; of two, with delta, and then
                                               the seed, for a randomised summary
    span, total
    now, zigzag coded                          last event time + 1, or what it was advanced to
    dead + 1                                   see blocks.py; 0 while nothing has expired
    times of the tail, newest to oldest        each as the difference to the later one, from now - 1
    times of the blocks, layer by layer        of the one that waits, its last one and its first,
                                               then of the kept ones, newest to oldest, the first:
                                               each as the difference to the later one, from now - 1
    of frequent items, for each block          how many items, shortfall, and `missed` if it is kept
    values or items of the tail, oldest first  \
    and of the blocks, in the same order       / one column: of a block of values, them and the
                                               maximum, and before them the minimum if it is not one
    of frequent items, for each block          the counts

A block with an expired event has its minimum and maximum for values, no items, no first time. Which
blocks there are, and how many values each has, follows from total and dead (blocks.py), so none of
it is stored, and the bytes are known to be long enough before any room is made for them.
"""

import numpy as np

from app.synopses import faults, wire
from app.synopses.compile import kernel
from app.synopses.histogram_codec import TIME_MIN
from app.synopses.levels.blocks import (
    BASE,
    EVENT_LIMIT,
    LIVE_LIMIT,
    bit_length,
    left_tail,
    oldest_kept,
    phase,
)
from app.synopses.levels.columns import (
    Floats,
    Integers,
    column_limit,
    doubles,
    get_column,
    put_column,
)
from app.synopses.levels.frequent_layout import threshold
from app.synopses.levels.memory import (
    DEAD,
    FINENESS,
    FREQUENT,
    GONE,
    HIGH,
    KIND,
    LAST,
    LEVELS,
    LISTED,
    LOW,
    MISSED,
    NOW,
    RANDOM_QUANTILES,
    SEED,
    SHORT,
    SPAN,
    TAIL,
    TIME,
    TOTAL,
    Blocks,
    fresh_room,
    kept_facts,
    kept_room,
    kept_rows,
    waiting_rows,
)
from app.synopses.values.keyed import get_now, open_body, open_envelope, seal
from app.synopses.wire import Bytes, get_varint, put_varint

# Places in a row of the list of blocks.
LAYER, BLOCK, PHASE, WHOLE = 0, 1, 2, 3
WAITS = -1
"""The phase of a block that waits."""

_HEAD_LIMIT = wire.BODY + 2 * 9 + 5 * wire.MAX_VARINT
"""Envelope, parameters and four numbers take at most so many bytes."""


@kernel
def _count_blocks(head: Integers, left: int, dead: int) -> int:
    count = 0
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            count += 1
        newest = (complete - 2) | 1
        count += max(0, (newest - oldest_kept(left, layer, dead, head[LEVELS]) + 2) >> 1)
    return count


@kernel
def list_blocks(head: Integers, total: int, dead: int) -> Integers:
    """Return (layer, block, phase or WAITS, whether nothing of it has expired) of all blocks.

    They come in the order of the bytes: layer by layer, newest to oldest. Cost: O(blocks).
    """
    left = left_tail(total, head[LEVELS])
    rows = np.empty((_count_blocks(head, left, dead), 4), np.int64)
    at = 0
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            rows[at, LAYER] = layer
            rows[at, BLOCK] = complete - 1
            rows[at, PHASE] = WAITS
            rows[at, WHOLE] = (complete - 1) << layer > dead
            at += 1
        oldest = oldest_kept(left, layer, dead, head[LEVELS])
        for block in range((complete - 2) | 1, oldest - 1, -2):
            rows[at, LAYER] = layer
            rows[at, BLOCK] = block
            rows[at, PHASE] = phase(complete - block)
            rows[at, WHOLE] = block << layer > dead
            at += 1
    return rows


@kernel
def _facts(head: Integers, blocks: Blocks, row: Integers) -> Integers:
    if row[PHASE] == WAITS:
        waiting: Integers = blocks[1][row[LAYER]]
        return waiting
    return kept_facts(head, blocks, row[LAYER], row[BLOCK])


@kernel
def _rows(head: Integers, blocks: Blocks, row: Integers) -> Integers:
    if row[PHASE] == WAITS:
        return waiting_rows(head, blocks, row[LAYER])
    return kept_rows(head, blocks, row[LAYER], row[BLOCK], row[PHASE])


@kernel
def _room(head: Integers, row: Integers) -> int:
    if row[PHASE] == WAITS:
        return fresh_room(head, row[LAYER])
    return kept_room(head, row[LAYER], row[PHASE])


@kernel
def _has_minimum(head: Integers, row: Integers) -> bool:
    """Whether a block of values has its minimum apart: the first of its values is not kept then."""
    return bool(row[WHOLE] == 0 or head[KIND] == RANDOM_QUANTILES)


@kernel
def values_size(head: Integers, listed: Integers, tail: int) -> int:
    """Return how many values the tail and the listed blocks of a quantile summary have."""
    size = tail
    for row in listed:
        size += (_room(head, row) if row[WHOLE] else 0) + 1 + _has_minimum(head, row)
    return int(size)


@kernel
def column_size(head: Integers, listed: Integers, blocks: Blocks, tail: int) -> int:
    """Return how many numbers the column has: of the tail's events and of the listed blocks."""
    if head[KIND] != FREQUENT:
        return values_size(head, listed, tail)
    size = tail
    for row in listed:
        size += _facts(head, blocks, row)[LISTED] if row[WHOLE] else 0
    return int(size)


@kernel
def _gather(head: Integers, listed: Integers, blocks: Blocks, column: Integers, at: int) -> None:
    """Copy what stands for the blocks to `column`, from `at` on."""
    for row in listed:
        facts = _facts(head, blocks, row)
        if head[KIND] != FREQUENT and _has_minimum(head, row):
            column[at] = facts[LOW]
            at += 1
        if row[WHOLE]:
            size = facts[LISTED]
            column[at : at + size] = _rows(head, blocks, row)[0, :size]
            at += size
        if head[KIND] != FREQUENT:
            column[at] = facts[HIGH]
            at += 1


@kernel
def _scatter(head: Integers, listed: Integers, blocks: Blocks, column: Integers, at: int) -> bool:
    """Undo `_gather`; return whether each block's numbers are in order."""
    for row in listed:
        facts = _facts(head, blocks, row)
        first = at
        if head[KIND] == FREQUENT:
            if row[WHOLE]:
                size = facts[LISTED]
                _rows(head, blocks, row)[0, :size] = column[at : at + size]
                at += size
                for i in range(first + 1, at):
                    if column[i - 1] >= column[i]:
                        return False
            continue
        at += _has_minimum(head, row)
        if row[WHOLE]:
            size = _room(head, row)
            facts[LISTED] = size
            _rows(head, blocks, row)[0, :size] = column[at : at + size]
            at += size
        at += 1
        facts[LOW] = column[first]
        facts[HIGH] = column[at - 1]
        for i in range(first + 1, at):
            if column[i - 1] > column[i]:
                return False
    return True


@kernel
def encoded_limit(head: Integers, tail: int, listed: Integers, size: int) -> int:
    """Return how many bytes a state takes at most, with `size` numbers in its column."""
    counts = size - tail + 3 * len(listed) if head[KIND] == FREQUENT else 0
    numbers = tail + 2 * len(listed) + counts
    return int(_HEAD_LIMIT + wire.MAX_VARINT * numbers + column_limit(size))


@kernel
def encode(
    data: Bytes,
    start: int,
    head: Integers,
    shares: Floats,
    state: Integers,
    times: Integers,
    column: Integers,
    listed: Integers,
    blocks: Blocks,
    begin: int,
) -> int:
    """Write a settled summary, its tail from event `begin` on, at `start`; return the offset after.

    data has `encoded_limit` bytes from `start`. column has room for `column_size` numbers, and
    begins with those of the tail. Cost: O(bytes written).
    """
    now = state[NOW]
    tail = state[TOTAL] - begin
    at = open_envelope(data, start, head[KIND])
    at = put_column(data, at, shares.view(np.int64), True)  # positive: their bits are in order
    if head[KIND] == RANDOM_QUANTILES:
        at = put_varint(data, at, head[SEED])
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, state[TOTAL])
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, state[DEAD] + 1)
    later = now - 1
    for index in range(state[TOTAL] - 1 - state[TAIL], begin - 1 - state[TAIL], -1):
        at = put_varint(data, at, later - times[index])
        later = times[index]
    layer = -1
    for row in listed:
        facts = _facts(head, blocks, row)
        if row[LAYER] != layer:
            layer = row[LAYER]
            later = now - 1
        if row[PHASE] == WAITS:
            at = put_varint(data, at, later - facts[LAST])
            later = facts[LAST]
        if row[WHOLE]:
            at = put_varint(data, at, later - facts[TIME])
            later = facts[TIME]
    if head[KIND] == FREQUENT:
        for row in listed:
            if row[WHOLE]:
                facts = _facts(head, blocks, row)
                at = put_varint(data, at, facts[LISTED])
                at = put_varint(data, at, facts[SHORT])
                if row[PHASE] != WAITS:
                    at = put_varint(data, at, facts[MISSED])
    _gather(head, listed, blocks, column, tail)
    at = put_column(data, at, column, head[KIND] != FREQUENT)
    if head[KIND] == FREQUENT:
        for row in listed:
            if row[WHOLE]:
                counts = _rows(head, blocks, row)[1]
                for i in range(_facts(head, blocks, row)[LISTED]):
                    at = put_varint(data, at, counts[i])
    seal(data, start, at)
    return at


@kernel
def read_parameters(
    data: Bytes, start: int, end: int, kind: int, shares: Floats
) -> tuple[int, int, int, int]:
    """Check the envelope, fill `shares`; return (fault, its number, seed, offset after)."""
    fault, number, at = open_body(data, start, end, kind, kind)
    if fault != faults.OK:
        return fault, number, 0, at
    bits = np.empty(len(shares), np.int64)
    at = get_column(data, at, end, bits, True)
    if at < 0:
        return faults.CORRUPTED, 0, 0, at
    shares[:] = doubles(bits)
    seed = 0
    if kind == RANDOM_QUANTILES:
        seed, at = get_varint(data, at, end)
        if seed < 0:
            return faults.CORRUPTED, 0, 0, at
    return faults.OK, 0, seed, at


@kernel
def read_numbers(
    data: Bytes, at: int, end: int, head: Integers, state: Integers
) -> tuple[int, int, int]:
    """Fill `state`; return (fault, span, offset after).

    The layout in `head` is that of the parameters in the bytes. Once this is well, the bytes are
    long enough for as many blocks as there must be. Cost: O(layers).
    """
    span, at = get_varint(data, at, end)
    total, at = get_varint(data, at, end)
    now, at = get_now(data, at, end)
    if at < 0:
        return faults.CORRUPTED, 0, at
    dead, at = get_varint(data, at, end)
    dead -= 1
    if not (1 <= span <= 1 << 53) or not (0 <= total <= EVENT_LIMIT) or not (-1 <= dead < total):
        return faults.CORRUPTED, 0, at
    left = left_tail(total, head[LEVELS])
    begin = max(left, dead + 1)
    if total - 1 - dead > LIVE_LIMIT:
        return faults.CORRUPTED, 0, at
    # In each layer, one block at most has expired in part, and may take no byte.
    blocks = _count_blocks(head, left, dead) - bit_length(left)
    if end - at < 2 * (total - begin) + blocks:
        return faults.CORRUPTED, 0, at
    state[TOTAL] = total
    state[NOW] = now
    state[DEAD] = dead
    state[TAIL] = begin
    return faults.OK, span, at


@kernel
def _get_time(data: Bytes, at: int, end: int, later: int, edge: int) -> tuple[int, int]:
    """Read a difference; return (the time, the offset after), or (GONE, at) if before `edge`."""
    number, after = get_varint(data, at, end)
    if number < 0 or number > later - edge:
        return GONE, at
    return later - number, after


@kernel
def _get_times(
    data: Bytes,
    at: int,
    end: int,
    head: Integers,
    state: Integers,
    times: Integers,
    listed: Integers,
    blocks: Blocks,
) -> int:
    edge = max(state[NOW] - head[SPAN], TIME_MIN)
    later = state[NOW] - 1
    for index in range(state[TOTAL] - 1 - state[TAIL], -1, -1):
        later, at = _get_time(data, at, end, later, edge)
        if later == GONE:
            return -1
        times[index] = later
    layer = -1
    for row in listed:
        facts = _facts(head, blocks, row)
        facts[TIME] = GONE
        if row[LAYER] != layer:
            layer = row[LAYER]
            later = state[NOW] - 1
        if row[PHASE] == WAITS:
            later, at = _get_time(data, at, end, later, edge)
            facts[LAST] = later
        if row[WHOLE] and later != GONE:
            later, at = _get_time(data, at, end, later, edge)
            facts[TIME] = later
        if later == GONE:
            return -1
    return at


@kernel
def _get_facts(
    data: Bytes, at: int, end: int, head: Integers, listed: Integers, blocks: Blocks
) -> int:
    """Read how many items each block has, its shortfall, and what was left out."""
    for row in listed:
        if row[WHOLE]:
            facts = _facts(head, blocks, row)
            events = 1 << row[LAYER]
            size, at = get_varint(data, at, end)
            short, at = get_varint(data, at, end)
            missed = 0
            above = 0
            if row[PHASE] != WAITS:
                missed, at = get_varint(data, at, end)
                above = threshold(row[LAYER], row[PHASE], head[FINENESS])
            if not (0 <= size <= _room(head, row)):
                return -1
            if not (0 <= short <= events and 0 <= missed <= above):
                return -1
            facts[LISTED] = size
            facts[SHORT] = short
            facts[MISSED] = missed
    return at


@kernel
def _get_counts(
    data: Bytes, at: int, end: int, head: Integers, listed: Integers, blocks: Blocks
) -> int:
    for row in listed:
        if row[WHOLE]:
            facts = _facts(head, blocks, row)
            counts = _rows(head, blocks, row)[1]
            above = 0
            if row[PHASE] != WAITS:
                above = threshold(row[LAYER], row[PHASE], head[FINENESS])
            # What is listed, what is short and what was left out are different events.
            most = (1 << row[LAYER]) - facts[SHORT] - facts[MISSED]
            for i in range(facts[LISTED]):
                count, at = get_varint(data, at, end)
                if not (above < count <= most):
                    return -1
                counts[i] = count
                most -= count
            if most < 0:
                return -1
    return at


@kernel
def decode(
    data: Bytes,
    at: int,
    end: int,
    head: Integers,
    state: Integers,
    times: Integers,
    payload: Integers,
    listed: Integers,
    blocks: Blocks,
) -> int:
    """Fill the tail and the blocks from data[at:end], `at` being what `read_numbers` gave.

    Returns the fault. times and payload have room for the tail, or more, and blocks for what
    `state` says. Nothing is believed: times are inside the span and in order within a layer, values
    finite and in order within a block, as items are; counts fit their blocks. Cost: O(end - at).
    """
    tail = state[TOTAL] - state[TAIL]
    at = _get_times(data, at, end, head, state, times, listed, blocks)
    if at >= 0 and head[KIND] == FREQUENT:
        at = _get_facts(data, at, end, head, listed, blocks)
    if at < 0:
        return faults.CORRUPTED
    size = column_size(head, listed, blocks, tail)
    if end - at < size:
        return faults.CORRUPTED
    column = np.empty(size, np.int64)
    at = get_column(data, at, end, column, head[KIND] != FREQUENT)
    if at < 0 or not _scatter(head, listed, blocks, column, tail):
        return faults.CORRUPTED
    payload[:tail] = column[:tail]
    if head[KIND] == FREQUENT:
        at = _get_counts(data, at, end, head, listed, blocks)
    return faults.OK if at == end else faults.CORRUPTED
