"""`slidestat spark audit`: each emitted figure beside the exact one, recomputed from the raw topic.

Records that have a letter (late, dead) are left out; all others must have been counted. The events
of a key go through one Python worker in order of time, which recomputes each of its windows and has
no more of them at once. An emission is judged by the declaration whose fingerprint it has.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import msgspec
from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.types import StructType

from slidestat.errors import SlidestatError
from slidestat.spark.audit.audit_charges import Charges, charges_of
from slidestat.spark.audit.audit_emissions import AuditedEmissions
from slidestat.spark.audit.audit_report import AuditReport, Judged, Records, report_of
from slidestat.spark.audit.audit_workers import (
    SORTED_COLUMNS,
    Auditor,
    Bounds,
    FigureRow,
    auditor,
    event_columns,
    event_reader,
    text_column,
)
from slidestat.spark.audit.declaration import UNMARKED, Declaration, declaration_of
from slidestat.spark.audit.exact_key import KINDS
from slidestat.spark.errors import in_words
from slidestat.spark.lake.declarations import KnownDeclarations, reading_groups
from slidestat.spark.lake.kafka_options import kafka_options
from slidestat.spark.lake.kafka_topic import TopicState, topic_state
from slidestat.spark.lake.lake import AUDIT, Dataset, Lake
from slidestat.spark.lake.lake_files import LakeFiles
from slidestat.spark.lake.wire_columns import struct_type

_FOREVER_MS = 2**62
# Enough to see how far the records before them had come.
_FIRST_RECORDS = 32
# A sample of keys is told to the millionth.
_PARTS = 1_000_000


@dataclass(frozen=True)
class Audit:
    """An audit of what a lake has of a topology, against the raw topic on the brokers.

    `declared` is the topology in plain tables: emissions without a fingerprint are judged by it,
    others by their own declarations. `allow_loss` leaves out the windows whose events the broker
    has deleted. Of a `sample` below 1 the figures of so large a share of keys are recomputed, by a
    hash of each: the same keys in every audit; all records are accounted for in any case.
    """

    spark: SparkSession
    bootstrap: str
    lake: Lake
    declared: Mapping[str, object]
    allow_loss: bool = False
    say: Callable[[str], None] = print
    sample: float = 1.0

    def __post_init__(self) -> None:
        if not 1 / _PARTS <= self.sample <= 1:
            raise SlidestatError(
                f"--sample is {self.sample:g}.",
                "Give a share from 0.000001 to 1, such as 0.01.",
            )

    def run(self) -> AuditReport:
        """Recompute and compare; the figures go to the lake's folder `audit`, replacing the last
        audit's. Raises SlidestatError if there is nothing to audit, events are gone, or emissions
        are of a declaration that the lake does not know.
        """
        with in_words(f"The audit of {self.lake.topology}", "Run it again."):
            return self._run()

    def _run(self) -> AuditReport:
        emissions = AuditedEmissions(self.spark, self.lake)
        reached, emission_bytes = emissions.reached()
        emitted_until = emissions.emitted_until()
        marks = emissions.marks()
        known = KnownDeclarations(self.spark, self.lake, self.declared)
        declarations = known.of(marks)
        self._require_known_kinds(declarations)
        charges = None
        if len(marks) > 1:
            every = {mark: declaration.every_ms for mark, declaration in declarations.items()}
            charges = charges_of(emissions.turns(), every)
        letters = self._letters()
        groups = [(group, self._raw(group, reached)) for group in reading_groups(declarations)]
        for _, raw in groups:
            raw.persist()
        try:
            records = self._records([raw for _, raw in groups], letters)
            mode = "overwrite"
            for group, raw in groups:
                counted = raw.where("event_key IS NOT NULL").join(
                    letters, ["source_partition", "source_offset"], "left_anti"
                )
                timed = raw.where("time_ms IS NOT NULL").join(
                    letters, ["source_partition", "source_offset"], "left_anti"
                )
                bounds = self._bounds(group, timed, emitted_until, charges)
                # Of a key that all of them publish nothing is due, and nothing is to be recomputed.
                publish = set.intersection(*(set(one.publish) for one in group.values()))
                figures = judged(
                    group,
                    self._sampled(counted.where(~f.col("event_key").isin(*publish))),
                    self._sampled(emissions.rows),
                    auditor(group, bounds),
                    struct_type(FigureRow),
                )
                figures.write.mode(mode).option("compression", "zstd").parquet(
                    self.lake.data(AUDIT)
                )
                mode = "append"
        finally:
            for _, raw in groups:
                raw.unpersist()
        judged_by = [
            Judged(mark, count, mark == UNMARKED or known.is_given(mark))
            for mark, count in marks.items()
        ]
        report = report_of(
            self.spark, self.lake, declarations.values(), records, emission_bytes, judged_by
        )
        published = sorted({key for one in declarations.values() for key in one.publish})
        report = msgspec.structs.replace(report, sample=self.sample, published=published)
        LakeFiles(self.spark).write(self.lake.summary, msgspec.json.encode(report).decode())
        return report

    def _sampled(self, rows: DataFrame) -> DataFrame:
        """The rows of the keys to be judged, and those of no key."""
        if self.sample == 1:
            return rows
        key = f.col("event_key")
        place = f.pmod(f.xxhash64(key), f.lit(_PARTS))
        return rows.where(key.isNull() | (place < round(self.sample * _PARTS)))

    @staticmethod
    def _require_known_kinds(declarations: Mapping[str, Declaration]) -> None:
        kinds = {s.kind for declaration in declarations.values() for s in declaration.statistics}
        if unknown_kinds := kinds - KINDS:
            raise SlidestatError(
                f"An audit cannot recompute {', '.join(sorted(unknown_kinds))}.",
                "Audit it with the version of slidestat that has it.",
            )

    @cached_property
    def _source(self) -> str:
        return declaration_of(self.declared).source

    @cached_property
    def _topic(self) -> TopicState:
        return topic_state(self.bootstrap, self._source)

    def _letters(self) -> DataFrame:
        """The places of the records that were refused, and as what."""
        parts = [
            self.lake.read(self.spark, dataset)
            .where(f.col("topology") == self.lake.topology)
            .where(f.col("topic") == self._source)
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

    def _raw(self, group: Mapping[str, Declaration], reached: dict[int, int]) -> DataFrame:
        """The events that emissions may rest on, as declarations of one `group` read them; a record
        that is none has a null key.
        """
        source, topic = self._source, self._topic
        ends = {p: reached.get(p, -1) + 1 for p in topic.end}
        gone = {p: 0 for p in topic.end if ends[p]}
        if lost := topic.lost_before({p: gone.get(p, topic.first[p]) for p in topic.end}):
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
        declaration = next(iter(group.values()))
        return records.mapInArrow(event_reader(declaration), event_columns(declaration))

    @staticmethod
    def _records(raws: list[DataFrame], letters: DataFrame) -> Records:
        """Count the records by outcome; one is an event if any declaration can read it."""
        common = ["source_partition", "source_offset", "event_key", "passed_over", "bytes"]
        raw = reduce(DataFrame.union, [one.select(*common) for one in raws])
        if len(raws) > 1:
            raw = raw.groupBy("source_partition", "source_offset").agg(
                f.max("event_key").alias("event_key"),
                f.max("passed_over").alias("passed_over"),
                f.max("bytes").alias("bytes"),
            )
        is_none = f.col("letter").isNull() & f.col("event_key").isNull()
        row = (
            raw.join(letters, ["source_partition", "source_offset"], "left")
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

    def _bounds(
        self,
        group: Mapping[str, Declaration],
        timed: DataFrame,
        emitted_until: dict[int, int],
        charges: Charges | None,
    ) -> dict[tuple[int, str], Bounds]:
        starts = self._topic.first
        start_of = f.create_map(*(f.lit(number) for pair in starts.items() for number in pair))
        is_first = f.col("source_offset") < start_of[f.col("source_partition")] + _FIRST_RECORDS
        firsts = timed.where(is_first).groupBy("source_partition").agg(f.max("time_ms").alias("ms"))
        newest_of_first = {row.source_partition: row.ms for row in firsts.collect()}
        found = {}
        for partition, start in starts.items():
            for mark, declaration in group.items():
                place = partition, mark
                complete = -_FOREVER_MS
                if start:
                    complete = _complete_from(declaration, newest_of_first.get(partition))
                found[place] = Bounds(emitted_until.get(partition, -_FOREVER_MS), complete)
                if charges is not None:
                    found[place] = found[place]._replace(charges=charges.get(place, ()))
        return found


def _complete_from(declaration: Declaration, newest_of_first: int | None) -> int:
    """From when on the windows of a partition that has lost records have all their events.

    What was counted and is gone had been reached by most of 16 records in a row, or lay no further
    ahead of such a time than lateness and step together, and once more while it waited.
    """
    if newest_of_first is None:
        return _FOREVER_MS
    lateness = declaration.lateness_ms
    return newest_of_first + 2 * (lateness + max(1_000, lateness // 8)) + 1


def judged(
    group: Mapping[str, Declaration],
    counted: DataFrame,
    emissions: DataFrame,
    audit: Auditor,
    columns: StructType | str,
) -> DataFrame:
    """Have `audit` go through all keys. Spark sorts what there is of a key, on disk if it is much,
    and no task holds more of it than its windows have.
    """
    texts = [text_column(n) for n in range(len(next(iter(group.values())).columns))]
    nothing = {"declaration": "string", "value": "binary"}
    keys = [f.col("source_partition"), f.col("event_key")]
    events = counted.select(
        *keys,
        f.col("time_ms").alias("at"),
        f.lit(True).alias("is_event"),
        f.col("source_offset").alias("place"),
        *(f.lit(None).cast(kind).alias(name) for name, kind in nothing.items()),
        *texts,
    )
    emitted = emissions.select(
        *keys,
        f.col("window_end_ms").alias("at"),
        f.lit(False).alias("is_event"),
        "place",
        *nothing,
        *(f.lit(None).cast("string").alias(name) for name in texts),
    )
    return (
        events.union(emitted)
        .repartition(*keys)
        .sortWithinPartitions(*SORTED_COLUMNS)
        .mapInArrow(audit, columns)
    )
