"""Taking events into the blocks of a summary of frequent items, each as its index says.

Source: Arasu and Manku 2004, section 4.1 and appendix A, with the blocks merged after Misra and
Gries (1982). What is kept and why is in blocks.py, how a block is summarised in frequent_layout.py.
Cost of an event: one merge step in each layer up to `fresh`, half of it in each layer beyond.
"""

import numpy as np
import numpy.typing as npt

from app.synopses.compile import kernel
from app.synopses.levels.blocks import BASE, bit_length, oldest_kept, tail_length
from app.synopses.levels.frequent_layout import most_listed, threshold

Integers = npt.NDArray[np.int64]

# Places in the array of a summary's numbers while it is in memory.
TOTAL, NOW, DEAD, TAIL = 0, 1, 2, 3
STATE_SIZE = 4

# Places in the array of what a summary was made with.
KIND, SPAN, LEVELS, FINENESS, FRESH = 0, 1, 2, 3, 4

# Places in what is known of a block, besides its items: the time of its first event, how many items
# it lists, its shortfall, and the largest count left out since.
TIME, LISTED, SHORT, MISSED = 0, 1, 2, 3
FACTS = 4

GONE = -(1 << 62)
"""The time of an event that has expired, where it need not be known any more."""

# The blocks in memory: facts of kept blocks, by layer and (b >> 1) mod 2^(levels-1); facts of the
# waiting ones, by layer; where the items of a layer's waiting block and phases begin; items and
# counts.
Blocks = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], Integers]


@kernel
def make_blocks(head: Integers, total: int, dead: int) -> Blocks:
    """Return room for the blocks of a summary with `total` events, none before `dead` alive."""
    levels = head[LEVELS]
    layers = max(bit_length(total), BASE)
    alive = BASE
    while 1 << alive <= total - 1 - dead:
        alive += 1
    starts = np.zeros((alive + 1, levels + 1), np.int64)
    end = 0
    for layer in range(BASE, alive):
        starts[layer, 0] = end
        end += 1 << min(layer, head[FRESH])
        for g in range(levels):
            starts[layer, g + 1] = end
            blocks = 1 << (g - 1) if g > 0 else 1
            end += blocks * most_listed(layer, g, head[FINENESS], head[FRESH])
    return (
        np.empty((layers, 1 << (levels - 1), FACTS), np.int64),
        np.empty((layers, FACTS), np.int64),
        starts,
        np.empty((2, end), np.int64),
    )


@kernel
def kept_items(head: Integers, blocks: Blocks, layer: int, block: int, phase: int) -> Integers:
    """Return the room in memory of an odd block while in `phase`: items, and their counts."""
    size = most_listed(layer, phase, head[FINENESS], head[FRESH])
    slot = (block >> 1) & ((1 << (phase - 1)) - 1 if phase > 0 else 0)
    at = blocks[2][layer, phase + 1] + slot * size
    return blocks[3][:, at : at + size]


@kernel
def waiting_items(head: Integers, blocks: Blocks, layer: int) -> Integers:
    """Return the room in memory of the block that waits in `layer`: items, and their counts."""
    at = blocks[2][layer, 0]
    return blocks[3][:, at : at + (1 << min(layer, head[FRESH]))]


@kernel
def _leave_out(old: Integers, new: Integers, facts: Integers, above: int) -> None:
    """Copy what has a count over `above` from `old` to `new`; they may be the same."""
    count = 0
    for i in range(facts[LISTED]):
        if old[1, i] > above:
            new[0, count] = old[0, i]
            new[1, count] = old[1, i]
            count += 1
        else:
            facts[MISSED] = max(facts[MISSED], old[1, i])
    facts[LISTED] = count


@kernel
def _grow_older(
    head: Integers, state: Integers, blocks: Blocks, layer: int, complete: int, edge: int
) -> None:
    """Move the kept blocks of `layer` whose age has come to a power of two, the oldest first."""
    levels = head[LEVELS]
    for g in range(levels, 0, -1):
        block = complete - (1 << g)
        if block < 1 or block & 1 == 0 or block << layer <= state[DEAD]:
            continue
        facts = blocks[0][layer, (block >> 1) & ((1 << (levels - 1)) - 1)]
        if facts[TIME] < edge:
            state[DEAD] = block << layer
        elif g < levels:
            old = kept_items(head, blocks, layer, block, g - 1)
            new = kept_items(head, blocks, layer, block, g)
            _leave_out(old, new, facts, threshold(layer, g, head[FINENESS]))


@kernel
def _merge(left: Integers, listed: int, right: Integers, size: int, out: Integers) -> int:
    """Write the items of both, their counts added, by rising item; return how many."""
    i = 0
    j = 0
    count = 0
    while i < listed or j < size:
        is_left = j >= size or (i < listed and left[0, i] <= right[0, j])
        item = left[0, i] if is_left else right[0, j]
        both = 0
        if i < listed and left[0, i] == item:
            both += left[1, i]
            i += 1
        if j < size and right[0, j] == item:
            both += right[1, j]
            j += 1
        out[0, count] = item
        out[1, count] = both
        count += 1
    return count


@kernel
def _take_off(items: Integers, size: int, most: int) -> tuple[int, int]:
    """Bring `items` down to `most`, after Misra and Gries; return (how many, what was off)."""
    if size <= most:
        return size, 0
    off = int(np.sort(items[1, :size])[size - 1 - most])
    count = 0
    for i in range(size):
        if items[1, i] > off:
            items[0, count] = items[0, i]
            items[1, count] = items[1, i] - off
            count += 1
    return count, off


@kernel
def _complete(
    head: Integers,
    state: Integers,
    times: Integers,
    items: Integers,
    blocks: Blocks,
    total: int,
    work: Integers,
    spare: Integers,
) -> None:
    """Take the 2^BASE events up to `total` as a block, and complete all blocks that end there."""
    levels = head[LEVELS]
    tail = state[TAIL]
    edge = max(state[NOW], times[total - 1 - tail] + 1) - head[SPAN]
    # What leaves the tail is not known any more: its last expired event is remembered.
    leaving = total - tail_length(levels)
    for index in range(leaving - 1, leaving - (1 << BASE) - 1, -1):
        if index >= tail and index > state[DEAD] and times[index - tail] < edge:
            state[DEAD] = index
            break
    since = GONE
    size = 0
    short = 0
    if total - (1 << BASE) >= tail and times[total - (1 << BASE) - tail] >= edge:
        since = times[total - (1 << BASE) - tail]
        for item in np.sort(items[total - (1 << BASE) - tail : total - tail]):
            if size > 0 and work[0, size - 1] == item:
                work[1, size - 1] += 1
            else:
                work[0, size] = item
                work[1, size] = 1
                size += 1
    layer = BASE
    block = (total >> BASE) - 1
    while True:
        _grow_older(head, state, blocks, layer, block + 1, edge)
        waiting = blocks[1][layer]
        if block & 1 == 0:
            waiting[TIME] = since
            waiting[LISTED] = size
            waiting[SHORT] = short
            waiting[MISSED] = 0
            if since >= edge:
                waiting_items(head, blocks, layer)[:, :size] = work[:, :size]
            return
        facts = blocks[0][layer, (block >> 1) & ((1 << (levels - 1)) - 1)]
        facts[TIME] = since
        facts[LISTED] = size
        facts[SHORT] = short
        facts[MISSED] = 0
        if since >= edge:
            new = kept_items(head, blocks, layer, block, 0)
            _leave_out(work, new, facts, threshold(layer, 0, head[FINENESS]))
        since = waiting[TIME] if ((block - 1) << layer) > state[DEAD] else GONE
        if since >= edge:
            left = waiting_items(head, blocks, layer)
            size = _merge(left, waiting[LISTED], work, size, spare)
            size, off = _take_off(spare, size, 1 << head[FRESH])
            short += waiting[SHORT] + off
            work, spare = spare, work
        layer += 1
        block >>= 1


@kernel
def absorb(
    head: Integers, state: Integers, times: Integers, items: Integers, blocks: Blocks, total: int
) -> None:
    """Take in the events up to `total`: times and items are of the events from TAIL on, checked.

    `blocks` has room for them. Cost: O(events * log(1/epsilon)).
    """
    work = np.empty((2, 2 << max(head[FRESH], BASE)), np.int64)
    spare = np.empty((2, 2 << max(head[FRESH], BASE)), np.int64)
    before = state[TOTAL]
    for end in range(((before >> BASE) + 1) << BASE, total + 1, 1 << BASE):
        _complete(head, state, times, items, blocks, end, work, spare)
    if total > before:
        state[NOW] = max(state[NOW], times[total - 1 - state[TAIL]] + 1)
    state[TOTAL] = total


@kernel
def settle(head: Integers, state: Integers, times: Integers, blocks: Blocks) -> int:
    """Bring DEAD up to now, the highest index known to have expired; return where the tail begins.

    Cost: O(blocks).
    """
    total = state[TOTAL]
    edge = state[NOW] - head[SPAN]
    levels = head[LEVELS]
    dead = state[DEAD]
    begin = max((total >> BASE << BASE) - tail_length(levels), dead + 1, state[TAIL])
    while begin < total and times[begin - state[TAIL]] < edge:
        dead = begin
        begin += 1
    for layer in range(BASE, bit_length(total)):
        complete = total >> layer
        start = (complete - 1) << layer
        if complete & 1 == 1 and start > dead and blocks[1][layer, TIME] < edge:
            dead = start
        oldest = oldest_kept(total, layer, state[DEAD], levels)
        for block in range((complete - 2) | 1, oldest - 1, -2):
            if block << layer <= dead:
                break
            if blocks[0][layer, (block >> 1) & ((1 << (levels - 1)) - 1), TIME] < edge:
                dead = block << layer
                break
    state[DEAD] = dead
    return int(max((total >> BASE << BASE) - tail_length(levels), dead + 1))
