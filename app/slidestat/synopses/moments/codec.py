"""Mean, variance and standard deviation of a window as bytes: one encoder, one decoder.

The body (envelope and numbers: see wire.py) is, in this order:

    k, span, decimals                     see spread.py
    now, zigzag coded                     last event time + 1, or what it was advanced to
    inexact                               1 once a value had more decimals, else 0
    new buckets until neighbours are combined again
    number of live buckets, then of each, newest to oldest:
        the oldest time of the bucket before (at first, now - 1) - the newest of this one
        events - 1
        if 0: the unit, zigzag coded; else: newest - oldest time, then the sum of the units above
        zero, that of those below (negated), and of the squares, over 2^40 and the rest of it
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.parameters import MAX_DECIMALS, MAX_SPAN
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.moments.moments import (
    ABOVE,
    BELOW,
    COUNT,
    HIGH,
    LOW,
    MAX_COUNT,
    MAX_MAGNITUDES,
    MAX_UNIT,
    ROWS,
    are_sound,
    set_unit,
)

SPREAD = 10

NEWEST, FIRST = ROWS, ROWS + 1
BUCKET_ROWS = ROWS + 2

PARTS, SPAN, DECIMALS = 0, 1, 2
HEAD_SIZE = 3
MIN_PARTS, MAX_PARTS = 3, 1_500_001  # what an epsilon of 1/2 and of 10^-6 ask for

# Places in the array of a state's numbers.
NOW, OLDEST, KEPT, LEFT, INEXACT, EVENTS, MAGNITUDES = 0, 1, 2, 3, 4, 5, 6
STATE_SIZE = 7

LEAST_STEP = 32
"""Neighbours are combined after so many new buckets at least."""

_MAX_LEFT = 1 << 40
_LONGEST_HEAD = wire.BODY + 8 * wire.MAX_VARINT


@borrowing_kernel
def clear(state: Integers) -> None:
    """Set `state` to that of a synopsis without events."""
    state[:] = 0
    state[NOW] = TIME_MIN
    state[LEFT] = LEAST_STEP


@borrowing_kernel
def expire(head: Integers, state: Integers, buckets: Integers, now: int) -> None:
    """Drop the buckets of which no event is in any window at `now`."""
    while state[OLDEST] < state[KEPT] and buckets[NEWEST, state[OLDEST]] < now - head[SPAN]:
        state[EVENTS] -= buckets[COUNT, state[OLDEST]]
        state[MAGNITUDES] -= buckets[ABOVE, state[OLDEST]] + buckets[BELOW, state[OLDEST]]
        state[OLDEST] += 1


@borrowing_kernel
def _read_bucket(data: Bytes, at: int, end: int, buckets: Integers, i: int) -> int:
    """Read what follows the number of events of bucket i; return the offset after it, or -1."""
    if buckets[COUNT, i] == 1:
        folded, at = get_varint(data, at, end)
        if not (0 <= folded <= 2 * MAX_UNIT):
            return -1
        set_unit(buckets, i, wire.unzigzag(folded))
        buckets[FIRST, i] = buckets[NEWEST, i]
        return at
    length, at = get_varint(data, at, end)
    buckets[ABOVE, i], at = get_varint(data, at, end)
    buckets[BELOW, i], at = get_varint(data, at, end)
    buckets[HIGH, i], at = get_varint(data, at, end)
    buckets[LOW, i], at = get_varint(data, at, end)
    if not (0 <= length <= buckets[NEWEST, i] - TIME_MIN):
        return -1
    if not (0 <= buckets[ABOVE, i] <= MAX_MAGNITUDES and 0 <= buckets[BELOW, i] <= MAX_MAGNITUDES):
        return -1
    if not (0 <= buckets[HIGH, i] <= MAX_MAGNITUDES and 0 <= buckets[LOW, i] < 1 << 40):
        return -1
    size = buckets[ABOVE, i] + buckets[BELOW, i]
    if size > MAX_MAGNITUDES or (size >> 40) > buckets[COUNT, i] or not are_sound(buckets, i):
        return -1
    buckets[FIRST, i] = buckets[NEWEST, i] - length
    return at


@kernel
def read(
    data: Bytes, start: int, end: int, head: Integers, state: Integers, buckets: Integers
) -> tuple[int, int, Integers]:
    """Fill `head`, `state` and the buckets; return (error, its number, the buckets).

    They are the given ones, or a larger array, never longer than the bytes. Nothing is believed.
    Cost: O(end - start).
    """
    error_code, kind, at = open_body(data, start, end, SPREAD, SPREAD)
    if error_code != error_codes.OK:
        return error_code, kind, buckets
    head[PARTS], at = get_varint(data, at, end)
    head[SPAN], at = get_varint(data, at, end)
    head[DECIMALS], at = get_varint(data, at, end)
    if not (MIN_PARTS <= head[PARTS] <= MAX_PARTS and 1 <= head[SPAN] <= MAX_SPAN):
        return error_codes.CORRUPTED, 0, buckets
    now, at = get_now(data, at, end)
    if at < 0 or not (0 <= head[DECIMALS] <= MAX_DECIMALS):
        return error_codes.CORRUPTED, 0, buckets
    state[INEXACT], at = get_varint(data, at, end)
    state[LEFT], at = get_varint(data, at, end)
    live, at = get_varint(data, at, end)
    if not (0 <= state[INEXACT] <= 1 and 1 <= state[LEFT] <= _MAX_LEFT):
        return error_codes.CORRUPTED, 0, buckets
    if not (0 <= live <= end - at):
        return error_codes.CORRUPTED, 0, buckets
    if live > buckets.shape[1]:
        buckets = np.empty((BUCKET_ROWS, live), np.int64)
    oldest = max(now - head[SPAN], TIME_MIN)
    time = now - 1
    events = 0
    magnitudes = 0
    for i in range(live - 1, -1, -1):
        gap, at = get_varint(data, at, end)
        fewer, at = get_varint(data, at, end)
        if not (0 <= gap <= time - oldest and 0 <= fewer < MAX_COUNT):
            return error_codes.CORRUPTED, 0, buckets
        buckets[NEWEST, i] = time - gap
        buckets[COUNT, i] = fewer + 1
        at = _read_bucket(data, at, end, buckets, i)
        if at < 0:
            return error_codes.CORRUPTED, 0, buckets
        time = buckets[FIRST, i]
        # only what newer events outweigh is ever combined over more than one time
        if time < buckets[NEWEST, i] and buckets[COUNT, i] > events // head[PARTS]:
            return error_codes.CORRUPTED, 0, buckets
        events += buckets[COUNT, i]
        magnitudes += buckets[ABOVE, i] + buckets[BELOW, i]
        if events > MAX_COUNT or magnitudes > MAX_MAGNITUDES:
            return error_codes.CORRUPTED, 0, buckets
    if at != end:
        return error_codes.CORRUPTED, 0, buckets
    state[NOW] = now
    state[OLDEST] = 0
    state[KEPT] = live
    state[EVENTS] = events
    state[MAGNITUDES] = magnitudes
    return error_codes.OK, 0, buckets


@borrowing_kernel
def room_for(state: Integers) -> int:
    """Return how many bytes a state may take at most."""
    return _LONGEST_HEAD + 7 * wire.MAX_VARINT * int(state[KEPT] - state[OLDEST])


@borrowing_kernel
def write(data: Bytes, start: int, head: Integers, state: Integers, buckets: Integers) -> int:
    """Write a state at `start`, expired buckets left out; return the offset after it.

    data has `room_for` bytes from `start`. Cost: O(bytes written).
    """
    expire(head, state, buckets, state[NOW])
    at = open_envelope(data, start, SPREAD)
    for i in range(HEAD_SIZE):
        at = put_varint(data, at, head[i])
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at = put_varint(data, at, state[INEXACT])
    at = put_varint(data, at, state[LEFT])
    at = put_varint(data, at, state[KEPT] - state[OLDEST])
    time = state[NOW] - 1
    for i in range(state[KEPT] - 1, state[OLDEST] - 1, -1):
        at = put_varint(data, at, time - buckets[NEWEST, i])
        at = put_varint(data, at, buckets[COUNT, i] - 1)
        if buckets[COUNT, i] == 1:
            at = put_varint(data, at, wire.zigzag(buckets[ABOVE, i] - buckets[BELOW, i]))
        else:
            at = put_varint(data, at, buckets[NEWEST, i] - buckets[FIRST, i])
            at = put_varint(data, at, buckets[ABOVE, i])
            at = put_varint(data, at, buckets[BELOW, i])
            at = put_varint(data, at, buckets[HIGH, i])
            at = put_varint(data, at, buckets[LOW, i])
        time = buckets[FIRST, i]
    seal(data, start, at)
    return at
