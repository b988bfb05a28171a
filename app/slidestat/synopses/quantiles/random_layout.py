"""How far random thinning may be off, and how many values it needs.

As quantile_layout.py, but of each 2^e values in order a random one is kept, not the first. Where p
values are <= x, the number kept of them, times 2^e, is p on average; it is p - r or p - r + 2^e,
r = p mod 2^e. So a thinning to values for 2^w events adds an error to S(x) that is 0 on average,
whatever the thinnings before it drew, and lies between two numbers at most 2^w apart. By the
inequality of Hoeffding and Azuma, S(x) is more than s too high with a chance of at most
exp(-2 s^2 / V), and as much for too low, V being the sum of 4^w over all thinnings that the
window's blocks went through. Answers need that at four values of x (answer.py): for a
chance of delta in all, s = sqrt(V log(4 / delta) / 2).

docs/proofs.md says what V comes to.

Source: Arasu and Manku 2004, sections 5 and 7 (theorems 5.2 and 7.2): there, blocks under
construction are fed by a random sample; here they are thinned at random as they are merged.
"""

from functools import lru_cache
from math import log, sqrt

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.blocks.blocks import cheapest_layout
from slidestat.synopses.blocks.quantile_layout import fresh_weight, kept_weight


@lru_cache(maxsize=256)
def choose(epsilon: float, delta: float) -> tuple[int, int, int]:
    """Return (levels, fineness, fresh) that keep the promise and take the fewest values a layer."""
    return cheapest_layout(
        lambda levels, fineness, fresh: promise(levels, fineness, fresh, delta) <= epsilon, 3.5
    )


def promise(levels: int, fineness: int, fresh: int, delta: float) -> float:
    """Return the rank error, as a share of the window's events, that delta is kept to for."""
    spread = 4 / 3 * levels / 4.0**fineness + 2 / 4.0**fresh
    return sqrt(spread * likely(delta)) + 1 / (2.0**levels - 1)


@borrowing_kernel
def likely(delta: float) -> float:
    """Return s^2 / V, such that sums are farther off than s with a chance of delta / 4 a side."""
    return log(4 / delta) / 2


@borrowing_kernel
def fresh_spread(layer: int, fresh: int) -> float:
    """Return V of a fresh block."""
    spread = 0.0
    before = 0
    for at in range(fresh + 1, layer + 1):
        weight = fresh_weight(at, fresh)
        spread *= 2
        if weight > before:
            spread += 4.0**weight
        before = weight
    return spread


@borrowing_kernel
def kept_spread(layer: int, phase: int, fineness: int, fresh: int) -> float:
    """Return V of a kept block of that phase."""
    spread = fresh_spread(layer, fresh)
    before = fresh_weight(layer, fresh)
    for g in range(phase + 1):
        weight = kept_weight(layer, g, fineness, fresh)
        if weight > before:
            spread += 4.0**weight
        before = weight
    return spread
