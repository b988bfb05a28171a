"""Counts of a window, from the blocks that cover it: bounds for each item, listed or not.

Source: Arasu and Manku 2004, lemma 4.1: counts of disjoint blocks add up, and so do shortfalls. Let
the window have c events in known blocks and at most U before them (blocks.py). An item's count is
at least the sum of its counts, and at most that plus all shortfalls, plus `missed` of each block
that does not list it, plus U. The estimate is the middle: its error is at most half the width.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks import memory
from slidestat.synopses.blocks.blocks import BASE, bit_length, left_tail, trailing_zeros
from slidestat.synopses.blocks.feeding import find_start, window_room
from slidestat.synopses.blocks.memory import Blocks
from slidestat.synopses.blocks.one_window import phase_of
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.keyed import with_columns
from slidestat.synopses.core.parameters import PARTS


@borrowing_kernel
def _add(facts: Integers, rows: Integers, steps: Integers, at: int, sums: Integers) -> int:
    """Append a block's (item, count, missed) to `steps`, and its shortfalls to `sums`."""
    for i in range(facts[memory.LISTED]):
        steps[0, at] = rows[0, i]
        steps[1, at] = rows[1, i]
        steps[2, at] = facts[memory.MISSED]
        at += 1
    sums[0] += facts[memory.SHORT]
    sums[1] += facts[memory.MISSED]
    return at


@kernel
def _collect(
    head: Integers, state: Integers, payload: Integers, blocks: Blocks, after: int, sums: Integers
) -> Integers:
    """Return (item, count, missed) of each block from event `after` on, and of the tail."""
    total = state[memory.TOTAL]
    left = left_tail(total, head[memory.LEVELS])
    steps = np.empty((3, window_room(head, state, after)), np.int64)
    at = 0
    event = after
    while 0 < event < left:
        layer = trailing_zeros(event)
        if layer < BASE or event + (1 << layer) > left:
            break
        block = event >> layer
        rows = memory.kept_rows(head, blocks, layer, block, phase_of(head, left, layer, block))
        at = _add(memory.kept_facts(head, blocks, layer, block), rows, steps, at, sums)
        event += 1 << layer
    for layer in range(bit_length(left) - 1, BASE - 1, -1):
        complete = left >> layer
        if complete & 1 == 1 and (complete - 1) << layer >= event:
            at = _add(
                memory.waiting_facts(head, blocks, layer),
                memory.waiting_rows(head, blocks, layer),
                steps,
                at,
                sums,
            )
    for index in range(max(after, left) - state[memory.TAIL], total - state[memory.TAIL]):
        steps[0, at] = payload[index]
        steps[1, at] = 1
        steps[2, at] = 0
        at += 1
    return steps[:, :at]


@kernel
def _tally(
    head: Integers, state: Integers, times: Integers, payload: Integers, blocks: Blocks, start: int
) -> tuple[Integers, int, int, int]:
    """Return (counts, what an item not listed may have at most, c, U) of a window from `start` on.

    counts[0] are the items, rising, counts[1] their lower and counts[2] their upper bounds.
    Cost: O(items listed * log).
    """
    after, before = find_start(head, state, times, blocks, start)
    straddling = after - 1 - before
    sums = np.zeros(2, np.int64)
    steps = _collect(head, state, payload, blocks, after, sums)
    covered = state[memory.TOTAL] - after
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


@kernel
def list_items(
    head: Integers,
    state: Integers,
    times: Integers,
    payload: Integers,
    blocks: Blocks,
    start: int,
    part: int,
    facts: Integers,
    lists: Integers,
    listed: int,
    instead: int,
) -> tuple[Integers, int]:
    """Append the items that may have part/PARTS of the window from `start` on to `lists`.

    Where none may, and counts are exact, the `instead` items that came most often are appended, of
    equals those of the least numbers. facts receives what another item may have at most, and the
    fewest and most events of the window. Returns (the lists, or a longer copy, and their length).
    Cost: O(items listed * log).
    """
    counts, unlisted, covered, straddling = _tally(head, state, times, payload, blocks, start)
    lists = with_columns(lists, listed, counts.shape[1])
    for i in range(counts.shape[1]):
        if counts[2, i] * PARTS >= part * covered:
            for j in range(3):
                lists[j, listed] = counts[j, i]
            listed += 1
            instead = 0
    if unlisted == 0 and instead > 0:
        # A stable order, of items that rise.
        most = np.argsort(-counts[1], kind="mergesort")[:instead]
        for i in most:
            for j in range(3):
                lists[j, listed] = counts[j, i]
            listed += 1
    facts[0] = unlisted
    facts[1] = covered
    facts[2] = covered + straddling
    return lists, listed
