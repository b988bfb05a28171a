"""Values as whole units, and units as values: where a sum meets floating point.

A sum is kept in units of 10^-decimals. A value that reads as a decimal with that many places (it is
the double nearest to q / 10^decimals, q below 2^51) is taken as exactly q units. Any other value
leaves a part of a unit, which is carried to the next value in fixed point, so that a stretch of
events is off by less than one unit in all, however many events it has.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel

MAX_UNITS = 1 << 53
"""No single value may be more units than this."""

ONE = 1 << 62
"""One unit in the fixed point of the carried part."""

_EXACT_UNITS = 1 << 51
"""From here on, the rounding of value * scale may reach half a unit and hide the decimal meant."""

_CARRY = 1.0 + 2.0**-20
"""By how many units a stretch is off when parts were carried: less than one, plus what falls off
the end of the fixed point (2^-62 a value, so 2^-20 for 2^42 values)."""

_ROUNDING = 2.0**-48
"""Outward rounding of inexact bounds: covers the product, the sums and the division."""


@borrowing_kernel
def to_units(value: float, scale: int) -> tuple[int, int, bool]:
    """Return (whole units, part of a unit in fixed point, whether that is all of `value`).

    Whole units of -1 say that the value cannot be taken: it is negative, not finite, or more than
    `MAX_UNITS` units. Cost: O(1).
    """
    value = float(value)
    scaled = value * scale
    if not (0.0 <= scaled <= MAX_UNITS):
        return -1, 0, False
    nearest = float(np.rint(scaled))
    if nearest / scale == value and (nearest < _EXACT_UNITS or scale == 1):
        return int(nearest), 0, True
    whole = float(np.floor(scaled))
    return int(whole), int((scaled - whole) * ONE), False


@borrowing_kernel
def _excess(quotient: float, units: int, scale: int) -> float:
    """Return a number with the sign of quotient * scale - units, computed without error.

    quotient is near units / scale; scale has at most 21 significant bits (10^9 = 5^9 * 2^9), so
    a product with a 27-bit half of the quotient's fraction is exact, and so is the difference of
    two near numbers; the last addition may round, which never changes a sign.
    """
    whole = float(np.floor(quotient))
    remainder = float(units - int(whole) * scale)
    fraction = quotient - whole
    spread = fraction * 134217729.0  # 2^27 + 1: Veltkamp's splitting into two halves
    high = spread - (spread - fraction)
    low = fraction - high
    return (high * scale - remainder) + low * scale


@borrowing_kernel
def floor_quotient(units: int, scale: int) -> float:
    """Return a double not above units / scale; up to 2^53 units, the largest one. Cost: O(1)."""
    quotient = float(units) / scale
    while _excess(quotient, units, scale) > 0.0:
        quotient = np.nextafter(quotient, -np.inf)
    return quotient


@borrowing_kernel
def ceil_quotient(units: int, scale: int) -> float:
    """Return a double not below units / scale; up to 2^53 units, the smallest one. Cost: O(1)."""
    quotient = float(units) / scale
    while _excess(quotient, units, scale) < 0.0:
        quotient = np.nextafter(quotient, np.inf)
    return quotient


@borrowing_kernel
def bounds(newer: int, size: int, scale: int, inexact: bool) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of a window with `newer` units plus 1..`size` more.

    `size` 0 means that no whole unit is in the window. Cost: O(1).
    """
    if inexact:
        least = newer + (size > 0) - _CARRY
        lower = max(0.0, least * (1.0 - _ROUNDING) / scale)
        upper = (newer + size + _CARRY) * (1.0 + _ROUNDING) / scale
        estimate = 0.0 if size == 0 else (newer + (size + 1) * 0.5) / scale
        return estimate, lower, upper
    if size == 0:
        return 0.0, 0.0, 0.0
    lower = floor_quotient(newer + 1, scale)
    upper = ceil_quotient(newer + size, scale)
    return (newer + (size + 1) * 0.5) / scale, lower, upper
