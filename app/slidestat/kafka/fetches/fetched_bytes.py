"""The bytes of a fetch, batch by batch: plain batches as columns, the others record by record.

aiokafka's own loop goes over them as ever: it checks checksums, passes aborted transactions and
control batches over, and knows where the next fetch begins. What it takes for a record may here be
all records of a batch, `PlainRecords`, which are not read yet.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from aiokafka import codec
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from slidestat.kafka.fetches.record_kernel import LEAST_BYTES, after_records

# Both formats begin with an offset and the length of what follows.
_LENGTH = struct.Struct(">8xi")
_FORMAT_PLACE, _FORMAT = 16, 2
_COUNT = struct.Struct(">57xi")

_NO_CODEC, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
_DECODERS = {_NO_CODEC: None, _GZIP: codec.gzip_decode}
if codec.has_snappy():
    _DECODERS[_SNAPPY] = codec.snappy_decode
if codec.has_lz4():
    _DECODERS[_LZ4] = codec.lz4_decode
if codec.has_zstd():
    _DECODERS[_ZSTD] = codec.zstd_decode


@dataclass(slots=True)
class PlainRecords:
    """Some uncompressed records of a batch, `count` of them: `offset` is of the last one,
    `last_offset` too if others of its batch follow.

    Wanted are those from `least_offset` on.
    """

    batch: "PlainBatch"
    data: bytes | memoryview
    count: int
    offset: int
    last_offset: int | None = None
    least_offset: int = 0

    def one_by_one(self) -> Iterator[Any]:
        """Read them as aiokafka does, which raises the error of what is wrong with them."""
        least = self.least_offset
        for record in DefaultRecordBatch(self.batch.data):
            if self.last_offset is not None and record.offset > self.last_offset:
                return
            if record.offset >= least:
                least = record.offset + 1
                yield record


class PlainBatch:
    """A batch of format v2 as aiokafka's loop sees it."""

    is_control_batch = False

    def __init__(
        self, batch: DefaultRecordBatch, data: memoryview, fetched: "FetchedBytes"
    ) -> None:
        self._batch = batch
        self._fetched = fetched
        self.data = data
        self.producer_id = batch.producer_id
        self.is_transactional = batch.is_transactional
        self.base_offset = batch.base_offset
        self.next_offset = batch.next_offset
        self.is_append_time = batch.timestamp_type == 1
        self.base_time = batch.max_timestamp if self.is_append_time else batch.first_timestamp

    def validate_crc(self) -> bool:
        """Return whether the bytes are those that were written."""
        return bool(self._batch.validate_crc())

    def __iter__(self) -> Iterator[Any]:
        (count,) = _COUNT.unpack_from(self.data)
        data = self._uncompressed()
        if not 0 < count * LEAST_BYTES <= len(data):
            yield from self._batch
        elif count <= self._fetched.room:
            yield PlainRecords(self, data, count, self.next_offset - 1)
        else:
            yield from self._parts(data, count)

    def _uncompressed(self) -> bytes | memoryview:
        data = self.data[_COUNT.size :]
        decode = _DECODERS[self._batch.compression_type]
        return data if decode is None else decode(data.tobytes())

    def _parts(self, data: bytes | memoryview, count: int) -> Iterator[Any]:
        """Yield the records in parts of at most the room that is left."""
        buffer, start = np.frombuffer(data, np.uint8), 0
        end, _ = after_records(buffer, start, count)
        if end != len(data):
            yield from self._batch
            return
        while count:
            part = min(count, self._fetched.room)
            end, offset_delta = after_records(buffer, start, part)
            count -= part
            offset = self.base_offset + offset_delta
            if not count:
                offset = self.next_offset - 1
            yield PlainRecords(self, data[start:end], part, offset, offset if count else None)
            start = end


class FetchedBytes:
    """A wrapper of aiokafka's MemoryRecords that keeps the bytes, which those do not show.

    Plain batches are recognised while there is `room`: at most so many records are taken.
    """

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self._data = data
        self._place = 0
        self.room = 0

    def size_in_bytes(self) -> int:
        """Return the size of the records in bytes."""
        return int(self._records.size_in_bytes())

    def has_next(self) -> bool:
        """Return whether another complete batch is there."""
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        """Return the next batch; None if there is none."""
        batch = self._records.next_batch()
        if batch is None:
            return None
        start = self._place
        self._place += _LENGTH.size + _LENGTH.unpack_from(self._data, start)[0]
        if not self.room or not self._is_plain(batch, start):
            return batch
        return PlainBatch(batch, memoryview(self._data)[start : self._place], self)

    def _is_plain(self, batch: Any, start: int) -> bool:
        return (
            isinstance(batch, DefaultRecordBatch)
            and self._data[start + _FORMAT_PLACE] == _FORMAT
            and self._place - start >= _COUNT.size
            and not batch.is_control_batch
            and batch.compression_type in _DECODERS
        )
