"""Cells as bytes: one encoder, one decoder (envelope and numbers: see wire.py).

The body is, in this order:

    settings                              what the synopsis was made with, of its kind
    now, zigzag coded                     last event time + 1, or what it was advanced to
    number of live cells, then of each, by rising id:
        1 + (its id - the id before, or - 0) zigzag coded, if that is below 2^61 or so;
            else 0, and the id itself in 8 bytes, little-endian
        total                             of events, lowered as canonical.py says
        number of live edges
        now - 1 - t_1, t_1 - t_2, ...     their times from new to old; from the second on, 0 says
                                          that the number after it is how many more edges have the
                                          time of the edge before
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import (
    get_bits,
    get_now,
    open_body,
    open_envelope,
    put_bits,
    seal,
)
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.exponential_histogram.canonical import (
    LIVE_LIMIT,
    TOTAL_LIMIT,
    bucket_at,
    bucket_count,
)
from slidestat.synopses.exponential_histogram.codec import get_runs, put_runs
from slidestat.synopses.value_histogram.cells import (
    BINS,
    CAPACITY,
    CELLS,
    END,
    ID,
    KIND,
    NOW,
    PER_LEVEL,
    ROWS,
    SPAN,
    TOTAL,
    expire,
)

_LEAST_CELL = 4
"""No cell takes fewer bytes."""

_MIN_ID, _MAX_ID = -(1 << 63), (1 << 63) - 1


@borrowing_kernel
def _is_near(item: int, before: int) -> bool:
    """Return whether the difference of two ids is coded; it is not computed, as it may not fit."""
    return -(1 << 57) <= (item >> 3) - (before >> 3) < 1 << 57


@borrowing_kernel
def read_id(data: Bytes, at: int, end: int, before: int) -> tuple[int, int]:
    """Return (an id, the offset after it, or -1 for none in the form it has to have)."""
    folded, at = get_varint(data, at, end)
    if folded == 0 and end - at >= 8:
        item = get_bits(data, at)
        return item, -1 if _is_near(item, before) else at + 8
    if not (1 <= folded < 1 << 62):
        return 0, -1
    step = wire.unzigzag(folded - 1)
    if (step > 0 and before > _MAX_ID - step) or (step < 0 and before < _MIN_ID - step):
        return 0, -1
    item = before + step
    return item, at if _is_near(item, before) else -1


@borrowing_kernel
def write_id(data: Bytes, at: int, item: int, before: int) -> int:
    """Write an id that follows `before`; return the offset after it."""
    if _is_near(item, before):
        return put_varint(data, at, 1 + wire.zigzag(item - before))
    return put_bits(data, put_varint(data, at, 0), item)


@kernel
def read(
    data: Bytes,
    start: int,
    end: int,
    settings: Bytes,
    head: Integers,
    state: Integers,
    table: Integers,
    runs: Integers,
) -> tuple[int, int, Integers, Integers]:
    """Fill `state`, the table and the runs from data[start:end]; `settings` must be its own.

    Returns (error, its number, the table, the runs), which are the given ones or longer ones, never
    longer than the bytes. Nothing is believed. Cost: O(end - start).
    """
    error_code, number, at = open_body(data, start, end, head[KIND], head[KIND])
    if error_code != error_codes.OK:
        return error_code, number, table, runs
    if end - at < len(settings):
        return error_codes.OTHER_SETTINGS, 0, table, runs
    for i in range(len(settings)):
        if data[at + i] != settings[i]:
            return error_codes.OTHER_SETTINGS, 0, table, runs
    now, at = get_now(data, at + len(settings), end)
    if at < 0:
        return error_codes.CORRUPTED, 0, table, runs
    oldest = max(now - head[SPAN], TIME_MIN)
    cells, at = get_varint(data, at, end)
    if not (0 <= cells <= min(head[CAPACITY], (end - at) // _LEAST_CELL)):
        return error_codes.CORRUPTED, 0, table, runs
    if cells > table.shape[1]:
        table = np.empty((ROWS, 2 * cells), np.int64)
    if end - at > runs.shape[1]:
        runs = np.empty((2, 2 * (end - at)), np.int64)
    count = 0
    item = 0
    for cell in range(cells):
        before = item
        item, at = read_id(data, at, end, before)
        if at < 0 or (cell > 0 and item <= before):
            return error_codes.CORRUPTED, 0, table, runs
        if head[BINS] > 0 and not (0 <= item < head[BINS]):
            return error_codes.CORRUPTED, 0, table, runs
        total, at = get_varint(data, at, end)
        live, at = get_varint(data, at, end)
        if not (0 <= total < TOTAL_LIMIT and 1 <= live <= bucket_count(total, head[PER_LEVEL])):
            return error_codes.CORRUPTED, 0, table, runs
        if bucket_at(total, head[PER_LEVEL], live - 1)[0] >= LIVE_LIMIT:
            return error_codes.CORRUPTED, 0, table, runs
        at, count = get_runs(data, at, end, now, oldest, live, runs, count)
        if at < 0:
            return error_codes.CORRUPTED, 0, table, runs
        table[ID, cell] = item
        table[TOTAL, cell] = total
        table[END, cell] = count
    if at != end:
        return error_codes.CORRUPTED, 0, table, runs
    state[NOW] = now
    state[CELLS] = cells
    return error_codes.OK, 0, table, runs


@borrowing_kernel
def room_for(settings: Bytes, state: Integers, table: Integers) -> int:
    """Return how many bytes a state may take at most."""
    cells = state[CELLS]
    runs = table[END, cells - 1] if cells > 0 else 0
    head = wire.BODY + len(settings) + 2 * wire.MAX_VARINT
    return int(head + cells * 3 * wire.MAX_VARINT + runs * (2 * wire.MAX_VARINT + 1))


@borrowing_kernel
def write(
    data: Bytes,
    start: int,
    settings: Bytes,
    head: Integers,
    state: Integers,
    table: Integers,
    runs: Integers,
) -> int:
    """Write a state at `start`, what has expired left out; return the offset after it.

    data has `room_for` bytes from `start`. Cost: O(bytes written).
    """
    expire(head, state, table, runs)
    at = open_envelope(data, start, head[KIND])
    for i in range(len(settings)):
        data[at] = settings[i]
        at += 1
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at = put_varint(data, at, state[CELLS])
    run = 0
    item = 0
    for cell in range(state[CELLS]):
        before = item
        item = table[ID, cell]
        at = write_id(data, at, item, before)
        at = put_varint(data, at, table[TOTAL, cell])
        at = put_varint(data, at, runs[1, table[END, cell] - 1])
        at = put_runs(data, at, state[NOW], runs, run, table[END, cell])
        run = table[END, cell]
    seal(data, start, at)
    return at
