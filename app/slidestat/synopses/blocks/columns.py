"""Numbers of a state in few bytes: values that read as decimals, and items that are small.

A column is written in chunks of at most 256 numbers; each begins with a byte, its mode, which is
the first of these that holds for all of them:

    0..9   values that are whole multiples of 10^-mode, of at most 2^50 units
    10     values that are single precision exactly: 4 bytes each, little-endian
    11     any other values: doubles, 8 bytes each
    12     items from -2^48 to 2^48
    13     any other items: 8 bytes each

Decimals and small items are written as differences to the number before, the first to 0, zigzag
coded. A double is taken as a decimal if it is the one nearest to q / 10^mode, as a reader of text
makes it; up to 2^50 units no two q share a double, so nothing is lost and the mode is unique.

In memory values are 64-bit whole numbers with the same order (`ordered`), as items are, so that one
kernel serves both.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.wire import get_varint, put_varint, unzigzag, zigzag

CHUNK = 256
MAX_DECIMALS = 9
SINGLES, DOUBLES, SMALL, ANY = 10, 11, 12, 13

_SCALES = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
_MOST_UNITS = float(1 << 50)
_LARGEST_SINGLE = 3.4e38
_SMALL_LIMIT = 1 << 48
_MAGNITUDE = (1 << 63) - 1


def ordered(values: Floats) -> Integers:
    """Return whole numbers in the order of `values`, which are finite, none of them -0.0."""
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


@kernel
def doubles(keys: Integers) -> Floats:
    """Return the values that `ordered` made `keys` of."""
    bits = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        bits[i] = keys[i] ^ _MAGNITUDE if keys[i] < 0 else keys[i]
    return bits.view(np.float64)


@borrowing_kernel
def _fits(value: float, mode: int) -> bool:
    if mode <= MAX_DECIMALS:
        if abs(value) > _MOST_UNITS:
            return False
        units = np.rint(value * _SCALES[mode])
        return bool(abs(units) <= _MOST_UNITS and units / _SCALES[mode] == value)
    if mode == SINGLES:
        return bool(abs(value) <= _LARGEST_SINGLE and float(np.float32(value)) == value)
    return True


@borrowing_kernel
def _mode_of(values: Floats) -> int:
    """Return the first mode that holds for all of `values`. Cost: O(values)."""
    mode = 0
    peak = 0.0
    for value in values:
        while not _fits(value, mode):
            mode += 1
        peak = max(peak, abs(value))
    has_too_many_units = 0 < mode <= MAX_DECIMALS and not (
        np.rint(peak * _SCALES[mode]) <= _MOST_UNITS
    )
    if has_too_many_units or mode == SINGLES:
        # Values that fitted with fewer decimals have too many units now, or values that fitted as
        # decimals need not be single precision: 0.1 before 2^-10.
        mode = SINGLES
        for value in values:
            while not _fits(value, mode):
                mode += 1
    return mode


@kernel
def _are_small(items: Integers) -> bool:
    return bool(np.all((items >= -_SMALL_LIMIT) & (items <= _SMALL_LIMIT)))


@borrowing_kernel
def _put_differences(data: Bytes, at: int, numbers: Integers) -> int:
    before = 0
    for number in numbers:
        at = put_varint(data, at, zigzag(number - before))
        before = number
    return at


@borrowing_kernel
def _get_differences(data: Bytes, at: int, end: int, numbers: Integers, limit: int) -> int:
    before = 0
    for i in range(len(numbers)):
        folded, at = get_varint(data, at, end)
        if folded < 0 or folded > 4 * limit:
            return -1
        before += unzigzag(folded)
        if before < -limit or before > limit:
            return -1
        numbers[i] = before
    return at


@kernel
def put_column(data: Bytes, at: int, numbers: Integers, are_values: bool) -> int:
    """Write a column; return the offset after it. It takes at most `column_limit` bytes."""
    for first in range(0, len(numbers), CHUNK):
        chunk = numbers[first : first + CHUNK]
        size = len(chunk)
        if are_values:
            values = doubles(chunk)
            mode = _mode_of(values)
            data[at] = mode
            at += 1
            if mode <= MAX_DECIMALS:
                units = np.empty(size, np.int64)
                for i in range(size):
                    units[i] = int(np.rint(values[i] * _SCALES[mode]))
                at = _put_differences(data, at, units)
            elif mode == SINGLES:
                data[at : at + 4 * size] = values.astype(np.float32).view(np.uint8)
                at += 4 * size
            else:
                data[at : at + 8 * size] = values.view(np.uint8)
                at += 8 * size
        elif _are_small(chunk):
            data[at] = SMALL
            at = _put_differences(data, at + 1, chunk)
        else:
            data[at] = ANY
            items = chunk.copy()
            data[at + 1 : at + 1 + 8 * size] = items.view(np.uint8)
            at += 1 + 8 * size
    return at


@borrowing_kernel
def column_limit(size: int) -> int:
    """Return how many bytes a column of `size` numbers takes at most; it takes `size` or more."""
    return 8 * size + (size + CHUNK - 1) // CHUNK


@kernel
def _get_chunk(data: Bytes, at: int, end: int, chunk: Integers, are_values: bool) -> int:
    size = len(chunk)
    mode = int(np.int64(data[at]))
    at += 1
    if are_values != (mode <= DOUBLES) or mode > ANY:
        return -1
    if mode == SMALL:
        return _get_differences(data, at, end, chunk, _SMALL_LIMIT)
    width = 4 if mode == SINGLES else 8
    if mode > MAX_DECIMALS and end - at < width * size:
        return -1
    raw = np.empty(width * size, np.uint8)
    if mode == ANY:
        raw[:] = data[at : at + 8 * size]
        chunk[:] = raw.view(np.int64)
        return -1 if _are_small(chunk) else at + 8 * size
    values = np.empty(size, np.float64)
    if mode <= MAX_DECIMALS:
        at = _get_differences(data, at, end, chunk, 1 << 50)
        if at < 0:
            return -1
        for i in range(size):
            values[i] = float(chunk[i]) / _SCALES[mode]
    else:
        raw[:] = data[at : at + width * size]
        at += width * size
        if mode == SINGLES:
            values[:] = raw.view(np.float32)
        else:
            values[:] = raw.view(np.float64)
    bits = values.view(np.int64)
    for i in range(size):
        if not np.isfinite(values[i]) or bits[i] == ~_MAGNITUDE:
            return -1
        chunk[i] = bits[i] ^ _MAGNITUDE if bits[i] < 0 else bits[i]
    return at if mode == _mode_of(values) else -1


@borrowing_kernel
def get_column(data: Bytes, at: int, end: int, numbers: Integers, are_values: bool) -> int:
    """Fill `numbers` from data[at:end]; return the offset after the column, or -1 if it is none."""
    for first in range(0, len(numbers), CHUNK):
        if at >= end:
            return -1
        at = _get_chunk(data, at, end, numbers[first : first + CHUNK], are_values)
        if at < 0:
            return -1
    return at
