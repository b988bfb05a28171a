"""Summarise a block of values: merge two, and thin them.

Source: Arasu and Manku 2004, section 4.2, with blocks merged of small ones (quantile_layout.py).
"""

from slidestat.synopses.blocks.memory import KIND, RANDOM_QUANTILES, SEED
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.philox import priority
from slidestat.synopses.kernels.compile import borrowing_kernel


@borrowing_kernel
def offset_of(head: Integers, layer: int, block: int, draw: int, every: int) -> int:
    """Return which of every `every` values, a power of two, is kept: the first, or a random one.

    `draw` numbers the thinnings of a block: 0 when it is merged, 1 + phase later.
    """
    if head[KIND] != RANDOM_QUANTILES or every == 1:
        return 0
    return int(priority(head[SEED], block, (draw << 8) | layer) & (every - 1))


@borrowing_kernel
def thin(old: Integers, size: int, new: Integers, offset: int) -> int:
    """Write one of every so many of old[0, :size] that they fill `new`; return how many."""
    count = new.shape[1]
    every = size // count
    for i in range(count):
        new[0, i] = old[0, i * every + offset]
    return int(count)


@borrowing_kernel
def merge_values(
    left: Integers, listed: int, right: Integers, size: int, out: Integers, every: int, offset: int
) -> int:
    """Write one of every `every` of both together, in order, to `out`; return how many."""
    i = 0
    j = 0
    count = 0
    taken = offset
    for position in range(listed + size):
        if j >= size or (i < listed and left[0, i] <= right[0, j]):
            value = left[0, i]
            i += 1
        else:
            value = right[0, j]
            j += 1
        if position == taken:
            out[0, count] = value
            count += 1
            taken += every
    return count
