"""Taking events into the blocks of a quantile summary, each as its index says.

Source: Arasu and Manku 2004, section 4 and appendix A. What is kept and why is in blocks.py, how a
block is summarised in quantile_layout.py. Cost of an event: one merge step in each layer up to
`fresh`, half of it in each layer beyond; O(log(1/epsilon)).
"""

import numpy as np
import numpy.typing as npt

from app.synopses.compile import kernel
from app.synopses.levels.blocks import BASE, bit_length, oldest_kept, tail_length
from app.synopses.levels.quantile_layout import fresh_weight, kept_weight

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Places in the array of a summary's numbers while it is in memory.
TOTAL, NOW, DEAD, TAIL = 0, 1, 2, 3
STATE_SIZE = 4

# Places in the array of what a summary was made with.
KIND, SPAN, LEVELS, FINENESS, FRESH = 0, 1, 2, 3, 4
HEAD_SIZE = 5

GONE = -(1 << 62)
"""The time of an event that has expired, where it need not be known any more."""

# The blocks in memory: times of the first events, minima and maxima of kept blocks, by layer and
# (b >> 1) mod 2^(levels-1); first and last times, minima and maxima of waiting blocks, by layer;
# where the values of a layer's waiting block and phases begin; the values.
Blocks = tuple[
    Integers, Floats, Floats, Integers, Integers, Floats, Floats, npt.NDArray[np.int64], Floats
]


@kernel
def make_blocks(head: Integers, total: int, dead: int) -> Blocks:
    """Return room for the blocks of a summary with `total` events, none before `dead` alive."""
    levels = head[LEVELS]
    layers = max(bit_length(total), BASE)
    alive = BASE
    while 1 << alive <= total - 1 - dead:
        alive += 1
    starts = np.zeros((alive + 1, levels + 2), np.int64)
    end = 0
    for layer in range(BASE, alive):
        starts[layer, 0] = end
        end += 1 << (layer - fresh_weight(layer, head[FRESH]))
        for g in range(levels):
            starts[layer, g + 1] = end
            weight = kept_weight(layer, g, head[FINENESS], head[FRESH])
            end += max(1, 1 << (g - 1) if g > 0 else 1) << (layer - weight)
        starts[layer, levels + 1] = end
    ring = 1 << (levels - 1)
    return (
        np.empty((layers, ring), np.int64),
        np.empty((layers, ring), np.float64),
        np.empty((layers, ring), np.float64),
        np.empty(layers, np.int64),
        np.empty(layers, np.int64),
        np.empty(layers, np.float64),
        np.empty(layers, np.float64),
        starts,
        np.empty(end, np.float64),
    )


@kernel
def kept_values(head: Integers, blocks: Blocks, layer: int, block: int, phase: int) -> Floats:
    """Return the values, as they are in memory, of an odd block while in `phase`."""
    size = 1 << (layer - kept_weight(layer, phase, head[FINENESS], head[FRESH]))
    slot = (block >> 1) & ((1 << (phase - 1)) - 1 if phase > 0 else 0)
    at = blocks[7][layer, phase + 1] + slot * size
    return blocks[8][at : at + size]


@kernel
def waiting_values(head: Integers, blocks: Blocks, layer: int) -> Floats:
    """Return the values, as they are in memory, of the block that waits in `layer`."""
    at = blocks[7][layer, 0]
    return blocks[8][at : at + (1 << (layer - fresh_weight(layer, head[FRESH])))]


@kernel
def _grow_older(
    head: Integers, state: Integers, blocks: Blocks, layer: int, complete: int, edge: int
) -> None:
    """Move the kept blocks of `layer` whose age has come to a power of two, the oldest first."""
    times = blocks[0]
    levels = head[LEVELS]
    for g in range(levels, 0, -1):
        block = complete - (1 << g)
        if block < 1 or block & 1 == 0:
            continue
        start = block << layer
        if start <= state[DEAD]:
            continue
        if times[layer, (block >> 1) & ((1 << (levels - 1)) - 1)] < edge:
            state[DEAD] = start
        elif g < levels:
            old = kept_values(head, blocks, layer, block, g - 1)
            new = kept_values(head, blocks, layer, block, g)
            every = len(old) // len(new)
            for i in range(len(new)):
                new[i] = old[i * every]


@kernel
def _merge(left: Floats, right: Floats, size: int, out: Floats, every: int) -> int:
    """Write the 1st of every `every` of both together, in order, to `out`; return how many."""
    i = 0
    j = 0
    count = 0
    taken = 0
    for position in range(len(left) + size):
        if j >= size or (i < len(left) and left[i] <= right[j]):
            value = left[i]
            i += 1
        else:
            value = right[j]
            j += 1
        if position == taken:
            out[count] = value
            count += 1
            taken += every
    return count


@kernel
def _complete(
    head: Integers,
    state: Integers,
    times: Integers,
    values: Floats,
    blocks: Blocks,
    total: int,
    work: Floats,
    spare: Floats,
) -> None:
    """Take the 2^BASE events up to `total` as a block, and complete all blocks that end there."""
    kept_times, kept_min, kept_max, first, last, low, high, _, _ = blocks
    levels = head[LEVELS]
    tail = state[TAIL]
    until = times[total - 1 - tail]
    edge = max(state[NOW], until + 1) - head[SPAN]
    # What leaves the tail is not known any more: its last expired event is remembered.
    leaving = total - tail_length(levels)
    for index in range(leaving - 1, leaving - (1 << BASE) - 1, -1):
        if index >= tail and index > state[DEAD] and times[index - tail] < edge:
            state[DEAD] = index
            break
    size = 0
    for index in range(max(total - (1 << BASE), tail), total):
        if times[index - tail] >= edge:
            value = values[index - tail]
            i = size
            while i > 0 and work[i - 1] > value:
                work[i] = work[i - 1]
                i -= 1
            work[i] = value
            size += 1
    least = work[0]
    most = work[size - 1]
    since = times[total - (1 << BASE) - tail] if size == 1 << BASE else GONE
    layer = BASE
    block = (total >> BASE) - 1
    while True:
        _grow_older(head, state, blocks, layer, block + 1, edge)
        whole = since >= edge
        if block & 1 == 0:
            first[layer] = since
            last[layer] = until
            low[layer] = least
            high[layer] = most
            if whole:
                waiting_values(head, blocks, layer)[:] = work[:size]
            return
        slot = (block >> 1) & ((1 << (levels - 1)) - 1)
        kept_times[layer, slot] = since
        kept_min[layer, slot] = least
        kept_max[layer, slot] = most
        if whole:
            new = kept_values(head, blocks, layer, block, 0)
            every = size // len(new)
            for i in range(len(new)):
                new[i] = work[i * every]
        if (block << layer) - 1 <= state[DEAD] or last[layer] < edge:
            state[DEAD] = max(state[DEAD], (block << layer) - 1)
            since = GONE
        else:
            least = min(least, low[layer])
            most = max(most, high[layer])
            since = first[layer] if ((block - 1) << layer) > state[DEAD] else GONE
            if since >= edge:
                weights = fresh_weight(layer + 1, head[FRESH]) - fresh_weight(layer, head[FRESH])
                left = waiting_values(head, blocks, layer)
                size = _merge(left, work, size, spare, 1 << weights)
                work, spare = spare, work
        layer += 1
        block >>= 1


@kernel
def absorb(
    head: Integers,
    state: Integers,
    times: Integers,
    values: Floats,
    blocks: Blocks,
    total: int,
) -> None:
    """Take in the events up to `total`: times and values are of the events from TAIL on, checked.

    `blocks` has room for them. Cost: O(events * log(1/epsilon)).
    """
    work = np.empty(2 << max(head[FRESH], BASE), np.float64)
    spare = np.empty(2 << max(head[FRESH], BASE), np.float64)
    before = state[TOTAL]
    for end in range(((before >> BASE) + 1) << BASE, total + 1, 1 << BASE):
        _complete(head, state, times, values, blocks, end, work, spare)
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
        if complete & 1 == 1:
            start = (complete - 1) << layer
            if start > dead and blocks[3][layer] < edge:
                dead = start
            end = (complete << layer) - 1
            if end > dead and blocks[4][layer] < edge:
                dead = end
        oldest = oldest_kept(total, layer, state[DEAD], levels)
        for block in range((complete - 2) | 1, oldest - 1, -2):
            if block << layer <= dead:
                break
            if blocks[0][layer, (block >> 1) & ((1 << (levels - 1)) - 1)] < edge:
                dead = block << layer
                break
    state[DEAD] = dead
    return int(max((total >> BASE << BASE) - tail_length(levels), dead + 1))
