"""Topologies on Structured Streaming: what a worker writes, whatever fails and comes again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from slidestat.declare.statistics import Count, Distinct
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.spark import stream
from slidestat.spark.backfill.backfill import by_partition
from slidestat.spark.streaming.blocks import slot_of
from slidestat.spark.streaming.operator import PROVIDER, ROCKSDB
from tests.spark.requests_history import TOPOLOGY, Record, history_of, requests

PARTS = 2
OTHERS = {
    "spark.sql.shuffle.partitions": "5",
    "spark.sql.session.timeZone": "Australia/Lord_Howe",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "40",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests, with RocksDB for states, and a task for each of two shards."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    spark.conf.unset(PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", before)


@contextmanager
def set_otherwise(session: SparkSession) -> Iterator[None]:
    """Give a session other settings for a while."""
    before = {name: session.conf.get(name, None) for name in OTHERS}
    try:
        for name, value in OTHERS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def texts(rows: Sequence[Row]) -> list[str]:
    """Return rows as texts, in any order."""
    return sorted(
        repr((it.topic, it.partition, it.timestamp, it.key, it.value, it.headers)) for it in rows
    )


class Batches:
    """The rows of a query by batch; one that comes again replaces itself, with the same rows."""

    def __init__(self, checkpoint: Path) -> None:
        self.rows: dict[int, list[str]] = {}
        self.checkpoint = checkpoint
        self.repeated: list[int] = []

    def run(self, rows: DataFrame) -> None:
        """Process all that is there."""
        query = (
            rows.writeStream.option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(self._take)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def _take(self, rows: DataFrame, batch: int) -> None:
        found = texts(rows.collect())
        if batch in self.rows:
            assert self.rows[batch] == found
            self.repeated.append(batch)
        self.rows[batch] = found

    @property
    def all(self) -> list[str]:
        return sorted(row for rows in self.rows.values() for row in rows)


def write_records(folder: Path, name: str, parts: Sequence[Sequence[Record]], cut: slice) -> None:
    """Write a stretch of each partition's records as Spark's Kafka source has them, in no order."""
    rows = [
        (number, offset, *record)
        for number, records in enumerate(parts)
        for offset, record in [*enumerate(records)][cut]
    ]
    Random(name).shuffle(rows)
    partition, offset, key, value, timestamp = zip(*rows, strict=True)
    table = pa.table(
        {
            "partition": pa.array(partition, pa.int32()),
            "offset": pa.array(offset, pa.int64()),
            "key": pa.array(key, pa.binary()),
            "value": pa.array(value, pa.binary()),
            "timestamp": pa.array(timestamp, pa.timestamp("ms", "UTC")),
        }
    )
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")


def rows_from(spark: SparkSession, folder: Path) -> DataFrame:
    """Return files as a stream, each of them a batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def failing_once(marker: Path) -> Callable[[Any], Any]:
    """Return a step that fails the first time that there is a row behind the stateful operator."""

    def run(batches: Any) -> Any:
        for batch in batches:
            if len(batch) and not marker.exists():
                marker.touch()
                raise RuntimeError("the task has failed")
            yield batch

    return run


@pytest.mark.long
def test_what_fails_or_comes_again_leaves_no_trace(session: SparkSession, tmp_path: Path) -> None:
    """Records with Kafka's partitions and offsets, in no order: emissions, late records and dead
    letters are those of a worker to the byte, though a task fails after it has written states, a
    query is started anew in the middle, the driver dies before it has noted a batch, and the
    session has other settings than when the states were written.
    """
    parts = [requests(600, seed) for seed in range(PARTS)]
    topics = [f"filled-{it}" for it in ("statistics", "late", "dead-letters")]
    wanted = [
        row
        for row in by_partition(TOPOLOGY, history_of(session, parts), PARTS).collect()
        if row.topic in topics
    ]
    assert {row.topic for row in wanted} == {*topics}
    folder, batches = tmp_path / "records", Batches(tmp_path / "checkpoint")
    write_records(folder, "a", parts, slice(0, 350))
    fails = stream(rows_from(session, folder), TOPOLOGY)
    fails = fails.mapInArrow(failing_once(tmp_path / "failed"), fails.schema)
    with pytest.raises(StreamingQueryException, match="the task has failed"):
        batches.run(fails)
    assert not batches.all
    write_records(folder, "b", parts, slice(350, 500))
    batches.run(stream(rows_from(session, folder), TOPOLOGY))
    assert [*batches.rows] == [0, 1]
    for it in (batches.checkpoint / "commits").glob("*1*"):  # The driver has died before it.
        it.unlink()
    write_records(folder, "c", parts, slice(500, 600))
    with set_otherwise(session):
        batches.run(stream(rows_from(session, folder), TOPOLOGY))
    assert batches.repeated == [1]
    assert batches.all == texts(wanted)


def test_shards_are_spread_evenly(session: SparkSession) -> None:
    """Over any number of tasks: Spark's hash of a slot is the shard's number."""
    slots = session.createDataFrame([(slot_of(it), it) for it in range(300)], "slot int, shard int")
    assert slots.where("hash(slot) <> shard").count() == 0


def test_columns_of_events_may_have_any_name(session: SparkSession, tmp_path: Path) -> None:
    """PySpark takes a column with a point in its name for a path, and refuses a backtick."""
    counted = replace(TOPOLOGY, key_field="user.id", statistics=(Count(), Distinct(field="a`b")))
    times = [1_764_072_000_000 + 5_000 * event for event in range(20)]
    table = pa.table({"user.id": ["u"] * 20, counted.time_name: times, "a`b": ["x", "y"] * 10})
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "a.parquet")
    batches = Batches(tmp_path / "checkpoint")
    batches.run(stream(rows_from(session, tmp_path / "rows"), counted, partitions=1))
    emitted = [row for row in batches.all if counted.output_topic in row]
    assert any('"key":"u"' in row and '"statistic":"distinct' in row for row in emitted)


def refused(rows: DataFrame, topology: Topology, **more: Any) -> str:
    with pytest.raises(SlidestatError) as caught:
        stream(rows, topology, **more)
    return str(caught.value)


def test_what_is_not_possible_is_said_before_a_query_starts(
    session: SparkSession, tmp_path: Path
) -> None:
    """With what to do instead."""
    events = session.readStream.schema("key string, time bigint, value double").json(str(tmp_path))
    assert "a table, and no stream" in refused(session.range(1), TOPOLOGY)
    assert "no column 'size', 'path', but 'key', 'time', 'value'" in refused(events, TOPOLOGY)
    plain = replace(TOPOLOGY, statistics=(Count(),))
    assert "idle" in refused(events, replace(plain, idle="1m"))
    assert "publishes synopses" in refused(events, replace(plain, publish="partition"))
    assert "partitions is 0" in refused(events, plain, partitions=0)
    assert "unit is 'h'" in refused(events, plain, unit="h")
    months = events.selectExpr("array(INTERVAL 1 MONTH) AS key", "time")
    assert "'key' is of the type array<interval month>, which has no one" in refused(months, plain)
    records = session.readStream.schema("value binary, partition int, offset bigint").json(
        str(tmp_path)
    )
    assert "no column 'key'" in refused(records, plain)
    session.conf.unset(PROVIDER)
    assert f'spark.conf.set("{PROVIDER}"' in refused(events, plain)
