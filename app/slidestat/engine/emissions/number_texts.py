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

LONGEST_NUMBER = 32
"""A number's text is shorter, and is copied with what lies behind it, so many bytes at once."""
LONGEST_WHOLE = len("-9223372036854775808")

_encode = msgspec.json.Encoder().encode
_LEAST, _MOST = 1e-5, 2.0**53
# No two decimals of at most 15 digits read back as the same float.
_UNIQUE = 1e15
# For floats from _LEAST up to _MOST, -q is one of this many.
_SHIFTS = 70
_FIRST_MANTISSA = np.uint64(1 << 52)
_MANTISSA = np.uint64((1 << 52) - 1)
_EXPONENT_BITS, _EXPONENT_OF_ONE = np.uint64(52), 1075
_SIGN = np.uint64(1 << 63)
_NULL = np.frombuffer(b"null", np.uint8)

_0, _1, _2, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
_8, _10, _40, _100 = np.uint64(8), np.uint64(10), np.uint64(40), np.uint64(100)
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


# Eight digits at once, each in a byte: of a number below 10^8 the halves, their halves, and digits.
# Quotients by 100 and 10 are products, exact for what is below 10^4 and 10^2.
_8_DIGITS, _4_DIGITS = np.uint64(10**8), np.uint64(10**4)
_HUNDREDTH, _HUNDREDTH_BITS = np.uint64(5243), np.uint64(19)
_TENTH, _TENTH_BITS = np.uint64(103), np.uint64(10)
_OF_HALVES, _OF_PAIRS = np.uint64(0x7F_0000_007F), np.uint64(0xF_000F_000F_000F)
_16, _BYTE, _ZEROS = np.uint64(16), np.uint64(255), np.uint64(0x3030_3030_3030_3030)


# Figures repeat: an exact one is its own bounds, and quantiles are edges of the same few bins.
_KNOWN = 1 << 11
_FOLD, _LAST_PLACE = np.uint64(11), np.uint64(_KNOWN - 1)


class KnownTexts(NamedTuple):
    """Texts of numbers that were written lately. By the place of each in the table: its bits; where
    its text begins; and of the text LONGEST_NUMBER bytes, which it fills from behind.
    """

    bits: UInt64s
    starts: Integers
    texts: Bytes

    @classmethod
    def none(cls) -> "KnownTexts":
        """Return a table without texts: at no place are bits of a number that belongs there."""
        none = np.zeros(_KNOWN, np.uint64)
        none[0] = 1
        # Bytes behind the last text, as texts are copied with a fixed length.
        texts = np.zeros((_KNOWN + 1) * LONGEST_NUMBER, np.uint8)
        return cls(none, np.zeros(_KNOWN, np.int64), texts)


class OddTexts(NamedTuple):
    """The texts of odd numbers one behind the other, and where each ends."""

    text: Bytes
    stops: Integers


def odd_texts(numbers: Floats) -> OddTexts:
    """Return the texts of those of `numbers`, in order, that `write_number` does not write."""
    magnitudes = np.abs(numbers)
    is_odd = np.isfinite(magnitudes) & (magnitudes >= _MOST)
    is_odd |= (magnitudes > 0) & (magnitudes < _LEAST)
    texts = list(map(_encode, numbers[is_odd].tolist()))
    stops = np.cumsum([0, *map(len, texts)])[1:]
    return OddTexts(np.frombuffer(b"".join(texts), np.uint8), stops)


@borrowing_kernel
def is_odd(number: float) -> bool:
    """Return whether `write_odd` writes a number."""
    magnitude = abs(number)
    return not (magnitude == 0 or _LEAST <= magnitude < _MOST)


@borrowing_kernel
def write_odd(
    number: float, odd: OddTexts, odd_before: int, out: Bytes, place: int
) -> tuple[int, int]:
    """Write an odd number, `null` if it is none; return where it ends, and how many of the numbers
    up to it have a text in `odd`, of which `odd_before` came before.
    """
    if not np.isfinite(number):
        for letter in _NULL:
            out[place] = letter
            place += 1
        return place, odd_before
    start = odd.stops[odd_before - 1] if odd_before else 0
    for i in range(start, odd.stops[odd_before]):
        out[place] = odd.text[i]
        place += 1
    return place, odd_before + 1


@borrowing_kernel
def place_of(bits: np.uint64) -> np.uint64:
    """Return the place of a number in the table of known texts, by its bits."""
    halves = bits ^ (bits >> _32)
    quarters = halves ^ (halves >> _16)
    place: np.uint64 = (quarters ^ (quarters >> _FOLD)) & _LAST_PLACE
    return place


@borrowing_kernel
def learn(known: KnownTexts, place: np.uint64, bits: np.uint64, number: float) -> None:
    """Put the text of a number that is not odd at its place in the table."""
    end = (place + _1) * np.uint64(LONGEST_NUMBER)
    known.bits[place] = bits
    known.starts[place] = _write_regular(abs(number), bits, known.texts, end)


@borrowing_kernel
def write_whole(number: int, out: Bytes, place: int) -> int:
    """Write a whole number; return where it ends."""
    if number < 0:
        out[place] = _MINUS
        # The least number has no negative.
        return _write_unsigned(np.uint64(-(number + 1)) + _1, out, place + 1)
    return _write_unsigned(np.uint64(number), out, place)


@borrowing_kernel
def _write_regular(magnitude: float, bits: np.uint64, out: Bytes, end: np.uint64) -> np.uint64:
    """Write a number that is not odd up to `end`; return where it begins."""
    thousandths = np.rint(magnitude * 1000)
    whole = np.uint64(magnitude)
    if np.float64(whole) == magnitude:
        digits, decimals = whole * _10, 1
    else:
        if thousandths < _UNIQUE and thousandths / 1000 == magnitude:
            digits, decimals = np.uint64(thousandths), 3
        else:
            mantissa = (bits & _MANTISSA) | _FIRST_MANTISSA
            shift = np.uint64(_EXPONENT_OF_ONE) - ((bits & ~_SIGN) >> _EXPONENT_BITS)
            is_power = mantissa == _FIRST_MANTISSA
            decimals = _DECIMALS_OF_POWER[shift] if is_power else _DECIMALS[shift]
            digits = _shortest(mantissa, shift, decimals, is_power)
        while digits % _10 == _0:
            digits //= _10
            decimals -= 1
    # At least one digit is before the point.
    count = decimals + 1
    while count <= _MOST_OF_WORD and digits >= _POWERS_LOW[count]:
        count += 1
    rest = digits // _8_DIGITS
    _write_eight(digits - rest * _8_DIGITS, out, end - _8)
    highest = rest // _8_DIGITS
    _write_eight(rest - highest * _8_DIGITS, out, end - _16)
    _write_eight(highest, out, end - _16 - _8)
    # Digits before the point make room for it.
    place = end - np.uint64(count + 1)
    point = end - np.uint64(decimals + 1)
    start = place
    while place < point:
        out[place] = out[place + _1]
        place += _1
    out[point] = _POINT
    if bits & _SIGN:
        start -= _1
        out[start] = _MINUS
    return start


@borrowing_kernel
def _write_eight(number: np.uint64, out: Bytes, place: np.uint64) -> None:
    """Write a whole number below 10^8 as eight digits."""
    upper = number // _4_DIGITS
    halves = upper | (number - upper * _4_DIGITS) << _32
    upper = ((halves * _HUNDREDTH) >> _HUNDREDTH_BITS) & _OF_HALVES
    pairs = upper | (halves - upper * _100) << _16
    upper = ((pairs * _TENTH) >> _TENTH_BITS) & _OF_PAIRS
    digits = (upper | (pairs - upper * _10) << _8) | _ZEROS
    for i in range(_8):
        out[place + i] = np.uint8((digits >> (_8 * i)) & _BYTE)


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
    _write_last(number, count, out, np.uint64(place))
    return place + count


@borrowing_kernel
def _write_last(number: np.uint64, count: int, out: Bytes, place: np.uint64) -> None:
    """Write the last `count` digits of a whole number at `place`."""
    # An unsigned index cannot count from the end.
    end = place + np.uint64(count)
    for _ in range(count >> 1):
        rest = number // _100
        two = number - rest * _100
        ten = two // _10
        out[end - _1] = _ZERO + np.uint8(two - ten * _10)
        out[end - _2] = _ZERO + np.uint8(ten)
        end -= _2
        number = rest
    if count & 1:
        out[place] = _ZERO + np.uint8(number % _10)
