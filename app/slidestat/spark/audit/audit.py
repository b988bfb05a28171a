"""`slidestat spark audit`: each emitted figure beside the exact one, recomputed from the raw topic.

Records that have a letter (late, dead) are left out; all others must have been counted. The events
of a key come together in one Python worker, which recomputes each of its windows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions as f

from slidestat.errors import SlidestatError
from slidestat.spark.audit.audit_report import AuditReport, Records, report_of
from slidestat.spark.audit.audit_workers import EVENT_COLUMNS, FigureRow, auditor, event_reader
from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.audit.exact_key import KINDS
from slidestat.spark.faults import in_words
from slidestat.spark.lake.kafka_options import kafka_options
from slidestat.spark.lake.kafka_topic import topic_state
from slidestat.spark.lake.lake import AUDIT, Dataset, Lake, is_unreadable
from slidestat.spark.lake.lake_files import LakeFiles
from slidestat.spark.lake.wire_columns import struct_type

_FOREVER_MS = 2**62
_NEVER_MS = -(2**62)
# Enough to see how far the records before them had come.
_FIRST_RECORDS = 32


@dataclass(frozen=True)
class Audit:
    """An audit of what a lake has of a topology, against the raw topic on the brokers.

    `allow_loss` leaves out the windows whose events the broker has deleted.
    """

    spark: SparkSession
    bootstrap: str
    lake: Lake
    declaration: Declaration
    allow_loss: bool = False
    say: Callable[[str], None] = print

    def run(self) -> AuditReport:
        """Recompute and compare; the figures go to the lake's folder `audit`, replacing the last
        audit's. Raises SlidestatError if there is nothing to audit, or events are gone.
        """
        if unknown_kinds := {s.kind for s in self.declaration.statistics} - KINDS:
            raise SlidestatError(
                f"An audit cannot recompute {', '.join(sorted(unknown_kinds))}.",
                "Audit it with the version of slidestat that has it.",
            )
        with in_words(f"The audit of {self.declaration.name}", "Run it again."):
            return self._run()

    def _run(self) -> AuditReport:
        rows = self.lake.read(self.spark, Dataset.STATISTICS)
        reached, emission_bytes = self._reached(rows)
        emissions = self._emissions(rows)
        letters = self._letters()
        raw = self._raw(reached)
        raw.persist()
        try:
            records = self._records(raw, letters)
            counted = raw.where("event_key IS NOT NULL").join(
                letters, ["source_partition", "source_offset"], "left_anti"
            )
            figures = self._figures(counted, emissions, self._emitted_until(rows))
            figures.write.mode("overwrite").option("compression", "zstd").parquet(
                self.lake.data(AUDIT)
            )
        finally:
            raw.unpersist()
        report = report_of(self.spark, self.lake, self.declaration, records, emission_bytes)
        LakeFiles(self.spark).write(self.lake.summary, msgspec.json.encode(report).decode())
        return report

    def _reached(self, rows: DataFrame) -> tuple[dict[int, int], int]:
        """The last offset that emissions rest on, of each partition, and the emissions' bytes.

        Raises SlidestatError for rows that are no emissions, and if there are none of the topology.
        """
        own = f.col("topology") == self.declaration.name
        groups = (
            rows.groupBy(
                is_unreadable(Dataset.STATISTICS).alias("unreadable"),
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
        folder = self.lake.data(Dataset.STATISTICS)
        if unreadable := sum(group.rows for group in groups if group.unreadable):
            raise SlidestatError(
                f"{unreadable:,} records of {folder} are no emissions.",
                "Look at their `value`; something else writes to the topic of the statistics.",
            )
        found = [group for group in groups if group.own]
        if not found:
            raise SlidestatError(
                f"{folder} has no emission of {self.declaration.name!r}.",
                "Check --lake; emissions of other topologies are not its.",
            )
        reached = {group.source_partition: group.reached for group in found}
        return reached, sum(group.bytes for group in found)

    def _emissions(self, rows: DataFrame) -> DataFrame:
        return rows.where(f.col("topology") == self.declaration.name).select(
            "event_key",
            # As of the raw records: keys of another width would not meet.
            f.col("source_partition").cast("int").alias("source_partition"),
            "source_offset",
            "record_offset",
            "value",
        )

    def _letters(self) -> DataFrame:
        """The places of the records that were refused, and as what."""
        parts = [
            self.lake.read(self.spark, dataset)
            .where(f.col("topology") == self.declaration.name)
            .where(f.col("topic") == self.declaration.source)
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
        for part in parts:
            none = none.union(part)
        return none.dropDuplicates(["source_partition", "source_offset"])

    def _raw(self, reached: dict[int, int]) -> DataFrame:
        """The events that emissions may rest on; a record that is none has a null key."""
        source = self.declaration.source
        topic = topic_state(self.bootstrap, source)
        ends = {p: reached.get(p, -1) + 1 for p in topic.end}
        gone = {p: 0 for p in topic.end if ends[p]}
        if lost := topic.lost_before({p: gone.get(p, topic.first[p]) for p in topic.end}):
            told = f"{source} no longer has " + "; ".join(lost)
            if not self.allow_loss:
                raise SlidestatError(
                    f"{told}: the windows that they were in cannot be recomputed.",
                    "Give --allow-loss to audit the others.",
                )
            self.say(f"{told}: the windows that they were in are left out.")
        if beyond := [p for p, end in ends.items() if end > topic.end[p]]:
            raise SlidestatError(
                f"Emissions rest on records of {source} that partition {beyond[0]} does not have.",
                "It was deleted and made anew, or the lake is of another broker: check --lake.",
            )
        starts = {p: min(topic.first[p], ends[p]) for p in ends}
        records = (
            self.spark.read.format("kafka")
            .options(**kafka_options(self.bootstrap))
            .option("subscribe", source)
            .option("startingOffsets", json.dumps({source: starts}))
            .option("endingOffsets", json.dumps({source: ends}))
            .load()
            .select("partition", "offset", "key", "value", f.unix_millis("timestamp").alias("ms"))
        )
        return records.mapInArrow(event_reader(self.declaration), EVENT_COLUMNS)

    def _records(self, raw: DataFrame, letters: DataFrame) -> Records:
        row = (
            raw.join(letters, ["source_partition", "source_offset"], "left")
            .agg(
                f.count(f.lit(1)).alias("read"),
                f.count_if(f.col("letter") == str(Dataset.LATE)).alias("late"),
                f.count_if(f.col("letter") == str(Dataset.DEAD_LETTERS)).alias("dead"),
                f.count_if(f.col("letter").isNull() & f.col("event_key").isNull()).alias("lost"),
                f.coalesce(f.sum("bytes"), f.lit(0)).alias("bytes"),
            )
            .collect()[0]
        )
        counted = row.read - row.late - row.dead - row.lost
        return Records(row.read, counted, row.late, row.dead, row.lost, row.bytes)

    def _figures(
        self, counted: DataFrame, emissions: DataFrame, watermarks: dict[int, int]
    ) -> DataFrame:
        starts = topic_state(self.bootstrap, self.declaration.source).first
        start_of = f.create_map(*(f.lit(number) for pair in starts.items() for number in pair))
        is_first = f.col("source_offset") < start_of[f.col("source_partition")] + _FIRST_RECORDS
        firsts = (
            counted.where(is_first).groupBy("source_partition").agg(f.max("time_ms").alias("ms"))
        )
        newest_of_first = {row.source_partition: row.ms for row in firsts.collect()}
        complete = {
            partition: self._complete_from(newest_of_first.get(partition)) if start else _NEVER_MS
            for partition, start in starts.items()
        }
        keys = ["source_partition", "event_key"]
        audit = auditor(self.declaration, watermarks, complete)
        return (
            counted.groupBy(*keys)
            .cogroup(emissions.groupBy(*keys))
            .applyInArrow(audit, struct_type(FigureRow))
        )

    def _emitted_until(self, rows: DataFrame) -> dict[int, int]:
        """Up to when each partition has emitted all that it will.

        A partition emits in the order of ticks. Of those that its last record gave a lake may have
        got the first ones only, so what is due is what lies before the first of them. How the
        partition's clock went does not matter: events may wait, also for others to confirm them.
        """
        own = f.col("topology") == self.declaration.name
        place = f.struct("source_offset", -f.col("window_end_ms"))
        last = (
            rows.where(own & ~f.coalesce("provisional", f.lit(False)))
            .groupBy("source_partition")
            .agg((-f.max(place)["col2"]).alias("tick"))
        )
        return {row.source_partition: row.tick - 1 for row in last.collect()}

    def _complete_from(self, newest_of_first: int | None) -> int:
        """From when on the windows of a partition that has lost records have all their events.

        What was counted and is gone had been reached by most of 16 records in a row, or lay no
        further ahead of such a time than lateness and step together, and once more while it waited.
        """
        if newest_of_first is None:
            return _FOREVER_MS
        lateness = self.declaration.lateness_ms
        return newest_of_first + 2 * (lateness + max(1_000, lateness // 8)) + 1
