"""A quantile summary as bytes, and back: one encoder, one decoder.

The body (envelope and numbers: see wire.py) is, in this order:

    epsilon                                    8 bytes, a double, little-endian
    span, total
    now, zigzag coded                          last event time + 1, or what it was advanced to
    dead + 1                                   see blocks.py; 0 while nothing has expired
    times of the tail, newest to oldest        each as the difference to the later one, from now - 1
    times of the waiting blocks                by rising layer: now - 1 - last, last - first
    times of the kept blocks                   by rising layer, newest to oldest, as of the tail
    values, doubles, little-endian             of the tail, oldest to newest; of the waiting blocks;
                                               of the kept ones: those of a block, then its maximum

A block with an expired event has its minimum and maximum for values, and no first time. Which
blocks there are, and how many values each has, follows from total and dead (blocks.py), so none of
it is stored, and the length of the values is known before any room is made for them.
"""

import numpy as np

from app.synopses import faults, wire
from app.synopses.compile import kernel
from app.synopses.histogram_codec import TIME_MAX, TIME_MIN
from app.synopses.levels.block_codec import EPSILON_AT, EPSILON_SIZE
from app.synopses.levels.blocks import (
    BASE,
    EVENT_LIMIT,
    LIVE_LIMIT,
    bit_length,
    oldest_kept,
    phase,
    tail_length,
)
from app.synopses.levels.quantile_kernel import (
    DEAD,
    FINENESS,
    FRESH,
    GONE,
    KIND,
    LEVELS,
    NOW,
    SPAN,
    TAIL,
    TOTAL,
    Blocks,
    Floats,
    Integers,
    kept_values,
    make_blocks,
    waiting_values,
)
from app.synopses.levels.quantile_layout import fresh_weight, kept_weight
from app.synopses.wire import Bytes, get_varint, put_varint

QUANTILES = 13


@kernel
def _sizes(head: Integers, total: int, dead: int, begin: int) -> tuple[int, int]:
    """Return (how many times, how many values) a summary has. Cost: O(layers * phases)."""
    times = total - begin
    values = total - begin
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            whole = (complete - 1) << layer > dead
            times += 2 if whole else 1
            values += 1 + (1 << (layer - fresh_weight(layer, head[FRESH])) if whole else 1)
        for block in range(
            (complete - 2) | 1, oldest_kept(total, layer, dead, head[LEVELS]) - 1, -2
        ):
            whole = block << layer > dead
            times += 1 if whole else 0
            weight = kept_weight(layer, phase(complete - block), head[FINENESS], head[FRESH])
            values += 1 + (1 << (layer - weight) if whole else 1)
    return times, values


@kernel
def encoded_limit(head: Integers, state: Integers, begin: int) -> int:
    """Return how many bytes the summary may take at most."""
    times, values = _sizes(head, state[TOTAL], state[DEAD], begin)
    return int(wire.BODY + EPSILON_SIZE + wire.MAX_VARINT * (4 + times) + 8 * values)


@kernel
def _put_values(data: Bytes, at: int, values: Floats) -> int:
    data[at : at + 8 * len(values)] = values.view(np.uint8)
    return at + 8 * len(values)


@kernel
def _put_value(data: Bytes, at: int, value: float) -> int:
    return int(_put_values(data, at, np.full(1, value)))


@kernel
def encode(
    data: Bytes,
    start: int,
    head: Integers,
    epsilon: float,
    state: Integers,
    tail_times: Integers,
    tail_values: Floats,
    blocks: Blocks,
    begin: int,
) -> int:
    """Write a settled summary at `start`, its tail from event `begin` on; return the offset after.

    data has `encoded_limit` bytes from `start`. Cost: O(bytes written).
    """
    total = state[TOTAL]
    dead = state[DEAD]
    now = state[NOW]
    levels = head[LEVELS]
    kept_times, kept_min, kept_max, first, last, low, high, _, _ = blocks
    ring = (1 << (levels - 1)) - 1
    data[start] = wire.MAGIC_0
    data[start + 1] = wire.MAGIC_1
    data[start + 2] = wire.VERSION
    data[start + 3] = head[KIND]
    at = _put_value(data, start + EPSILON_AT, epsilon)
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, total)
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, dead + 1)
    later = now - 1
    for index in range(total - 1 - state[TAIL], begin - 1 - state[TAIL], -1):
        at = put_varint(data, at, later - tail_times[index])
        later = tail_times[index]
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            at = put_varint(data, at, now - 1 - last[layer])
            if (complete - 1) << layer > dead:
                at = put_varint(data, at, last[layer] - first[layer])
    for layer in range(BASE, bit_length(total)):
        later = now - 1
        for block in range(
            ((total >> layer) - 2) | 1, oldest_kept(total, layer, dead, levels) - 1, -2
        ):
            if block << layer > dead:
                time = kept_times[layer, (block >> 1) & ring]
                at = put_varint(data, at, later - time)
                later = time
    if total > begin:
        at = _put_values(data, at, tail_values[begin - state[TAIL] : total - state[TAIL]])
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            if (complete - 1) << layer > dead:
                at = _put_values(data, at, waiting_values(head, blocks, layer))
            else:
                at = _put_value(data, at, low[layer])
            at = _put_value(data, at, high[layer])
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        for block in range((complete - 2) | 1, oldest_kept(total, layer, dead, levels) - 1, -2):
            slot = (block >> 1) & ring
            if block << layer > dead:
                g = phase(complete - block)
                at = _put_values(data, at, kept_values(head, blocks, layer, block, g))
            else:
                at = _put_value(data, at, kept_min[layer, slot])
            at = _put_value(data, at, kept_max[layer, slot])
    wire.put_fixed(data, start + 4, wire.checksum(data, start, at), 4)
    return at


@kernel
def read_numbers(
    data: Bytes, start: int, end: int, head: Integers, state: Integers
) -> tuple[int, int, int]:
    """Fill `state`, and the span of `head`; return (fault, where the tail begins, offset after).

    The layout in `head` is that of the epsilon that `read_envelope` gave. Once this is well, the
    bytes are long enough for all that follows. Cost: O(layers * phases).
    """
    span, at = get_varint(data, start + EPSILON_AT + EPSILON_SIZE, end)
    total, at = get_varint(data, at, end)
    folded, at = get_varint(data, at, end)
    dead, at = get_varint(data, at, end)
    dead -= 1
    now = wire.unzigzag(folded)
    if not (1 <= span <= 1 << 53) or not (0 <= total <= EVENT_LIMIT) or not (-1 <= dead < total):
        return faults.CORRUPTED, 0, at
    if folded < 0 or not (TIME_MIN <= now <= TIME_MAX + 1) or total - 1 - dead > LIVE_LIMIT:
        return faults.CORRUPTED, 0, at
    begin = max((total >> BASE << BASE) - tail_length(head[LEVELS]), dead + 1)
    times, values = _sizes(head, total, dead, begin)
    if end - at < times + 8 * values:
        return faults.CORRUPTED, 0, at
    head[SPAN] = span
    state[TOTAL] = total
    state[NOW] = now
    state[DEAD] = dead
    state[TAIL] = begin
    return faults.OK, int(begin), at


@kernel
def _get_time(data: Bytes, at: int, end: int, later: int, edge: int) -> tuple[int, int]:
    """Read a difference; return (the time, the offset after), or (GONE, at) if before `edge`."""
    number, after = get_varint(data, at, end)
    if number < 0 or number > later - edge:
        return GONE, at
    return later - number, after


@kernel
def _get_values(data: Bytes, at: int, end: int, values: Floats) -> bool:
    """Read finite values; return whether they are there."""
    if end - at < 8 * len(values):
        return False
    number = np.empty(8 * len(values), np.uint8)
    number[:] = data[at : at + 8 * len(values)]
    values[:] = number.view(np.float64)
    return bool(np.all(np.isfinite(values)))


@kernel
def _is_sorted(values: Floats, maximum: float) -> bool:
    for i in range(1, len(values)):
        if values[i - 1] > values[i]:
            return False
    return bool(values[-1] <= maximum)


@kernel
def decode(
    data: Bytes,
    at: int,
    end: int,
    head: Integers,
    state: Integers,
    tail_times: Integers,
    tail_values: Floats,
    blocks: Blocks,
) -> int:
    """Fill the tail and the blocks from data[at:end], `at` being what `read_numbers` gave.

    Returns the fault. The arrays have room for what `state` says, or more. Nothing is believed:
    times are inside the span and values finite, both in order within a layer or block.
    Cost: O(end - at).
    """
    total = state[TOTAL]
    dead = state[DEAD]
    now = state[NOW]
    levels = head[LEVELS]
    edge = max(now - head[SPAN], TIME_MIN)
    begin = state[TAIL]
    kept_times, kept_min, kept_max, first, last, low, high, _, _ = blocks
    ring = (1 << (levels - 1)) - 1
    later = now - 1
    for index in range(total - 1 - begin, -1, -1):
        later, at = _get_time(data, at, end, later, edge)
        if later == GONE:
            return faults.CORRUPTED
        tail_times[index] = later
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            last[layer], at = _get_time(data, at, end, now - 1, edge)
            if last[layer] == GONE:
                return faults.CORRUPTED
            first[layer] = GONE
            if (complete - 1) << layer > dead:
                first[layer], at = _get_time(data, at, end, last[layer], edge)
                if first[layer] == GONE:
                    return faults.CORRUPTED
    for layer in range(BASE, bit_length(total)):
        later = now - 1
        for block in range(
            ((total >> layer) - 2) | 1, oldest_kept(total, layer, dead, levels) - 1, -2
        ):
            if block << layer > dead:
                later, at = _get_time(data, at, end, later, edge)
                if later == GONE:
                    return faults.CORRUPTED
                kept_times[layer, (block >> 1) & ring] = later
            else:
                kept_times[layer, (block >> 1) & ring] = GONE
    if not _get_values(data, at, end, tail_values[: total - begin]):
        return faults.CORRUPTED
    at += 8 * (total - begin)
    one = np.empty(1, np.float64)
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete << layer) - 1 > dead:
            whole = (complete - 1) << layer > dead
            values = waiting_values(head, blocks, layer) if whole else low[layer : layer + 1]
            if not _get_values(data, at, end, values):
                return faults.CORRUPTED
            at += 8 * len(values)
            if not _get_values(data, at, end, one) or not _is_sorted(values, one[0]):
                return faults.CORRUPTED
            at += 8
            low[layer] = values[0]
            high[layer] = one[0]
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        for block in range((complete - 2) | 1, oldest_kept(total, layer, dead, levels) - 1, -2):
            slot = (block >> 1) & ring
            if block << layer > dead:
                values = kept_values(head, blocks, layer, block, phase(complete - block))
            else:
                values = kept_min[layer, slot : slot + 1]
            if not _get_values(data, at, end, values):
                return faults.CORRUPTED
            at += 8 * len(values)
            if not _get_values(data, at, end, one) or not _is_sorted(values, one[0]):
                return faults.CORRUPTED
            at += 8
            kept_min[layer, slot] = values[0]
            kept_max[layer, slot] = one[0]
    return faults.OK if at == end else faults.CORRUPTED


@kernel
def blocks_for(head: Integers, state: Integers, added: int) -> Blocks:
    """Return room for the blocks of a summary that takes `added` more events."""
    return make_blocks(head, state[TOTAL] + added, state[DEAD])
