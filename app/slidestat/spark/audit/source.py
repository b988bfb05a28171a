"""The raw records that the emissions of a lake rest on, read again, and which were refused."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame, Row, SparkSession, functions as f

from slidestat.errors import SlidestatError
from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.audit.events.reading import (
    RECORD_COLUMNS,
    Asked,
    Tally,
    reader_of,
    reading_columns,
)
from slidestat.spark.audit.report import Records
from slidestat.spark.kafka import TopicState, kafka_options, topic_state
from slidestat.spark.lake.lake import Dataset, Lake

_FOREVER_MS = 2**62
# Enough to see how far the records before them had come.
_FIRST_RECORDS = 32
# So many letters are brought to each task, rather than records to them: some 40 MB.
_BROADCAST = 500_000


@dataclass(frozen=True)
class AuditedSource:
    """The source of what is `declared`, from the first offset on that is `needed` of each
    partition: its first one, unless it continues an earlier audit.

    Without `allow_loss`, records that retention has taken are an error; `say` gets a message about
    them.
    """

    spark: SparkSession
    bootstrap: str
    lake: Lake
    declared: Declaration
    needed: Mapping[int, int]
    allow_loss: bool
    say: Callable[[str], None]

    @cached_property
    def topic(self) -> TopicState:
        """The topic as the brokers have it."""
        return topic_state(self.bootstrap, self.declared.source)

    @contextmanager
    def read(
        self,
        readings: Sequence[Declaration],
        reached: Mapping[int, int],
        after: Mapping[int, int],
        since_ms: Mapping[int, int],
    ) -> Iterator["ReadSource"]:
        """Read the records up to the offsets `reached`, those that emissions may rest on, as each
        of some declarations has it; the counts are of those beyond the offsets `after`, and the
        first offsets of events since `since_ms` are noted. While the context is open the events lie
        in memory, or on the executors' disks.
        """
        first = {p: offset for p, offset in self.topic.first.items() if offset > self._needed(p)}
        asked = Asked(after, {p: offset + _FIRST_RECORDS for p, offset in first.items()}, since_ms)
        rows = (
            self._with_letters(self._records(reached))
            .mapInArrow(reader_of(readings, asked), reading_columns(readings))
            .persist()
        )
        try:
            tallies = {(row.reading, row.source_partition): row for row in _summed(rows).collect()}
            yield ReadSource(readings, rows, tallies, self.topic, set(first))
        finally:
            rows.unpersist()

    def _records(self, reached: Mapping[int, int]) -> DataFrame:
        source, topic = self.declared.source, self.topic
        ends = {p: max(0, reached.get(p, -1) + 1) for p in topic.end}
        wanted = {p: self._needed(p) if ends[p] else topic.first[p] for p in topic.end}
        if lost := topic.lost_before(wanted):
            deleted = f"{source} no longer has " + "; ".join(lost)
            if not self.allow_loss:
                raise SlidestatError(
                    f"{deleted}: the windows that they were in cannot be recomputed.",
                    "Give --allow-loss to audit the others.",
                )
            self.say(f"{deleted}: the windows that they were in are left out.")
        if beyond := [p for p, end in ends.items() if end > topic.end[p]]:
            raise SlidestatError(
                f"Emissions rest on records of {source} that partition {beyond[0]} does not have.",
                "It was deleted and made anew, the lake is of another broker, or a backfill filled"
                " it from files, whose records are on no topic: check --lake.",
            )
        starts = {p: min(max(topic.first[p], wanted[p]), end) for p, end in ends.items()}
        return (
            self.spark.read.format("kafka")
            .options(**kafka_options(self.bootstrap))
            .option("subscribe", source)
            .option("startingOffsets", json.dumps({source: starts}))
            .option("endingOffsets", json.dumps({source: ends}))
            .load()
            .select("partition", "offset", "key", "value", f.unix_millis("timestamp").alias("ms"))
        )

    def _with_letters(self, records: DataFrame) -> DataFrame:
        """Return the records with the sort of letter by which each was refused, null for those that
        must be counted.
        """
        letters = self._letters()
        count = letters.count()
        if not count:
            return records.withColumn("letter", f.lit(None).cast("string"))
        if count <= _BROADCAST:
            letters = f.broadcast(letters)
        return records.join(letters, ["partition", "offset"], "left").select(*RECORD_COLUMNS)

    def _letters(self) -> DataFrame:
        """Return the places of the records that were refused, and the sort of the letter."""
        parts = [
            self.lake.read(self.spark, dataset)
            .where(f.col("topology") == self.declared.letters_of)
            .where(f.col("topic") == self.declared.source)
            .select(
                f.col("partition").try_cast("int"), "offset", f.lit(str(dataset)).alias("letter")
            )
            for dataset in (Dataset.LATE, Dataset.DEAD_LETTERS)
            if self.lake.has(self.spark, dataset)
        ]
        none = self.spark.createDataFrame([], "partition int, offset long, letter string")
        return reduce(DataFrame.union, parts, none).dropDuplicates(["partition", "offset"])

    def _needed(self, partition: int) -> int:
        return self.needed.get(partition, 0)


@dataclass(frozen=True)
class ReadSource:
    """A source as it was read by each of `readings`: `rows` of `reading_columns`, and what they
    tally, by the number of the reading and the partition. Of partitions that `lack` records the
    first ones are gone.
    """

    readings: Sequence[Declaration]
    rows: DataFrame
    tallies: Mapping[tuple[int, int], Row]
    topic: TopicState
    lack: Collection[int]

    def events(self, reading: int) -> DataFrame:
        """Return the runs of events that must have been counted, by one of the declarations."""
        return self.rows.where((f.col("reading") == reading) & f.col("event_key").isNotNull())

    def records(self) -> Records:
        """Return the number of records by outcome; one is an event if it is for any declaration."""
        found = {
            name: sum(row[name] for (reading, _), row in self.tallies.items() if reading == 0)
            for name in ("read", "late", "dead", "passed_over", "unaccounted", "bytes")
        }
        others = sum(found[name] for name in ("late", "dead", "passed_over", "unaccounted"))
        return Records(counted=found["read"] - others, **found)

    def complete_from(self, reading: int, declaration: Declaration) -> dict[int, int]:
        """Return, by partition, the time from which windows have all of their events."""
        return {
            p: _complete_from(declaration, self._newest_of_first(reading, p))
            if p in self.lack
            else -_FOREVER_MS
            for p in self.topic.first
        }

    def _newest_of_first(self, reading: int, partition: int) -> int | None:
        row = self.tallies.get((reading, partition))
        return None if row is None or row.newest_of_first == -_FOREVER_MS else row.newest_of_first

    def needed_after(self, reached: Mapping[int, int]) -> dict[int, int]:
        """Return the first offset of each partition with an event at the asked time or later."""
        found = {p: last + 1 for p, last in reached.items()}
        for (_, p), row in self.tallies.items():
            found[p] = min(found[p], row.first_since)
        return found


def _summed(rows: DataFrame) -> DataFrame:
    """Return the tallies of each reading and partition."""
    merge = {"first_since": f.min, "newest_of_first": f.max}
    names = Tally.__struct_fields__
    sums = [merge.get(name, f.sum)(f"tally.{name}").alias(name) for name in names]
    told = rows.where("tally IS NOT NULL")
    return told.groupBy("reading", "source_partition").agg(*sums)


def _complete_from(declaration: Declaration, newest_of_first: int | None) -> int:
    """Return the time from which the windows of a partition that has lost records have all their
    events.

    A counted record that is gone was no later than a time that most of 16 records in a row had
    reached, or ahead of such a time by at most lateness and step together, and by as much again
    while it waited.
    """
    if newest_of_first is None:
        return _FOREVER_MS
    lateness = declaration.lateness_ms
    return newest_of_first + 2 * (lateness + max(1_000, lateness // 8)) + 1
