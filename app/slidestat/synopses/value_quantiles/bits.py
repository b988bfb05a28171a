"""Numbers as bits, for what varints are too coarse for: written into words of 32 bits.

A number near a guess takes its length in bits as a difference from the guessed one, in unary, and
then the bits behind the first: two to three bits more than its own when lengths are guessed well
(Golomb's and Elias's codes are its relatives). A number of few choices takes log2 of them.

Each number has one form. Words are whole numbers below 2^32, low bits first; the word after the
last one written is always zero above what has been written.
"""

import numpy as np
import numpy.typing as npt

from slidestat.synopses.kernels.compile import borrowing_kernel

Words = npt.NDArray[np.uint32]

_CHUNK = 30
_ESCAPE = 24
_LENGTH_BITS = 6
_LENGTHS = (0, 1, 1, 2, 2, 2, 2, 3)  # of numbers up to 0, 1, ..., 7, rounded down

_STEPS = (32, 16, 8, 4, 2, 1)

LONGEST = _ESCAPE + _LENGTH_BITS + 62
"""No number takes more bits."""


@borrowing_kernel
def put_few(words: Words, at: int, number: int, count: int) -> int:
    """Write 0 <= number < 2^count, count being at most 30, at bit `at`; return the bit after it."""
    shifted = int(np.int64(words[at >> 5])) | number << (at & 31)
    words[at >> 5] = shifted & 0xFFFF_FFFF
    words[(at >> 5) + 1] = shifted >> 32
    return at + count


@borrowing_kernel
def get_few(words: Words, at: int, count: int) -> int:
    """Read `count` bits, at most 30, at bit `at`."""
    two = int(np.int64(words[at >> 5])) | (int(np.int64(words[(at >> 5) + 1])) & 0x3FFF_FFFF) << 32
    return two >> (at & 31) & ((1 << count) - 1)


@borrowing_kernel
def _put(words: Words, at: int, number: int, count: int) -> int:
    """Write 0 <= number < 2^count, count being at most 62, at bit `at`; return the bit after it."""
    while count > _CHUNK:
        at = put_few(words, at, number & ((1 << _CHUNK) - 1), _CHUNK)
        number >>= _CHUNK
        count -= _CHUNK
    return put_few(words, at, number, count)


@borrowing_kernel
def _get(words: Words, at: int, count: int) -> int:
    """Read `count` bits, at most 62, at bit `at`."""
    number = 0
    done = 0
    while count - done > _CHUNK:
        number |= get_few(words, at + done, _CHUNK) << done
        done += _CHUNK
    return number | get_few(words, at + done, count - done) << done


@borrowing_kernel
def length_of(number: int) -> int:
    """Return how many bits `number` >= 0 has."""
    length = 0
    for step in _STEPS:
        if number >> step > 0:
            number >>= step
            length += step
    return length + number


@borrowing_kernel
def put_near(words: Words, at: int, number: int, guess: int) -> tuple[int, int]:
    """Write 0 <= number < 2^62 - 1, guessed to be of `guess` bits when 1 is added.

    Returns (the bit after it, how many bits it has).
    """
    length = length_of(number + 1)
    behind = (number + 1) & ((1 << (length - 1)) - 1)
    off = length - guess
    folded = 2 * off - 1 if off > 0 else -2 * off
    if folded >= _ESCAPE:
        at = put_few(words, put_few(words, at, 0, _ESCAPE), length, _LENGTH_BITS)
    elif folded + length <= _CHUNK:
        return put_few(words, at, (behind << 1 | 1) << folded, folded + length), length
    else:
        at = put_few(words, at, 1 << folded, folded + 1)
    return _put(words, at, behind, length - 1), length


@borrowing_kernel
def get_near(words: Words, at: int, guess: int) -> tuple[int, int, int]:
    """Read what `put_near` wrote; return (it, or -1 for what it does not write, the bit after it,
    how many bits it has)."""
    ahead = get_few(words, at, _CHUNK)
    folded = 0
    while folded < _ESCAPE and ahead & 1 == 0:
        ahead >>= 1
        folded += 1
    if folded < _ESCAPE:
        length = guess + ((folded + 1) >> 1 if folded & 1 == 1 else -(folded >> 1))
        at += folded + 1
    else:
        length = get_few(words, at + _ESCAPE, _LENGTH_BITS)
        at += _ESCAPE + _LENGTH_BITS
        off = length - guess
        if (2 * off - 1 if off > 0 else -2 * off) < _ESCAPE:
            return -1, at, 0
    if not (1 <= length <= 62):
        return -1, at, 0
    if folded < _ESCAPE and folded + length <= _CHUNK:
        behind = ahead >> 1 & ((1 << (length - 1)) - 1)
    else:
        behind = _get(words, at, length - 1)
    number = behind | 1 << (length - 1)
    return number - 1, at + length - 1, length


@borrowing_kernel
def put_one_of(words: Words, at: int, number: int, most: int) -> int:
    """Write 0 <= number <= most, `most` being at most 7; return the bit after it."""
    length = _LENGTHS[most]
    shorter = (2 << length) - most - 1
    if number < shorter:
        return put_few(words, at, number, length)
    number += shorter
    return put_few(words, at, number >> 1 | (number & 1) << length, length + 1)


@borrowing_kernel
def get_one_of(words: Words, at: int, most: int) -> tuple[int, int]:
    """Read what `put_one_of` wrote; return (it, the bit after it)."""
    length = _LENGTHS[most]
    shorter = (2 << length) - most - 1
    ahead = get_few(words, at, length + 1)
    number = ahead & ((1 << length) - 1)
    if number < shorter:
        return number, at + length
    return (number << 1 | ahead >> length) - shorter, at + length + 1
