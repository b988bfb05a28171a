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

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks import memory
from slidestat.synopses.blocks.blocks import BASE, EVENT_LIMIT, LIVE_LIMIT, bit_length, left_tail
from slidestat.synopses.blocks.columns import column_limit, doubles, get_column, put_column
from slidestat.synopses.blocks.frequent_layout import threshold
from slidestat.synopses.blocks.memory import Blocks
from slidestat.synopses.blocks.one_window import known_dead, oldest_of, phase_of
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.wire import get_varint, put_varint

# Places in a row of the list of blocks: where its facts are, and how much room its rows have, too.
LAYER, BLOCK, PHASE, WHOLE, SLOT, ROOM = 0, 1, 2, 3, 4, 5
_LISTED_SIZE = 6
WAITS = -1
"""The phase of a block that waits."""

_PARAMETERS_LIMIT = 17 + 2 * wire.MAX_VARINT
_HEAD_LIMIT = wire.BODY + _PARAMETERS_LIMIT + 3 * wire.MAX_VARINT
"""Envelope, parameters and three numbers take at most so many bytes."""


@borrowing_kernel
def _count_blocks(head: Integers, left: int, dead: int) -> int:
    count = 0
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            count += 1
        newest = (complete - 2) | 1
        count += max(0, (newest - oldest_of(head, left, layer, dead) + 2) >> 1)
    return count


@kernel
def list_blocks(head: Integers, total: int, dead: int) -> Integers:
    """Return what blocks there are, with the phase or WAITS, and whether nothing has expired.

    They come in the order of the bytes: layer by layer, newest to oldest. Cost: O(blocks).
    """
    left = left_tail(total, head[memory.LEVELS])
    ring = 1 << (head[memory.LEVELS] - 1)
    rows = np.empty((_count_blocks(head, left, dead), _LISTED_SIZE), np.int64)
    at = 0
    for layer in range(BASE, bit_length(left)):
        complete = left >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            rows[at, LAYER] = layer
            rows[at, BLOCK] = complete - 1
            rows[at, PHASE] = WAITS
            rows[at, WHOLE] = (complete - 1) << layer > dead
            rows[at, SLOT] = ring
            rows[at, ROOM] = memory.fresh_room(head, layer)
            at += 1
        oldest = oldest_of(head, left, layer, dead)
        before = WAITS
        room = 0
        for block in range((complete - 2) | 1, oldest - 1, -2):
            g = phase_of(head, left, layer, block)
            if g != before:
                room = memory.kept_room(head, layer, g)
                before = g
            rows[at, LAYER] = layer
            rows[at, BLOCK] = block
            rows[at, PHASE] = g
            rows[at, WHOLE] = block << layer > dead
            rows[at, SLOT] = (block >> 1) & (ring - 1)
            rows[at, ROOM] = room
            at += 1
    return rows


@borrowing_kernel
def _rows_at(head: Integers, blocks: Blocks, listed: Integers, i: int) -> int:
    """Return where the rows of the listed block i begin."""
    if listed[i, PHASE] == WAITS:
        return int(blocks[1][listed[i, LAYER], 0])
    return memory.kept_at(
        head, blocks, listed[i, LAYER], listed[i, BLOCK], listed[i, PHASE], listed[i, ROOM]
    )


@borrowing_kernel
def _has_minimum(head: Integers, listed: Integers, i: int) -> bool:
    """Return whether a block of values stores its minimum apart, as its first value is not kept."""
    return bool(listed[i, WHOLE] == 0 or head[memory.KIND] == memory.RANDOM_QUANTILES)


@borrowing_kernel
def values_size(head: Integers, listed: Integers, tail: int) -> int:
    """Return how many values the tail and the listed blocks of a quantile summary have."""
    size = tail
    for i in range(len(listed)):
        size += listed[i, WHOLE] * listed[i, ROOM] + 1 + _has_minimum(head, listed, i)
    return int(size)


@borrowing_kernel
def column_size(head: Integers, listed: Integers, blocks: Blocks, tail: int) -> int:
    """Return how many numbers the column has: of the tail's events and of the listed blocks."""
    if head[memory.KIND] != memory.FREQUENT:
        return values_size(head, listed, tail)
    size = tail
    for i in range(len(listed)):
        if listed[i, WHOLE]:
            size += blocks[0][listed[i, LAYER], listed[i, SLOT], memory.LISTED]
    return int(size)


@borrowing_kernel
def gather(head: Integers, listed: Integers, blocks: Blocks, column: Integers, at: int) -> None:
    """Copy what stands for the blocks to `column`, from `at` on."""
    facts, _, rows = blocks
    for i in range(len(listed)):
        layer = listed[i, LAYER]
        slot = listed[i, SLOT]
        if head[memory.KIND] != memory.FREQUENT and _has_minimum(head, listed, i):
            column[at] = facts[layer, slot, memory.LOW]
            at += 1
        if listed[i, WHOLE]:
            first = _rows_at(head, blocks, listed, i)
            for j in range(facts[layer, slot, memory.LISTED]):
                column[at] = rows[0, first + j]
                at += 1
        if head[memory.KIND] != memory.FREQUENT:
            column[at] = facts[layer, slot, memory.HIGH]
            at += 1


@borrowing_kernel
def _scatter(head: Integers, listed: Integers, blocks: Blocks, column: Integers, at: int) -> bool:
    """Undo `gather`; return whether each block's numbers are in order."""
    facts, _, rows = blocks
    for i in range(len(listed)):
        layer = listed[i, LAYER]
        slot = listed[i, SLOT]
        begin = at
        if head[memory.KIND] != memory.FREQUENT:
            facts[layer, slot, memory.LISTED] = listed[i, ROOM]
            at += _has_minimum(head, listed, i)
        if listed[i, WHOLE]:
            first = _rows_at(head, blocks, listed, i)
            for j in range(facts[layer, slot, memory.LISTED]):
                rows[0, first + j] = column[at]
                at += 1
        if head[memory.KIND] != memory.FREQUENT:
            facts[layer, slot, memory.LOW] = column[begin]
            facts[layer, slot, memory.HIGH] = column[at]
            at += 1
        least = 1 if head[memory.KIND] == memory.FREQUENT else 0
        for j in range(begin + 1, at):
            if column[j] < column[j - 1] + least:
                return False
    return True


@kernel
def put_parameters(head: Integers, shares: Floats) -> Bytes:
    """Return the bytes of the parameters, which are those before `total`."""
    data = np.empty(_PARAMETERS_LIMIT, np.uint8)
    at = put_column(data, 0, shares.view(np.int64), True)  # positive: their bits are in order
    if head[memory.KIND] == memory.RANDOM_QUANTILES:
        at = put_varint(data, at, head[memory.SEED])
    at = put_varint(data, at, head[memory.SPAN])
    return data[:at]


@borrowing_kernel
def encoded_limit(head: Integers, tail: int, listed: Integers, size: int) -> int:
    """Return how many bytes a state takes at most, with `size` numbers in its column."""
    counts = size - tail + 3 * len(listed) if head[memory.KIND] == memory.FREQUENT else 0
    numbers = tail + 2 * len(listed) + counts
    return int(_HEAD_LIMIT + wire.MAX_VARINT * numbers + column_limit(size))


@kernel
def encode(
    data: Bytes,
    start: int,
    head: Integers,
    made_with: Bytes,
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
    now = state[memory.NOW]
    tail = state[memory.TOTAL] - begin
    at = open_envelope(data, start, head[memory.STORED])
    data[at : at + len(made_with)] = made_with
    at += len(made_with)
    at = put_varint(data, at, state[memory.TOTAL])
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, state[memory.DEAD] + 1)
    later = now - 1
    for index in range(
        state[memory.TOTAL] - 1 - state[memory.TAIL], begin - 1 - state[memory.TAIL], -1
    ):
        at = put_varint(data, at, later - times[index])
        later = times[index]
    facts, _, rows = blocks
    before = -1
    for i in range(len(listed)):
        layer = listed[i, LAYER]
        slot = listed[i, SLOT]
        if layer != before:
            before = layer
            later = now - 1
        if listed[i, PHASE] == WAITS:
            at = put_varint(data, at, later - facts[layer, slot, memory.LAST])
            later = facts[layer, slot, memory.LAST]
        if listed[i, WHOLE]:
            at = put_varint(data, at, later - facts[layer, slot, memory.TIME])
            later = facts[layer, slot, memory.TIME]
    if head[memory.KIND] == memory.FREQUENT:
        for i in range(len(listed)):
            if listed[i, WHOLE]:
                layer = listed[i, LAYER]
                slot = listed[i, SLOT]
                at = put_varint(data, at, facts[layer, slot, memory.LISTED])
                at = put_varint(data, at, facts[layer, slot, memory.SHORT])
                if listed[i, PHASE] != WAITS:
                    at = put_varint(data, at, facts[layer, slot, memory.MISSED])
    gather(head, listed, blocks, column, tail)
    at = put_column(data, at, column, head[memory.KIND] != memory.FREQUENT)
    if head[memory.KIND] == memory.FREQUENT:
        for i in range(len(listed)):
            if listed[i, WHOLE]:
                first = _rows_at(head, blocks, listed, i)
                for j in range(facts[listed[i, LAYER], listed[i, SLOT], memory.LISTED]):
                    at = put_varint(data, at, rows[1, first + j])
    seal(data, start, at)
    return at


@kernel
def read_parameters(
    data: Bytes, start: int, end: int, kind: int, shares: Floats
) -> tuple[int, int, int, int]:
    """Check the envelope, fill `shares`; return (error, its number or the span, seed, offset)."""
    error_code, number, at = open_body(data, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0, at
    bits = np.empty(len(shares), np.int64)
    at = get_column(data, at, end, bits, True)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0, at
    shares[:] = doubles(bits)
    seed = 0
    if kind in (memory.RANDOM_QUANTILES, memory.FIXED_RANDOM_QUANTILES):
        seed, at = get_varint(data, at, end)
    span, at = get_varint(data, at, end)
    if seed < 0 or not (1 <= span <= 1 << 53):
        return error_codes.CORRUPTED, 0, 0, at
    return error_codes.OK, span, seed, at


@borrowing_kernel
def read_numbers(
    data: Bytes, at: int, end: int, head: Integers, state: Integers
) -> tuple[int, int]:
    """Fill `state`; return (error, offset after).

    The layout in `head` is that of the parameters in the bytes. Once this is well, the bytes are
    long enough for as many blocks as there must be. Cost: O(layers).
    """
    total, at = get_varint(data, at, end)
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, at
    dead, at = get_varint(data, at, end)
    dead -= 1
    if not (0 <= total <= EVENT_LIMIT) or not (-1 <= dead < total):
        return error_codes.CORRUPTED, at
    if dead < known_dead(head, total):
        return error_codes.CORRUPTED, at
    left = left_tail(total, head[memory.LEVELS])
    begin = max(left, dead + 1)
    if total - 1 - dead > LIVE_LIMIT:
        return error_codes.CORRUPTED, at
    # In each layer, at most one block has expired in part, and may take no byte.
    blocks = _count_blocks(head, left, dead) - bit_length(left)
    if end - at < 2 * (total - begin) + blocks:
        return error_codes.CORRUPTED, at
    state[memory.TOTAL] = total
    state[memory.NOW] = now
    state[memory.DEAD] = dead
    state[memory.TAIL] = begin
    return error_codes.OK, at


@borrowing_kernel
def _get_time(data: Bytes, at: int, end: int, later: int, edge: int) -> tuple[int, int]:
    """Read a difference; return (the time, the offset after), or (GONE, at) if before `edge`."""
    number, after = get_varint(data, at, end)
    if number < 0 or number > later - edge:
        return memory.GONE, at
    return later - number, after


@borrowing_kernel
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
    edge = max(state[memory.NOW] - head[memory.SPAN], TIME_MIN)
    later = state[memory.NOW] - 1
    for index in range(state[memory.TOTAL] - 1 - state[memory.TAIL], -1, -1):
        later, at = _get_time(data, at, end, later, edge)
        if later == memory.GONE:
            return -1
        times[index] = later
    facts = blocks[0]
    before = -1
    for i in range(len(listed)):
        layer = listed[i, LAYER]
        slot = listed[i, SLOT]
        facts[layer, slot, memory.TIME] = memory.GONE
        if layer != before:
            before = layer
            later = state[memory.NOW] - 1
        if listed[i, PHASE] == WAITS:
            later, at = _get_time(data, at, end, later, edge)
            facts[layer, slot, memory.LAST] = later
        if listed[i, WHOLE] and later != memory.GONE:
            later, at = _get_time(data, at, end, later, edge)
            facts[layer, slot, memory.TIME] = later
        if later == memory.GONE:
            return -1
    return at


@borrowing_kernel
def _get_facts(
    data: Bytes, at: int, end: int, head: Integers, listed: Integers, blocks: Blocks
) -> int:
    """Read how many items each block has, its shortfall, and what was left out."""
    facts = blocks[0]
    for i in range(len(listed)):
        if listed[i, WHOLE]:
            layer = listed[i, LAYER]
            slot = listed[i, SLOT]
            events = 1 << layer
            size, at = get_varint(data, at, end)
            short, at = get_varint(data, at, end)
            missed = 0
            above = 0
            if listed[i, PHASE] != WAITS:
                missed, at = get_varint(data, at, end)
                above = threshold(layer, listed[i, PHASE], head[memory.FINENESS])
            if not (0 <= size <= listed[i, ROOM]):
                return -1
            if not (0 <= short <= events and 0 <= missed <= above):
                return -1
            facts[layer, slot, memory.LISTED] = size
            facts[layer, slot, memory.SHORT] = short
            facts[layer, slot, memory.MISSED] = missed
    return at


@borrowing_kernel
def _get_counts(
    data: Bytes, at: int, end: int, head: Integers, listed: Integers, blocks: Blocks
) -> int:
    facts, _, rows = blocks
    for i in range(len(listed)):
        if listed[i, WHOLE]:
            layer = listed[i, LAYER]
            slot = listed[i, SLOT]
            first = _rows_at(head, blocks, listed, i)
            above = 0
            if listed[i, PHASE] != WAITS:
                above = threshold(layer, listed[i, PHASE], head[memory.FINENESS])
            # Events that are listed, short and left out are different ones.
            most = (
                (1 << layer) - facts[layer, slot, memory.SHORT] - facts[layer, slot, memory.MISSED]
            )
            for j in range(facts[layer, slot, memory.LISTED]):
                count, at = get_varint(data, at, end)
                if not (above < count <= most):
                    return -1
                rows[1, first + j] = count
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

    Returns the error code. times and payload have room for the tail, or more, and blocks for what
    `state` says. Nothing is believed: times are inside the span and in order within a layer, values
    finite and in order within a block, as items are; counts fit their blocks. Cost: O(end - at).
    """
    tail = state[memory.TOTAL] - state[memory.TAIL]
    at = _get_times(data, at, end, head, state, times, listed, blocks)
    if at >= 0 and head[memory.KIND] == memory.FREQUENT:
        at = _get_facts(data, at, end, head, listed, blocks)
    if at < 0:
        return error_codes.CORRUPTED
    size = column_size(head, listed, blocks, tail)
    if end - at < size:
        return error_codes.CORRUPTED
    column = np.empty(size, np.int64)
    at = get_column(data, at, end, column, head[memory.KIND] != memory.FREQUENT)
    if at < 0 or not _scatter(head, listed, blocks, column, tail):
        return error_codes.CORRUPTED
    payload[:tail] = column[:tail]
    if head[memory.KIND] == memory.FREQUENT:
        at = _get_counts(data, at, end, head, listed, blocks)
    return error_codes.OK if at == end else error_codes.CORRUPTED
