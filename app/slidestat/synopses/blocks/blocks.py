"""Which blocks of a stream are kept, and how finely: the frame of quantiles and frequent items.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004), sections
4 and 6 and appendix A, rebuilt so that every window is served by one set of blocks and each block
is stored once.

Number the events 0, 1, ..., T - 1. The last R to R + 2^BASE - 1 of them, R = 2^(levels + BASE - 1),
are kept as they are (the tail); the L = max(0, T - T mod 2^BASE - R) before have left it, into
blocks. A block of layer l is the 2^l events from b 2^l on. From layer BASE on, a complete block
with an even b waits for its right neighbour, as a fresh summary; one with an odd b is kept while it
is less than K = 2^levels blocks old. Its age d, in blocks, is floor(L / 2^l) - b; it is 1 at first,
and 2^g <= d < 2^(g+1) is called phase g. An older block is summarised more coarsely. When an odd
block completes, its parent is made of it and of the left one that waits.

Why this serves every window: docs/proofs.md. Which blocks exist follows from T alone; what expires,
from times alone; where a batch ended shows nowhere. Once an event of a block has expired, no window
can have the whole of it: then only the block's extremes are kept, as bounds for what straddles, and
once all of it has expired, nothing. The expired event with the highest index whose time was ever
known (`dead`) takes their place.
"""

from collections.abc import Callable

from slidestat.kernels.compile import borrowing_kernel

BASE = 3
"""The lowest layer of blocks: events leave the tail 2^BASE at a time."""

LIVE_LIMIT = 1 << 40
"""A window has fewer events than this: the error of fresh blocks is that of layer 40 at most."""

EVENT_LIMIT = 1 << 61
"""And a life fewer than this."""


def cheapest_layout(
    keeps: Callable[[int, int, int], bool], cost_of_a_block: float
) -> tuple[int, int, int]:
    """Return the (levels, fineness, fresh) that keep a promise and take the least room a layer.

    cost_of_a_block: the room for what is known of a block, in values or items. The result is part
    of the stored format: bytes name what is promised alone.
    """
    best = (0, 0, 0)
    least = float("inf")
    for levels in range(2, 16):
        for fineness in range(1, 24):
            for fresh in range(BASE, 24):
                cost = levels * 2.0 ** (fineness - 1) + 2.0**fresh + cost_of_a_block * 2.0**levels
                if cost < least and keeps(levels, fineness, fresh):
                    best, least = (levels, fineness, fresh), cost
                    break
    return best


@borrowing_kernel
def tail_length(levels: int) -> int:
    """Return R, the number of events before the last multiple of 2^BASE kept as they are."""
    return int(1 << (levels + BASE - 1))


@borrowing_kernel
def left_tail(total: int, levels: int) -> int:
    """Return L, the number of events that have left the tail, of `total`."""
    return int(max(0, (total >> BASE << BASE) - tail_length(levels)))


@borrowing_kernel
def bit_length(number: int) -> int:
    """Return how many bits `number` >= 0 has."""
    bits = 0
    while number > 0:
        bits += 1
        number >>= 1
    return bits


@borrowing_kernel
def trailing_zeros(number: int) -> int:
    """Return which power of two divides `number` > 0."""
    zeros = 0
    while number & 1 == 0:
        zeros += 1
        number >>= 1
    return zeros


@borrowing_kernel
def oldest_kept(left: int, layer: int, dead: int, levels: int) -> int:
    """Return the lowest odd b of the blocks kept in `layer`; those up to floor(L / 2^l) - 1 are.

    A block is kept while less than 2^levels blocks old, and not known to have expired as a whole.
    """
    complete = left >> layer
    first = max(complete - (1 << levels) + 1, 0)
    # The first block with an event after the dead one: its last event is beyond it.
    first = max(first, (dead + 1) >> layer)
    return int(first | 1)
