"""A topology as an operator of Structured Streaming, with its states in Spark's state store.

Spark's grouping key is the shard: a partition of the source, with all of its keys. So there is one
clock for each shard, as a worker has one for each partition, and the code between a record and an
emission is the worker's own (`shard.py`). Spark writes what a batch changes in one step with the
batch's offsets; a batch that comes again begins with what was there before it.
"""

import re
from collections.abc import Sequence
from pickle import dumps

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType

from slidestat.declare.topology import Topology, require_json
from slidestat.errors import SlidestatError, shown
from slidestat.kafka.partitioner import expected_places
from slidestat.options import PARTITIONS, TIME_UNIT, TimeUnit
from slidestat.produce.file_records import FileRecords
from slidestat.produce.readers import is_read_of
from slidestat.spark.backfill.record_rows import RECORD_SCHEMA
from slidestat.spark.jars import release_line
from slidestat.spark.streaming.blocks import SHARDS, RowReader, Source, rows_of_blocks
from slidestat.spark.streaming.processor import ShardProcessor

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
"""The setting of the state store."""

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The one that has several states of a key."""

_WHAT = "a stream on Spark"
_OF_KAFKA = ("partition", "offset")
_RECORD = ("topic", "timestamp", "headers")
_OF_MONTHS = re.compile(r"\binterval (?:year|month)")


def stream(
    rows: DataFrame, topology: Topology, *, partitions: int | None = None, unit: str = TIME_UNIT
) -> DataFrame:
    """Return what a worker writes for the rows of a stream, as records for Kafka: emissions, late
    records, dead letters and changes of alerts, each with the `topic` that it is for.

    `rows` is a streaming DataFrame: Spark's Kafka source, with `key`, `value`, `partition` and
    `offset`; or records of binary `key` and `value` from elsewhere; or events, with a column for
    each field that the topology reads. Kafka's records are counted by partition, in order of their
    offsets. For others `partitions` (4) is the number of partitions that their keys are spread
    over, as Kafka's clients do, and within a batch they come in order of time, then of key and
    value. Whole numbers in a column of times count `unit`s: "s", "ms", "us" or "ns".

    The columns are those of Spark's Kafka source: `topic`, `partition`, `offset` (NULL),
    `timestamp`, `key`, `value`, `headers`. Start the query in the output mode "append".

    Raises SlidestatError for rows that are no stream or lack a column, for what a stream on Spark
    does not do, and where the session's state store is not RocksDB.
    """
    _require(rows, topology, partitions, unit)
    source, columns = _source_of(rows, topology)
    spread = PARTITIONS if partitions is None else partitions
    if source is Source.PLACED and topology.expected and partitions is None:
        raise SlidestatError(
            f"{topology.name} has expected keys, and the number of partitions is not known.",
            "Give stream(..., partitions=N): that of the source.",
        )
    places = expected_places(topology.expected, spread)
    known_spread = 0 if source is Source.PLACED else spread
    processor = ShardProcessor(dumps(topology), known_spread, places)
    read = RowReader(topology, source, spread, unit, tuple(columns))
    written = (
        _numbered(rows, columns)
        .mapInArrow(read, from_arrow_schema(SHARDS))
        .groupBy("slot")
        .transformWithStateInPandas(processor, "block binary", "append", "none")
    )
    return written.mapInArrow(rows_of_blocks, RECORD_SCHEMA)


def _require(rows: DataFrame, topology: Topology, partitions: int | None, unit: str) -> None:
    """Raise SlidestatError for what is not possible."""
    release_line()
    if not rows.isStreaming:
        raise SlidestatError(
            "The rows are a table, and no stream.",
            "Read them with spark.readStream; for a table there is `slidestat spark backfill`.",
        )
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise SlidestatError(f"partitions is {shown(partitions)}.", "Give a number from 1 on.")
    if unit not in [*TimeUnit]:
        raise SlidestatError(f"unit is {shown(unit)}.", f"Give one of {', '.join(TimeUnit)}.")
    require_json(topology, _WHAT)
    for is_there, what in (
        (topology.publish, "publishes synopses for a referee"),
        (topology.synopses, "publishes the synopses of its keys (synopses)"),
        (topology.rankings, "has rankings for a referee"),
        (topology.idle_ms, "emits for idle partitions (idle)"),
        (topology.expected_topic, "expects the keys of a topic (expected_topic)"),
        (not topology.output_format.endswith("json"), f"writes {topology.output_format}"),
    ):
        if is_there:
            raise SlidestatError(
                f"{topology.name} {what}, and {_WHAT} does not.",
                "Run it in a worker, or give a topology without that.",
            )
    provider = rows.sparkSession.conf.get(PROVIDER, "") or ""
    if not provider.endswith("RocksDBStateStoreProvider"):
        raise SlidestatError(
            "The session's state store has no room for the states of a topology.",
            f'Before the query starts: spark.conf.set("{PROVIDER}", "{ROCKSDB}").',
        )


def _source_of(rows: DataFrame, topology: Topology) -> tuple[Source, list[str]]:
    """Return the kind of rows, and the columns read; raises SlidestatError if one is missing."""
    names = rows.columns
    value = next((it.dataType for it in rows.schema if it.name == "value"), None)
    if not isinstance(value, BinaryType):
        read = FileRecords.of(topology, {}, TIME_UNIT).names
        chosen = [it for it in names if any(is_read_of(it, name) for name in read)]
        lacking = [name for name in read if not any(is_read_of(it, name) for it in chosen)]
        if lacking:
            raise SlidestatError(
                f"The rows have no column {', '.join(map(repr, lacking))}, but"
                f" {', '.join(map(repr, names))}.",
                "Name the columns as the topology names its fields, with withColumnRenamed. For"
                " records, `value` must be binary.",
            )
        _require_lengths(rows, chosen)
        return Source.EVENTS, chosen
    is_placed = all(it in names for it in _OF_KAFKA)
    needed = ["key", "value", *(_OF_KAFKA if is_placed else ())]
    if topology.repartition:  # Its records are moved to the partitions of its own keys.
        is_placed, needed = False, ["key", "value"]
    if topology.time_path is None:
        needed.append("timestamp")
    lacking = [it for it in needed if it not in names]
    if lacking:
        raise SlidestatError(
            f"The records have no column {', '.join(map(repr, lacking))}, but"
            f" {', '.join(map(repr, names))}.",
            "Give the columns of Spark's Kafka source.",
        )
    more = [it for it in _RECORD if it in names and it not in needed]
    return Source.PLACED if is_placed else Source.RECORDS, [*needed, *more]


def _numbered(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return columns under plain names: PySpark takes a point in one for a path, and refuses `."""
    quoted = (name.replace("`", "``") for name in names)
    return rows.selectExpr(*(f"`{name}` AS c{place}" for place, name in enumerate(quoted)))


def _require_lengths(rows: DataFrame, names: Sequence[str]) -> None:
    """Raise SlidestatError for a column of months or years, for which PyArrow has no type."""
    for field in rows.schema:
        kind = field.dataType.simpleString()
        if field.name in names and _OF_MONTHS.search(kind):
            raise SlidestatError(
                f"The column {field.name!r} is of the type {kind}, which has no one length.",
                "Give it as a number of months, or as an INTERVAL of days to seconds.",
            )
