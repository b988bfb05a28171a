"""A summary of blocks while it is in memory: what a kernel finds where."""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks.blocks import BASE, bit_length, left_tail
from slidestat.synopses.blocks.frequent_layout import fresh_items, most_listed
from slidestat.synopses.blocks.quantile_layout import fresh_weight, kept_weight
from slidestat.synopses.core.arrays import Integers

QUANTILES, FREQUENT, RANDOM_QUANTILES = 13, 14, 21
"""Kinds of summaries (wire.py)."""

FIXED_QUANTILES, FIXED_FREQUENT, FIXED_RANDOM_QUANTILES = 31, 32, 33
"""The same, in the same order, of one window (one_window.py)."""

# Places in the array of a summary's numbers: events so far, time, the expired event of the highest
# index known, the index of the first event in the tail that is in memory.
TOTAL, NOW, DEAD, TAIL = 0, 1, 2, 3
STATE_SIZE = 4

# Places in the array of what a summary was made with.
KIND, SPAN, LEVELS, FINENESS, FRESH, SEED = 0, 1, 2, 3, 4, 5
STORED = 6
"""The kind in the bytes: KIND, or that of the same for one window."""

# Places in what is known of a block, besides its values or items: the times of its first event and
# (while it waits) of its last one; how many values or items stand for it; and then its minimum and
# maximum, or its shortfall and the largest count left out since.
TIME, LAST, LISTED = 0, 1, 2
LOW, HIGH = 3, 4
SHORT, MISSED = 3, 4
FACTS = 5

GONE = -(1 << 62)
"""The time of an event that has expired, where it need not be known any more."""

# The blocks in memory: facts, by layer and (b >> 1) mod 2^(levels-1) for kept blocks, and behind
# them the waiting one's; where the rows of a layer's waiting block and phases begin; the rows:
# values in the order of `columns.ordered`, or items, and their counts.
Blocks = tuple[Integers, Integers, Integers]


@borrowing_kernel
def is_fixed(head: Integers) -> bool:
    """Return whether the summary is for one window of a fixed number of events (one_window.py)."""
    return bool(head[STORED] != head[KIND])


@borrowing_kernel
def _places(head: Integers, phase: int) -> int:
    """Return how many odd blocks of a layer may be in `phase` at once, a power of two."""
    return int(1 << (phase if is_fixed(head) else max(phase - 1, 0)))


@borrowing_kernel
def fresh_room(head: Integers, layer: int) -> int:
    """Return how many values or items may stand for a fresh block of `layer`."""
    if head[KIND] == FREQUENT:
        return fresh_items(layer, head[FRESH])
    return int(1 << (layer - fresh_weight(layer, head[FRESH])))


@borrowing_kernel
def kept_room(head: Integers, layer: int, phase: int) -> int:
    """Return how many values or items may stand for a kept block of that phase."""
    if head[KIND] == FREQUENT:
        return most_listed(layer, phase, head[FINENESS], head[FRESH])
    return int(1 << (layer - kept_weight(layer, phase, head[FINENESS], head[FRESH])))


@kernel
def make_blocks(head: Integers, total: int, dead: int) -> Blocks:
    """Return room for the blocks of a summary with `total` events, none before `dead` alive."""
    levels = head[LEVELS]
    left = left_tail(total, levels)
    alive = BASE
    while 1 << alive <= left - 1 - dead:
        alive += 1
    starts = np.zeros((alive + 1, levels + 2), np.int64)
    end = 0
    for layer in range(BASE, alive):
        starts[layer, 0] = end
        end += fresh_room(head, layer)
        for g in range(levels):
            starts[layer, g + 1] = end
            end += _places(head, g) * kept_room(head, layer, g)
        starts[layer, levels + 1] = end
    return (
        np.empty((bit_length(left), (1 << (levels - 1)) + 1, FACTS), np.int64),
        starts,
        np.empty((2 if head[KIND] == FREQUENT else 1, end), np.int64),
    )


@kernel
def kept_facts(head: Integers, blocks: Blocks, layer: int, block: int) -> Integers:
    """Return what is known of an odd block."""
    facts: Integers = blocks[0][layer, (block >> 1) & ((1 << (head[LEVELS] - 1)) - 1)]
    return facts


@kernel
def waiting_facts(head: Integers, blocks: Blocks, layer: int) -> Integers:
    """Return what is known of the block that waits in `layer`."""
    facts: Integers = blocks[0][layer, 1 << (head[LEVELS] - 1)]
    return facts


@borrowing_kernel
def kept_at(head: Integers, blocks: Blocks, layer: int, block: int, phase: int, room: int) -> int:
    """Return where the rows of an odd block are while in `phase`, with so much room."""
    slot = (block >> 1) & (_places(head, phase) - 1)
    return int(blocks[1][layer, phase + 1] + slot * room)


@kernel
def kept_rows(head: Integers, blocks: Blocks, layer: int, block: int, phase: int) -> Integers:
    """Return the room of an odd block while in `phase`."""
    size = kept_room(head, layer, phase)
    at = kept_at(head, blocks, layer, block, phase, size)
    return blocks[2][:, at : at + size]


@kernel
def waiting_rows(head: Integers, blocks: Blocks, layer: int) -> Integers:
    """Return the room of the block that waits in `layer`."""
    at = blocks[1][layer, 0]
    return blocks[2][:, at : at + fresh_room(head, layer)]
