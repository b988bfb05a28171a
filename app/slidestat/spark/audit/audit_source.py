"""The raw records that the emissions of a lake rest on, read again, and which were refused."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession, functions as f

from slidestat.errors import SlidestatError
from slidestat.spark.audit.audit_progress import per_partition
from slidestat.spark.audit.audit_report import Records
from slidestat.spark.audit.audit_workers import event_columns, event_reader
from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.kafka.kafka_options import kafka_options
from slidestat.spark.kafka.kafka_topic import TopicState, topic_state
from slidestat.spark.lake.lake import Dataset, Lake

_FOREVER_MS = 2**62
# Enough to see how far the records before them had come.
_FIRST_RECORDS = 32
_PLACE = ["source_partition", "source_offset"]


@dataclass(frozen=True)
class AuditedSource:
    """The source of what is `declared`, from the first offset on that is `needed` of each
    partition: its first one, unless an earlier audit says otherwise.

    Without `allow_loss`, records that retention has taken are an error; `say` is told of them.
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

    @cached_property
    def letters(self) -> DataFrame:
        """The places of the records that were refused, and as what."""
        parts = [
            self.lake.read(self.spark, dataset)
            .where(f.col("topology") == self.declared.letters_of)
            .where(f.col("topic") == self.declared.source)
            .select(
                f.col("partition").cast("int").alias("source_partition"),
                f.col("offset").alias("source_offset"),
                f.lit(str(dataset)).alias("letter"),
            )
            for dataset in (Dataset.LATE, Dataset.DEAD_LETTERS)
            if self.lake.has(self.spark, dataset)
        ]
        none = self.spark.createDataFrame(
            [], "source_partition int, source_offset long, letter string"
        )
        return reduce(DataFrame.union, parts, none).dropDuplicates(_PLACE)

    def raw(self, declaration: Declaration, reached: Mapping[int, int]) -> DataFrame:
        """The records that emissions may rest on, as a declaration reads them, with the columns of
        `event_columns`; one that is no event has a null key.
        """
        source, topic = self.declared.source, self.topic
        ends = {p: reached.get(p, -1) + 1 for p in topic.end}
        wanted = {p: self.needed.get(p, 0) if ends[p] else topic.first[p] for p in topic.end}
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
                "It was deleted and made anew, or the lake is of another broker: check --lake.",
            )
        starts = {p: min(max(topic.first[p], wanted[p]), end) for p, end in ends.items()}
        records = (
            self.spark.read.format("kafka")
            .options(**kafka_options(self.bootstrap))
            .option("subscribe", source)
            .option("startingOffsets", json.dumps({source: starts}))
            .option("endingOffsets", json.dumps({source: ends}))
            .load()
            .select("partition", "offset", "key", "value", f.unix_millis("timestamp").alias("ms"))
        )
        return records.mapInArrow(event_reader(declaration), event_columns(declaration))

    def counted(self, raw: DataFrame) -> DataFrame:
        """The events among raw records that must have been counted."""
        return raw.where("event_key IS NOT NULL").join(self.letters, _PLACE, "left_anti")

    def records(self, raws: Iterable[DataFrame], after: Mapping[int, int]) -> Records:
        """Count the records beyond the offsets `after` by outcome; one is an event if any
        declaration can read it.
        """
        is_new = f.col("source_offset") > per_partition(after, f.col("source_partition"), -1)
        common = [*_PLACE, "event_key", "passed_over", "bytes"]
        every = [one.where(is_new).select(*common) for one in raws]
        raw = reduce(DataFrame.union, every)
        if len(every) > 1:
            raw = raw.groupBy(*_PLACE).agg(
                f.max("event_key").alias("event_key"),
                f.max("passed_over").alias("passed_over"),
                f.max("bytes").alias("bytes"),
            )
        is_none = f.col("letter").isNull() & f.col("event_key").isNull()
        row = (
            raw.join(self.letters, _PLACE, "left")
            .agg(
                f.count(f.lit(1)).alias("read"),
                f.count_if(f.col("letter") == str(Dataset.LATE)).alias("late"),
                f.count_if(f.col("letter") == str(Dataset.DEAD_LETTERS)).alias("dead"),
                f.count_if(is_none & f.col("passed_over")).alias("passed_over"),
                f.count_if(is_none & ~f.col("passed_over")).alias("lost"),
                f.coalesce(f.sum("bytes"), f.lit(0)).alias("bytes"),
            )
            .collect()[0]
        )
        counted = row.read - row.late - row.dead - row.lost - row.passed_over
        return Records(row.read, counted, row.late, row.dead, row.lost, row.bytes, row.passed_over)

    def complete_from(self, declaration: Declaration, raw: DataFrame) -> dict[int, int]:
        """From when on windows have all of their events, by partition."""
        firsts = {p: first for p, first in self.topic.first.items() if first > self._needed(p)}
        newest: dict[int, int] = {}
        if firsts:
            partition = f.col("source_partition")
            is_first = f.col("source_offset") < (
                per_partition(firsts, partition, 0) + f.lit(_FIRST_RECORDS)
            )
            found = self._timed(raw).where(is_first).groupBy(partition)
            rows = found.agg(f.max("time_ms").alias("ms")).collect()
            newest = {row.source_partition: row.ms for row in rows}
        return {
            p: _complete_from(declaration, newest.get(p)) if p in firsts else -_FOREVER_MS
            for p in self.topic.first
        }

    def needed_after(
        self, raws: Sequence[DataFrame], reached: Mapping[int, int], since_ms: Mapping[int, int]
    ) -> dict[int, int]:
        """The first offset of each partition with an event at `since_ms` of it or later."""
        partition = f.col("source_partition")
        is_later = f.col("time_ms") >= per_partition(since_ms, partition, -_FOREVER_MS)
        found: dict[int, int] = {p: last + 1 for p, last in reached.items()}
        for raw in raws:
            firsts = self._timed(raw).where(is_later).groupBy(partition)
            for row in firsts.agg(f.min("source_offset").alias("first")).collect():
                found[row.source_partition] = min(found[row.source_partition], row.first)
        return found

    def _needed(self, partition: int) -> int:
        return self.needed.get(partition, 0)

    def _timed(self, raw: DataFrame) -> DataFrame:
        """The records with a time that were not refused."""
        return raw.where("time_ms IS NOT NULL").join(self.letters, _PLACE, "left_anti")


def _complete_from(declaration: Declaration, newest_of_first: int | None) -> int:
    """From when on the windows of a partition that has lost records have all their events.

    What was counted and is gone had been reached by most of 16 records in a row, or lay no further
    ahead of such a time than lateness and step together, and once more while it waited.
    """
    if newest_of_first is None:
        return _FOREVER_MS
    lateness = declaration.lateness_ms
    return newest_of_first + 2 * (lateness + max(1_000, lateness // 8)) + 1
