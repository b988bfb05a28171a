"""A history of records for backfills: some late, some bad, some of the future."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from slidestat import TopologyDriver
from slidestat.declare.statistics import (
    Count,
    Mean,
    MeanHistogram,
    Quantiles,
    SumHistogram,
    TopItems,
)
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import RecordBatch
from slidestat.spark.backfill.history import History
from slidestat.spark.backfill.partition_batches import by_place
from slidestat.testing.records import SourceRecord

NOON = 1_764_072_000_000
TOPOLOGY = Topology(
    name="filled",
    source="requests",
    span="2m",
    windows=("20s", "2m"),
    every="10s",
    lateness="3s",
    statistics=(
        Count(epsilon=0.05),
        Mean(epsilon=0.1),
        Quantiles(quantiles=(0.5, 0.9), epsilon=0.1),
        TopItems(field="path", epsilon=0.1),
        SumHistogram(by="size", edges=(10, 60), epsilon=0.2),
        MeanHistogram(by="size", edges=(50,), epsilon=0.2),
    ),
)
Record = tuple[bytes | None, bytes | None, int]


def send_all(driver: TopologyDriver, records: Iterable[Record], partition: int | None) -> None:
    """Send records under their own keys, at their own times, in one batch, to one partition or to
    those of their keys: `send_bytes` takes one key for all of a call, and thirty times as long for
    a call for each.
    """
    driver._come([SourceRecord(*record) for record in records], partition)


def requests(events: int, seed: int, of_all: Sequence[str] = ("k1", "k7")) -> list[Record]:
    """Records of one partition: some late, some bad, some of the future. Only the keys `of_all` are
    in other partitions, too.
    """
    chance = Random(seed)
    found: list[Record] = []
    now = NOON
    for _ in range(events):
        now += chance.choice([0, 7, 40, 150])
        key = f"k{int(20 * chance.random() ** 2)}"
        event = {
            "key": key if not of_all or key in of_all else f"{key}-{seed}",
            "time": now - chance.choice([0, 0, 0, 500, 2_500, 4_000]),
            "value": chance.choice([1.5, 20, -3, 0.125]),
            "path": chance.choice(["/", "/a", "/b/c"]),
            "size": now % 97,
        }
        value: bytes | None = msgspec.json.encode(event)
        match chance.randrange(60):
            case 0:
                value = b'{"key": "k1", "time'
            case 1:
                value = None
            case 2:
                value = msgspec.json.encode(event | {"time": now + 7_200_000})
        found.append((event["key"].encode(), value, now))
    return found


def history_of(spark: SparkSession, partitions: Sequence[Sequence[Record]]) -> History:
    """Records of some partitions, with offsets from 0 on in each, in two tasks."""
    rows = [
        (number, offset, key, value, timestamp)
        for number, records in enumerate(partitions)
        for offset, (key, value, timestamp) in enumerate(records)
    ]
    schema = "partition int, offset bigint, key binary, value binary, timestamp bigint"
    frame = spark.createDataFrame(rows, schema)

    def read(given: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, RecordBatch]]:
        for (number,), part in by_place(given, ("partition",)):
            yield (
                number,
                RecordBatch(
                    "requests",
                    number,
                    part["offset"].to_numpy(),
                    BinaryColumn.of(part["key"]),
                    BinaryColumn.of(part["value"]),
                    part["timestamp"].to_numpy(),
                    int(part["offset"][0].as_py()),
                ),
            )

    ordered = frame.repartition(2, "partition").sortWithinPartitions("partition", "offset")
    return History(ordered, read)
