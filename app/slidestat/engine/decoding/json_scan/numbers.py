"""Kernels over numbers of JSON: their grammar, and what they are where a double or an int64 holds
them exactly.

A decimal number is m * 10^e with whole m and e. If |m| < 2^53 and |e| <= 22, then m and 10^|e| are
doubles, and one multiplication or division rounds m * 10^e correctly (Clinger 1990, "How to read
floating point numbers accurately", section 4): the result is that of every correct parser.

A double that was written out in full has up to 17 digits, so that m is longer. Then m = a + b with
doubles a and b, and q, the double nearest to a / 10^k, leaves a remainder r = a - q * 10^k that is
a double, too (of the product also the error is computed: Dekker 1971, "A floating-point technique
for extending the available precision", section 5). So the number is q + c with c = (r + b) / 10^k,
and c as computed is off by less than 2^-50 of itself. Rounding is monotone: where q + c is the same
double for a c that is less and for one that is more by that, it is the one nearest to the number.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Bytes

MINUS = ord("-")
_PLUS, _POINT = ord("+"), ord(".")
_ZERO, _NINE = ord("0"), ord("9")
_SMALL_E, _LARGE_E = ord("e"), ord("E")
EXACT = 1 << 53
_EXPONENT_DIGITS = 3
# Half of a double's digits, and more than what a rest is off by.
_SPLIT, _MARGIN = 2.0**27 + 1, 2.0**-49
_POWERS = np.array([float(10**i) for i in range(23)])
_MOST_EXPONENT = 22
# An int64 holds ten times what is less than this, and a digit.
_ROOM = 900_000_000_000_000_000
_DIGITS = 18  # of it; one more, if the first is no nine


@borrowing_kernel
def _after_digits(buffer: Bytes, place: int, end: int) -> int:
    while place < end and _ZERO <= buffer[place] <= _NINE:
        place += 1
    return place


@borrowing_kernel
def after_number(buffer: Bytes, place: int, end: int) -> tuple[int, bool]:
    """Return the place behind any number, -1 for none; and whether it is written as a whole one."""
    if buffer[place] == MINUS:
        place += 1
    first = place
    place = _after_digits(buffer, first, end)
    if place == first or (place - first > 1 and buffer[first] == _ZERO):
        return -1, False
    is_whole = True
    if place < end and buffer[place] == _POINT:
        is_whole = False
        first = place + 1
        place = _after_digits(buffer, first, end)
        if place == first:
            return -1, False
    if place < end and (buffer[place] == _SMALL_E or buffer[place] == _LARGE_E):
        is_whole = False
        first = place + 1
        if first < end and (buffer[first] == _PLUS or buffer[first] == MINUS):
            first += 1
        place = _after_digits(buffer, first, end)
        if place == first:
            return -1, False
    return place, is_whole


@borrowing_kernel
def decimal(buffer: Bytes, place: int, end: int) -> tuple[bool, int, int]:
    """Read the number buffer[place:end]: m and e of m * 10^e, and whether they are it.

    They are not where one is too large, or where it is minus nothing, which an m of 0 is not.
    """
    is_negative = buffer[place] == MINUS
    if is_negative:
        place += 1
    mantissa, exponent = 0, 0
    is_fraction = False
    while place < end and buffer[place] <= _NINE:  # Letters lie above.
        if buffer[place] == _POINT:
            is_fraction = True
        else:
            if mantissa >= _ROOM:
                return False, 0, 0
            mantissa = mantissa * 10 + int(buffer[place]) - _ZERO
            if is_fraction:
                exponent -= 1
        place += 1
    if place < end:
        place += 1
        is_small = buffer[place] == MINUS
        if is_small or buffer[place] == _PLUS:
            place += 1
        if end - place > _EXPONENT_DIGITS:
            return False, 0, 0
        power = 0
        while place < end:
            power = power * 10 + int(buffer[place]) - _ZERO
            place += 1
        exponent += -power if is_small else power
    if is_negative:
        return mantissa != 0, -mantissa, exponent
    return True, mantissa, exponent


@borrowing_kernel
def whole(buffer: Bytes, place: int, end: int) -> tuple[bool, int]:
    """Read the whole number buffer[place:end], and whether it is one that is not minus nothing, and
    not too large.
    """
    is_negative = buffer[place] == MINUS
    if is_negative:
        place += 1
    if end - place > _DIGITS and (end - place > _DIGITS + 1 or buffer[place] == _NINE):
        return False, 0
    mantissa = 0
    while place < end:
        mantissa = mantissa * 10 + int(buffer[place]) - _ZERO
        place += 1
    if is_negative:
        return mantissa != 0, -mantissa
    return True, mantissa


@borrowing_kernel
def _product_error(a: float, b: float, product: float) -> float:
    """Return a * b - product, which is exact, for the product as it was rounded."""
    scaled = a * _SPLIT
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = b * _SPLIT
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@borrowing_kernel
def nearest(mantissa: int, exponent: int) -> tuple[bool, float]:
    """Return the double nearest to mantissa * 10^exponent, and whether it is known for sure."""
    if exponent < -_MOST_EXPONENT or exponent > _MOST_EXPONENT:
        return False, 0.0
    is_short = -EXACT < mantissa < EXACT
    if exponent > 0:
        return is_short, mantissa * float(_POWERS[exponent])
    power = float(_POWERS[-exponent])
    first = mantissa / power
    if is_short:
        return True, first
    whole_part = float(mantissa)
    first = whole_part / power
    product = first * power
    remainder = (whole_part - product) - _product_error(first, power, product)
    rest = (remainder + float(mantissa - int(whole_part))) / power
    margin = abs(rest) * _MARGIN
    return first + (rest - margin) == first + (rest + margin), first + rest
