"""From parts of a fetch to columns: by a kernel, all in one call, where every part is plain."""

import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, overload
from weakref import proxy

import numpy as np
from aiokafka import TopicPartition, codec
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.util import decode_varint

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import UNKNOWN_EPOCH, Headers, epochs_before_last
from slidestat.errors import EndedError
from slidestat.kafka.fetches.record_kernel import (
    BATCH_COLUMNS,
    LEAST_BYTES,
    after_records,
    read_batches,
)
from slidestat.synopses.core.arrays import Integers

# Headers as they are in a batch of Kafka's format v2, made Python objects when asked for.


class HeaderColumn(Sequence[Headers]):
    """The headers of n records: a kernel has checked that their bytes are as they must be."""

    __slots__ = ("_encoded",)

    def __init__(self, encoded: BinaryColumn) -> None:
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded)

    @overload
    def __getitem__(self, index: int) -> Headers: ...

    @overload
    def __getitem__(self, index: slice) -> "HeaderColumn": ...

    def __getitem__(self, index: "int | slice") -> "Headers | HeaderColumn":
        if isinstance(index, slice):
            return HeaderColumn(self._encoded[index])
        encoded = self._encoded[index]
        return () if encoded is None else _decoded(encoded)


def _decoded(encoded: bytes) -> Headers:
    """Read their number, then the length and the bytes of each one's name and value."""
    data = bytearray(encoded)
    count, place = decode_varint(data, 0)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, place = decode_varint(data, place)
        # Kafka wants UTF-8 and does not check it: what is none must not end the worker.
        name = encoded[place : place + size].decode(errors="replace")
        size, place = decode_varint(data, place + size)
        value = None
        if size >= 0:
            value = encoded[place : place + size]
            place += size
        headers.append((name, value))
    return headers


# The bytes of a fetch, batch by batch: plain batches as columns, the others record by record.
#
# aiokafka's own loop goes over them as ever: it checks checksums, passes aborted transactions and
# control batches over, and knows where the next fetch begins. What it takes for a record may here
# be all records of a batch, `PlainRecords`, which are not read yet.

# Both formats begin with an offset and the length of what follows.
_LENGTH = struct.Struct(">8xi")
_LEADER_EPOCH = struct.Struct(">12xi")
_FORMAT_PLACE, _FORMAT = 16, 2
# The size behind the length field, in any format.
_LEAST_SIZE = 14
_COUNT = struct.Struct(">57xi")
_NO_RECORDS = memoryview(bytes(4))

# With it xerial's snappy begins, in blocks, and two numbers follow: of its version, and the least
# that can read it.
_XERIAL, _XERIAL_NUMBERS = b"\x82SNAPPY\0", struct.pack(">ii", 1, 1)


def _snappy_decode(data: bytes) -> bytes:
    """Decompress as aiokafka does, whatever the numbers: Redpanda writes their bytes reversed."""
    if data.startswith(_XERIAL):
        data = _XERIAL + _XERIAL_NUMBERS + data[len(_XERIAL + _XERIAL_NUMBERS) :]
    decoded: bytes = codec.snappy_decode(data)
    return decoded


_NO_CODEC, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
_DECODERS: dict[int, Callable[[bytes], bytes] | None] = {_NO_CODEC: None, _GZIP: codec.gzip_decode}
if codec.has_snappy():
    _DECODERS[_SNAPPY] = _snappy_decode
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
        if _is_empty(self.data):
            return
        (count,) = _COUNT.unpack_from(self.data)
        data = self._uncompressed()
        if not 0 < count * LEAST_BYTES <= len(data):
            yield from self._batch
        elif count <= self._fetched.room:
            # A header may name an offset before that of the last record, as Sarama's once did.
            last = max(self.next_offset, self.base_offset + count) - 1
            yield PlainRecords(self, data, count, last)
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
                offset = max(offset, self.next_offset - 1)
            yield PlainRecords(self, data[start:end], part, offset, offset if count else None)
            start = end


def _is_empty(data: memoryview) -> bool:
    """Return whether compaction has left nothing of a batch but its header. That may still say that
    the batch is compressed, or the marker of a transaction, and is neither.
    """
    return data[_COUNT.size - _NO_RECORDS.nbytes :] == _NO_RECORDS


class FetchedBytes:
    """The batches of fetched bytes, as aiokafka's MemoryRecords has them, each read by its own
    format: aiokafka (0.14) reads all of a fetch by that of the first one.

    Plain batches are recognised while there is `room`: at most so many records are taken.
    `leader_epoch` is that of the last batch that was returned.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self.room = 0
        self.leader_epoch = UNKNOWN_EPOCH

    def size_in_bytes(self) -> int:
        """Return the size of the records in bytes."""
        return len(self._data)

    def has_next(self) -> bool:
        """Return whether another complete batch is there."""
        left = len(self._data) - self._place
        return left >= _LENGTH.size and self._end_of_next() <= len(self._data)

    def _end_of_next(self) -> int:
        (size,) = _LENGTH.unpack_from(self._data, self._place)
        return self._place + _LENGTH.size + int(size)

    def next_batch(self) -> Any:
        """Return the next batch; None if there is none."""
        if not self.has_next():
            return None
        start, end = self._place, self._end_of_next()
        if end - start < _LENGTH.size + _LEAST_SIZE:
            raise CorruptRecordException(
                f"Record size is less than the minimum record overhead ({_LEAST_SIZE})"
            )
        self._place = end
        data, version = memoryview(self._data)[start:end], self._data[start + _FORMAT_PLACE]
        self.leader_epoch = UNKNOWN_EPOCH
        if version < _FORMAT:
            return LegacyRecordBatch(data, version)
        batch = DefaultRecordBatch(data)
        if version == _FORMAT:
            (self.leader_epoch,) = _LEADER_EPOCH.unpack_from(data)
        if not _is_empty(data) and not (self.room and self._is_plain(batch, start)):
            return batch
        return PlainBatch(batch, data, self)

    def _is_plain(self, batch: Any, start: int) -> bool:
        return (
            self._data[start + _FORMAT_PLACE] == _FORMAT
            and self._place - start >= _COUNT.size
            and not batch.is_control_batch
            and batch.compression_type in _DECODERS
        )


_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class FetchedColumns:
    """Fetched records in the order of their offsets: `offsets` and `timestamps` int64[n], and their
    n keys, values and headers; `leader_epochs` are those of the first and the last.
    """

    offsets: Integers
    timestamps: Integers
    keys: BinaryColumn
    values: BinaryColumn
    headers: Sequence[Headers]
    leader_epochs: tuple[int, int] = (UNKNOWN_EPOCH, UNKNOWN_EPOCH)

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
            epochs_before_last(self.leader_epochs),
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


# Take what aiokafka has fetched as columns, where it is of a batch topic.


class Fetches(OrderedDict[TopicPartition, Any]):
    """The fetches of aiokafka by partition, those of `topics` as columns; `bytes` is the size of
    all that came of these.
    """

    def __init__(self, topics: Collection[str], fetched: Mapping[TopicPartition, Any]) -> None:
        super().__init__()
        self._topics = topics
        self.bytes = 0
        for tp, of_it in fetched.items():
            self[tp] = of_it

    def __setitem__(self, tp: TopicPartition, fetched: Any) -> None:
        if tp.topic in self._topics and isinstance(fetched, FetchResult):
            # Weakly: a worker's garbage collector looks rarely for circles, and these hold a fetch.
            records = fetched._partition_records
            self.bytes += records._records.size_in_bytes()
            records._consumer_record = partial(_noted, proxy(records))
            fetched.getall = partial(_take, proxy(fetched))
        super().__setitem__(tp, fetched)


def keep_fetched_bytes() -> None:
    """Have aiokafka keep what it fetches where it can be read."""
    fetcher.MemoryRecords = FetchedBytes


def _noted(records: PartitionRecords, _tp: TopicPartition, record: Any) -> Any:
    """Return a record, or many: of these, those are wanted that aiokafka has not passed yet."""
    if isinstance(record, PlainRecords):
        record.least_offset = records.next_fetch_offset
    return record


def _take(fetched: FetchResult, max_records: int | None = None) -> FetchedColumns | list[Any]:
    """Take up to `max_records` of what was fetched of a partition, as `FetchResult.getall` does.

    Raises EndedError for bytes that are not as they must be, whatever it is that finds that.
    """
    if not fetched.check_assignment(fetched._topic_partition):
        return []
    # Compaction may have left only records before the requested offset in this batch.
    while fetched.has_more():
        first = fetched._partition_records.next_fetch_offset
        try:
            columns = _next_columns(fetched, sys.maxsize if max_records is None else max_records)
        except Exception as error:
            raise _unreadable(fetched._topic_partition, first, error) from error
        if len(columns):
            return columns
    return []


def _unreadable(tp: TopicPartition, first: int, error: Exception) -> EndedError:
    """Return the error of bytes that were damaged on their way, or where a broker has them."""
    return EndedError(
        f"What partition {tp.partition} of {tp.topic!r} has from offset {first:,} on cannot be"
        f" read: {error!r}.",
        "Start again: nothing is lost. If it ends there each time, the broker's own bytes are"
        " damaged (its kafka-dump-log finds where): let a replica that has them whole lead the"
        " partition, or delete its records up to behind it (a worker then needs --allow-loss).",
    )


def _next_columns(fetched: FetchResult, left: int) -> FetchedColumns:
    records = fetched._partition_records
    parts: list[Any] = []
    first = last = UNKNOWN_EPOCH
    records._records.room = left
    for part in records:
        last = records._records.leader_epoch
        first = first if parts else last
        parts.append(part)
        left -= part.count if isinstance(part, PlainRecords) else 1
        records._records.room = left
        if not left:
            break
    columns = replace(columns_of(parts), leader_epochs=(first, last))
    fetched._update_position()
    if left:
        fetched._partition_records = None
    return columns
