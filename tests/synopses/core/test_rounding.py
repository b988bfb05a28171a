"""Doubles that are rounded outwards: never on the wrong side, and no farther than need be."""

import math
from fractions import Fraction
from sys import float_info

import numpy as np
from hypothesis import given, settings, strategies as st

from slidestat.synopses.core.rounding import EXACT, down, rounded_sum, up, with_rounded

FRACTIONS = st.fractions(-(10**30), 10**30, max_denominator=10**12)
DOUBLES = st.floats(-1e300, 1e300)


@settings(deadline=None)
@given(FRACTIONS)
def test_fractions_lie_between_the_doubles_beside_them(exact: Fraction) -> None:
    """down is the largest double that is not above, up the least one that is not below."""
    below, above = down(exact), up(exact)
    assert Fraction(below) <= exact <= Fraction(above)
    assert Fraction(math.nextafter(below, math.inf)) > exact
    assert Fraction(math.nextafter(above, -math.inf)) < exact


@settings(deadline=None)
@given(st.lists(st.tuples(DOUBLES, DOUBLES), min_size=1, max_size=20))
def test_sums_are_rounded_outwards_by_one_double_at_most(pairs: list[tuple[float, float]]) -> None:
    """Against exact sums; a sum that is a double is that one, towards either side."""
    a, b = np.array(pairs).T
    below, above = rounded_sum(a, b, -np.inf), rounded_sum(a, b, np.inf)
    for place, (one, other) in enumerate(pairs):
        exact = Fraction(one) + Fraction(other)
        low, high = float(below[place]), float(above[place])
        assert Fraction(low) <= exact <= Fraction(high)
        assert low == high or math.nextafter(low, math.inf) == high


@settings(deadline=None)
@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=20))
def test_bounds_of_rounded_values_hold_for_what_was_written(values: list[int]) -> None:
    """Whole numbers beyond 2^53 lie between the bounds; those below it are left as they are."""
    rounded = np.array([float(value) for value in values])
    _, lowers, uppers = with_rounded(np.stack([rounded] * 3))
    for value, nearest, low, high in zip(values, rounded, lowers, uppers, strict=True):
        # A comparison of a double with a whole number would round that first.
        assert Fraction(float(low)) <= value <= Fraction(float(high))
        assert abs(nearest) >= EXACT or low == nearest == high


def test_what_is_next_to_the_largest_double_is_no_infinity() -> None:
    """A bound is a number that can be written; NaN, of an empty window, stays."""
    largest = float_info.max
    figures = np.array([[largest, -largest, np.nan]] * 3)
    _, lowers, uppers = with_rounded(figures)
    assert uppers[0] == largest
    assert lowers[1] == -largest
    assert np.isnan([lowers[2], uppers[2]]).all()
