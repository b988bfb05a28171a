"""Numbers for the different items of one call: 0, 1, 2, ... in the order they come."""

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel


@kernel
def make_table(most: int) -> Integers:
    """Return a table that has room for `most` items."""
    size = 8
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int64)


@borrowing_kernel
def code_of(table: Integers, items: Integers, count: int, item: int) -> int:
    """Return the place of `item` in items[:count], or `count`, where it is put then."""
    last = len(table) - 1
    mixed = item ^ ((item >> 32) & 0xFFFFFFFF)
    mixed = (mixed ^ (mixed << 7) ^ ((mixed >> 15) & 0xFFFF)) & 0x7FFFFFFF
    at = ((mixed * 2_654_435_769) >> 15) & last
    while table[at] >= 0 and items[table[at]] != item:
        at = (at + 1) & last
    if table[at] < 0:
        table[at] = count
        items[count] = item
    return int(table[at])
