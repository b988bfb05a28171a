"""Numbers as JSON: the shortest decimals that read back, as msgspec writes them.

A float is c 2^q with c < 2^53, and what reads back as it lies within half a unit of c on each side.
With n so that 2^q 10^n is from 1 up to 10, one of the whole numbers next to c 2^q 10^n reads back
without its last digit, or one of the two does as it is, and then the nearer is taken (Giulietti,
"The Schubfach way to render doubles", 2020). Of floats from 1e-5 up to 2^53 all of that is exact in
128 bits. The others are odd: msgspec writes them, and what it wrote is copied.
"""

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Bytes, Floats, Integers

UInt64s = npt.NDArray[np.uint64]

LONGEST_NUMBER = len("-0.00001234567890123456789")
LONGEST_WHOLE = len("-9223372036854775808")

_encode = msgspec.json.Encoder().encode
_LEAST, _MOST = 1e-5, 2.0**53
# No two decimals of at most 15 digits read back as the same float.
_UNIQUE = 1e15
# Of a float from _LEAST up to _MOST, -q is one of so many.
_SHIFTS = 70
_FIRST_MANTISSA = np.uint64(1 << 52)
_MANTISSA = np.uint64((1 << 52) - 1)
_EXPONENT_BITS, _EXPONENT_OF_ONE = np.uint64(52), 1075
_SIGN = np.uint64(1 << 63)
_NULL = np.frombuffer(b"null", np.uint8)

_0, _1, _2, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
_10, _40, _100 = np.uint64(10), np.uint64(40), np.uint64(100)
_32, _64, _LOW = np.uint64(32), np.uint64(64), np.uint64(2**32 - 1)
_ZERO, _POINT, _MINUS = np.uint8(ord("0")), np.uint8(ord(".")), np.uint8(ord("-"))


def _decimals(quarters: int) -> Integers:
    """Return for each -q the most n with 10^-n <= quarters / 4 2^q."""
    found = []
    for shift in range(_SHIFTS):
        n = 0
        while 10**n * quarters < 4 << shift:
            n += 1
        found.append(n)
    return np.array(found, np.int64)


# Below a power of two floats lie twice as close: three quarters as much reads back as it.
_DECIMALS, _DECIMALS_OF_POWER = _decimals(4), _decimals(3)
_POWERS = [10**n for n in range(int(_DECIMALS_OF_POWER[-1]) + 1)]
_POWERS_LOW = np.array([power % 2**64 for power in _POWERS], np.uint64)
_POWERS_HIGH = np.array([power >> 64 for power in _POWERS], np.uint64)
# A number with more decimals is below 1, and its power takes two words.
_MOST_OF_WORD = sum(power < 2**64 for power in _POWERS) - 1


class OddTexts(NamedTuple):
    """The texts of odd numbers one behind the other, and where each ends."""

    text: Bytes
    stops: Integers


def odd_texts(numbers: Floats) -> OddTexts:
    """Return the texts of those of `numbers`, in their order, that `write_number` does not
    write.
    """
    magnitudes = np.abs(numbers)
    is_odd = np.isfinite(magnitudes) & (magnitudes >= _MOST)
    is_odd |= (magnitudes > 0) & (magnitudes < _LEAST)
    texts = list(map(_encode, numbers[is_odd].tolist()))
    stops = np.cumsum([0, *map(len, texts)])[1:]
    return OddTexts(np.frombuffer(b"".join(texts), np.uint8), stops)


@borrowing_kernel
def write_number(
    number: float, bits: np.uint64, odd: OddTexts, odd_before: int, out: Bytes, place: int
) -> tuple[int, int]:
    """Write a number, `null` if it is none, whose bits are given; return where it ends, and how
    many of the numbers up to it are odd, of which `odd_before` came before.
    """
    magnitude = abs(number)
    if not np.isfinite(magnitude):
        for letter in _NULL:
            out[place] = letter
            place += 1
        return place, odd_before
    if magnitude >= _MOST or 0 < magnitude < _LEAST:
        start = odd.stops[odd_before - 1] if odd_before else 0
        for i in range(start, odd.stops[odd_before]):
            out[place] = odd.text[i]
            place += 1
        return place, odd_before + 1
    if bits & _SIGN:
        out[place] = _MINUS
        place += 1
    whole = np.uint64(magnitude)
    if np.float64(whole) == magnitude:
        place = _write_unsigned(whole, out, place)
        out[place], out[place + 1] = _POINT, _ZERO
        return place + 2, odd_before
    return _write_decimal(magnitude, bits & ~_SIGN, out, place), odd_before


@borrowing_kernel
def write_whole(number: int, out: Bytes, place: int) -> int:
    """Write a whole number; return where it ends."""
    if number < 0:
        out[place] = _MINUS
        # Of the least one there is no negative.
        return _write_unsigned(np.uint64(-(number + 1)) + _1, out, place + 1)
    return _write_unsigned(np.uint64(number), out, place)


@borrowing_kernel
def _write_decimal(magnitude: float, bits: np.uint64, out: Bytes, place: int) -> int:
    """Write a number that is not whole; return where it ends."""
    thousandths = np.rint(magnitude * 1000)
    if thousandths < _UNIQUE and thousandths / 1000 == magnitude:
        digits, decimals = np.uint64(thousandths), 3
    else:
        mantissa = (bits & _MANTISSA) | _FIRST_MANTISSA
        shift = np.uint64(_EXPONENT_OF_ONE) - (bits >> _EXPONENT_BITS)
        is_power = mantissa == _FIRST_MANTISSA
        decimals = _DECIMALS_OF_POWER[shift] if is_power else _DECIMALS[shift]
        digits = _shortest(mantissa, shift, decimals, is_power)
    while digits % _10 == _0:
        digits //= _10
        decimals -= 1
    power = _POWERS_LOW[decimals]
    whole = digits // power if decimals <= _MOST_OF_WORD else _0
    place = _write_unsigned(whole, out, place)
    out[place] = _POINT
    return _write_digits(digits - whole * power, decimals, out, place + 1)


@borrowing_kernel
def _shortest(mantissa: np.uint64, shift: np.uint64, decimals: int, is_power: bool) -> np.uint64:
    """Return the digits of the shortest decimal with so many places that reads back as the number;
    of several, the nearest.
    """
    centre = mantissa * _4
    value = _scaled(centre, shift, decimals)
    below = _scaled(centre - (_1 if is_power else _2), shift, decimals)
    above = _scaled(centre + _2, shift, decimals)
    # The ends of what reads back do so for an even mantissa.
    is_odd = mantissa & _1
    lesser: np.uint64 = value // _40 * _10
    greater: np.uint64 = lesser + _10
    has_lesser, has_greater = below + is_odd <= lesser * _4, greater * _4 + is_odd <= above
    if has_lesser == has_greater:
        lesser = value // _4
        greater = lesser + _1
        has_lesser, has_greater = below + is_odd <= lesser * _4, greater * _4 + is_odd <= above
    if has_lesser == has_greater:
        middle = lesser * _4 + _2
        has_lesser = value < middle or (value == middle and lesser & _1 == _0)
    nearest: np.uint64 = lesser if has_lesser else greater
    return nearest


@borrowing_kernel
def _scaled(quarters: np.uint64, shift: np.uint64, decimals: int) -> np.uint64:
    """Return quarters 10^decimals 2^-shift; its last bit is set as well where it was cut off."""
    factor = _POWERS_LOW[decimals]
    low, high = quarters & _LOW, quarters >> _32
    factor_low, factor_high = factor & _LOW, factor >> _32
    least = low * factor_low
    cross = high * factor_low + (least >> _32)
    middle = low * factor_high + (cross & _LOW)
    upper = high * factor_high + (cross >> _32) + (middle >> _32)
    upper += quarters * _POWERS_HIGH[decimals]
    lower = (middle << _32) | (least & _LOW)
    if shift == _0:
        kept, cut_off = lower, _0
    elif shift < _64:
        kept = (upper << (_64 - shift)) | (lower >> shift)
        cut_off = lower & ((_1 << shift) - _1)
    else:
        kept = upper >> (shift - _64)
        cut_off = lower | (upper & ((_1 << (shift - _64)) - _1))
    scaled: np.uint64 = kept | _1 if cut_off else kept
    return scaled


@borrowing_kernel
def _write_unsigned(number: np.uint64, out: Bytes, place: int) -> int:
    """Write a whole number; return where it ends."""
    count, rest = 1, number // _10
    while rest:
        count += 1
        rest //= _10
    return _write_digits(number, count, out, place)


@borrowing_kernel
def _write_digits(number: np.uint64, count: int, out: Bytes, place: int) -> int:
    """Write the last digits of a whole number; return where they end."""
    end = place + count
    for i in range(end - 1, place, -2):
        two = number % _100
        number //= _100
        out[i] = _ZERO + np.uint8(two % _10)
        out[i - 1] = _ZERO + np.uint8(two // _10)
    if count % 2:
        out[place] = _ZERO + np.uint8(number % _10)
    return end
