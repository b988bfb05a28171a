"""The keys of all partitions of history over as many tasks as there are cores.

Each partition is read once, in order, by one task: that finds its clock, what is late or refused,
and at which records ticks pass (`engine/shares/judge.py`). Then the events that count are handed
out by key, and each task runs the engine for its share of a partition's keys with that partition's
clock (`key_share.py`). So what comes out is what one task for each partition gives, byte for byte,
in another order.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, functions as f

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.keys.key_cache import PartitionStore
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisTopic, TickPublisher
from slidestat.engine.shares.judge import Judge, Judged
from slidestat.engine.shares.key_share import KeyShare
from slidestat.spark.backfill.engine_outputs import EngineOutputs
from slidestat.spark.backfill.judged_rows import JudgedRows
from slidestat.spark.backfill.partition_batches import is_of_files, one_after_another, record_batch
from slidestat.spark.backfill.plain_events import PlainEvents
from slidestat.spark.backfill.record_rows import RECORD_SCHEMA, letter_rows
from slidestat.spark.backfill.spread import spread, task_slots

# Keys are handed out in so many pieces for each task: a hot key takes few others with it.
_PIECES = 64


def spreads_keys(topology: Topology, cores: int, partitions: int) -> bool:
    """Whether keys are to be spread: where partitions would leave cores idle, and what is published
    is not of whole partitions. Elsewhere it would only be more work: events go over the network.
    """
    return not topology.publish and cores > partitions


@contextmanager
def spread_by_key(
    topology: Topology,
    records: DataFrame,
    tasks: int,
    partitions: int = 1,
    synopses_ms: int | None = None,
) -> Iterator[DataFrame]:
    """Compute what `by_partition` does of a topology that does not publish, in so many `tasks`,
    while the context is open: judged events lie on the executors' disks until then.
    """
    rows = JudgedRows(topology)
    judged = _judged(topology, records, rows).persist(StorageLevel.DISK_ONLY)
    try:
        letters = judged.where("letter IS NOT NULL").select(
            *("letter.topic", "partition", f.lit(None).cast("bigint").alias("offset")),
            *("letter.timestamp", "letter.key", "letter.value", "letter.headers"),
        )
        shares = _handed_out(judged.where("letter IS NULL").drop("letter"), tasks)
        yield _computed(topology, shares, rows, partitions, synopses_ms).unionByName(letters)
    finally:
        judged.unpersist()


def _judged(topology: Topology, records: DataFrame, rows: JudgedRows) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        begin = partial(_JudgedPartition, topology, rows, EventDecoder(topology))
        with calm_garbage_collector():
            yield from one_after_another(batches, begin)

    return records.mapInArrow(run, rows.ddl)


def _handed_out(judged: DataFrame, tasks: int) -> DataFrame:
    """Events by key, the heaviest pieces first; ticks to every task; by partition and offset."""
    spark = judged.sparkSession
    piece = f.pmod(f.xxhash64("partition", "key"), f.lit(_PIECES * tasks)).cast("int")
    events = judged.where("key IS NOT NULL").withColumn("piece", piece)
    loads = {row["piece"]: row["count"] for row in events.groupBy("piece").count().collect()}
    slots = task_slots(spark, tasks)
    given = [(piece, slots[task]) for piece, task in spread(loads, tasks).items()]
    places = spark.createDataFrame(given, "piece int, slot int")
    every = spark.createDataFrame([(slot,) for slot in slots], "slot int")
    ticks = judged.where("key IS NULL").crossJoin(f.broadcast(every))
    return (
        events.join(f.broadcast(places), "piece")
        .drop("piece")
        .unionByName(ticks)
        .repartition(tasks, "slot")
        .sortWithinPartitions("partition", "offset", f.col("key").isNull())
        .drop("slot")
    )


def _computed(
    topology: Topology,
    shares: DataFrame,
    rows: JudgedRows,
    partitions: int,
    synopses_ms: int | None,
) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        decoder, published = EventDecoder(topology), SynopsisTopic(topology, partitions)
        begin = partial(_Share, topology, rows, decoder, published, synopses_ms)
        with calm_garbage_collector():
            yield from one_after_another(batches, begin)

    return shares.mapInArrow(run, RECORD_SCHEMA)


class _JudgedPartition:
    """A partition of history while it is judged."""

    def __init__(
        self, topology: Topology, rows: JudgedRows, decoder: EventDecoder, number: int
    ) -> None:
        self._topology = topology
        self._number = number
        self._rows = rows
        self._plain = PlainEvents(topology, decoder)
        self._judge = Judge(topology, decoder)

    def take(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Judge a batch."""
        batch = record_batch(self._topology, self._number, part, self._judge.next_offset)
        events = self._plain.columns(part, batch) if is_of_files(part) else None
        yield from self._written(self._judge.take(batch, events))

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was open until the end."""
        return self._written(self._judge.rest())

    def _written(self, judged: Judged) -> Iterator[pa.RecordBatch]:
        letters = letter_rows(judged.dead_letters, judged.late, self._topology, self._number)
        yield from self._rows.letters(letters, self._number)
        yield from self._rows.of(judged, self._number)


class _Share:
    """A task's share of a partition's keys while their events are read."""

    def __init__(
        self,
        topology: Topology,
        rows: JudgedRows,
        decoder: EventDecoder,
        published: SynopsisTopic,
        synopses_ms: int | None,
        number: int,
    ) -> None:
        self._topology = topology
        self._number = number
        self._rows = rows
        self._decoder = decoder
        self._outputs = EngineOutputs(topology, number, published, synopses_ms, self._engine)

    def take(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch in."""
        records = self._rows.shared(part)
        yield from self._outputs.write(self._share.steps(records), len(records.rows))

    def close(self) -> Iterator[pa.RecordBatch]:
        """The synopses in the end."""
        return self._outputs.close()

    def _engine(
        self, states: PartitionStore, publisher: TickPublisher | None
    ) -> PartitionProcessor:
        place = self._topology, self._topology.events_topic, self._number
        self._share = KeyShare(*place, states, self._decoder, publisher)
        return self._share.processor
