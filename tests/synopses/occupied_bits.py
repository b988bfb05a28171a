"""The exact distribution of how many bits a number of items sets, by finite sums.

An item sets bit i of one of m bitmaps with a probability of q_i = 2^-(i+1) / m. The chance that n
items set z bits is n! times the coefficient of w^z y^n in the product over the bits of
1 + w (e^(y q_i) - 1). Both coefficients are taken by sums over roots of unity, y on a circle of
radius n; what is beyond 7 standard deviations of either number folds onto the rest.
"""

from math import ceil, lgamma, log, log2, pi, sqrt

import numpy as np

from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.lean_distinct.sketch import moments

_REACH = 7.0
_FEW = 4e-3  # hits of a bit: below, a power series of four terms is exact to a double


def chances(items: int, bitmaps: int) -> tuple[int, Floats]:
    """Return (the first number of bits, the chances of it and of those that follow)."""
    mean, variance = (float(f[0]) for f in moments(np.array([float(items)]), bitmaps))
    size = 1 << max(5, ceil(log2(2 * _REACH * sqrt(variance) + 30)))
    first = max(0, int(mean) - size // 2)
    w = np.exp(-2j * pi * np.arange(size // 2 + 1) / size)
    circle = int(2 * _REACH * sqrt(items) + 30)
    step = 2 * pi / circle
    # with many items the sum has what counts near y = n; with few, the whole circle is taken
    near = (
        circle // 2
        if items < 4 * bitmaps
        else min(circle // 2, int(_REACH * circle / (2 * pi) / sqrt(items)) + 1)
    )
    angles = np.arange(circle) * step if near == circle // 2 else np.arange(-near, near + 1) * step
    y = items * np.exp(1j * angles)
    logs = -1j * angles[:, None] * items + np.zeros((1, len(w)))
    level = 0
    with np.errstate(divide="ignore"):
        while items * 2.0 ** -(level + 1) / bitmaps >= _FEW:
            hits = y * 2.0 ** -(level + 1) / bitmaps
            logs += bitmaps * (hits[:, None] + np.log(w + np.multiply.outer(np.exp(-hits), 1 - w)))
            level += 1
    hits = y * 2.0 ** -(level + 1) / bitmaps
    series = (w, (w - w**2) / 2, (w - 3 * w**2 + 2 * w**3) / 6)
    series = (*series, (w - 7 * w**2 + 12 * w**3 - 6 * w**4) / 24)
    for power, factor in enumerate(series, 1):
        logs += bitmaps * np.outer(hits**power / (1 - 2.0**-power), factor)
    scale = lgamma(items + 1) - items * log(items)
    found = np.fft.irfft(np.exp(logs + scale).sum(axis=0) / circle, size)
    return first, np.roll(found, -(first % size))
