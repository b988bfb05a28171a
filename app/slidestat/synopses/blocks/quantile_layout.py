"""How many values stand for each block of a quantile summary, and what that costs in ranks.

A block of 2^l events is 2^(l - w) of its values in order, each standing for 2^w events: the first
of each such group, and besides them the block's maximum. For each x, let S(x) be 2^w times the
number of the values (without the maximum) that are <= x; then

    S(x) - D <= (number of the block's events that are <= x) <= S(x),

and the same for < x (proof: docs/proofs.md).

Fresh blocks have at most 2^(fresh + c) values, where c, the extra fineness, rises with the layer: 0
in the first 2 layers above `fresh`, 1 in the next 4, 2 in the next 8, and so on. w is the least
that does: max(0, l - fresh - c). Each layer doubles D by merging, and adds 2^w / 2 where it keeps
every other value. In stretch c, the added shares of the events, 2^(w-1-l), come to less than
2^-fresh; so up to layer 40 they are less than 4 2^-fresh together, and not 20 2^-fresh.
A block of phase g has w = max(fresh w, l + g - fineness), and so D = fresh D + 2^w - 2^(fresh w).

The width of a window that follows from it, and the space: docs/proofs.md.
"""

from functools import lru_cache

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.blocks.blocks import bit_length, cheapest_layout

LAYERS = 40


@lru_cache(maxsize=256)
def choose(epsilon: float) -> tuple[int, int, int]:
    """Return (levels, fineness, fresh) that keep the promise and take the fewest values a layer."""
    return cheapest_layout(lambda *layout: promise(*layout) <= epsilon, 2.5)


def promise(levels: int, fineness: int, fresh: int) -> float:
    """Return epsilon', the promised rank error as a share of the window's events."""
    waiting = fresh_width(LAYERS, fresh) / 2.0**LAYERS
    return (waiting + levels / 2.0**fineness + 2 / (2.0**levels - 1)) / 2


@borrowing_kernel
def fresh_weight(layer: int, fresh: int) -> int:
    """Return log2 of what a value of a fresh block stands for."""
    above = layer - fresh
    return int(above - bit_length(above + 1) + 2) if above > 0 else 0


@borrowing_kernel
def kept_weight(layer: int, phase: int, fineness: int, fresh: int) -> int:
    """Return log2 of what a value of a kept block of that phase stands for."""
    return int(max(fresh_weight(layer, fresh), layer + phase - fineness))


@borrowing_kernel
def fresh_width(layer: int, fresh: int) -> int:
    """Return D of a fresh block."""
    width = 0
    before = 0
    for at in range(fresh + 1, layer + 1):
        weight = fresh_weight(at, fresh)
        width = 2 * width + (1 << weight) - (1 << before)
        before = weight
    return int(width)


@borrowing_kernel
def kept_width(layer: int, phase: int, fineness: int, fresh: int) -> int:
    """Return D of a kept block of that phase."""
    coarser = (1 << kept_weight(layer, phase, fineness, fresh)) - (1 << fresh_weight(layer, fresh))
    return int(fresh_width(layer, fresh) + coarser)
