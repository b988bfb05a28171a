"""From parts of a fetch to columns: by a kernel, all in one call, where every part is plain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import Headers
from slidestat.kafka.fetches.fetched_bytes import PlainRecords
from slidestat.kafka.fetches.header_column import HeaderColumn
from slidestat.kafka.fetches.record_kernel import BATCH_COLUMNS, read_batches

Int64s = npt.NDArray[np.int64]

_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class FetchedColumns:
    """Fetched records in the order of their offsets: `offsets` and `timestamps` int64[n], and their
    n keys, values and headers.
    """

    offsets: Int64s
    timestamps: Int64s
    keys: BinaryColumn
    values: BinaryColumn
    headers: Sequence[Headers]

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> "FetchedColumns":
        """Return the records before `offset`; these very ones if all are."""
        count = int(np.searchsorted(self.offsets, offset))
        if count == len(self):
            return self
        return FetchedColumns(
            self.offsets[:count],
            self.timestamps[:count],
            self.keys[:count],
            self.values[:count],
            self.headers[:count],
        )


def columns_of(parts: Sequence[Any]) -> FetchedColumns:
    """Return the records of these parts, each one of aiokafka's or PlainRecords.

    Raises what aiokafka raises for records that are not as they must be.
    """
    plain = [part for part in parts if isinstance(part, PlainRecords)]
    columns = _by_kernel(plain) if plain and len(plain) == len(parts) else None
    return _one_by_one(parts) if columns is None else columns


def _by_kernel(parts: Sequence[PlainRecords]) -> FetchedColumns | None:
    """Return the columns by a kernel, None if the bytes of a record are not as they must be."""
    data = parts[0].data if len(parts) == 1 else b"".join(part.data for part in parts)
    buffer = np.frombuffer(data, np.uint8)
    batches = np.empty((len(parts), BATCH_COLUMNS), np.int64)
    end = 0
    for row, part in enumerate(parts):
        start, end, batch = end, end + len(part.data), part.batch
        batches[row] = (
            start,
            end,
            part.count,
            batch.base_offset,
            batch.base_time,
            batch.is_append_time,
            part.least_offset,
        )
    room = sum(part.count for part in parts)
    offsets, timestamps, *spans = (np.empty(room, np.int64) for _ in range(8))
    count = read_batches(buffer, batches, offsets, timestamps, *spans)
    if count < 0:
        return None
    key_starts, key_ends, value_starts, value_ends, header_starts, header_ends = (
        span[:count] for span in spans
    )
    return FetchedColumns(
        offsets[:count],
        timestamps[:count],
        BinaryColumn(buffer, key_starts, key_ends),
        BinaryColumn(buffer, value_starts, value_ends),
        HeaderColumn(BinaryColumn(buffer, header_starts, header_ends)),
    )


def _one_by_one(parts: Sequence[Any]) -> FetchedColumns:
    records = [
        record
        for part in parts
        for record in (part.one_by_one() if isinstance(part, PlainRecords) else (part,))
    ]
    times = [_NO_TIMESTAMP if it.timestamp is None else it.timestamp for it in records]
    return FetchedColumns(
        np.array([record.offset for record in records], np.int64),
        np.array(times, np.int64),
        BinaryColumn.of([record.key for record in records]),
        BinaryColumn.of([record.value for record in records]),
        [record.headers for record in records],
    )
