"""Buckets with sketches as bytes: one encoder, one decoder (envelope and numbers: see wire.py).

The body is, in this order:

    settings                              what the synopsis was made with, of its kind
    now, zigzag coded                     last event time + 1, or what it was advanced to
    new buckets until neighbours are merged again
    number of live buckets, then of each, newest to oldest:
        the oldest time of the bucket before (at first, now - 1) - the newest of this one
        0 for one event, else 1 + newest - oldest time
        the weight of its events
        of one event, its item, coded as in cells_codec.py after 0; else the numbers of the sketch,
            each zigzag coded
"""

import numpy as np

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.envelope import refused
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.kernels.compile import kernel
from slidestat.synopses.norm.composition import MAX_PER_WEIGHT, MAX_WEIGHT, Buckets
from slidestat.synopses.value_histogram.cells_codec import read_id, write_id

_LEAST_BUCKET = 4
"""No bucket takes fewer bytes."""

_MAX_LEFT = 1 << 40

# Rows of the columns that kernels see buckets as, newest to oldest.
_NEWEST, _FIRST, _ITEM, _WEIGHT, _SINGLE = 0, 1, 2, 3, 4
_ROWS = 5


@kernel
def _read(
    data: Bytes, kind: int, settings: Bytes, span: int, width: int
) -> tuple[int, int, int, int, Integers, Integers]:
    """Return (error, its number or now, new buckets left, merged buckets, columns, sketches)."""
    none = np.empty((_ROWS, 0), np.int64)
    rows = np.empty((0, width), np.int64)
    end = len(data)
    error_code, number, at = open_body(data, 0, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0, 0, none, rows
    if end - at < len(settings):
        return error_codes.OTHER_SETTINGS, 0, 0, 0, none, rows
    for i in range(len(settings)):
        if data[at + i] != settings[i]:
            return error_codes.OTHER_SETTINGS, 0, 0, 0, none, rows
    now, at = get_now(data, at + len(settings), end)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0, 0, none, rows
    left, at = get_varint(data, at, end)
    live, at = get_varint(data, at, end)
    if not (1 <= left <= _MAX_LEFT and 0 <= live <= (end - at) // _LEAST_BUCKET):
        return error_codes.CORRUPTED, 0, 0, 0, none, rows
    columns = np.empty((_ROWS, live), np.int64)
    rows = np.empty((min(live, (end - at) // width), width), np.int64)
    oldest = max(now - span, TIME_MIN)
    time = now - 1
    merged = 0
    total = 0
    for i in range(live):
        gap, at = get_varint(data, at, end)
        form, at = get_varint(data, at, end)
        weight, at = get_varint(data, at, end)
        if not (0 <= gap <= time - oldest and 1 <= weight <= MAX_WEIGHT - total):
            return error_codes.CORRUPTED, 0, 0, 0, none, rows
        total += weight
        newest = time - gap
        if not (0 <= form <= 1 + newest - TIME_MIN):
            return error_codes.CORRUPTED, 0, 0, 0, none, rows
        item = 0
        if form == 0:
            item, at = read_id(data, at, end, 0)
            if at < 0:
                return error_codes.CORRUPTED, 0, 0, 0, none, rows
        else:
            if merged == len(rows):
                return error_codes.CORRUPTED, 0, 0, 0, none, rows
            for j in range(width):
                folded, at = get_varint(data, at, end)
                number = wire.unzigzag(folded)
                if folded < 0 or abs(number) > weight * MAX_PER_WEIGHT:
                    return error_codes.CORRUPTED, 0, 0, 0, none, rows
                rows[merged, j] = number
            merged += 1
        time = newest - max(form - 1, 0)
        columns[_NEWEST, i] = newest
        columns[_FIRST, i] = time
        columns[_ITEM, i] = item
        columns[_WEIGHT, i] = weight
        columns[_SINGLE, i] = form == 0
        if time < oldest and i < live - 1:
            return error_codes.CORRUPTED, 0, 0, 0, none, rows
    if at != end:
        return error_codes.CORRUPTED, 0, 0, 0, none, rows
    return error_codes.OK, now, left, merged, columns, rows


@kernel
def _write(
    kind: int, settings: Bytes, now: int, left: int, columns: Integers, rows: Integers
) -> Bytes:
    """Return the bytes of buckets that are all live. Cost: O(bytes written)."""
    live = columns.shape[1]
    room = wire.BODY + len(settings) + wire.MAX_VARINT * (3 + 4 * live + rows.size)
    data = np.empty(room, np.uint8)
    at = open_envelope(data, 0, kind)
    for i in range(len(settings)):
        data[at] = settings[i]
        at += 1
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, left)
    at = put_varint(data, at, live)
    time = now - 1
    merged = 0
    for i in range(live):
        at = put_varint(data, at, time - columns[_NEWEST, i])
        time = columns[_FIRST, i]
        if columns[_SINGLE, i]:
            at = put_varint(data, at, 0)
            at = put_varint(data, at, columns[_WEIGHT, i])
            at = write_id(data, at, columns[_ITEM, i], 0)
        else:
            at = put_varint(data, at, 1 + columns[_NEWEST, i] - time)
            at = put_varint(data, at, columns[_WEIGHT, i])
            for j in range(rows.shape[1]):
                at = put_varint(data, at, wire.zigzag(rows[merged, j]))
            merged += 1
    seal(data, 0, at)
    return data[:at].copy()


def read(data: bytes, kind: int, settings: bytes, span: int, width: int) -> Buckets:
    """Return the buckets in `data`; SynopsisError unless it is of `kind` and has `settings`.

    Nothing is believed. Cost: O(len(data)).
    """
    array = np.frombuffer(bytearray(data), np.uint8)
    own = np.frombuffer(bytearray(settings), np.uint8)
    error_code, number, left, merged, columns, rows = _read(array, kind, own, span, width)
    if error_code != error_codes.OK:
        raise refused(data, error_code, int(number), kind)
    buckets = Buckets(width)
    buckets.newest, buckets.first, buckets.items, buckets.weights = columns[:_SINGLE, ::-1]
    buckets.single = columns[_SINGLE, ::-1] != 0
    buckets.sketches = rows[:merged][::-1]
    buckets.left = int(left)
    buckets.now = int(number)
    return buckets


def write(buckets: Buckets, kind: int, settings: bytes, span: int) -> bytes:
    """Return the buckets as bytes, those that have expired left out."""
    buckets.drop_before(buckets.now - span)
    columns = np.empty((_ROWS, len(buckets.newest)), np.int64)
    columns[_NEWEST] = buckets.newest[::-1]
    columns[_FIRST] = buckets.first[::-1]
    columns[_ITEM] = buckets.items[::-1]
    columns[_WEIGHT] = buckets.weights[::-1]
    columns[_SINGLE] = buckets.single[::-1]
    rows = np.ascontiguousarray(buckets.sketches[::-1])
    own = np.frombuffer(bytearray(settings), np.uint8)
    return bytes(_write(kind, own, buckets.now, buckets.left, columns, rows).tobytes())
