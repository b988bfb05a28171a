"""Rows of Spark as the rows of a topology's events, whatever the types of their columns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as f
from pyspark.sql.types import (
    DateType,
    IntegralType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

from slidestat.declare.fields import FieldPath
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.records import RecordBatch
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.spark.backfill.reading.file_places import PLACE, with_places
from slidestat.spark.backfill.reading.named_columns import PER_SECOND, NamedColumns, column_of
from slidestat.spark.backfill.reading.ordered_pieces import (
    PIECE_DDL,
    equal_runs,
    in_order,
    in_pieces,
)
from slidestat.spark.backfill.reading.partition_history import HistoryBatch
from slidestat.spark.backfill.reading.plain_parquet import (
    PlainEvents,
    plain_columns,
    plain_place,
    row_schema,
)

# A day or a moment, whole. Spark would take '2001' for its first moment, '10:30' for today's.
_ISO_8601 = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$"
# A moment of Spark, in microseconds, reaches a little farther.
_MOST_DAYS = 100_000_000
_WHOLE = r"^\s*[+-]?\d+\s*$"


def pieces_of_rows(
    rows: DataFrame,
    topology: Topology,
    names: NamedColumns,
    partitions: int,
    ranks: Mapping[str, int],
) -> DataFrame:
    """Cut rows of files in pieces; `ranks` are those of the files by their URLs."""
    time = _milliseconds(rows, names)
    columns: dict[FieldPath, Column] = {
        path: column_of(name) for path, name in names.fields.items()
    }
    key_text = column_of(names.key).cast("string")
    # What is the record's own is not in its value.
    if topology.time_path is not None:
        columns[topology.time_path] = _in_format(time, topology.time_format)
    if topology.key_path is not None:
        columns[topology.key_path] = key_text
    is_plain, numbers_and_items = plain_columns(rows, topology, names)
    is_plain = is_plain & plain_place(topology, time, key_text)
    records = with_places(rows, ranks).select(
        f.col(PLACE),
        time.alias("timestamp"),
        f.encode(key_text, "UTF-8").alias("key"),
        f.when(~is_plain, f.encode(f.to_json(_nested(columns)), "UTF-8")).alias("value"),
        *numbers_and_items,
    )
    schema = row_schema(topology)

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return in_pieces(schema, partitions, _by_place(batches, schema.names))

    return records.mapInArrow(cut, PIECE_DDL)


def _by_place(
    batches: Iterable[pa.RecordBatch], names: list[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each place, with these columns."""
    for batch in batches:
        places = batch[PLACE].to_numpy()
        for start, end in equal_runs(places):
            yield int(places[start]), batch.slice(start, end - start).select(names)


def _in_format(ms: Column, time_format: str) -> Column:
    """Return milliseconds in a topology's time format."""
    if TIME_FORMATS[time_format].is_text:
        text = f.date_format(f.timestamp_millis(ms), "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
        return f.when(ms.between(EARLIEST_TIME_MS, LATEST_TIME_MS), text)
    if time_format == "s":
        return ms / 1_000
    return f.try_multiply(ms, f.lit(PER_SECOND[time_format] // 1_000))


def _milliseconds(rows: DataFrame, names: NamedColumns) -> Column:
    """Return times in milliseconds, finer ones falling to the one before; null where there is none,
    or none that can be counted.
    """
    kind, unit = rows.schema[names.time].dataType, names.time_unit
    column = column_of(names.time)
    if isinstance(kind, TimestampType):
        return f.unix_millis(column)
    if isinstance(kind, TimestampNTZType):
        return f.unix_millis(column.cast("timestamp"))
    if isinstance(kind, DateType):
        is_counted = f.unix_date(column).between(-_MOST_DAYS, _MOST_DAYS)
        return f.unix_millis(f.when(is_counted, column.cast("timestamp")))
    if isinstance(kind, IntegralType):
        return _whole_milliseconds(column.cast("bigint"), unit)
    if isinstance(kind, NumericType):
        # To the nearest microsecond first, as a worker reads fractions; nanoseconds have none.
        per_second = PER_SECOND[unit]
        finer = column
        if per_second <= 1_000_000:
            finer = f.try_multiply(column, f.lit(1_000_000 // per_second))
        whole = (f.round(finer) if per_second <= 1_000_000 else f.floor(finer)).try_cast("bigint")
        return _floor_divided(whole, max(per_second, 1_000_000) // 1_000)
    text = column.cast("string")
    moment = f.unix_millis(f.when(text.rlike(_ISO_8601), text.try_cast("timestamp")))
    if not names.are_texts:
        return moment
    whole = f.when(text.rlike(_WHOLE), text.try_cast("bigint"))
    return f.coalesce(_whole_milliseconds(whole, unit), moment)


def _whole_milliseconds(whole: Column, unit: str) -> Column:
    per_ms = PER_SECOND[unit] // 1_000
    if per_ms > 1:
        return _floor_divided(whole, per_ms)
    return f.try_multiply(whole, f.lit(1_000 // PER_SECOND[unit]))


def _floor_divided(whole: Column, by: int) -> Column:
    """Return whole numbers divided and rounded down: of a multiple, a double is near enough."""
    return f.round(f.try_subtract(whole, f.pmod(whole, f.lit(by))) / by).cast("bigint")


def _nested(columns: Mapping[FieldPath, Column]) -> Column:
    """Return one struct, as deep as the paths are."""
    inner: dict[str, dict[FieldPath, Column]] = {}
    for path, column in columns.items():
        inner.setdefault(path[0], {})[path[1:]] = column
    return f.struct(
        *[
            (below[()] if () in below else _nested(below)).alias(name)
            for name, below in inner.items()
        ]
    )


# Files' rows in their tasks: in order of time, with the offsets that they would have had.


@dataclass(frozen=True)
class FileReading:
    """A reader of the pieces of files that a task is given."""

    topology: Topology

    def __call__(
        self, pieces: Iterable[pa.RecordBatch], decoder: EventDecoder
    ) -> Iterator[tuple[int, HistoryBatch]]:
        """Read pieces of files' rows, with offsets from 0 on in each partition."""
        plain, opened, next_offset = PlainEvents(self.topology, decoder), None, 0
        for partition, rows in in_order(pieces, row_schema(self.topology)):
            if partition != opened:
                opened, next_offset = partition, 0
            numbers = np.arange(next_offset, next_offset + len(rows), dtype=np.int64)
            next_offset += len(rows)
            records = RecordBatch(
                self.topology.events_topic,
                partition,
                numbers,
                BinaryColumn.of(rows["key"]),
                BinaryColumn.of(rows["value"]),
                rows["timestamp"].fill_null(-1).to_numpy(),
                int(numbers[0]),
            )
            yield partition, HistoryBatch(records, plain.columns(rows, records))
