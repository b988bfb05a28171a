"""Topologies on Structured Streaming: what a worker writes, whatever fails and comes again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import Count, Mean
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.spark import stream
from slidestat.spark.backfill.backfill import by_partition
from slidestat.spark.backfill.history import Files, read_files
from slidestat.spark.streaming.operator import PROVIDER, ROCKSDB
from tests.spark.requests_history import NOON, TOPOLOGY, Record, history_of, requests

PARTS = 2


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests, with RocksDB for states, and a task for each of two shards."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set(PROVIDER, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    spark.conf.unset(PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", before)


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


def test_what_fails_or_comes_again_leaves_no_trace(session: SparkSession, tmp_path: Path) -> None:
    """Records with Kafka's partitions and offsets, in no order: emissions, late records and dead
    letters are those of a worker to the byte, though a task fails after it has written states, a
    query is started anew in the middle, and the driver dies before it has noted a batch.
    """
    parts = [requests(600, seed) for seed in range(PARTS)]
    topics = [f"filled-{it}" for it in ("statistics", "late", "dead-letters")]
    wanted = [
        row
        for row in by_partition(TOPOLOGY, history_of(session, parts), PARTS, None).collect()
        if row.topic in topics
    ]
    assert {row.topic for row in wanted} == {*topics}
    folder, batches = tmp_path / "records", Batches(tmp_path / "checkpoint")
    write_records(folder, "a", parts, slice(0, 350))
    written = stream(rows_from(session, folder), TOPOLOGY)
    schema = written.schema
    fails = written.mapInArrow(failing_once(tmp_path / "failed"), schema)
    with pytest.raises(StreamingQueryException, match="the task has failed"):
        batches.run(fails)
    assert not batches.all
    batches.run(written)
    write_records(folder, "b", parts, slice(350, 500))
    write_records(folder, "c", parts, slice(500, 600))
    batches.run(stream(rows_from(session, folder), TOPOLOGY))
    last = max(batches.rows)
    for it in (tmp_path / "checkpoint" / "commits").glob(f"*{last}*"):
        it.unlink()
    batches.run(stream(rows_from(session, folder), TOPOLOGY))
    assert batches.repeated == [last]
    assert batches.all == texts(wanted)


def test_events_in_columns_are_those_of_files(session: SparkSession, tmp_path: Path) -> None:
    """With timestamps in whatever zone the session has, keys over partitions as Kafka's clients
    spread them, and changes of alerts as further records.
    """
    topology = replace(
        TOPOLOGY,
        statistics=(Count(), Mean(epsilon=0.1)),
        alerts=(Alert(name="often", when="count >= 3", window="20s"),),
    )
    random, folder = Random(5), tmp_path / "events"
    folder.mkdir()
    for number in range(2):
        times = [NOON + number * 200_000 + 500 * i + random.randrange(500) for i in range(400)]
        table = pa.table(
            {
                "key": [random.choice("abcdefg") for _ in times],
                "time": pa.array(times, pa.timestamp("us", "UTC")),
                "value": [random.choice([0.5, 7.0, None]) for _ in times],
                "other": ["x"] * len(times),
            }
        ).take(pa.array(random.sample(range(400), 400)))
        pq.write_table(table, folder / f"{number}.parquet")
    files = read_files(session, topology, Files(str(folder), partitions=3))
    topics = [f"filled-{it}" for it in ("statistics", "late", "dead-letters")]
    wanted = [it for it in by_partition(topology, files, 3, None).collect() if it.topic in topics]
    zone = session.conf.get("spark.sql.session.timeZone")
    batches = Batches(tmp_path / "checkpoint")
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        batches.run(stream(rows_from(session, folder), topology, partitions=3))
    finally:
        session.conf.set("spark.sql.session.timeZone", zone)
    assert len(batches.rows) == 2
    alerts = [it for it in batches.all if it.startswith("('filled-alerts'")]
    assert any("firing" in it for it in alerts)
    assert [it for it in batches.all if it not in alerts] == texts(wanted)
    # Another number of partitions would look for states where they are not.
    pq.write_table(table, folder / "2.parquet")
    others = stream(rows_from(session, folder), topology, partitions=2)
    with pytest.raises(StreamingQueryException, match="spread over 3 partitions, and are now"):
        batches.run(others)


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
    assert "no column 'path', but 'key', 'time', 'value'" in refused(events, TOPOLOGY)
    plain = replace(TOPOLOGY, statistics=(Count(),))
    assert "idle" in refused(events, replace(plain, idle="1m"))
    assert "publishes synopses" in refused(events, replace(plain, publish="partition"))
    assert "partitions is 0" in refused(events, plain, partitions=0)
    assert "unit is 'h'" in refused(events, plain, unit="h")
    records = session.readStream.schema("value binary, partition int, offset bigint").json(
        str(tmp_path)
    )
    assert "no column 'key'" in refused(records, plain)
    session.conf.unset(PROVIDER)
    assert f'spark.conf.set("{PROVIDER}"' in refused(events, plain)
