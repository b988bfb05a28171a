"""History as the records of a topic: Parquet, CSV, or the topic itself.

Whatever history comes as, what goes on is what a worker would have read: rows of partition, offset,
key, value and timestamp, every partition's rows in one task, in the order of its offsets. Rows of
files have no offsets yet; and a value only where they are not plain, for numbers and items come as
columns of their own (`plain_events.py`): JSON would be made only to be read again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

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
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.spark.backfill.plain_events import plain_columns, plain_place
from slidestat.spark.backfill.spread import task_slots
from slidestat.spark.errors import in_words
from slidestat.spark.kafka.kafka_options import kafka_options
from slidestat.spark.kafka.key_partition import partition_of

FORMATS = ("parquet", "csv", "json")
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# A day or a moment, whole. Spark would take '2001' for its first moment, '10:30' for today's.
_ISO_8601 = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$"


@dataclass(frozen=True)
class Files:
    """Files of events, a row each: where they lie, of which format, in which columns.

    `columns` names the column of a topology's field where it is not that field's own name;
    `time_unit` is what whole numbers of time count ("s", "ms", "us", "ns"); texts of time are ISO
    8601, a day or a moment, in UTC where they have no offset. A row is an event under its key, in
    the partition where Kafka's clients would send it; events of a partition come in order of time,
    those of one time as they are in the files.
    """

    path: str
    format: str = "parquet"
    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: str = "ms"
    partitions: int = 1

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SlidestatError(
                f"The format is {self.format!r}.", f"Give one of {', '.join(FORMATS)}."
            )
        if self.time_unit not in _PER_SECOND:
            raise SlidestatError(
                f"The unit of time is {self.time_unit!r}.",
                f"Give one of {', '.join(_PER_SECOND)}.",
            )
        if self.partitions < 1:
            raise SlidestatError(
                f"The number of partitions is {self.partitions}.", "Give one from 1 on."
            )


def read_files(
    spark: SparkSession, topology: Topology, files: Files, say: Callable[[str], None] = print
) -> DataFrame:
    """The records that the rows of files would have made on the topology's source. `say` takes what
    a person should know of how they are read.

    Raises SlidestatError for files that cannot be read or lack a column.
    """
    if topology.key_path in topology.computed_fields:
        raise SlidestatError(
            f"The key {topology.key_name!r} is computed, and rows of files are given out by a key"
            " that they have.",
            f"Produce them to {topology.source}, and backfill from the topic.",
        )
    rows = _open(spark, files)
    fields = dict.fromkeys((topology.key_name, topology.time_name))
    fields |= {field_text(path): None for path in _paths(topology)}
    names = {field: files.columns.get(field, field) for field in fields}
    missing = [name for name in names.values() if name not in rows.columns]
    if missing:
        raise SlidestatError(
            f"{files.path} has no column {missing[0]!r}; it has {', '.join(rows.columns)}.",
            f"Say which column holds each of {', '.join(names)}.",
        )
    if isinstance(rows.schema[names[topology.time_name]].dataType, StringType):
        say(
            f"{names[topology.time_name]} has texts: they are read as ISO 8601, in UTC where they"
            " have no offset; others are refused."
        )
    time = _milliseconds(rows, names[topology.time_name], files.time_unit)
    columns: dict[FieldPath, Column] = {
        path: f.col(f"`{names[field_text(path)]}`") for path in _paths(topology)
    }
    key_text = f.col(f"`{names[topology.key_name]}`").cast("string")
    # What is the record's own is not in its value.
    if topology.time_path is not None:
        columns[topology.time_path] = _in_format(time, topology.time_format)
    if topology.key_path is not None:
        columns[topology.key_path] = key_text
    is_plain, numbers_and_items = plain_columns(
        rows, topology, {path: names[field_text(path)] for path in _paths(topology)}
    )
    is_plain = is_plain & plain_place(topology, time, key_text)
    key = f.encode(key_text, "UTF-8")
    partition = f.lit(0) if files.partitions == 1 else partition_of(spark, key, files.partitions)
    records = rows.select(
        partition.alias("partition"),
        f.monotonically_increasing_id().alias("place"),
        time.alias("timestamp"),
        key.alias("key"),
        f.when(~is_plain, f.encode(f.to_json(_nested(columns)), "UTF-8")).alias("value"),
        *numbers_and_items,
    )
    # One partition is in one task. By time first: a number that begins the order, and differs from
    # row to row, makes a sort several times as fast.
    ordered = _gathered(records, files.partitions).sortWithinPartitions("timestamp", "place")
    # Offsets are counted where a partition's rows have come together.
    return ordered.drop("place", "slot")


def read_topic(spark: SparkSession, topology: Topology, bootstrap: str) -> DataFrame:
    """All that the topology's source has now. Raises SlidestatError if it cannot be read."""
    records = (
        spark.read.format("kafka")
        .options(**kafka_options(bootstrap))
        .option("subscribe", topology.events_topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
    )
    with in_words(
        f"The reading of {topology.events_topic}", f"Check that {bootstrap} has the topic."
    ):
        is_empty = records.isEmpty()
    if is_empty:
        raise SlidestatError(
            f"The topic {topology.events_topic!r} has no records.", "Send events to it first."
        )
    # Spark's source has a task for each partition, which reads it in the order of its offsets:
    # there is nothing to gather and to sort.
    return records.select(
        "partition",
        "offset",
        "key",
        "value",
        f.unix_millis("timestamp").alias("timestamp"),
        _headers_as_text().alias("headers"),
    )


def _headers_as_text() -> Column:
    """A record's headers as JSON, null for none: before each row that it brings to Python, Spark
    goes through all lists that it has gathered for it, which took 20 microseconds a record.
    """
    named = f.transform(
        "headers", lambda one: f.struct(one["key"].alias("key"), f.hex(one["value"]).alias("hex"))
    )
    return f.when(f.size("headers") > 0, f.to_json(named))


def _open(spark: SparkSession, files: Files) -> DataFrame:
    reader = spark.read
    if files.format == "csv":
        reader = reader.option("header", True).option("inferSchema", True)
    with in_words(f"The reading of {files.path}", "Check the path and the format."):
        return reader.format(files.format).load(files.path)


def _paths(topology: Topology) -> Iterator[FieldPath]:
    """The fields that statistics and expressions read, each once, but for key and time."""
    columns = topology.columns
    read = (column.path for column in (*columns.numbers, *columns.items))
    own = (topology.key_path, topology.time_path, *topology.computed_fields)
    yield from dict.fromkeys(
        path for path in (*read, *topology.expression_fields) if path not in own
    )


def _in_format(ms: Column, time_format: str) -> Column:
    """Milliseconds as a topology has them written."""
    if TIME_FORMATS[time_format].is_text:
        text = f.date_format(f.timestamp_millis(ms), "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
        return f.when(ms.between(EARLIEST_TIME_MS, LATEST_TIME_MS), text)
    if time_format == "s":
        return ms / 1_000
    return f.try_multiply(ms, f.lit(_PER_SECOND[time_format] // 1_000))


def _milliseconds(rows: DataFrame, name: str, unit: str) -> Column:
    """Times in milliseconds, finer ones falling to the one before; null where there is none, or
    none that can be counted.
    """
    kind = rows.schema[name].dataType
    column = f.col(f"`{name}`")
    if isinstance(kind, TimestampType):
        return f.unix_millis(column)
    if isinstance(kind, DateType | TimestampNTZType):
        return f.unix_millis(column.cast("timestamp"))
    if isinstance(kind, IntegralType):
        per_ms = _PER_SECOND[unit] // 1_000
        whole = column.cast("bigint")
        return (
            _floor_divided(whole, per_ms)
            if per_ms > 1
            else f.try_multiply(whole, f.lit(1_000 // _PER_SECOND[unit]))
        )
    if isinstance(kind, NumericType):
        # To the nearest microsecond first, as a worker reads fractions; nanoseconds have none.
        per_second = _PER_SECOND[unit]
        finer = column * (1_000_000 // per_second) if per_second <= 1_000_000 else column
        whole = (f.round(finer) if per_second <= 1_000_000 else f.floor(finer)).try_cast("bigint")
        return _floor_divided(whole, max(per_second, 1_000_000) // 1_000)
    text = column.cast("string")
    return f.unix_millis(f.when(text.rlike(_ISO_8601), text.try_cast("timestamp")))


def _floor_divided(whole: Column, by: int) -> Column:
    """Whole numbers divided and rounded down: of what is a multiple, a double is near enough."""
    return f.round((whole - f.pmod(whole, f.lit(by))) / by).cast("bigint")


def _nested(columns: Mapping[FieldPath, Column]) -> Column:
    """One struct, as deep as the paths are."""
    inner: dict[str, dict[FieldPath, Column]] = {}
    for path, column in columns.items():
        inner.setdefault(path[0], {})[path[1:]] = column
    return f.struct(
        *[
            (below[()] if () in below else _nested(below)).alias(name)
            for name, below in inner.items()
        ]
    )


def _gathered(records: DataFrame, partitions: int) -> DataFrame:
    """The records with each partition's in one task, and partitions in different ones."""
    slots = f.array(*map(f.lit, task_slots(records.sparkSession, partitions)))
    return records.withColumn("slot", f.get(slots, f.col("partition"))).repartition(
        partitions, "slot"
    )
