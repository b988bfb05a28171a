"""Counts of a window, from the blocks that cover it: bounds for each item, listed or not.

Source: Arasu and Manku 2004, lemma 4.1: counts of disjoint blocks add up, and so do shortfalls. Let
the window have c events in known blocks and at most U before them (blocks.py). An item's count is
at least the sum of its counts, and at most that plus all shortfalls, plus `missed` of each block
that does not list it, plus U. The estimate is the middle: its error is at most half the width.
"""

import numpy as np

from app.synopses.compile import kernel
from app.synopses.levels.blocks import BASE, bit_length, phase, tail_length, trailing_zeros
from app.synopses.levels.frequent_codec import oldest_whole
from app.synopses.levels.frequent_kernel import (
    DEAD,
    FRESH,
    LEVELS,
    LISTED,
    MISSED,
    SHORT,
    TAIL,
    TIME,
    TOTAL,
    Blocks,
    Integers,
    kept_items,
    waiting_items,
)


@kernel
def find_start(
    head: Integers, state: Integers, times: Integers, blocks: Blocks, begin: int, start: int
) -> tuple[int, int]:
    """Return (first known event from time `start` on, the last known one before it).

    `begin` is where the tail begins. Cost: O(blocks).
    """
    total = state[TOTAL]
    tail = state[TAIL]
    before = state[DEAD]
    after = begin
    high = total
    while after < high:
        middle = (after + high) >> 1
        if times[middle - tail] >= start:
            high = middle
        else:
            after = middle + 1
    if after > begin:
        before = max(before, after - 1)
    ring = (1 << (head[LEVELS] - 1)) - 1
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        event = (complete - 1) << layer
        if complete & 1 == 1 and event > state[DEAD]:
            if blocks[1][layer, TIME] >= start:
                after = min(after, event)
            else:
                before = max(before, event)
        oldest = oldest_whole(total, layer, state[DEAD], head[LEVELS])
        for block in range((complete - 2) | 1, oldest - 1, -2):
            event = block << layer
            if blocks[0][layer, (block >> 1) & ring, TIME] >= start:
                after = min(after, event)
            else:
                before = max(before, event)
                break
    return int(after), int(before)


@kernel
def _add(facts: Integers, items: Integers, steps: Integers, at: int, sums: Integers) -> int:
    """Append a block's (item, count, missed) to `steps`, and its shortfalls to `sums`."""
    for i in range(facts[LISTED]):
        steps[0, at] = items[0, i]
        steps[1, at] = items[1, i]
        steps[2, at] = facts[MISSED]
        at += 1
    sums[0] += facts[SHORT]
    sums[1] += facts[MISSED]
    return at


@kernel
def _collect(
    head: Integers, state: Integers, items: Integers, blocks: Blocks, after: int, sums: Integers
) -> Integers:
    """Return (item, count, missed) of each block from event `after` on, and of the tail."""
    total = state[TOTAL]
    tail = state[TAIL]
    event = after
    ring = (1 << (head[LEVELS] - 1)) - 1
    begin = max((total >> BASE << BASE) - tail_length(head[LEVELS]), tail)
    room = total - begin + 1
    for layer in range(BASE, bit_length(total - after)):
        room += 2 << min(layer, head[FRESH])
    steps = np.empty((3, room), np.int64)
    at = 0
    if event < begin:
        while event > 0:
            layer = trailing_zeros(event)
            if layer < BASE or event + (1 << layer) > total:
                break
            block = event >> layer
            mine = kept_items(head, blocks, layer, block, phase((total >> layer) - block))
            at = _add(blocks[0][layer, (block >> 1) & ring], mine, steps, at, sums)
            event += 1 << layer
        for layer in range(bit_length(total) - 1, BASE - 1, -1):
            complete = total >> layer
            if complete & 1 == 1 and (complete - 1) << layer >= event:
                mine = waiting_items(head, blocks, layer)
                at = _add(blocks[1][layer], mine, steps, at, sums)
        event = total >> BASE << BASE
    for index in range(event - tail, total - tail):
        steps[0, at] = items[index]
        steps[1, at] = 1
        steps[2, at] = 0
        at += 1
    return steps[:, :at]


@kernel
def tally(
    head: Integers, state: Integers, times: Integers, items: Integers, blocks: Blocks, start: int
) -> tuple[Integers, int, int, int]:
    """Return (counts, what an item not listed may have at most, c, U) of a window from `start` on.

    counts[0] are the items, rising, counts[1] their lower and counts[2] their upper bounds.
    Cost: O(items listed * log).
    """
    total = state[TOTAL]
    begin = max((total >> BASE << BASE) - tail_length(head[LEVELS]), state[TAIL])
    after, before = find_start(head, state, times, blocks, begin, start)
    straddling = after - 1 - before
    sums = np.zeros(2, np.int64)
    steps = _collect(head, state, items, blocks, after, sums)
    covered = total - after
    most = covered + straddling
    short = sums[0] + sums[1] + straddling
    order = np.argsort(steps[0])
    counts = np.empty((3, len(order)), np.int64)
    size = 0
    for i in order:
        if size == 0 or counts[0, size - 1] != steps[0, i]:
            counts[0, size] = steps[0, i]
            counts[1, size] = 0
            counts[2, size] = short
            size += 1
        counts[1, size - 1] += steps[1, i]
        counts[2, size - 1] += steps[1, i] - steps[2, i]
    for i in range(size):
        counts[2, i] = min(counts[2, i], most)
    return counts[:, :size], int(min(short, most)), int(covered), int(straddling)
