"""The field of 2^64 elements, and levels that are those of the polynomial, by plain arithmetic."""

import numpy as np

from slidestat.synopses.distinct.field_hash import coefficients, level_of, multiples, product

MODULUS = (1 << 64) | 0x1B
ALL = (1 << 64) - 1
FIRST = [-3612464333378029868, -4236896062886095221, 4355759013083484970]


def times(a: int, b: int) -> int:
    """The product of two polynomials over GF(2) modulo MODULUS, a bit at a time."""
    result = 0
    while b:
        if b & 1:
            result ^= a
        b >>= 1
        a <<= 1
        if a >> 64:
            a ^= MODULUS
    return result


def remainder(a: int, b: int) -> int:
    while b and a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def test_the_modulus_has_no_divisor() -> None:
    """Rabin's test: x^(2^64) = x, and x^(2^32) - x shares no divisor with the modulus.

    So it is a field, and each k values at k points have exactly one polynomial of degree k - 1.
    """
    power = 2
    for step in range(1, 65):
        power = times(power, power)
        if step == 32:
            a, b = MODULUS, power ^ 2
            while b:
                a, b = b, remainder(a, b)
            assert a == 1
    assert power == 2


def test_products_and_levels_are_those_of_the_field() -> None:
    """Compiled products and leading zeros agree with bit by bit arithmetic, negative items too."""
    rng = np.random.default_rng(3)
    window = np.empty(16, np.int64)
    polynomial = coefficients(2**62 + 5, 3)[2]
    items = [0, 1, 2, -1, 2**63 - 1, -(2**63), *rng.integers(-(2**63), 2**63 - 1, 300).tolist()]
    for item in items:
        multiples(item, window)
        for factor in items[:20]:
            expected = signed(times(item & ALL, factor & ALL))
            assert int(product(np.int64(factor), window)) == expected
        value = 0
        for coefficient in reversed(polynomial.tolist()):
            value = times(value, item & ALL) ^ (coefficient & ALL)
        assert level_of(polynomial, window) == min(64 - value.bit_length(), 63)


def test_polynomials_are_what_they_were() -> None:
    """Stored levels are those of the seed's polynomials, which therefore never change."""
    assert coefficients(7, 1)[0, :3].tolist() == FIRST
    assert coefficients(7, 5)[0].tolist() == coefficients(7, 1)[0].tolist()
    assert len(np.unique(coefficients(7, 5))) == 40
    assert not np.isin(coefficients(8, 5), coefficients(7, 5)).any()
