"""Philox 4x32-10, a random function of a counter and a key, for draws that replays repeat.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011), section 3.
Numbers are 32 bits in 64-bit integers.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel

_MASK = (1 << 32) - 1
_32, _LOW = np.uint64(32), np.uint64(_MASK)
_ROUNDS = 10


@borrowing_kernel
def _product(a: int, b: int) -> tuple[int, int]:
    """Return the high and the low 32 bits of a * b."""
    # Without a sign: the compiler takes it for granted that no product with one is beyond 2^63.
    product = np.uint64(a) * np.uint64(b)
    return int(np.int64(product >> _32)), int(np.int64(product & _LOW))


@borrowing_kernel
def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]:
    """Return four random numbers of 32 bits for a counter c and a key k of such numbers."""
    for _ in range(_ROUNDS):
        high0, low0 = _product(0xD2511F53, c0)
        high1, low1 = _product(0xCD9E8D57, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = (k0 + 0x9E3779B9) & _MASK
        k1 = (k1 + 0xBB67AE85) & _MASK
    return c0, c1, c2, c3


@borrowing_kernel
def priority(seed: int, index: int, draw: int) -> int:
    """Return 62 random bits for the event number `index` of a stream; `draw` numbers the draws."""
    a, b, _, _ = philox(index & _MASK, index >> 32, draw, 0, seed & _MASK, seed >> 32)
    return (a << 30) | (b >> 2)
