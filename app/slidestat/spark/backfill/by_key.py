"""The keys of all partitions of history over as many tasks as there are cores.

Each partition is read once, in order, by one task: that finds its clock, what is late or refused,
and at which records ticks pass (`engine/shares.py`). Then the events that count are handed
out by key, and each task runs the engine for its share of a partition's keys with that partition's
clock (`shares.py`). So what comes out is what one task for each partition gives, byte for byte,
in another order. Where it is asked for, the history of a hot key is split by time as well
(`stretches.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.keys.stored_keys import PartitionStore
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisTopic
from slidestat.engine.records import RecordBatch
from slidestat.engine.shares import Judge, Judged, KeyShare, SharedRecords
from slidestat.spark.backfill.emissions import EmissionFolder
from slidestat.spark.backfill.engine_outputs import EngineOutputs, read_row
from slidestat.spark.backfill.history import History
from slidestat.spark.backfill.partition_batches import by_number, by_place, one_after_another
from slidestat.spark.backfill.record_rows import (
    RECORD_ARROW,
    RECORD_SCHEMA,
    Out,
    arrow_rows,
    letter_rows,
)
from slidestat.spark.backfill.stretches import FIRST, LAST, Stretch, spread, task_slots
from slidestat.spark.lake.wire_columns import batch_of

# Judged records as rows that Spark can hand out by key: events that count, ticks, letters.

# A letter as its record; its partition is in the row already.
_LETTER = pa.struct(
    [RECORD_ARROW.field(name) for name in ("topic", "timestamp", "key", "value", "headers")]
)


class JudgedRows:
    """A format of a topology's judged rows, which it writes and reads.

    Each has its `partition`. An event has `offset`, `clock` (the partition's after it), `key`,
    `time` and a column for each number, item and condition; the record at which a tick passed has
    only `offset` and `clock`; a letter has only `letter`.
    """

    def __init__(self, topology: Topology) -> None:
        columns = topology.columns
        self._numbers = [f"number_{i}" for i in range(len(columns.numbers))]
        self._items = [f"item_{i}" for i in range(len(columns.items))]
        self._conditions = [f"condition_{i}" for i in range(len(columns.conditions))]
        self._schema = pa.schema(
            [
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("clock", pa.int64()),
                ("key", pa.string()),
                ("time", pa.int64()),
                *((name, pa.float64()) for name in self._numbers),
                *((name, pa.string()) for name in self._items),
                *((name, pa.bool_()) for name in self._conditions),
                ("letter", _LETTER),
            ]
        )

    @property
    def columns(self) -> StructType:
        """Return the columns for Spark."""
        return from_arrow_schema(self._schema)

    def of(self, judged: Judged, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of events and ticks."""
        events = judged.events
        if len(events):
            columns = [events.offsets, judged.clocks, _text(events.keys), events.times]
            items = map(_text, events.items)
            columns += [*events.numbers, *items, *events.conditions]
            names = ["offset", "clock", "key", "time"]
            names += [*self._numbers, *self._items, *self._conditions]
            yield self._batch(partition, dict(zip(names, columns, strict=True)))
        if len(judged.tick_offsets):
            ticks = {"offset": judged.tick_offsets, "clock": judged.tick_clocks}
            yield self._batch(partition, ticks)

    def letters(self, rows: Iterable[Out], partition: int) -> Iterator[pa.RecordBatch]:
        for batch in arrow_rows(rows):
            fields = [batch[field.name] for field in _LETTER]
            letters = pa.StructArray.from_arrays(fields, fields=list(_LETTER))
            yield self._batch(partition, {"letter": letters})

    def shared(self, part: pa.RecordBatch) -> SharedRecords:
        """Read rows of events and ticks, by offset."""
        is_event = part["key"].is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_event)
        events = part if len(rows) == len(part) else part.take(pa.array(rows))
        return SharedRecords(
            part["offset"].to_numpy(),
            part["clock"].to_numpy(),
            rows,
            events["key"].cast(pa.large_string()),
            events["time"].to_numpy(),
            tuple(events[name].to_numpy() for name in self._numbers),
            tuple(events[name].cast(pa.large_string()) for name in self._items),
            tuple(events[name].to_numpy(zero_copy_only=False) for name in self._conditions),
        )

    def _batch(self, partition: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
        count = len(next(iter(columns.values())))
        own = pa.repeat(pa.scalar(partition, pa.int32()), count)
        return batch_of({"partition": own, **columns}, self._schema)


def _text(column: pa.Array) -> pa.Array:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.string())


# The hot keys of a history, and where it is cut (`stretches.py`).

# This many stretches for each task's share of the rows, if a stretch is then this many spans long;
# else one.
_STRETCHES = 4
_LONG = 4


def stretches_of(topology: Topology, judged: DataFrame, tasks: int) -> list[Stretch]:
    """Cut the hot keys of judged events, those that have more than half of what a task should have.
    A key whose history is shorter than two spans stays whole. Cost: four passes over the events.
    """
    span = topology.span_length.length
    events = judged.where("key IS NOT NULL")
    fair = events.count() / tasks
    of_key = events.groupBy("partition", "key").agg(
        f.count(f.lit(1)).alias("events"), (f.max("time") - f.min("time")).alias("length")
    )
    counts = {
        (row["partition"], row["key"]): n
        for row in of_key.where(f.col("events") * 2 > fair).collect()
        if (n := _count(row["events"] / fair, row["length"] / span)) > 1
    }
    if not counts:
        return []
    ends = _ends(judged, counts, _STRETCHES * tasks)
    found: list[Stretch] = []
    for (partition, key), rows in ends.items():
        first_time, after = FIRST, FIRST
        for row in rows:
            tick = (row["clock"] - topology.lateness_ms) // topology.every_ms * topology.every_ms
            if tick > after:
                number = len(found) + 1
                found.append(
                    Stretch(number, partition, key, first_time, row["offset"], after, tick)
                )
                first_time, after = tick - span, tick
        number = len(found) + 1
        found.append(Stretch(number, partition, key, first_time, LAST, after, LAST))
    return found


def _count(shares: float, spans: float) -> int:
    """Return how many stretches a key gets, from its number of tasks' shares of the events and its
    length in spans: each stretch is fed a span more.
    """
    small = ceil(_STRETCHES * shares)
    return small if small * _LONG <= spans else int(min(ceil(shares), spans))


def _ends(
    judged: DataFrame, counts: Mapping[tuple[int, str], int], grid: int
) -> dict[tuple[int, str], Sequence[Row]]:
    """Return for each key the records (offset, clock) with which its stretches but the last end,
    rising: for each the first record at which a tick passed after so many of its events.
    """
    spark = judged.sparkSession
    hot = spark.createDataFrame(list(counts), "partition int, key string")
    shares = [place / grid for place in range(1, grid)]
    offsets = (
        judged.join(f.broadcast(hot), ["partition", "key"])
        .groupBy("partition", "key")
        .agg(f.percentile_approx("offset", shares, 10_000).alias("offsets"))
        .collect()
    )
    cuts = []
    for row in offsets:
        place = row["partition"], row["key"]
        n = counts[place]
        at = np.unique([row["offsets"][round(i * grid / n) - 1] for i in range(1, n)])
        cuts += [(*place, offset) for offset in at.tolist()]
    wanted = spark.createDataFrame(cuts, "partition int, of string, cut bigint")
    ticks = judged.where("key IS NULL AND letter IS NULL").select("partition", "offset", "clock")
    ends = (
        ticks.join(f.broadcast(wanted), "partition")
        .where("offset >= cut")
        .groupBy("partition", "of", "cut")
        .agg(f.min(f.struct("offset", "clock")).alias("end"))
        .orderBy("partition", "of", "cut")
        .collect()
    )
    found: dict[tuple[int, str], list[Row]] = {place: [] for place in sorted(counts)}
    for row in ends:
        found[row["partition"], row["of"]].append(row["end"])
    return dict(found)


# Keys are handed out in so many pieces for each task: a hot key takes few others with it.
_PIECES = 64


class Spread(NamedTuple):
    """The rows that are written of history, and the stretches of its hot keys, if any are split."""

    written: DataFrame
    stretches: Sequence[Stretch] = ()


def spreads_keys(topology: Topology, cores: int, partitions: int) -> bool:
    """Return whether keys are to be spread: where partitions would leave cores idle, and what is
    published is not of whole partitions. Elsewhere it would only be more work: events go over the
    network. Keys that are expected and never come are of no event that could be handed out.
    """
    return not (topology.has_referee or topology.expected) and cores > partitions


@contextmanager
def spread_by_key(
    topology: Topology,
    history: History,
    tasks: int,
    partitions: int = 1,
    *,
    split_hot_keys: bool = False,
    folder: EmissionFolder | None = None,
) -> Iterator[Spread]:
    """Compute what `by_partition` does of a topology that does not publish, in so many `tasks`,
    while the context is open: judged events lie on the executors' disks until then. With
    `split_hot_keys`, of a topology that `require_stretches` takes, hot keys may have other bytes.
    With a `folder` emissions go to files there; not so where hot keys are split.
    """
    rows = JudgedRows(topology)
    judged = _judged(topology, history, rows).persist(StorageLevel.DISK_ONLY)
    try:
        letters = judged.where("letter IS NOT NULL").select(
            *("letter.topic", "partition", f.lit(None).cast("bigint").alias("offset")),
            *("letter.timestamp", "letter.key", "letter.value", "letter.headers"),
        )
        stretches = stretches_of(topology, judged, tasks) if split_hot_keys else []
        shares = _handed_out(judged.where("letter IS NULL").drop("letter"), tasks, stretches)
        written = _computed(topology, shares, rows, partitions, stretches, folder)
        yield Spread(written.unionByName(letters), stretches)
    finally:
        judged.unpersist()


def _judged(topology: Topology, history: History, rows: JudgedRows) -> DataFrame:
    read = history.read

    def run(given: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        decoder = EventDecoder(topology)
        begin = partial(_JudgedPartition, topology, rows, decoder)
        with calm_garbage_collector():
            yield from one_after_another(by_number(read(given)), begin)

    return history.rows.mapInArrow(run, rows.columns)


def _handed_out(judged: DataFrame, tasks: int, stretches: Sequence[Stretch]) -> DataFrame:
    """Return events by key or stretch, the heaviest pieces first; ticks for every task, and every
    stretch; by stretch (0 of keys that are whole), partition and offset.
    """
    spark = judged.sparkSession
    pieces = _PIECES * tasks
    piece = f.pmod(f.xxhash64("partition", "key"), f.lit(pieces)).cast("int")
    events = judged.where("key IS NOT NULL").withColumns({"piece": piece, "stretch": f.lit(0)})
    if stretches:
        events = _split(events, stretches, pieces)
    loads = {row["piece"]: row["count"] for row in events.groupBy("piece").count().collect()}
    slots = task_slots(spark, tasks)
    slot_of = {piece: slots[task] for piece, task in spread(loads, tasks).items()}
    places = spark.createDataFrame(list(slot_of.items()), "piece int, slot int")
    every = [(slot, 0, None, None, None) for slot in slots] + [
        (slot_of[pieces + it.number], it.number, it.partition, it.first_time, it.last_offset)
        for it in stretches
    ]
    wanted = spark.createDataFrame(
        every, "slot int, stretch int, of int, first_time bigint, last_offset bigint"
    )
    # No event is later than the clock after it: earlier ticks are nothing to a stretch.
    is_wanted = "stretch = 0 OR of = partition AND clock >= first_time AND offset <= last_offset"
    ticks = judged.where("key IS NULL").crossJoin(f.broadcast(wanted)).where(is_wanted)
    return (
        events.join(f.broadcast(places), "piece")
        .drop("piece")
        .unionByName(ticks.drop("of", "first_time", "last_offset"))
        .repartition(tasks, "slot")
        .sortWithinPartitions("stretch", "partition", "offset", f.col("key").isNull())
        .drop("slot")
    )


def _split(events: DataFrame, stretches: Sequence[Stretch], pieces: int) -> DataFrame:
    """Return the same, with the events of hot keys once for each stretch that is fed them, which is
    a piece of its own after the others.
    """
    split = events.sparkSession.createDataFrame(
        [astuple(stretch)[:-2] for stretch in stretches],
        "stretch int, partition int, key string, first_time bigint, last_offset bigint",
    )
    place = ["partition", "key"]
    fed = (
        events.drop("piece", "stretch")
        .join(f.broadcast(split), place)
        .where("time >= first_time AND offset <= last_offset")
        .withColumn("piece", f.col("stretch") + pieces)
    )
    whole = events.join(f.broadcast(split.select(*place).distinct()), place, "left_anti")
    return whole.unionByName(fed.drop("first_time", "last_offset"))


def _computed(
    topology: Topology,
    shares: DataFrame,
    rows: JudgedRows,
    partitions: int,
    stretches: Sequence[Stretch],
    folder: EmissionFolder | None,
) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        decoder, published = EventDecoder(topology), SynopsisTopic(topology, partitions)
        split = {stretch.number: stretch for stretch in stretches}
        begin = partial(_Share, topology, rows, decoder, published, split, folder)
        with calm_garbage_collector():
            yield from one_after_another(by_place(batches, ("stretch", "partition")), begin)

    return shares.mapInArrow(run, RECORD_SCHEMA)


class _JudgedPartition:
    """A partition of history while it is judged."""

    def __init__(
        self, topology: Topology, rows: JudgedRows, decoder: EventDecoder, number: int
    ) -> None:
        self._topology = topology
        self._number = number
        self._read = 0
        self._rows = rows
        self._judge = Judge(topology, decoder)

    def take(self, part: RecordBatch) -> Iterator[pa.RecordBatch]:
        self._read += len(part)
        yield from self._written(self._judge.take(part))

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was open until the end, and how many records were read."""
        yield from self._written(self._judge.rest())
        yield from self._rows.letters([read_row(self._number, self._read)], self._number)

    def _written(self, judged: Judged) -> Iterator[pa.RecordBatch]:
        letters = letter_rows(judged.dead_letters, judged.late, self._topology, self._number)
        yield from self._rows.letters(letters, self._number)
        yield from self._rows.of(judged, self._number)


class _Share:
    """A task's share of a partition's keys, or a stretch of one, while its events are read."""

    def __init__(
        self,
        topology: Topology,
        rows: JudgedRows,
        decoder: EventDecoder,
        published: SynopsisTopic,
        split: Mapping[int, Stretch],
        folder: EmissionFolder | None,
        stretch: int,
        number: int,
    ) -> None:
        self._topology = topology
        self._number = number
        self._stretch = split.get(stretch)
        self._rows = rows
        self._decoder = decoder
        self._outputs = EngineOutputs(topology, number, published, self._engine, folder)

    def take(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        records = self._rows.shared(part)
        yield from self._told(self._outputs.write(self._share.steps(records), len(records.rows)))

    def close(self) -> Iterator[pa.RecordBatch]:
        return self._told(self._outputs.close())

    def _told(self, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return found if self._stretch is None else map(self._stretch.told, found)

    def _engine(self, states: PartitionStore, codec: JsonCodec | None) -> PartitionProcessor:
        place = self._topology, self._topology.events_topic, self._number
        self._share = KeyShare(*place, states, self._decoder, codec)
        return self._share.processor
