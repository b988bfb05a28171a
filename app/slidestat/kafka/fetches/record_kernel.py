"""Kernels that read records as they are in a batch of Kafka's format v2 (KIP-98).

A record is, in zigzag varints but for keys, values and headers themselves:

    length  attributes  timestamp delta  offset delta  key length  key  value length  value
    headers (name length  name  value length  value) ...

A length below zero is that of nothing. All that is read is checked to lie within its record and
its batch; headers are passed over, their names and values unread.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, unlocked_kernel
from slidestat.synopses.core.arrays import Bytes, Integers

LEAST_BYTES = 7
"""How many bytes a record has at least."""

# Columns of the batches that are read: where their records lie in the buffer and how many they are,
# what their offsets and timestamps are computed from, and the first offset that is wanted.
START, END, RECORDS, BASE_OFFSET, BASE_TIME, IS_APPEND_TIME, LEAST_OFFSET = range(7)
BATCH_COLUMNS = 7

_LOW_BITS, _MORE = 0x7F, 0x80
_MOST_BITS = 63


@borrowing_kernel
def _varint(buffer: Bytes, place: int, end: int) -> tuple[int, int]:
    """Return the number at `place` and where it ends; (0, -1) if there is no place, if it does not
    end, or has more than 63 bits.
    """
    value, shift = 0, 0
    while 0 <= place < end and shift < _MOST_BITS:
        byte = int(np.int64(buffer[place]))
        place += 1
        value |= (byte & _LOW_BITS) << shift
        if byte < _MORE:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
    return 0, -1


@borrowing_kernel
def _string(buffer: Bytes, place: int, end: int) -> tuple[int, int, int]:
    """Return where the string at `place` begins and ends, 0 and -1 if it is nothing, and where its
    field ends, -1 if that is no place before `end`.
    """
    size, start = _varint(buffer, place, end)
    if start < 0 or size > end - start:
        return 0, -1, -1
    if size < 0:
        return 0, -1, start
    return start, start + size, start + size


@borrowing_kernel
def _after_headers(buffer: Bytes, place: int, end: int) -> int:
    """Return where the headers at `place` end, -1 if they do not; a name may not be nothing."""
    left, place = _varint(buffer, place, end)
    if left < 0:
        return -1
    while left > 0 and place >= 0:
        _, name_end, place = _string(buffer, place, end)
        if name_end < 0:
            return -1
        _, _, place = _string(buffer, place, end)
        left -= 1
    return place


@borrowing_kernel
def _record(
    buffer: Bytes, place: int, batch_end: int
) -> tuple[int, int, int, int, int, int, int, int]:
    """Return where the record at `place` ends, -1 if anything of it is not as it must be, its
    deltas of time and offset, where its key and its value begin and end, and the place of the
    number of its headers.
    """
    size, start = _varint(buffer, place, batch_end)
    if start < 0 or size < 0 or size > batch_end - start:
        return -1, 0, 0, 0, 0, 0, 0, 0
    end = start + size
    _, place = _varint(buffer, start, end)
    time_delta, place = _varint(buffer, place, end)
    offset_delta, place = _varint(buffer, place, end)
    key_start, key_end, place = _string(buffer, place, end)
    value_start, value_end, place = _string(buffer, place, end)
    if _after_headers(buffer, place, end) != end:
        end = -1
    return end, time_delta, offset_delta, key_start, key_end, value_start, value_end, place


@unlocked_kernel
def read_batches(
    buffer: Bytes,
    batches: Integers,
    offsets: Integers,
    timestamps: Integers,
    key_starts: Integers,
    key_ends: Integers,
    value_starts: Integers,
    value_ends: Integers,
    header_starts: Integers,
    header_ends: Integers,
) -> int:
    """Read the records of `batches` int64[m, BATCH_COLUMNS] from the least offsets on; return how
    many these are, -1 if anything is not as it must be: in a batch offsets rise. Keys,
    values and headers are spans of the buffer, from 0 to -1 for nothing; that of headers begins
    with their number. The others have room for all records.

    Cost: 20 ns a record.
    """
    count = 0
    for batch in range(len(batches)):
        place, batch_end = batches[batch, START], batches[batch, END]
        last_delta = -1
        for _ in range(batches[batch, RECORDS]):
            (
                place,
                time_delta,
                offset_delta,
                key_start,
                key_end,
                value_start,
                value_end,
                headers,
            ) = _record(buffer, place, batch_end)
            if place < 0 or offset_delta <= last_delta:
                return -1
            last_delta = offset_delta
            offsets[count] = batches[batch, BASE_OFFSET] + offset_delta
            if offsets[count] < batches[batch, LEAST_OFFSET]:
                continue
            timestamps[count] = batches[batch, BASE_TIME]
            if batches[batch, IS_APPEND_TIME] == 0:
                timestamps[count] += time_delta
            key_starts[count], key_ends[count] = key_start, key_end
            value_starts[count], value_ends[count] = value_start, value_end
            header_starts[count], header_ends[count] = 0, -1
            if buffer[headers] != 0:
                header_starts[count], header_ends[count] = headers, place
            count += 1
        if place != batch_end:
            return -1
    return count


@borrowing_kernel
def after_records(buffer: Bytes, place: int, count: int) -> tuple[int, int]:
    """Return where the `count` records from `place` on end, and the offset delta of the last one;
    -1 if anything is not as it must be.
    """
    last_delta = -1
    for _ in range(count):
        place, _, offset_delta, _, _, _, _, _ = _record(buffer, place, len(buffer))
        if place < 0 or offset_delta <= last_delta:
            return -1, last_delta
        last_delta = offset_delta
    return place, last_delta


def load_kernels() -> None:
    """Compile the kernels, or load what was compiled: what a fetch is read by must not wait."""
    buffer, none = np.frombuffer(b"\0", np.uint8), [np.empty(0, np.int64) for _ in range(8)]
    read_batches(buffer, np.empty((0, BATCH_COLUMNS), np.int64), *none)
    after_records(buffer, 0, 0)
