"""How many items stand for a block of a summary of frequent items, and how far counts may be off.

A block is a list of (item, count) and a shortfall M: for each item, listed or not (count 0), at
least `count` and at most `count + M` of the block's events are it.

- Fresh blocks have at most k = 2^fresh items, after Misra and Gries: if a block merged of two, by
  adding counts and shortfalls, has more, the (k+1)-th largest count c is taken off all counts, and
  added to M. That takes at least (k + 1) c off the sum of the counts, so at all times
  (k + 1) M <= events - sum of the counts, and M <= events / (k + 1).
- A kept block of phase g lists only what has a count above 2^(l+g-fineness). What it no longer
  lists is short of at most M and the largest count left out (`missed`), at most that. It lists
  fewer than 2^(fineness-g) items, as their counts add up to at most 2^l.

The width of a window that follows from it, and the space: docs/proofs.md.
"""

from functools import lru_cache

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.blocks.blocks import cheapest_layout


@lru_cache(maxsize=256)
def choose(epsilon: float) -> tuple[int, int, int]:
    """Return (levels, fineness, fresh) that keep the promise and take the fewest items a layer."""
    return cheapest_layout(lambda *layout: promise(*layout) <= epsilon, 1.0)


def promise(levels: int, fineness: int, fresh: int) -> float:
    """Return epsilon', by which share of the window's events a count is at most too low."""
    return 1 / (2.0**fresh + 1) + levels / 2.0**fineness + 2 / (2.0**levels - 1)


@borrowing_kernel
def fresh_items(layer: int, fresh: int) -> int:
    """Return how many items a fresh block may list."""
    return int(1 << min(layer, fresh))


@borrowing_kernel
def threshold(layer: int, phase: int, fineness: int) -> int:
    """Return the count above which a kept block of that phase lists an item."""
    shift = layer + phase - fineness
    return int(1 << shift) if shift >= 0 else 0


@borrowing_kernel
def most_listed(layer: int, phase: int, fineness: int, fresh: int) -> int:
    """Return how many items a kept block of that phase may list."""
    return int(1 << min(layer, fresh, max(fineness - phase, 0)))
