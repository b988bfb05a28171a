"""The emissions of a topology in a lake, as an audit looks at them."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar
from zlib import crc32

from pyspark.sql import Column, DataFrame, SparkSession, functions as f
from pyspark.sql.window import Window

from slidestat.errors import SlidestatError
from slidestat.spark.audit.declaration import FOREVER_MS, Charge, Declaration, Turn
from slidestat.spark.audit.progress import Progress, per_partition
from slidestat.spark.lake.lake import Dataset, Lake, declaration_mark, is_unreadable

# Beyond all times and numbers of a sequence; Kafka's partition numbers have 32 bits.
_LATEST_MS = 2**60
_LARGEST_PARTITION = 2**31 - 1
_SAME = ["source_partition", "event_key", "window_end_ms", "value"]
# No fingerprint of a declaration.
_JUDGED = "judged before"


@dataclass(frozen=True)
class AuditedEmissions:
    """The emissions of a topology in a lake; each question is a pass over them."""

    spark: SparkSession
    lake: Lake
    dataset: ClassVar = Dataset.STATISTICS
    # The column of what a record is of.
    of: ClassVar = "event_key"

    @cached_property
    def rows(self) -> DataFrame:
        """Return source_partition, source_offset, event_key, window_end_ms, place on the topic,
        value, and the fingerprint of the declaration, "" without one.
        """
        return self._own_rows

    def of_streams(self, runs: DataFrame) -> DataFrame:
        """Return runs of events with the columns that join the rows: partition and key."""
        return runs

    @cached_property
    def _own_rows(self) -> DataFrame:
        return self._all.where(f.col("topology") == self.lake.topology).select(
            f.col(self.of).alias("event_key"),
            # The type of the raw records: keys of another width would not meet.
            f.col("source_partition").cast("int").alias("source_partition"),
            "source_offset",
            "window_end_ms",
            # The rows of a backfill were on no topic; they are in the order of the records.
            f.coalesce("record_offset", "source_offset").alias("place"),
            declaration_mark().alias("declaration"),
            "value",
            f.coalesce("provisional", f.lit(False)).alias("provisional"),
            "record_partition",
        )

    @cached_property
    def _all(self) -> DataFrame:
        return self.lake.read(self.spark, self.dataset)

    def reached(self) -> tuple[dict[int, int], int]:
        """Return the last offset of each partition that emissions rest on, and their bytes.

        Raises SlidestatError for rows that are no emissions, and if there are none of the topology.
        """
        own = f.col("topology") == self.lake.topology
        groups = (
            self._all.groupBy(
                (is_unreadable(self.dataset) | ~_is_possible()).alias("unreadable"),
                own.alias("own"),
                "source_partition",
            )
            .agg(
                f.count(f.lit(1)).alias("rows"),
                f.max("source_offset").alias("reached"),
                f.sum(f.length("value")).alias("bytes"),
            )
            .collect()
        )
        folder = self.lake.data(self.dataset)
        if unreadable := sum(group.rows for group in groups if group.unreadable):
            raise SlidestatError(
                f"{unreadable:,} records of {folder} are no emissions.",
                "Look at their `value`; something else writes to the topic of the statistics.",
            )
        found = [group for group in groups if group.own]
        if not found:
            raise SlidestatError(
                f"{folder} has no emission of {self.lake.topology!r}.",
                "Check --lake; emissions of other topologies are not its.",
            )
        reached = {group.source_partition: group.reached for group in found}
        return reached, sum(group.bytes for group in found)

    def emitted_until(self) -> dict[int, int]:
        """Return the time up to which each partition has emitted all that it will.

        A partition emits in the order of ticks. A lake may have got only the first of the emissions
        that its last record caused, so what is due lies before the first of them. How the
        partition's clock went does not matter: events may wait, also for others to confirm them.
        """
        own = f.col("topology") == self.lake.topology
        place = f.struct("source_offset", -f.col("window_end_ms"))
        last = (
            self._all.where(own & ~f.coalesce("provisional", f.lit(False)))
            .groupBy("source_partition")
            .agg((-f.max(place)["col2"]).alias("tick"))
        )
        return {row.source_partition: row.tick - 1 for row in last.collect()}

    def places(self) -> dict[int, int] | None:
        """Return the last offset of each partition of the topic of statistics; None of a lake that
        a backfill has filled, from no topic.
        """
        found = self.rows.groupBy("record_partition").agg(f.max("place").alias("last")).collect()
        if any(row.record_partition is None for row in found):
            return None
        return {row.record_partition: row.last for row in found}

    def to_judge(self, last: Progress | None) -> DataFrame:
        """Return the rows to be judged after the audit with the progress `last`.

        With them are rows of later ticks that it has judged already, marked as of no declaration,
        so that they are not reported as missing.
        """
        if last is None:
            return self.rows
        judged = self._judged(last).where(~_is_settled(last))
        new = self.rows.where(self._is_new(last)).join(judged, _SAME, "left_anti")
        return new.unionByName(judged.withColumn("declaration", f.lit(_JUDGED)))

    def has_changed(self, last: Progress) -> bool:
        """Return whether there are new emissions of settled ticks, or in place of final ones, that
        differ from those that were judged.
        """
        judged = self._judged(last)
        new = self.rows.where(self._is_new(last)).join(judged, _SAME, "left_anti")
        final = judged.where(~f.col("provisional"))
        late = new.where(_is_settled(last)).select("place")
        other = new.join(final, _SAME[:-1], "left_semi").select("place")
        return not late.union(other).isEmpty()

    def _judged(self, last: Progress) -> DataFrame:
        return self.rows.where(~self._is_new(last))

    @staticmethod
    def _is_new(last: Progress) -> Column:
        return f.col("place") > per_partition(last.judged, f.col("record_partition"), -1)

    def absences(self) -> list[Charge]:
        """Return an empty list: all events of a key are in one partition."""
        return []

    def marks(self) -> dict[str, int]:
        """Return the number of emissions of each declaration, the newest declaration last."""
        found = self.rows.groupBy("declaration").agg(
            f.count(f.lit(1)).alias("rows"), f.max("window_end_ms").alias("last")
        )
        return {row.declaration: row.rows for row in found.orderBy("last").collect()}

    def turns(self) -> list[Turn]:
        """Return the turns at which another declaration takes over, in each partition."""
        ticks = self.rows.groupBy("source_partition", "window_end_ms").agg(
            f.max_by("declaration", "place").alias("mark")
        )
        in_order = Window.partitionBy("source_partition").orderBy("window_end_ms")
        found = (
            ticks.withColumn("before_ms", f.lag("window_end_ms").over(in_order))
            .withColumn("before", f.lag("mark").over(in_order))
            .where("before IS NULL OR before != mark")
            .select("source_partition", "window_end_ms", "before_ms", "mark")
        )
        return [Turn(*row) for row in found.collect()]


def _is_possible() -> Column:
    """Return whether a row's numbers are possible for an emission."""
    return (
        f.col("source_partition").between(0, _LARGEST_PARTITION)
        & (f.col("source_offset") >= 0)
        & f.col("window_end_ms").between(-_LATEST_MS, _LATEST_MS)
    )


def _is_settled(last: Progress) -> Column:
    """Return whether a row is of a tick up to which all was judged."""
    until = per_partition(last.until, f.col("source_partition"), -FOREVER_MS)
    return f.col("window_end_ms") <= until


# The answers of a referee in a lake, as an audit looks at them.
#
# The events of a stream are judged together, whichever partitions they are in; so the streams are
# numbered, in place of partitions. Final answers are judged, those that wait for no party any more:
# each provisional one is replaced by such a one.

_OTHER = -1
_CLOCK = "tick_ms long, tick_seq long, source_offset long"


@dataclass(frozen=True)
class AuditedAnswers(AuditedEmissions):
    """The final answers of a referee, by `declaration`; its source has so many `partitions`."""

    declaration: Declaration
    partitions: int

    @cached_property
    def rows(self) -> DataFrame:
        """Return the columns as of a topology; `source_partition` is the number of the stream."""
        return self._own_rows.where(~f.col("provisional")).withColumn(
            "source_partition", self._number_of(f.col("event_key"))
        )

    def of_streams(self, runs: DataFrame) -> DataFrame:
        """Return runs of events with the column that joins the rows: the number of their stream."""
        return runs.withColumn("source_partition", self._number_of(f.col("event_key")))

    def reached(self) -> tuple[dict[int, int], int]:
        """Return the last offset that final answers rest on, of each partition of the parties'
        source, and the answers' bytes.

        Raises SlidestatError as of a topology, and where no answer is final.
        """
        _, size = super().reached()
        last = self.rows.agg(f.max("window_end_ms").alias("tick")).collect()[0].tick
        if last is None:
            raise SlidestatError(
                f"{self.lake.data(self.dataset)} has no final answer of {self.lake.topology!r}.",
                "Let all parties come to a tick, ingest again, then audit.",
            )
        # A party's states up to a tick have the events before it. Where a clock of that very tick
        # is gone, by compaction, the next one means the same and more.
        clocks = self._clocks()
        first_after = f.min(f.when(f.col("tick") >= last, f.struct("tick", "offset")))
        found = clocks.groupBy("party").agg(
            f.coalesce(first_after, f.max(f.struct("tick", "offset")))["offset"].alias("offset")
        )
        return {row.party: row.offset for row in found.collect()}, size

    def emitted_until(self) -> dict[int, int]:
        """Return the time up to which each stream, by its number, is answered: the time of its
        partition of the topic of synopses.
        """
        until = super().emitted_until()
        found = self._own_rows.groupBy("event_key").agg(
            f.max_by("source_partition", "place").alias("partition")
        )
        partition_of = {row.event_key: row.partition for row in found.collect()}
        return {
            number: until.get(partition_of.get(stream, self._partition_of(stream)), -FOREVER_MS)
            for number, stream in enumerate(self._streams)
        }

    def absences(self) -> list[Charge]:
        """Return the ticks at which final answers lacked a party: which answers should be there, if
        it was in some of them, is not known.
        """
        absent = self._all.where(f.col("topology") == self.lake.topology).where(
            ~f.coalesce("provisional", f.lit(False)) & f.col("absent").isNotNull()
        )
        found = (
            absent.select("window_end_ms", f.explode("absent").alias("one"))
            .groupBy("one.party", "one.since_ms")
            .agg(f.max("window_end_ms").alias("until"))
            .collect()
        )
        return [
            Charge(-FOREVER_MS if row.since_ms is None else row.since_ms + 1, row.until + 1)
            for row in found
        ]

    @property
    def _streams(self) -> tuple[str, ...]:
        declaration = self.declaration
        return (declaration.source,) if declaration.answers_for_all else declaration.answers_for

    def _number_of(self, key: Column) -> Column:
        numbers = [f.lit(it) for pair in enumerate(self._streams) for it in reversed(pair)]
        return f.coalesce(f.create_map(*numbers)[key], f.lit(_OTHER))

    def _partition_of(self, stream: str) -> int:
        """Return the partition of the topic of synopses that a stream is in."""
        return 0 if self.declaration.answers_for_all else crc32(stream.encode()) % self.partitions

    def _clocks(self) -> DataFrame:
        """Return the parties' clocks: party, as a partition of the source, tick and offset."""
        key = f.from_json(f.col("key").cast("string"), "array<string>")
        clock = f.from_json(f.col("value").cast("string"), _CLOCK)
        return (
            self.lake.read(self.spark, Dataset.SYNOPSES)
            .select(key.alias("key"), clock.alias("clock"))
            .where((f.size("key") == 2) & (f.col("key")[0] == self.declaration.parties))
            .select(
                f.element_at(f.split(f.col("key")[1], "/"), -1).try_cast("int").alias("party"),
                f.coalesce("clock.tick_ms", "clock.tick_seq").alias("tick"),
                f.col("clock.source_offset").alias("offset"),
            )
        )


@dataclass(frozen=True)
class AuditedRankings(AuditedAnswers):
    """The final rankings of a referee, by `declaration`: `event_key` is the name of a ranking."""

    dataset: ClassVar = Dataset.RANKINGS
    of: ClassVar = "ranking"

    @cached_property
    def rows(self) -> DataFrame:
        """Return the columns as of a topology."""
        return self._own_rows.where(~f.col("provisional"))

    def of_streams(self, runs: DataFrame) -> DataFrame:
        """Return the runs: keys are ranked as they are in their partitions."""
        return runs

    def ticks(self) -> DataFrame:
        """Return declaration, event_key and window_end_ms of all records, provisional ones too."""
        return self._own_rows.select("declaration", "event_key", "window_end_ms")

    def emitted_until(self) -> dict[int, int]:
        """Return the time up to which all is ranked."""
        return AuditedEmissions.emitted_until(self)
