"""History as the records of a topic: Parquet, CSV or JSON, or the topic itself.

Whatever the form of history, the result is what a worker would have read, each partition's records
in one task, in order. Records of files have a value only where they are not plain, for numbers and
items come as columns of their own (`reading/plain_parquet.py`): JSON would be made only to be read
again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as f
from pyspark.sql.types import (
    DateType,
    IntegralType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology, require_times
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.kafka.fetches.partition_range import PartitionRange, read_range
from slidestat.kafka.settings import CarriedSecurity, broker_security
from slidestat.kafka.topic_identity import topic_id
from slidestat.options import HISTORY_FORMAT, TIME_UNIT
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.spark.backfill.reading.file_places import PLACE, file_ranks, with_places
from slidestat.spark.backfill.reading.named_columns import PER_SECOND, NamedColumns, column_of
from slidestat.spark.backfill.reading.ordered_pieces import (
    PIECE_DDL,
    PIECE_ORDER,
    equal_runs,
    in_order,
    in_pieces,
)
from slidestat.spark.backfill.reading.partition_history import (
    BATCH_RECORDS,
    History,
    HistoryBatch,
)
from slidestat.spark.backfill.reading.plain_parquet import (
    PlainEvents,
    PlainParquet,
    files_here,
    plain_columns,
    plain_place,
    row_schema,
)
from slidestat.spark.backfill.stretches import placed_by_partition
from slidestat.spark.errors import in_words
from slidestat.spark.kafka import topic_state
from slidestat.spark.session import require_jvm

# Rows of Spark as the rows of a topology's events, whatever the types of their columns.

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


# The topic itself: Spark decides which task has which partition, and the task reads that as a
# worker does (`kafka/fetches/`).


@dataclass(frozen=True)
class TopicReading:
    """A reader of the partitions of a topic that a task is given ranges of."""

    bootstrap: str
    security: CarriedSecurity
    topic: str

    def __call__(
        self, ranges: Iterable[pa.RecordBatch], _decoder: EventDecoder
    ) -> Iterator[tuple[int, HistoryBatch]]:
        """Read the ranges of partitions."""
        # While a topic is away this error comes some hundred times a second; one that lasts is
        # raised.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        for row in (row for batch in ranges for row in batch.to_pylist()):
            partition = row["partition"]
            wanted = PartitionRange(self.topic, partition, row["first"], row["until"])
            for part in read_range(self.bootstrap, self.security, wanted, BATCH_RECORDS):
                records = RecordBatch(
                    self.topic,
                    partition,
                    part.offsets,
                    part.keys,
                    part.values,
                    part.timestamps,
                    int(part.offsets[0]),
                    part.headers,
                )
                yield partition, HistoryBatch(records)


FORMATS = ("parquet", "csv", "json")


@dataclass(frozen=True)
class Files:
    """Files of events, a row each: where they lie, of which format, in which columns.

    `columns` names the column of a topology's field where it is not that field's own name;
    `time_unit` is the unit of whole numbers of time ("s", "ms", "us", "ns"); texts of time are ISO
    8601, a day or a moment, in UTC where they have no offset. A row is an event under its key, in
    the partition where Kafka's clients would send it; events of a partition come in order of time,
    those of one time in the order of the files' paths, and as they are in a file.
    """

    path: str
    format: str = HISTORY_FORMAT
    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str = TIME_UNIT
    partitions: int = 1

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SlidestatError(
                f"The format is {self.format!r}.", f"Give one of {', '.join(FORMATS)}."
            )
        if self.time_unit not in PER_SECOND:
            raise SlidestatError(
                f"The unit of time is {self.time_unit!r}.",
                f"Give one of {', '.join(PER_SECOND)}.",
            )
        if self.partitions < 1:
            raise SlidestatError(
                f"The number of partitions is {self.partitions}.", "Give one from 1 on."
            )


def read_files(
    spark: SparkSession, topology: Topology, files: Files, say: Callable[[str], None] = print
) -> History:
    """Read the records that the rows of files would have made on the topology's source. `say` takes
    messages for a person about how they are read.

    Raises SlidestatError for files that cannot be read or lack a column, for a topology of a
    sequence, and for a session of Spark Connect.
    """
    require_jvm(spark)
    require_times(topology, "a backfill")
    if topology.key_path in topology.computed_fields:
        raise SlidestatError(
            f"The key {topology.key_name!r} is computed, and rows of files are given out by a key"
            " that they have.",
            f"Produce them to {topology.source}, and backfill from the topic.",
        )
    rows = _open(spark, files)
    is_csv = files.format == "csv"
    names = NamedColumns.of(topology, files.columns, files.time_unit, are_texts=is_csv)
    missing = [name for name in names.all() if name not in rows.columns]
    if missing:
        fields = (topology.key_name, topology.time_name, *map(field_text, names.fields))
        raise SlidestatError(
            f"{files.path} has no column {missing[0]!r}; it has {', '.join(rows.columns)}.",
            f"Say which column holds each of {', '.join(dict.fromkeys(fields))}.",
        )
    times = rows.schema[names.time].dataType
    if isinstance(times, StringType) or (is_csv and isinstance(times, TimestampType)):
        say(
            f"{names.time} has texts: they are read as ISO 8601, in UTC where they"
            " have no offset; others are refused."
        )
    with in_words(f"The reading of {files.path}", "Spark's log says more."):
        pieces = _pieces(spark, topology, files, names, rows)
    ordered = placed_by_partition(pieces, files.partitions).sortWithinPartitions(*PIECE_ORDER)
    return History(ordered, FileReading(topology))


def read_topic(spark: SparkSession, topology: Topology, bootstrap: str) -> History:
    """Read all that the topology's source has now. Raises SlidestatError if it cannot be read, for
    a topology of a sequence, and for a session of Spark Connect.
    """
    require_jvm(spark)
    require_times(topology, "a backfill")
    topic = topic_state(bootstrap, topology.events_topic)
    ranges = [
        (partition, topic.first[partition], end)
        for partition, end in topic.end.items()
        if topic.first[partition] < end
    ]
    if not ranges:
        raise SlidestatError(
            f"The topic {topology.events_topic!r} has no records.", "Send events to it first."
        )
    rows = spark.createDataFrame(ranges, "partition int, first bigint, until bigint")
    security = CarriedSecurity.of(broker_security())
    read = TopicReading(bootstrap, security, topology.events_topic)

    def verify() -> None:
        if topic_id(bootstrap, topic.name) != topic.identity:
            raise SlidestatError(
                f"The topic {topic.name!r} was deleted and made anew while it was read.",
                "Run the job again: it takes what there is then.",
            )

    return History(placed_by_partition(rows, len(topic.end)), read, verify)


def _pieces(
    spark: SparkSession, topology: Topology, files: Files, names: NamedColumns, rows: DataFrame
) -> DataFrame:
    """Cut rows in pieces: those of plain Parquet files as Python reads them, else as Spark does."""
    ranks = file_ranks(rows)
    parquet = PlainParquet.of(topology, names, rows) if files.format == "parquet" else None
    here = {} if parquet is None else files_here(ranks)
    if parquet is None or not here:
        return pieces_of_rows(rows, topology, names, files.partitions, ranks)
    plain = parquet.plain_files(spark, here)
    others = [f"file://{path}" for path in here if path not in plain]
    found = [parquet.pieces(spark, plain, files.partitions)] if plain else []
    if others:
        # Of one type each, whichever of them Spark would look at.
        left = spark.read.schema(rows.schema).parquet(*others)
        found.append(pieces_of_rows(left, topology, names, files.partitions, ranks))
    return reduce(DataFrame.union, found)


def _open(spark: SparkSession, files: Files) -> DataFrame:
    reader = spark.read
    if files.format == "csv":
        reader = reader.option("header", True).option("inferSchema", True)
    with in_words(
        f"The reading of {files.path}", "Check the path, and that --format is that of the files."
    ):
        return reader.format(files.format).load(files.path)
