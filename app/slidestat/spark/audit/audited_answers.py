"""The answers of a referee in a lake, as an audit looks at them.

The events of a stream are judged together, whichever partitions they are in; so the streams are
numbered, in place of partitions. Final answers are judged, those that wait for no party any more:
each provisional one is replaced by such a one.
"""

from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from pyspark.sql import Column, DataFrame, functions as f

from slidestat.errors import SlidestatError
from slidestat.spark.audit.audit_charges import Charge
from slidestat.spark.audit.audit_emissions import AuditedEmissions
from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.lake.lake import Dataset

_NEVER_MS = -(2**62)
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
        """Return runs of events with the column on which the rows are joined: the number of their
        stream.
        """
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
                f"{self.lake.data(Dataset.STATISTICS)} has no final answer of"
                f" {self.lake.topology!r}.",
                "Let all parties come to a tick, ingest again, then audit.",
            )
        # What a party has published up to a tick has the events before it. Where a clock of that
        # very tick is gone, by compaction, the next one means the same and more.
        clocks = self._clocks()
        first_after = f.min(f.when(f.col("tick") >= last, f.struct("tick", "offset")))
        found = clocks.groupBy("party").agg(
            f.coalesce(first_after, f.max(f.struct("tick", "offset")))["offset"].alias("offset")
        )
        return {row.party: row.offset for row in found.collect()}, size

    def emitted_until(self) -> dict[int, int]:
        """Return the time up to which all is answered of each stream, by its number: that of the
        partition of the topic of synopses that it is in.
        """
        until = super().emitted_until()
        found = self._own_rows.groupBy("event_key").agg(
            f.max_by("source_partition", "place").alias("partition")
        )
        partition_of = {row.event_key: row.partition for row in found.collect()}
        return {
            number: until.get(partition_of.get(stream, self._partition_of(stream)), _NEVER_MS)
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
            Charge(_NEVER_MS if row.since_ms is None else row.since_ms + 1, row.until + 1)
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
        """Return the clocks of the parties: party, as a partition of the source, tick and
        offset.
        """
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
