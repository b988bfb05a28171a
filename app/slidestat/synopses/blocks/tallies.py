"""Summarise a block of items: counts merged after Misra and Gries, and small ones left out.

Source: Misra and Gries 1982; Arasu and Manku 2004, section 4.1 (frequent_layout.py).
"""

import numpy as np

from slidestat.synopses.blocks.memory import LISTED, MISSED
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel


@borrowing_kernel
def count_sorted(work: Integers, size: int) -> int:
    """Make sorted items work[0, :size] into items and counts; return how many there are."""
    count = 0
    for i in range(size):
        if count > 0 and work[0, count - 1] == work[0, i]:
            work[1, count - 1] += 1
        else:
            work[0, count] = work[0, i]
            work[1, count] = 1
            count += 1
    return count


@borrowing_kernel
def leave_out(old: Integers, new: Integers, facts: Integers, above: int) -> None:
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


@borrowing_kernel
def merge_items(left: Integers, listed: int, right: Integers, size: int, out: Integers) -> int:
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
def take_off(items: Integers, size: int, most: int) -> tuple[int, int]:
    """Reduce `items` to `most`, after Misra and Gries; return (how many, what was off)."""
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
