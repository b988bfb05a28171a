"""Random numbers of symmetric p-stable laws, 1 < p <= 2, as whole numbers that replays repeat.

Source: Indyk 2000 ("Stable distributions, pseudorandom generators, embeddings and data stream
computation"); Chambers, Mallows, Stuck 1976. If each v_i has the law of characteristic function
exp(-|t|^p), then the sum of a_i v_i has that of (sum of |a_i|^p)^(1/p) v: that is all that is used.

Chambers, Mallows and Stuck make v from an angle and an exponential E: given the angle theta in
(0, pi/2), |v| = sin(p theta) / cos(theta)^(1/p) * (E / cos((p - 1) theta))^((p - 1) / p) rises with
E, so that P(|v| > x) is an integral over the angle of exp(-cos((p - 1) theta) (x / a)^(p / (p-1))).
Its inverse at 3 * 1,024 chances is kept, in whole units of 1/256, the rare ones apart (1,024 for
the largest 2^-10 of |v|, 1,024 for the largest 2^-20): a draw takes 31 bits and a sign of philox,
for a counter that is the item and the row. So sums of them are exact, in any order, and what two
machines' sines and logarithms differ by can only, once in very many times, show in the last place
of an entry.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.philox import philox

UNIT = 256
"""A draw is a whole number of 1/256."""

MAX_DRAW = 1 << 32
"""No draw is larger: |v| is taken as 2^24 at most, which cuts off a chance of about 2^(-24 p)."""

_LEVELS = 3
_CELLS = 1_024
_MASK = (1 << 32) - 1


def _survival(p: float, x: Floats) -> Floats:
    """Return P(|v| > x) for the x, by the tanh-sinh rule over the angle."""
    t = np.arange(-4.5, 4.5, 0.02)
    bend = np.pi * np.sinh(t)
    rest = np.pi / 2 / (1 + np.exp(bend))  # pi / 2 - theta, right also where it is tiny
    theta = np.pi / 2 / (1 + np.exp(-bend))
    weights = rest * theta * np.cosh(t) * (2 / np.pi)
    weights /= weights.sum()
    sine = np.where(theta < rest, np.sin(p * theta), np.sin(np.pi - p * theta))
    log_a = np.log(np.maximum(sine, 1e-300)) - np.log(np.sin(rest)) / p
    log_c = np.log(np.cos((p - 1) * theta))
    power = p / (p - 1)
    exponent = log_c + power * (np.log(x)[:, None] - log_a)
    survival: Floats = np.exp(-np.exp(np.minimum(exponent, 50))) @ weights
    return survival


@lru_cache(maxsize=64)
def _curve(p: float) -> tuple[Floats, Floats]:
    x = np.exp(np.linspace(np.log(1e-5), np.log(2e12), 4_000))
    survival = _survival(p, x)
    sound = survival > 1e-12
    return np.log(survival[sound])[::-1].copy(), np.log(x[sound])[::-1].copy()


def quantile(p: float, chance: npt.ArrayLike) -> Floats:
    """Return the x with P(|v| > x) = `chance`, for chances from 10^-12 to 1 - 10^-4 or so."""
    log_survival, log_x = _curve(p)
    x: Floats = np.exp(np.interp(np.log(chance), log_survival, log_x))
    return x


@lru_cache(maxsize=64)
def table(p: float) -> Integers:
    """Return the draws, int64[levels, 1024], in units of 1/256. Cost: some 100 ms, once for a p."""
    middle = 1 - (np.arange(_CELLS) + 0.5) / _CELLS
    chances = np.stack([middle / _CELLS**level for level in range(_LEVELS)])
    draws = np.rint(np.minimum(quantile(p, chances) * UNIT, MAX_DRAW))
    return np.ascontiguousarray(draws, np.int64)


@borrowing_kernel
def _draw(table: Integers, bits: int) -> int:
    """Return the draw for 32 random bits."""
    size = bits & 0x7FFFFFFF
    level = 0
    cell = size >> 21
    if cell == _CELLS - 1:
        level = 1
        cell = (size >> 11) & (_CELLS - 1)
        if cell == _CELLS - 1:
            level = 2
            cell = (size >> 1) & (_CELLS - 1)
    draw = int(table[level, cell])
    return -draw if bits >> 31 else draw


@kernel
def sketches(
    table: Integers, seed: int, items: Integers, weights: Integers, width: int
) -> Integers:
    """Return weight * draw of each item and row: int64[items, width]. Cost: O(items * width)."""
    out = np.empty((len(items), width), np.int64)
    k0 = seed & _MASK
    k1 = (seed >> 32) & _MASK
    for i in range(len(items)):
        c0 = items[i] & _MASK
        c1 = (items[i] >> 32) & _MASK
        for row in range(0, width, 4):
            a, b, c, d = philox(c0, c1, row, 1, k0, k1)
            out[i, row] = weights[i] * _draw(table, a)
            if row + 1 < width:
                out[i, row + 1] = weights[i] * _draw(table, b)
            if row + 2 < width:
                out[i, row + 2] = weights[i] * _draw(table, c)
            if row + 3 < width:
                out[i, row + 3] = weights[i] * _draw(table, d)
    return out
