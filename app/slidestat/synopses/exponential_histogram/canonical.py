"""The l-canonical form: which bucket sizes an exponential histogram of a given total has.

Source: Datar, Gionis, Indyk, Motwani, "Maintaining Stream Statistics over Sliding Windows" (2002),
section 4 (procedure l-Canonical, lemma 4.1), restated over positions as follows.

Number the units ever inserted 1..S. With T_i = floor((S + l) / 2^i) - l, the buckets of size 2^i
are (p - 2^i, p] for p = q * 2^i and q = T_i, T_i - 1, ..., 2 * max(T_{i+1}, 0) + 1; the levels
i = 0, 1, 2, ... go from new to old and end where T_i <= 0. The edge p is the bucket's newest unit.

Why this is the paper's form: T_i - 2 T_{i+1} = l + (bit i of S + l), which is l or l + 1 on every
level but the last, and the last takes what remains (it may be none). The sizes add up to S, and
the representation is unique (lemma 4.1).

What follows from it:

- Edges of level i are multiples of 2^i, and 2^i T_i never falls as S grows. So the level of a
  position only rises, and a position that is no edge never becomes one: going from S to S' > S
  keeps some of the old edges and adds edges among the new units. Nothing but S and the times of
  the old edges is needed, and it does not matter by which steps S' was reached.
- The edge at P units behind the newest one has a bucket of size c = 2^i with P >= l (c - 1), since
  S - 2^i T_i = l (2^i - 1) + ((S + l) mod 2^i). This is the paper's invariant 2.1.
- Buckets are cut off at the old end by expiry alone, and S is never reduced by it. A live bucket
  of size c has P <= N' - 1 (N' live units), so there are at most
  (l + 1) (log2((N' - 1) / l + 1) + 1) live buckets, as theorem 2.1 promises.
- Levels up to i depend on S only modulo 2^i (while q > 0). So a huge S may be lowered by a multiple
  of `REBASE` without moving any live edge, if fewer than 2^62 units are live.
"""

from slidestat.synopses.core.kernels.compile import borrowing_kernel

REBASE = 1 << 61
"""What a total is lowered by once it is huge; a multiple of every bucket size in use."""

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
