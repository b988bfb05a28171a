"""Exact quotients of whole numbers that are only compared: nothing is reduced, nothing rounded.

An audit makes a dozen of them for each figure; Python's Fraction takes ten times as long, as it
looks for the greatest common divisor each time.
"""

import math
import sys
from fractions import Fraction

Ratio = tuple[int, int]
"""A numerator, and a denominator above 0."""


def ratio(number: int | float | Fraction) -> Ratio:
    """Return the exact value of a number; of a float, that of the double."""
    return number.as_integer_ratio()


def absolute(one: Ratio) -> Ratio:
    """Return the ratio without its sign."""
    return abs(one[0]), one[1]


def plus(one: Ratio, other: Ratio) -> Ratio:
    """Return the sum."""
    if one[1] == other[1]:
        return one[0] + other[0], one[1]
    return one[0] * other[1] + other[0] * one[1], one[1] * other[1]


def minus(one: Ratio, other: Ratio) -> Ratio:
    """Return the difference."""
    return plus(one, (-other[0], other[1]))


def times(factor: float | Fraction, one: Ratio) -> Ratio:
    """Return `factor` times the ratio."""
    numerator, denominator = factor.as_integer_ratio()
    return numerator * one[0], denominator * one[1]


def is_at_most(one: Ratio, other: Ratio) -> bool:
    """Return whether the first is no larger than the second."""
    return one[0] * other[1] <= other[0] * one[1]


def quotient(one: Ratio, other: Ratio) -> float:
    """Return the double nearest to the first divided by the second, which are not negative;
    infinity if that is beyond all doubles.
    """
    try:
        return one[0] * other[1] / (one[1] * other[0])
    except OverflowError:
        return math.inf


def nearest(number: int | float | Fraction) -> float:
    """Return the nearest double; the largest double for what is beyond all."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max
