"""Samples of items as bytes, and back.

The body (envelope and numbers: see wire.py; columns: columns.py) is, in this order:

    epsilon, delta                             a column of two values
    seed, span, total
    now, zigzag coded                          last event time + 1, or what it was advanced to
    samples                                    how many
    positions, newest to oldest                each as the difference to the later one, from total
    times, newest to oldest                    each as the difference to the later one, from now - 1
    counts, oldest to newest
    items, oldest to newest                    a column
"""

import numpy as np

from slidestat.synopses.blocks.blocks import EVENT_LIMIT, LIVE_LIMIT
from slidestat.synopses.blocks.columns import column_limit, doubles, get_column, put_column
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.frequent.sticky_kernel import (
    COUNT,
    ITEM,
    NOW,
    POSITION,
    ROWS,
    SEED,
    SIZE,
    SPAN,
    STORED,
    TIME,
    TOTAL,
    window_of,
)
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel

_SHARES = 2
_HEAD_LIMIT = wire.BODY + 17 + 5 * wire.MAX_VARINT


@borrowing_kernel
def encoded_limit(size: int) -> int:
    """Return how many bytes a state with `size` samples takes at most."""
    return int(_HEAD_LIMIT + 3 * wire.MAX_VARINT * size + column_limit(size))


@borrowing_kernel
def encode(
    data: Bytes, start: int, head: Integers, shares: Floats, state: Integers, samples: Integers
) -> int:
    """Write swept samples at `start`; return the offset after. Cost: O(bytes written)."""
    size = state[SIZE]
    at = open_envelope(data, start, head[STORED])
    at = put_column(data, at, shares.view(np.int64), True)  # positive: their bits are in order
    at = put_varint(data, at, head[SEED])
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, state[TOTAL])
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at = put_varint(data, at, size)
    later = state[TOTAL]
    for i in range(size - 1, -1, -1):
        at = put_varint(data, at, later - samples[POSITION, i])
        later = samples[POSITION, i]
    later = state[NOW] - 1
    for i in range(size - 1, -1, -1):
        at = put_varint(data, at, later - samples[TIME, i])
        later = samples[TIME, i]
    for i in range(size):
        at = put_varint(data, at, samples[COUNT, i])
    at = put_column(data, at, samples[ITEM, :size], False)
    seal(data, start, at)
    return at


@kernel
def read_head(
    data: Bytes, start: int, end: int, kind: int, shares: Floats
) -> tuple[int, int, int, int, int]:
    """Check the envelope, fill `shares`; return (error, its number, seed, span, offset after)."""
    error_code, number, at = open_body(data, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0, 0, at
    bits = np.empty(_SHARES, np.int64)
    at = get_column(data, at, end, bits, True)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0, 0, at
    shares[:] = doubles(bits)
    seed, at = get_varint(data, at, end)
    span, at = get_varint(data, at, end)
    if seed < 0 or not (1 <= span <= 1 << 53):
        return error_codes.CORRUPTED, 0, 0, 0, at
    return error_codes.OK, 0, seed, span, at


@kernel
def decode(
    data: Bytes, at: int, end: int, head: Integers, state: Integers, added: int
) -> tuple[int, Integers]:
    """Fill `state` from data[at:end], `at` being what `read_head` gave; return (error, samples).

    There is room for `added` more. Nothing is believed but the positions: they rise, as times do,
    which are inside the span; counts are of different events; no window may have more than
    2^40. Cost: O(end - at).
    """
    nothing = np.empty((ROWS, 0), np.int64)
    total, at = get_varint(data, at, end)
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, nothing
    size, at = get_varint(data, at, end)
    if not (0 <= total <= EVENT_LIMIT) or not (0 <= size <= total) or size > (end - at) // 4:
        return error_codes.CORRUPTED, nothing
    samples = np.empty((ROWS, size + added), np.int64)
    later = total
    for i in range(size - 1, -1, -1):
        back, at = get_varint(data, at, end)
        if back < 1 or back > later:
            return error_codes.CORRUPTED, nothing
        later -= back
        samples[POSITION, i] = later
    later = now - 1
    edge = max(now - head[SPAN], TIME_MIN)
    for i in range(size - 1, -1, -1):
        back, at = get_varint(data, at, end)
        if back < 0 or back > later - edge:
            return error_codes.CORRUPTED, nothing
        later -= back
        samples[TIME, i] = later
    for i in range(size):
        samples[COUNT, i], at = get_varint(data, at, end)
        if samples[COUNT, i] < 1:
            return error_codes.CORRUPTED, nothing
    counted = 0
    for i in range(size - 1, -1, -1):
        # A sample counts itself and later events: so do all behind it, when it has expired.
        since = total - samples[POSITION, i]
        if samples[COUNT, i] > since - counted:
            return error_codes.CORRUPTED, nothing
        counted += samples[COUNT, i]
    at = get_column(data, at, end, samples[ITEM, :size], False)
    if at != end:
        return error_codes.CORRUPTED, nothing
    state[TOTAL] = total
    state[NOW] = now
    state[SIZE] = size
    if window_of(head, state, samples, edge)[2] > LIVE_LIMIT:
        return error_codes.CORRUPTED, nothing
    return error_codes.OK, samples
