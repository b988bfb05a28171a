"""Bounds as doubles that are surely not above, or not below, what is exact.

A value is the double nearest to it. Whole numbers below 2^53 are doubles; of those from there on a
double d is all whose nearest it is: they lie between the doubles next to d. Rounding keeps order,
so a bound of doubles, moved to the next double outwards, is a bound of what was rounded.
"""

import math
from fractions import Fraction
from sys import float_info

import numpy as np

from slidestat.synopses.core.arrays import Floats

EXACT = 2.0**53
"""Whole numbers below it, of either sign, are doubles."""


def down(exact: Fraction) -> float:
    """Return the largest double that is not above `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def up(exact: Fraction) -> float:
    """Return the smallest double that is not below `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def with_rounded(figures: Floats, least: float = EXACT) -> Floats:
    """Return float64[3, ...], estimates, lowers and uppers of values that were rounded to doubles,
    with bounds that hold for the values as they were; all below `least` stays as it is.
    """
    estimates, lowers, uppers = figures
    if not (np.abs(lowers) >= least).any() and not (np.abs(uppers) >= least).any():
        return figures  # NaN is nothing of that sort.
    with np.errstate(over="ignore"):  # NaN cannot be a text.
        below = np.maximum(np.nextafter(lowers, -np.inf), -float_info.max)
        above = np.minimum(np.nextafter(uppers, np.inf), float_info.max)
    return np.stack(
        (
            estimates,
            np.where(np.abs(lowers) >= least, below, lowers),
            np.where(np.abs(uppers) >= least, above, uppers),
        )
    )


def rounded_sum(a: Floats, b: Floats, towards: float) -> Floats:
    """Return the sum of two, rounded `towards` an infinity by what Knuth's two-sum has left out."""
    rounded = a + b
    of_a = rounded - b
    left = (a - of_a) + (b - (rounded - of_a))
    is_off = left > 0 if towards > 0 else left < 0
    stepped: Floats = np.where(is_off, np.nextafter(rounded, towards), rounded)
    return stepped
