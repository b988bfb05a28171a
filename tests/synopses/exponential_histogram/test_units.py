"""Directed rounding: a bound is never on the wrong side, and as close as a double can be."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.exponential_histogram.units import (
    MAX_UNITS,
    ceil_quotient,
    floor_quotient,
    to_units,
)
from tests.oracles import decimal

SCALES = st.integers(0, 9).map(lambda decimals: 10**decimals)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.one_of(st.integers(0, 2**53), st.integers(0, 10**6)), SCALES)
def test_quotients_are_the_next_doubles(units: int, scale: int) -> None:
    """Up to 2^53 units, the two are the doubles that enclose units / scale most tightly."""
    exact = Fraction(units, scale)
    below, above = floor_quotient(units, scale), ceil_quotient(units, scale)
    assert Fraction(below) <= exact <= Fraction(above)
    assert above == (below if below == exact else np.nextafter(below, np.inf))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(2**53, 2**62 + 2**61), SCALES)
def test_quotients_of_huge_totals_enclose(units: int, scale: int) -> None:
    """Beyond 2^53 units, they enclose it within two doubles."""
    exact = Fraction(units, scale)
    below, above = floor_quotient(units, scale), ceil_quotient(units, scale)
    assert Fraction(below) <= exact <= Fraction(above)
    assert above <= below * (1 + 2**-50)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.integers(0, 2**51 - 1), SCALES)
def test_a_decimal_is_its_units(units: int, scale: int) -> None:
    """The double that stands for q / scale is taken as q units, whatever its last bits are."""
    assert to_units(units / scale, scale) == (units, 0, True)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.floats(0, 1e15), SCALES)
def test_any_value_is_units_and_a_part(value: float, scale: int) -> None:
    """What is called exact is the decimal as written; the rest is right to a double's precision."""
    exact = decimal(value) * scale
    whole, part, is_exact = to_units(value, scale)
    if exact > MAX_UNITS:
        assert whole in (-1, MAX_UNITS)
    elif is_exact:
        assert exact == whole
    else:
        assert 0 <= part < 2**62
        taken = whole + Fraction(part, 2**62)
        assert abs(taken - exact) <= exact * Fraction(1, 2**51) + Fraction(1, 2**62)


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 1e-300, 2.0**50 + 0.25])
def test_what_is_no_decimal_is_not_taken_for_one(value: float) -> None:
    """Near a decimal is not the decimal: it carries a part, and says so."""
    assert not to_units(value, 1_000 if value < 1 else 1)[2]
