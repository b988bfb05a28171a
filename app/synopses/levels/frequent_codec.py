"""A summary of frequent items as bytes, and back: one encoder, one decoder.

The body (envelope and numbers: see wire.py) is, in this order:

    epsilon                                    8 bytes, a double, little-endian
    span, total
    now, zigzag coded                          last event time + 1, or what it was advanced to
    dead + 1                                   see blocks.py; 0 while nothing has expired
    times of the tail, newest to oldest        each as the difference to the later one, from now - 1
    items of the tail, oldest to newest        8 bytes each, little-endian
    waiting blocks, by rising layer            of each, now - 1 - its first time, how many items,
                                               shortfall, the items, rising, and their counts
    kept blocks, by rising layer, from newest  the same, time as the difference to the later one,
                                               and `missed` after the shortfall

Only blocks without an expired event are there; which these are follows from total and dead.
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
from app.synopses.levels.frequent_kernel import (
    DEAD,
    FINENESS,
    FRESH,
    GONE,
    KIND,
    LEVELS,
    LISTED,
    MISSED,
    NOW,
    SHORT,
    SPAN,
    TAIL,
    TIME,
    TOTAL,
    Blocks,
    Integers,
    kept_items,
    waiting_items,
)
from app.synopses.levels.frequent_layout import most_listed, threshold
from app.synopses.wire import Bytes, get_varint, put_varint

FREQUENT = 14
_ITEM = 8


@kernel
def oldest_whole(total: int, layer: int, dead: int, levels: int) -> int:
    """Return the lowest odd b of the kept blocks of `layer` in which nothing has expired."""
    oldest = oldest_kept(total, layer, dead, levels)
    return int(oldest if oldest << layer > dead else oldest + 2)


@kernel
def _block_count(head: Integers, total: int, dead: int) -> int:
    blocks = 0
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete - 1) << layer > dead:
            blocks += 1
        newest = (complete - 2) | 1
        blocks += max(0, (newest - oldest_whole(total, layer, dead, head[LEVELS]) + 2) >> 1)
    return blocks


@kernel
def encoded_limit(head: Integers, state: Integers, begin: int) -> int:
    """Return how many bytes the summary may take at most."""
    total = state[TOTAL]
    items = 0
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete - 1) << layer > state[DEAD]:
            items += 1 << min(layer, head[FRESH])
        oldest = oldest_whole(total, layer, state[DEAD], head[LEVELS])
        for block in range((complete - 2) | 1, oldest - 1, -2):
            items += most_listed(layer, phase(complete - block), head[FINENESS], head[FRESH])
    blocks = _block_count(head, total, state[DEAD])
    numbers = 4 + (total - begin) + 4 * blocks + items
    return int(
        wire.BODY + EPSILON_SIZE + numbers * wire.MAX_VARINT + (total - begin + items) * _ITEM
    )


@kernel
def _put_block(
    data: Bytes, at: int, later: int, facts: Integers, items: Integers, kept: bool
) -> int:
    at = put_varint(data, at, later - facts[TIME])
    at = put_varint(data, at, facts[LISTED])
    at = put_varint(data, at, facts[SHORT])
    if kept:
        at = put_varint(data, at, facts[MISSED])
    for i in range(facts[LISTED]):
        at = wire.put_fixed(data, at, items[0, i], _ITEM)
    for i in range(facts[LISTED]):
        at = put_varint(data, at, items[1, i])
    return at


@kernel
def encode(
    data: Bytes,
    start: int,
    head: Integers,
    epsilon: float,
    state: Integers,
    tail_times: Integers,
    tail_items: Integers,
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
    ring = (1 << (levels - 1)) - 1
    data[start] = wire.MAGIC_0
    data[start + 1] = wire.MAGIC_1
    data[start + 2] = wire.VERSION
    data[start + 3] = head[KIND]
    data[start + EPSILON_AT : start + EPSILON_AT + EPSILON_SIZE] = np.full(1, epsilon).view(
        np.uint8
    )
    at = put_varint(data, start + EPSILON_AT + EPSILON_SIZE, head[SPAN])
    at = put_varint(data, at, total)
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, dead + 1)
    later = now - 1
    for index in range(total - 1 - state[TAIL], begin - 1 - state[TAIL], -1):
        at = put_varint(data, at, later - tail_times[index])
        later = tail_times[index]
    for index in range(begin - state[TAIL], total - state[TAIL]):
        at = wire.put_fixed(data, at, tail_items[index], _ITEM)
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        if complete & 1 == 1 and (complete - 1) << layer > dead:
            mine = waiting_items(head, blocks, layer)
            at = _put_block(data, at, now - 1, blocks[1][layer], mine, False)
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        later = now - 1
        oldest = oldest_whole(total, layer, dead, levels)
        for block in range((complete - 2) | 1, oldest - 1, -2):
            facts = blocks[0][layer, (block >> 1) & ring]
            mine = kept_items(head, blocks, layer, block, phase(complete - block))
            at = _put_block(data, at, later, facts, mine, True)
            later = facts[TIME]
    wire.put_fixed(data, start + 4, wire.checksum(data, start, at), 4)
    return at


@kernel
def read_numbers(
    data: Bytes, start: int, end: int, head: Integers, state: Integers
) -> tuple[int, int, int]:
    """Fill `state`, and the span of `head`; return (fault, where the tail begins, offset after).

    The layout in `head` is that of the epsilon in the bytes. Once this is well, the bytes are long
    enough for as many blocks as there must be. Cost: O(layers).
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
    if end - at < (1 + _ITEM) * (total - begin) + 3 * _block_count(head, total, dead):
        return faults.CORRUPTED, 0, at
    head[SPAN] = span
    state[TOTAL] = total
    state[NOW] = now
    state[DEAD] = dead
    state[TAIL] = begin
    return faults.OK, int(begin), at


@kernel
def _get_block(
    data: Bytes,
    at: int,
    end: int,
    later: int,
    edge: int,
    facts: Integers,
    items: Integers,
    above: int,
    events: int,
    kept: bool,
) -> int:
    """Read a block into `facts` and `items`; return the offset after it, or -1 if it is unsound."""
    back, at = get_varint(data, at, end)
    listed, at = get_varint(data, at, end)
    short, at = get_varint(data, at, end)
    missed = 0
    if kept:
        missed, at = get_varint(data, at, end)
    if back < 0 or back > later - edge or not (0 <= listed <= items.shape[1]):
        return -1
    if not (0 <= short <= events and 0 <= missed <= above) or end - at < (_ITEM + 1) * listed:
        return -1
    facts[TIME] = later - back
    facts[LISTED] = listed
    facts[SHORT] = short
    facts[MISSED] = missed
    for i in range(listed):
        items[0, i] = wire.get_fixed(data, at, _ITEM)
        at += _ITEM
        if i > 0 and items[0, i] <= items[0, i - 1]:
            return -1
    total = short + missed
    for i in range(listed):
        count, at = get_varint(data, at, end)
        if not (above < count <= events):
            return -1
        items[1, i] = count
        total += count
    # What is listed, what is short and what was left out are different events.
    return at if total <= events else -1


@kernel
def decode(
    data: Bytes,
    at: int,
    end: int,
    head: Integers,
    state: Integers,
    tail_times: Integers,
    tail_items: Integers,
    blocks: Blocks,
) -> int:
    """Fill the tail and the blocks from data[at:end], `at` being what `read_numbers` gave.

    Returns the fault. The arrays have room for what `state` says, or more. Nothing is believed:
    times are inside the span, in order within a layer; items in order; counts fit their blocks.
    Cost: O(end - at).
    """
    total = state[TOTAL]
    dead = state[DEAD]
    now = state[NOW]
    levels = head[LEVELS]
    edge = max(now - head[SPAN], TIME_MIN)
    begin = state[TAIL]
    ring = (1 << (levels - 1)) - 1
    later = now - 1
    for index in range(total - 1 - begin, -1, -1):
        back, at = get_varint(data, at, end)
        if back < 0 or back > later - edge:
            return faults.CORRUPTED
        later -= back
        tail_times[index] = later
    if end - at < _ITEM * (total - begin):
        return faults.CORRUPTED
    for index in range(total - begin):
        tail_items[index] = wire.get_fixed(data, at, _ITEM)
        at += _ITEM
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        blocks[1][layer, TIME] = GONE
        if complete & 1 == 1 and (complete - 1) << layer > dead:
            mine = waiting_items(head, blocks, layer)
            facts = blocks[1][layer]
            at = _get_block(data, at, end, now - 1, edge, facts, mine, 0, 1 << layer, False)
            if at < 0:
                return faults.CORRUPTED
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        later = now - 1
        oldest = oldest_whole(total, layer, dead, levels)
        for block in range((complete - 2) | 1, oldest - 1, -2):
            g = phase(complete - block)
            facts = blocks[0][layer, (block >> 1) & ring]
            mine = kept_items(head, blocks, layer, block, g)
            above = threshold(layer, g, head[FINENESS])
            at = _get_block(data, at, end, later, edge, facts, mine, above, 1 << layer, True)
            if at < 0:
                return faults.CORRUPTED
            later = facts[TIME]
    return faults.OK if at == end else faults.CORRUPTED
