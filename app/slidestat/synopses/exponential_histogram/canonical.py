"""The l-canonical form: which bucket sizes an exponential histogram of a given total has.

Source: Datar, Gionis, Indyk, Motwani, "Maintaining Stream Statistics over Sliding Windows" (2002),
section 4 (procedure l-Canonical, lemma 4.1), restated over positions as follows.

Number the units ever inserted 1..S. With T_i = floor((S + l) / 2^i) - l, the buckets of size 2^i
are (p - 2^i, p] for p = q * 2^i and q = T_i, T_i - 1, ..., 2 * max(T_{i+1}, 0) + 1; the levels
i = 0, 1, 2, ... go from new to old and end where T_i <= 0. The edge p is the bucket's newest unit.

Why this is the paper's form, and what follows from it (a split into batches never shows, the error,
the space): docs/proofs.md.
"""

from slidestat.kernels.compile import borrowing_kernel

REBASE = 1 << 61
"""A total is lowered by this once it is huge; a multiple of every bucket size in use."""

TOTAL_LIMIT = 3 * REBASE
"""Stored totals stay below this: then total + l and total + one chunk fit in 63 bits."""

LIVE_LIMIT = (1 << 62) - 1
"""The oldest live edge has fewer newer units than this: then its level is at most 61, and its
position stays positive after lowering (a lowered total is at least 2^62)."""


@borrowing_kernel
def rebased(total: int) -> int:
    """Return the total to be stored for `total` units: itself, or lowered. Cost: O(1)."""
    if total >= TOTAL_LIMIT:
        total -= ((total - 2 * REBASE) // REBASE) * REBASE
    return total


@borrowing_kernel
def bucket_count(total: int, per_level: int) -> int:
    """Return how many buckets `total` units have when none has expired. Cost: O(log total)."""
    base = total + per_level
    count = 0
    level = 0
    top = base - per_level
    while top > 0:
        below = max((base >> (level + 1)) - per_level, 0)
        count += top - 2 * below
        level += 1
        top = (base >> level) - per_level
    return count


@borrowing_kernel
def bucket_at(total: int, per_level: int, index: int) -> tuple[int, int]:
    """Return (units newer than its edge, size) of the bucket at `index`, 0 being the newest.

    `index` is less than `bucket_count(total, per_level)`. Cost: O(log total).
    """
    base = total + per_level
    level = 0
    while True:
        top = (base >> level) - per_level
        below = max((base >> (level + 1)) - per_level, 0)
        on_level = top - 2 * below
        if index < on_level:
            return total - ((top - index) << level), 1 << level
        index -= on_level
        level += 1


@borrowing_kernel
def bucket_since(total: int, per_level: int, unit: int) -> tuple[int, int]:
    """Return (units newer than its edge, size) of the oldest bucket whose edge is not before a
    unit, from 1 to `total`. Cost: O(log total).
    """
    base = total + per_level
    level = 0
    while unit <= max((base >> (level + 1)) - per_level, 0) << (level + 1):
        level += 1
    edge = ((unit + (1 << level) - 1) >> level) << level
    return total - edge, 1 << level
