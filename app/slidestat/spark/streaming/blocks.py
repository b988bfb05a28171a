"""Rows of a stream as the records of shards, and what shards write as rows, in few large blocks.

    rows, in Arrow -> blocks of records, one shard each -> Spark's shuffle -> a shard's records, in
    order -> emissions, letters and alerts -> blocks -> rows

A row of Spark's costs as much as all that is computed of it, so Spark moves blocks: streams of
Arrow in a binary column.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.effects import Effects
from slidestat.engine.records import NO_TIME, RecordBatch
from slidestat.errors import SlidestatError
from slidestat.kafka.partitioner import partitions_of
from slidestat.options import TIME_UNIT
from slidestat.produce.file_records import FileRecords
from slidestat.produce.ordered_pieces import BATCH_RECORDS
from slidestat.produce.readers import rows_of_table
from slidestat.repartition.keyed_records import KeyReader
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.spark.backfill.record_rows import RECORD_ARROW, rows_of_effects
from slidestat.text import counted

_log = logging.getLogger(__name__)

SHARDS = pa.schema([("slot", pa.int32()), ("shard", pa.int32()), ("block", pa.binary())])
"""Blocks of records of a shard, by the slot that stands for it."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_RECORDS = pa.schema(
    [
        ("offset", pa.int64()),
        ("time", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
        ("headers", _HEADERS),
    ]
)
_NO_TIMESTAMP = -1


class Source(Enum):
    """The kind of rows that a stream has: records with the partitions and offsets of Kafka; records
    without them; or events, a field a column.
    """

    PLACED = "placed"
    RECORDS = "records"
    EVENTS = "events"


@dataclass(frozen=True)
class RowReader:
    """A reader of a stream's rows as records, each on one of `partitions` partitions: its key's,
    unless the rows have their own. `columns` are the names that they come without.
    """

    topology: Topology
    source: Source
    partitions: int
    unit: str = TIME_UNIT
    columns: Sequence[str] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of rows in blocks."""
        read = {
            Source.PLACED: self._placed,
            Source.RECORDS: self._keyed,
            Source.EVENTS: self._events,
        }[self.source]
        for batch in batches:
            if len(batch):
                named = batch.rename_columns([*self.columns]) if self.columns else batch
                yield from _parted(*read(named))

    def _placed(self, batch: pa.RecordBatch) -> tuple[np.ndarray, pa.Table]:
        names = batch.schema.names
        source = self.topology.source
        if "topic" in names:
            others = set(batch["topic"].unique().to_pylist()) - {source}
            if others:
                raise SlidestatError(
                    f"There are records of the topic {min(map(str, others))!r}, and the source of"
                    f" {self.topology.name} is {source!r}.",
                    f"Choose those of one topic, with .where(\"topic = '{source}'\").",
                )
        records = _records(batch, batch["offset"].cast(pa.int64()), None)
        return batch["partition"].to_numpy(zero_copy_only=False), records

    def _keyed(self, batch: pa.RecordBatch) -> tuple[np.ndarray, pa.Table]:
        records = _records(batch, None, None)
        keys, values = records["key"].to_pylist(), records["value"].to_pylist()
        stamps = records["timestamp"].to_numpy()
        found, times = KeyReader(self.topology).read(values, keys, stamps)
        # A record that cannot be read has the time of its timestamp.
        times = np.where((times == NO_TIME) & (stamps > 0), stamps, times)
        places = [
            own if key is None else key.encode() for key, own in zip(found, keys, strict=True)
        ]
        shards = partitions_of(BinaryColumn.of(places), self.partitions)
        return shards, records.set_column(1, _RECORDS.field("time"), [pa.array(times)])

    def _events(self, batch: pa.RecordBatch) -> tuple[np.ndarray, pa.Table]:
        reader = FileRecords.of(self.topology, {}, self.unit)
        parts = [
            reader.of_rows(rows)
            for rows in rows_of_table(pa.Table.from_batches([batch]), reader.names)
        ]
        found = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        shards = partitions_of(BinaryColumn.of(found["key"]), self.partitions)
        times = found["timestamp"].fill_null(NO_TIME)
        return shards, _records(found, None, times)


def _records(batch: pa.RecordBatch, offsets: pa.Array | None, times: pa.Array | None) -> pa.Table:
    """Return the columns of records, from those that Spark's Kafka source has or some of them."""
    names, count = batch.schema.names, len(batch)
    stamps = pa.repeat(pa.scalar(_NO_TIMESTAMP, pa.int64()), count)
    if "timestamp" in names:
        stamps = batch["timestamp"]
        if pa.types.is_timestamp(stamps.type):
            stamps = stamps.cast(pa.timestamp("ms", stamps.type.tz), safe=False).cast(pa.int64())
        stamps = stamps.fill_null(_NO_TIMESTAMP)
    columns = [
        pa.nulls(count, pa.int64()) if offsets is None else offsets,
        pa.nulls(count, pa.int64()) if times is None else times,
        stamps,
        batch["key"].cast(pa.large_binary()),
        batch["value"].cast(pa.large_binary()),
        batch["headers"].cast(_HEADERS) if "headers" in names else pa.nulls(count, _HEADERS),
    ]
    return pa.table(columns, schema=_RECORDS)


def _parted(shards: np.ndarray, records: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a block of the records of each shard."""
    order = np.argsort(shards, kind="stable")
    numbers, starts = np.unique(shards[order], return_index=True)
    ordered = records.take(pa.array(order))
    ends = [*starts[1:].tolist(), len(order)]
    for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
        block = _written(ordered.slice(start, end - start).combine_chunks().to_batches())
        columns = [[slot_of(number)], [number], [block]]
        arrays = [pa.array(it, kind.type) for it, kind in zip(columns, SHARDS, strict=True)]
        yield pa.record_batch(arrays, schema=SHARDS)


# Spark gives a key to the task of its hash, modulo the number of tasks. So shards 0 to 3 over four
# tasks would leave some without one. The hash of whole numbers of 32 bits, MurmurHash3, can be
# turned round: a slot is the number whose hash is the shard, whatever the number of tasks is.

_MASK, _SEED = 0xFFFFFFFF, 42
_INVERSE_3, _INVERSE_2, _INVERSE_5, _INVERSE_K2, _INVERSE_K1 = (
    pow(it, -1, 2**32) for it in (0xC2B2AE35, 0x85EBCA6B, 5, 0x1B873593, 0xCC9E2D51)
)


def slot_of(shard: int) -> int:
    """Return the number of 32 bits whose hash, as Spark's `hash` has it, is a shard's number."""
    mixed = shard ^ shard >> 16
    mixed = mixed * _INVERSE_3 & _MASK
    mixed ^= mixed >> 13 ^ mixed >> 26
    mixed = mixed * _INVERSE_2 & _MASK
    mixed ^= mixed >> 16 ^ 4
    mixed = (mixed - 0xE6546B64) * _INVERSE_5 & _MASK
    mixed = _rotated(mixed, 32 - 13) ^ _SEED
    mixed = mixed * _INVERSE_K2 & _MASK
    slot = _rotated(mixed, 32 - 15) * _INVERSE_K1 & _MASK
    return slot - 2**32 if slot >= 2**31 else slot


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


def _written(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _read(block: bytes) -> pa.Table:
    with pa.ipc.open_stream(block) as stream:
        return stream.read_all()


def in_order(
    topology: Topology, shard: int, blocks: Iterable[bytes], next_offset: int
) -> list[RecordBatch]:
    """Return the records of a shard that are new, in order: those with offsets by these, each once;
    others by time, then by key and value, with offsets from `next_offset` on. Those without a time
    come first: they are no events.
    """
    tables = [_read(block) for block in blocks]
    if not tables:
        return []
    records = pa.concat_tables(tables)
    if records["offset"].null_count == len(records):
        order = [(name, "ascending") for name in ("time", "key", "value")]
        records = records.sort_by(order)
        offsets = np.arange(next_offset, next_offset + len(records), dtype=np.int64)
    else:
        numbers = records["offset"].to_numpy()
        found, rows = np.unique(numbers, return_index=True)
        is_new = found >= next_offset
        if passed_over := int(np.count_nonzero(~is_new)):
            # Repeats, of which nothing is lost, or records that are out of order: nobody can tell.
            _log.warning(
                "partition %d: %s with offsets from %d on that are not above those of earlier "
                "batches (%d) %s passed over. Where they are no repeats, give the records of a "
                "partition in the order of their offsets.",
                shard,
                counted(passed_over, "record"),
                found[0],
                next_offset - 1,
                "is" if passed_over == 1 else "are",
            )
        offsets = np.ascontiguousarray(found[is_new], np.int64)
        records = records.take(pa.array(rows[is_new]))
    return [
        _batch_of(
            topology, shard, records.slice(at, BATCH_RECORDS), offsets[at : at + BATCH_RECORDS]
        )
        for at in range(0, len(records), BATCH_RECORDS)
    ]


def _batch_of(
    topology: Topology, shard: int, records: pa.Table, offsets: np.ndarray
) -> RecordBatch:
    (batch,) = records.combine_chunks().to_batches()
    headers = None
    if batch["headers"].null_count < len(batch):
        headers = [
            [(it["key"], it["value"]) for it in found or ()]
            for found in batch["headers"].to_pylist()
        ]
    return RecordBatch(
        topology.events_topic,
        shard,
        offsets,
        BinaryColumn.of(batch["key"]),
        BinaryColumn.of(batch["value"]),
        batch["timestamp"].to_numpy(),
        int(offsets[0]),
        headers,
    )


def blocks_of_effects(steps: Iterable[Effects], topology: Topology, shard: int) -> Iterator[bytes]:
    """Yield a block of what each of a shard's steps leads to, if it leads to anything."""
    declared_by = [(DECLARATION_HEADER, fingerprint_of(topology).encode())]
    for effects in steps:
        if rows := [*rows_of_effects(effects, topology, shard, declared_by)]:
            yield _written(rows)


def rows_of_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in blocks of what shards have written."""
    for batch in batches:
        for block in batch["block"].to_pylist():
            yield from _read(block).cast(RECORD_ARROW).to_batches()
