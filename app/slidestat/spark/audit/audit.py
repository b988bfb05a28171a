"""`slidestat spark audit`: emitted figures compared with exact ones, recomputed from the raw topic.

Records that have a letter (late, dead) are left out; all others must have been counted. The events
of a key go through one Python worker in order of time, which recomputes each of its windows and has
no more of them at once. An emission is judged by the declaration whose fingerprint it has. For a
referee, a key is a stream over all partitions (`emissions.py`).
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, reduce

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession, functions as f
from pyspark.sql.types import StructType

from slidestat.errors import SlidestatError
from slidestat.options import AUDITED_SHARE
from slidestat.spark.audit.calendar import require_rules
from slidestat.spark.audit.declaration import (
    ALWAYS,
    FOREVER_MS,
    UNMARKED,
    Charge,
    Declaration,
    charges_of,
    declaration_of,
    without,
)
from slidestat.spark.audit.emissions import AuditedAnswers, AuditedEmissions, AuditedRankings
from slidestat.spark.audit.events.reading import (
    RECORD_COLUMNS,
    Asked,
    Tally,
    reader_of,
    reading_columns,
)
from slidestat.spark.audit.events.runs import run_columns
from slidestat.spark.audit.exact_key import KINDS
from slidestat.spark.audit.progress import Progress, reach_of
from slidestat.spark.audit.rankings import audited_rankings
from slidestat.spark.audit.report import AuditReport, Judged, Records, audit_of, report_of
from slidestat.spark.audit.workers import SORTED_COLUMNS, Auditor, Bounds, FigureRow, auditor
from slidestat.spark.errors import in_words
from slidestat.spark.kafka import TopicState, kafka_options, topic_state
from slidestat.spark.lake.declarations import KnownDeclarations, reading_groups
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import AUDIT, Dataset, Lake
from slidestat.spark.lake.locks import locked
from slidestat.spark.lake.wire_columns import struct_type

# Enough to see how far the records before them had come.
_FIRST_RECORDS = 32
# With fewer letters than this they are brought to each task, rather than records to them: some 40
# MB.
_BROADCAST = 500_000


@dataclass(frozen=True)
class AuditedSource:
    """The source of what is `declared`, from the first offset on that is `needed` of each
    partition: its first one, unless it continues an earlier audit.

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
        """Return the records with the sort of letter that refused each, null for counted ones."""
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
    tally, by the number of the reading and the partition. Partitions that `lack` records lack the
    first ones.
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
            else -FOREVER_MS
            for p in self.topic.first
        }

    def _newest_of_first(self, reading: int, partition: int) -> int | None:
        row = self.tallies.get((reading, partition))
        return None if row is None or row.newest_of_first == -FOREVER_MS else row.newest_of_first

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
    """Return the time from which the windows of a partition that lost records have all events.

    A counted record that is gone was no later than a time that most of 16 records in a row had
    reached, or ahead of such a time by at most lateness and step together, and by as much again
    while it waited.
    """
    if newest_of_first is None:
        return FOREVER_MS
    lateness = declaration.lateness_ms
    return newest_of_first + 2 * (lateness + max(1_000, lateness // 8)) + 1


# Fields that both a run and an emission have.
_COMMON = ("event_key", "at")
# The share of a sample of keys is given to the millionth.
_PARTS = 1_000_000


@dataclass(frozen=True)
class Audit:
    """An audit of what a lake has of a topology or a referee, against the raw topic on the brokers.

    `declared` is the topology in plain tables: emissions without a fingerprint are judged by it,
    others by their own declarations. `allow_loss` leaves out the windows whose events the broker
    has deleted. With a `sample` below 1 the figures of this share of keys are recomputed, by a hash
    of each: the same keys in every audit; all records are accounted for in any case.

    `since_last` continues from the last audit: what has come since is audited, from the events that
    its windows have, and the report is of all audits together. `say` gets a message where all is
    audited in spite of it.
    """

    spark: SparkSession
    bootstrap: str
    lake: Lake
    declared: Mapping[str, object]
    allow_loss: bool = False
    say: Callable[[str], None] = print
    sample: float = AUDITED_SHARE
    since_last: bool = False

    def __post_init__(self) -> None:
        if not 1 / _PARTS <= self.sample <= 1:
            raise SlidestatError(
                f"--sample is {self.sample:g}.", "Give a share from 0.000001 to 1, such as 0.01."
            )
        if self.sample < 1 and self._given.rankings:
            raise SlidestatError(
                f"{self._given.name} writes rankings, and each is of all keys.",
                "Leave --sample out.",
            )

    def run(self) -> AuditReport:
        """Recompute and compare. The figures go to the lake's folder `audit`, and replace the
        figures of audits that this one does not continue. Raises SlidestatError if there is nothing
        to audit, events are gone, or emissions are of a declaration that the lake does not know,
        and while another audit writes there.
        """
        dataset = Dataset.RANKINGS if self._given.rankings else Dataset.STATISTICS
        self.lake.read(self.spark, dataset)  # So that no folder is made where none is.
        alone = locked(self.spark, self.lake, "audit", self.say, path=self.lake.audit_lock)
        with in_words(f"The audit of {self.lake.topology}", "Run it again."), alone:
            return self._run()

    def _run(self) -> AuditReport:
        emissions = self._emissions()
        reached, emission_bytes = emissions.reached()
        marks = emissions.marks()
        known = KnownDeclarations(self.spark, self.lake, self.declared)
        declarations = known.of(marks)
        self._require_known_kinds(declarations)
        for declaration in declarations.values():
            if declaration.time_zone:
                require_rules(declaration.time_zone, declaration.time_zone_rules)
        reach_ms = reach_of(declarations.values())
        before = self._before(emissions, reach_ms)
        last = None if before is None else before.progress
        groups = reading_groups(declarations)
        readings = [next(iter(group.values())) for group in groups]
        until, places = emissions.emitted_until(), emissions.places()
        source = self._source({} if last is None else last.needed)
        after = {} if last is None else last.reached
        since = self._later_windows_since(source, until, reach_ms)
        in_charge = self._in_charge(emissions, declarations, last)
        part, mode = self._part(last), "overwrite"
        with source.read(readings, reached, after, since) as read:
            records = read.records()
            for number, group in enumerate(groups):
                bounds = self._bounds(group, read, number, until, in_charge)
                figures = self._figures(emissions, group, read, number, bounds, last)
                figures.write.mode(mode).option("compression", "zstd").parquet(part)
                mode = "append"
            progress = None
            if places is not None and reach_ms is not None and not self._given.rankings:
                parts = 1 if last is None else last.parts + 1
                needed = read.needed_after(reached)
                progress = Progress(parts, self.sample, reach_ms, reached, needed, until, places)
        if last is None:
            self._replace_figures()
        report = report_of(
            self.spark,
            self.lake,
            declarations.values(),
            records if before is None else before.records.plus(records),
            emission_bytes,
            [
                Judged(mark, count, mark == UNMARKED or known.is_given(mark))
                for mark, count in marks.items()
            ],
        )
        report = msgspec.structs.replace(
            report,
            sample=self.sample,
            published=sorted({key for one in declarations.values() for key in one.publish}),
            of_rankings=bool(self._given.rankings),
            progress=progress,
        )
        LakeFiles(self.spark).write(self.lake.summary, msgspec.json.encode(report).decode())
        return report

    def _figures(
        self,
        emissions: AuditedEmissions,
        group: Mapping[str, Declaration],
        read: ReadSource,
        number: int,
        bounds: Mapping[tuple[int, str], Bounds],
        last: Progress | None,
    ) -> DataFrame:
        """Return the findings about what was emitted by declarations with the reading `number`."""
        # For a key that all of them publish, nothing is due and nothing is to be recomputed.
        publish = set.intersection(*(set(one.publish) for one in group.values()))
        events = read.events(number).where(~f.col("event_key").isin(*publish))
        if isinstance(emissions, AuditedRankings):
            return audited_rankings(
                group,
                events,
                emissions,
                max(read.complete_from(number, read.readings[number]).values()),
                partial(judged, group),
            )
        return judged(
            group,
            self._sampled(emissions.of_streams(events)),
            self._sampled(emissions.to_judge(last)),
            auditor(group, bounds),
            struct_type(FigureRow),
        )

    @staticmethod
    def _in_charge(
        emissions: AuditedEmissions, declarations: Mapping[str, Declaration], last: Progress | None
    ) -> Callable[[int, str], tuple[Charge, ...]]:
        """Return a function of partition and fingerprint: the charges of that declaration there, as
        far as they are not settled.
        """
        charges = None
        if len(declarations) > 1:
            every = {mark: declaration.every_ms for mark, declaration in declarations.items()}
            charges = charges_of(emissions.turns(), every)
        absences = emissions.absences()
        settled = {} if last is None else last.until

        def of(partition: int, mark: str) -> tuple[Charge, ...]:
            found = ALWAYS if charges is None else charges.get((partition, mark), ())
            before = Charge(-FOREVER_MS, settled.get(partition, -FOREVER_MS) + 1)
            return without(found, [*absences, before])

        return of

    def _later_windows_since(
        self, source: AuditedSource, until: Mapping[int, int], reach_ms: int | None
    ) -> dict[int, int]:
        """Return, by partition, from when on there may be events of windows after this audit."""
        if reach_ms is None:
            return {}
        if self._given.parties:
            return dict.fromkeys(source.topic.end, min(until.values()) - reach_ms)
        return {partition: tick - reach_ms for partition, tick in until.items()}

    @staticmethod
    def _bounds(
        group: Mapping[str, Declaration],
        read: ReadSource,
        number: int,
        until: Mapping[int, int],
        in_charge: Callable[[int, str], tuple[Charge, ...]],
    ) -> dict[tuple[int, str], Bounds]:
        found = {}
        for mark, declaration in group.items():
            complete = read.complete_from(number, declaration)
            if declaration.is_of_referee:  # A stream is in all partitions.
                complete = dict.fromkeys(until, max(complete.values()))
            for partition, complete_ms in complete.items():
                found[partition, mark] = Bounds(
                    until.get(partition, -FOREVER_MS), complete_ms, in_charge(partition, mark)
                )
        return found

    def _before(self, emissions: AuditedEmissions, reach_ms: int | None) -> AuditReport | None:
        """Return the audit to continue, None for all. Raises SlidestatError for another sample."""
        if not self.since_last:
            return None
        before = audit_of(self.spark, self.lake)
        progress = None if before is None else before.progress
        why = ""
        if self._given.rankings:
            why = "each ranking is of all keys"
        elif reach_ms is None:
            why = "what it emits may rest on events of any time"
        elif progress is None:
            why = "the lake has no audit that can be gone on from"
        elif progress.reach_ms < reach_ms:
            why = "its windows have become longer since the last audit"
        elif progress.sample != self.sample:
            raise SlidestatError(
                f"The last audit was of a sample of {progress.sample:g}.",
                f"Give --sample {progress.sample:g} again, or leave --since-last out.",
            )
        elif emissions.has_changed(progress):
            why = "emissions have come, or come again otherwise, of windows that were audited"
        if why:
            self.say(f"All of {self.lake.topology} is audited: {why}.")
            return None
        return before

    def _part(self, last: Progress | None) -> str:
        """Return the folder for the figures of this audit: next to those of the audits from which
        it continues, or staged, so that an audit that fails leaves the one before.
        """
        if last is None:
            return f"{self.lake.audit_staging}/part=0"
        return f"{self.lake.data(AUDIT)}/part={last.parts}"

    def _replace_figures(self) -> None:
        """Replace earlier audits' figures by the staged ones, and remove their summary."""
        files = LakeFiles(self.spark)
        files.remove(self.lake.summary)
        files.remove(self.lake.data(AUDIT))
        files.rename(self.lake.audit_staging, self.lake.data(AUDIT))

    def _source(self, needed: Mapping[int, int]) -> AuditedSource:
        return AuditedSource(
            *(self.spark, self.bootstrap, self.lake, self._given),
            *(needed, self.allow_loss, self.say),
        )

    def _emissions(self) -> AuditedEmissions:
        if not self._given.parties:
            return AuditedEmissions(self.spark, self.lake)
        partitions = len(self._source({}).topic.end)
        if self._given.rankings:
            return AuditedRankings(self.spark, self.lake, self._given, partitions)
        return AuditedAnswers(self.spark, self.lake, self._given, partitions)

    def _sampled(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the keys to be judged, and the rows without a key."""
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
    def _given(self) -> Declaration:
        return declaration_of(self.declared)


def judged(
    group: Mapping[str, Declaration],
    events: DataFrame,
    emissions: DataFrame,
    audit: Auditor,
    columns: StructType | str,
) -> DataFrame:
    """Run `audit` over all keys. Spark sorts a key's runs of events and emissions, on disk if they
    are many, and no task holds more of them than its windows have.
    """
    runs = run_columns(len(next(iter(group.values())).columns))
    emitted = {"place": "bigint", "declaration": "string", "value": "binary"}
    keys = [f.col("source_partition"), f.col("event_key")]

    def rows(of: DataFrame, at: str, *, is_event: bool) -> DataFrame:
        nothing = emitted if is_event else {n: kind for n, kind in runs.items() if n not in _COMMON}
        others = runs if is_event else emitted
        return of.select(
            *keys,
            f.col(at).alias("at"),
            f.lit(is_event).alias("is_event"),
            *(f.col(name) for name in others if name not in _COMMON),
            *(f.lit(None).cast(kind).alias(name) for name, kind in nothing.items()),
        )

    return (
        rows(events, "at", is_event=True)
        .unionByName(rows(emissions, "window_end_ms", is_event=False))
        .repartition(*keys)
        .sortWithinPartitions(*SORTED_COLUMNS)
        .mapInArrow(audit, columns)
    )
