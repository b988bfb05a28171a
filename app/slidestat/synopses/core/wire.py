"""The envelope and the numbers of every stored synopsis.

    offset  size  content
    0       2     magic A7 53
    2       1     format version, 1
    3       1     kind: 1 exponential histogram of counts, 2 of sums; 3 count wave, 4 sum wave,
                  5 position wave, 6 sliding average, 7 ApproximateCount; 8 exact, 9 approximate
                  extreme, 10 spread, 11 sample with, 12 without replacement; 13 quantiles,
                  14 frequent items; 15 L_p norm, 16 value histogram, 17 counter table; 18 bitmaps,
                  19 randomised wave, both of distinct items; 21 random quantiles, 22 random
                  frequent items; 23 bundle; 24 frequent items with their names; 25 landmark;
                  26 summary of one window; 27 quantiles by value; 28 frequent items in pairs,
                  29 with their names; 30 lean distinct items; for one window of a fixed number of
                  events: 31 quantiles, 32 frequent items, 33 random quantiles, 34 random frequent
                  items
    4       4     Adler-32 (RFC 1950) of bytes 2, 3 and 8 onwards, little-endian
    8       ...   the body, of the kind

Whole numbers in a body are LEB128: seven bits a byte, low ones first, the high bit set on all bytes
but the last; below 2^63, and in their shortest form, so that equal states are equal bytes. Numbers
that may be negative are zigzag coded first (0, -1, 1, -2, ... as 0, 1, 2, 3, ...).

A byte is made a 64-bit number before anything is done with it: compiled code would mix unsigned and
signed numbers into floating point.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Bytes

MAGIC_0 = 0xA7
MAGIC_1 = 0x53
VERSION = 1
BODY = 8
MAX_VARINT = 9

_MODULUS = 65521
_BLOCK = 1 << 15
_TWO_BYTES = np.uint64(0xFFFF)


@borrowing_kernel
def checksum(data: Bytes, start: int, end: int) -> int:
    """Return the Adler-32 of a whole synopsis data[start:end], its own four bytes left out.

    The synopsis has at least `BODY` bytes. Cost: O(end - start).
    """
    low = 1 + int(np.int64(data[start + 2]))
    high = low
    low += int(np.int64(data[start + 3]))
    high += low
    for block in range(start + BODY, end, _BLOCK):
        length = min(_BLOCK, end - block)
        # Byte i of n comes into `high` n - i times. Indices and weights without a sign, the latter
        # of two bytes, have the compiler add many bytes at once: an eighth of the time.
        first, count = np.uint64(block), np.uint64(length)
        plain, weighted = np.uint64(0), np.uint64(0)
        for i in range(count):
            byte = np.uint64(data[first + i])
            plain += byte
            weighted += ((count - i) & _TWO_BYTES) * byte
        high = (high + length * low + int(np.int64(weighted))) % _MODULUS
        low = (low + int(np.int64(plain))) % _MODULUS
    return high % _MODULUS << 16 | low % _MODULUS


@borrowing_kernel
def put_fixed(data: Bytes, at: int, number: int, size: int) -> int:
    """Write `number` >= 0 in `size` bytes, little-endian; return the offset after it."""
    for i in range(size):
        data[at + i] = (number >> (8 * i)) & 0xFF
    return at + size


@borrowing_kernel
def get_fixed(data: Bytes, at: int, size: int) -> int:
    """Read `size` bytes, little-endian, as a number; the caller has checked that they exist.

    Eight bytes are a number with a sign, fewer are not negative.
    """
    number = 0
    for i in range(size):
        byte = int(np.int64(data[at + i]))
        if i == 7:
            byte -= (byte >> 7) << 8  # compiled code would wrap here, plain Python would not
        number |= byte << (8 * i)
    return number


@borrowing_kernel
def put_varint(data: Bytes, at: int, number: int) -> int:
    """Write 0 <= `number` < 2^63 in at most `MAX_VARINT` bytes; return the offset after it."""
    while number >= 0x80:
        data[at] = (number & 0x7F) | 0x80
        number >>= 7
        at += 1
    data[at] = number
    return at + 1


@borrowing_kernel
def get_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a number; return (number, offset after it), or (-1, at) if none in shortest form is
    there before `end`."""
    number = 0
    for i in range(min(MAX_VARINT, end - at)):
        byte = int(np.int64(data[at + i]))
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if byte == 0 and i > 0:
                return -1, at
            return number, at + i + 1
    return -1, at


@borrowing_kernel
def zigzag(number: int) -> int:
    """Fold a number of at most 62 bits and a sign into one that is not negative."""
    return (number << 1) ^ (number >> 63)


@borrowing_kernel
def unzigzag(number: int) -> int:
    """Undo `zigzag`."""
    return (number >> 1) ^ -(number & 1)
