"""Eight-wise independent levels of items: a random polynomial over the field of 2^64 elements.

Source: Gibbons, Tirthapura 2002, section 4.1, whose hash is q p + r over GF(2^d), q and r random
and stored: the polynomial here has degree 7 instead of 1. Through any k points goes exactly one
polynomial of degree k - 1, so levels are k-wise independent, k = 8 (and pairwise, as in the paper),
and an item reaches level l with a probability of 2^-l.

The field is the polynomials over GF(2) modulo x^64 + x^4 + x^3 + x + 1; an element is the 64 bits
of an int64. Only XOR and shifts of NumPy's int64 are used, which wrap without complaint.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.philox import philox

INDEPENDENCE = 8
MAX_LEVEL = 63

_STREAM = 19  # tells these draws from others of the same seed
_MASK = (1 << 32) - 1


def coefficients(seed: int, instances: int) -> Integers:
    """Return int64[instances, INDEPENDENCE], random polynomials: a function of the seed alone."""
    drawn = np.empty((instances, INDEPENDENCE), np.uint64)
    for instance in range(instances):
        for pair in range(INDEPENDENCE // 2):
            a, b, c, d = philox(instance, pair, 0, _STREAM, seed & _MASK, seed >> 32)
            drawn[instance, 2 * pair] = (int(a) << 32) | int(b)
            drawn[instance, 2 * pair + 1] = (int(c) << 32) | int(d)
    return drawn.view(np.int64)


@borrowing_kernel
def multiples(item: int, window: Integers) -> None:
    """Fill `window`, int64[16], with the products of `item` and the polynomials below x^4."""
    window[0] = 0
    window[1] = item
    for i in range(1, 4):
        half = window[1 << (i - 1)]
        window[1 << i] = (half << 1) ^ (0x1B if half < 0 else 0)
        for j in range(1, 1 << i):
            window[(1 << i) + j] = window[1 << i] ^ window[j]


@borrowing_kernel
def _shifted(element: int, steps: int) -> int:
    """Return the product of `element` and x^steps, steps at most 32."""
    over = (element >> (64 - steps)) & ((1 << steps) - 1)
    return (element << steps) ^ over ^ (over << 1) ^ (over << 3) ^ (over << 4)


@borrowing_kernel
def product(factor: int, window: Integers) -> int:
    """Return the product in the field of `factor` and of the item that `window` was filled for.

    The halves of `factor` are taken side by side, so that a processor need not wait for one.
    """
    high = window[0]
    low = window[0]
    for shift in range(28, -1, -4):
        high = _shifted(high, 4) ^ window[(factor >> (32 + shift)) & 15]
        low = _shifted(low, 4) ^ window[(factor >> shift) & 15]
    return int(_shifted(high, 32) ^ low)


@borrowing_kernel
def level_of(polynomial: Integers, window: Integers) -> int:
    """Return the level of the item that `window` was filled for: the leading zeros of its hash.

    At most MAX_LEVEL. Cost: 7 products, some 10^2 steps.
    """
    value = polynomial[INDEPENDENCE - 1]
    for i in range(INDEPENDENCE - 2, -1, -1):
        value = product(value, window) ^ polynomial[i]
    level = 0
    while level < MAX_LEVEL and value >= 0:
        value <<= 1
        level += 1
    return level
