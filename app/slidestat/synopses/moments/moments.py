"""Exact sums of whole numbers and of their squares, and the squared deviations that follow.

The moments of some units (whole numbers, at most 2^40 from zero) are five 64-bit numbers: how many
they are, the sum of those above zero, the sum of those below (negated), and the sum of squares as
high * 2^40 + low. Up to 2^50 units whose magnitudes come to at most 2^60 they are exact: two
neighbours combine by addition, nothing is ever lost, and no order of combining shows.

No cancellation. With S the sum, n the number, m = floor(S / n) and r = S - m n (0 <= r < n),

    sum (q - mean)^2 = (D - r) + r (n - r) / n,    D = sum (q - m)^2 = sum q^2 - m (S + r)

D is computed exactly, and x^2 >= x for whole numbers x = q - m gives D >= r. So both terms are not
negative, the first is exact, and the result is right to 2^-50 of itself; it is 0 if all are equal.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Integers

# Rows of an array of moments.
COUNT, ABOVE, BELOW, HIGH, LOW = 0, 1, 2, 3, 4
ROWS = 5

MAX_UNIT = 1 << 40
MAX_MAGNITUDES = 1 << 60
MAX_COUNT = 1 << 50

_BASE = 1 << 40
_MASK = _BASE - 1
_HALF = (1 << 20) - 1


@borrowing_kernel
def to_unit(value: float, scale: int) -> tuple[int, bool, bool]:
    """Return (the nearest unit, whether that is all of `value`, whether it can be taken)."""
    scaled = value * scale
    if not (-MAX_UNIT <= scaled <= MAX_UNIT):
        return 0, True, False
    nearest = float(np.rint(scaled))
    return int(nearest), nearest / scale == value, True


@borrowing_kernel
def _product(a: int, b: int) -> tuple[int, int]:
    """Return a * b as (high, low) for 0 <= a <= 2^40 and 0 <= b < 2^61."""
    a1 = a >> 20
    a0 = a & _HALF
    b2 = b >> 40
    b1 = (b >> 20) & _HALF
    b0 = b & _HALF
    middle = a1 * b0 + a0 * b1
    low = a0 * b0 + ((middle & _HALF) << 20)
    high = (low >> 40) + (middle >> 20) + a1 * b1 + a0 * b2 + ((a1 * b2) << 20)
    return high, low & _MASK


@borrowing_kernel
def set_unit(moments: Integers, at: int, unit: int) -> None:
    """Write the moments of one unit to the column `at`."""
    size = abs(unit)
    moments[COUNT, at] = 1
    moments[ABOVE, at] = size if unit > 0 else 0
    moments[BELOW, at] = size if unit < 0 else 0
    moments[HIGH, at], moments[LOW, at] = _product(size, size)


@borrowing_kernel
def add(into: Integers, at: int, moments: Integers, column: int) -> None:
    """Add the moments of a column of `moments` to the column `at`."""
    for row in range(ROWS):
        into[row, at] += moments[row, column]
    into[HIGH, at] += into[LOW, at] >> 40
    into[LOW, at] &= _MASK


@borrowing_kernel
def add_all(into: Integers, at: int, moments: Integers, first: int, last: int) -> None:
    """Add the moments of the columns first..last - 1, fewer than 2^22, to the column `at`."""
    for row in range(ROWS):
        total = 0
        for column in range(first, last):
            total += moments[row, column]
        into[row, at] += total
    into[HIGH, at] += into[LOW, at] >> 40
    into[LOW, at] &= _MASK


@borrowing_kernel
def put(into: Integers, at: int, moments: Integers, column: int) -> None:
    """Copy the moments of a column of `moments` to the column `at`."""
    for row in range(ROWS):
        into[row, at] = moments[row, column]


@borrowing_kernel
def _beyond_units(moments: Integers, at: int) -> tuple[int, int, int]:
    """Return D - r as (high, low), and r; high < 0 if no units have such moments."""
    count = moments[COUNT, at]
    total = moments[ABOVE, at] - moments[BELOW, at]
    floor = total // count
    rest = total - floor * count
    factor = total + rest
    high, low = _product(abs(floor), abs(factor))
    if (floor < 0) == (factor < 0):
        high = moments[HIGH, at] - high
        low = moments[LOW, at] - low
    else:
        high = moments[HIGH, at] + high
        low = moments[LOW, at] + low
    high -= rest >> 40
    low -= rest & _MASK
    return high + (low >> 40), low & _MASK, rest


@borrowing_kernel
def are_sound(moments: Integers, at: int) -> bool:
    """Return whether a column within the limits can be the moments of some units."""
    return bool(_beyond_units(moments, at)[0] >= 0)


@borrowing_kernel
def squared_deviations(moments: Integers, at: int) -> float:
    """Return the sum of (q - mean)^2 of a column, to 2^-50 of itself; 0 for no units."""
    count = moments[COUNT, at]
    if count == 0:
        return 0.0
    high, low, rest = _beyond_units(moments, at)
    first = float(high) * _BASE + float(low)
    return max(0.0, first + float(rest) * (float(count - rest) / float(count)))


@borrowing_kernel
def mean(moments: Integers, at: int) -> float:
    """Return the mean of a column that has units, to 2^-51 of itself."""
    return float(moments[ABOVE, at] - moments[BELOW, at]) / float(moments[COUNT, at])


@borrowing_kernel
def difference_of_means(moments: Integers, at: int, others: Integers, column: int) -> float:
    """Return the mean of a column less that of another: to 2^-51 of a unit and 2^-51 of itself."""
    total = moments[ABOVE, at] - moments[BELOW, at]
    floor = total // moments[COUNT, at]
    part = float(total - floor * moments[COUNT, at]) / float(moments[COUNT, at])
    other_total = others[ABOVE, column] - others[BELOW, column]
    other_floor = other_total // others[COUNT, column]
    other_rest = other_total - other_floor * others[COUNT, column]
    other_part = float(other_rest) / float(others[COUNT, column])
    return float(floor - other_floor) + (part - other_part)
