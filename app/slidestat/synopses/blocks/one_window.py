"""Which blocks are kept for one window of a fixed number of events, and how finely.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004), sections
4.1, 4.2 and 5 (theorems 4.1, 4.2 and 5.2).

Let the window be the last N = span events, each of which has a number of its own, larger than that
of the one before. Of L events that have left the tail (blocks.py), let M be the largest power of
two that is at most min(L, N). A block of layer l is kept in phase g = log2(M) - l, whatever its
age, and not at all if g >= levels: all blocks of all layers are as coarse as the paper's, off by
2^(l+g-fineness) = M 2^-fineness. (For windows of any length, a block is only as coarse as its own
age lets it be.) Why this serves the window, and in how much space: docs/proofs.md.
"""

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.blocks.blocks import bit_length, oldest_kept
from slidestat.synopses.blocks.memory import LEVELS, SPAN, is_fixed
from slidestat.synopses.core.arrays import Integers


@borrowing_kernel
def fixed_phase(head: Integers, left: int, layer: int) -> int:
    """Return the phase of all kept blocks of `layer`, of one window; none are, from `levels` on."""
    return int(max(0, bit_length(min(left, head[SPAN])) - 1 - layer))


@borrowing_kernel
def phase_of(head: Integers, left: int, layer: int, block: int) -> int:
    """Return the phase that a kept block is in when `left` events have left the tail."""
    if is_fixed(head):
        return fixed_phase(head, left, layer)
    return int(bit_length((left >> layer) - block) - 1)


@borrowing_kernel
def oldest_of(head: Integers, left: int, layer: int, dead: int) -> int:
    """Return the lowest odd b of the blocks kept in `layer`; those up to floor(L / 2^l) - 1 are."""
    if is_fixed(head) and fixed_phase(head, left, layer) >= head[LEVELS]:
        return int((left >> layer) | 1)
    return oldest_kept(left, layer, dead, head[LEVELS])


@borrowing_kernel
def known_dead(head: Integers, total: int) -> int:
    """Return the highest index that has expired for certain, as numbers rise; -1 for none."""
    return int(max(-1, total - 1 - head[SPAN])) if is_fixed(head) else -1


@borrowing_kernel
def not_larger(numbers: Integers, now: int) -> tuple[int, int]:
    """Return the first event's number that is no larger than the one before, and that one; or 1, 0.

    Events with numbers below `now` have been before.
    """
    last = now - 1
    for i in range(len(numbers)):
        if numbers[i] <= last:
            return int(numbers[i]), int(last)
        last = numbers[i]
    return 1, 0
