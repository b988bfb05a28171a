"""Sum up the result of an audit for a person."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from pyspark.sql import Column, Row, SparkSession, functions as f
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slidestat.options import AUDITED_SHARE
from slidestat.spark.audit.declaration import Declaration, labels_of, least_confidence
from slidestat.spark.audit.progress import Progress
from slidestat.spark.audit.verdict import BY_CHANCE
from slidestat.spark.audit.workers import FigureRow
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import AUDIT, Lake
from slidestat.spark.lake.wire_columns import struct_type

_SAMPLES = 10
# Percentiles are right to one in so many.
_RANKS = 10_000


class Records(msgspec.Struct, frozen=True):
    """The counts of raw records by outcome, up to the last one that an emission rests on; `bytes`
    are those of their values.
    """

    read: int
    counted: int
    late: int
    dead: int
    unaccounted: int
    bytes: int
    passed_over: int = 0

    def plus(self, more: "Records") -> "Records":
        """Return these and further ones."""
        both = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(more), strict=True)
        return Records(*(one + other for one, other in both))


class StatisticSummary(msgspec.Struct, frozen=True):
    """The summary of a statistic's figures: how far off, in `unit`, and how many violate."""

    statistic: str
    unit: str
    confidence: float
    figures: int
    promised: float
    median: float
    p99: float
    worst: float
    faults: int

    @property
    def is_kept(self) -> bool:
        """Return whether the statistic misses at most as often as its confidence allows."""
        return self.faults <= (1 - self.confidence) * self.figures


class Judged(msgspec.Struct, frozen=True):
    """A declaration, by its fingerprint, "" of emissions without one; how many emissions it had,
    and whether it is the one that was given.
    """

    declaration: str
    emissions: int
    is_given: bool


class AuditReport(msgspec.Struct, frozen=True):
    """The outcome of an audit. `broken` are samples of violations, one line each; `judged` are the
    declarations by which emissions were judged, the newest last. `sample` is the share of keys
    whose figures were judged; `published` are keys that a referee answers for. With `of_rankings`
    the emissions are rankings.
    """

    records: Records
    emissions: int
    emission_bytes: int
    statistics: list[StatisticSummary]
    other_faults: int
    broken: list[str]
    judged: list[Judged] = []
    sample: float = AUDITED_SHARE
    published: list[str] = []
    of_rankings: bool = False
    # Useless to a person: an audit that can be continued has one.
    progress: Progress | None = None

    @property
    def is_clean(self) -> bool:
        """Return whether every promise was kept."""
        kept = all(statistic.is_kept for statistic in self.statistics)
        return kept and not self.other_faults and not self.records.unaccounted


def report_of(
    spark: SparkSession,
    lake: Lake,
    declarations: Iterable[Declaration],
    records: Records,
    emission_bytes: int,
    judged: list[Judged],
) -> AuditReport:
    rows = spark.read.schema(struct_type(FigureRow)).parquet(lake.data(AUDIT))
    # The statistic of missing and of strange emissions is null.
    groups = (
        rows.groupBy("statistic")
        .agg(
            f.max("unit").alias("unit"),
            f.min("confidence").alias("confidence"),
            f.count(f.lit(1)).alias("figures"),
            f.max("promised").alias("promised"),
            # Exact ones would have all different errors in memory.
            f.percentile_approx("observed", [0.5, 0.99], _RANKS).alias("percentiles"),
            f.max("observed").alias("worst"),
            f.count_if(f.col("fault") != "").alias("faults"),
            f.count_if(_is_certain()).alias("certain"),
        )
        .collect()
    )
    declarations = list(declarations)
    order = {label: place for place, label in enumerate(labels_of(declarations))}
    sure = {s.label: least_confidence(s) for d in declarations for s in d.statistics}
    others, summaries = 0, []
    for row in sorted(groups, key=lambda row: order.get(row.statistic, len(order))):
        # The declared confidence at least, whatever the figures' own fields promise.
        confidence = max(row.confidence or 0.0, sure.get(row.statistic, 1.0))
        excused = row.statistic is not None and confidence < 1
        if row.statistic is None or excused:
            others += row.certain
        if row.statistic is None:
            continue
        percentiles = row.percentiles or (0.0, 0.0)
        summaries.append(
            StatisticSummary(
                *(row.statistic, row.unit or "", confidence, row.figures, row.promised or 0.0),
                *(percentiles[0] or 0.0, percentiles[1] or 0.0, row.worst or 0.0),
                row.faults - row.certain * excused,
            )
        )
    broken = [summary.statistic for summary in summaries if not summary.is_kept]
    sample: list[Row] = []
    if broken or others:
        is_broken = _is_certain() | f.col("statistic").isin(broken)
        violating = rows.where("fault != ''").where(is_broken)
        sample = violating.orderBy("window_end_ms", "event_key").limit(_SAMPLES).collect()
    return AuditReport(
        records,
        rows.where("statistic IS NOT NULL").select("event_key", "window_end_ms").distinct().count(),
        emission_bytes,
        summaries,
        others,
        [_line(row) for row in sample],
        judged,
    )


def _is_certain() -> Column:
    """Return whether a row is a violation that chance does not excuse, as an error may be."""
    return (f.col("fault") != "") & ~f.col("fault").isin(*BY_CHANCE)


def audit_of(spark: SparkSession, lake: Lake) -> AuditReport | None:
    """Return the report of the last audit of a lake; None without one, or if it was interrupted."""
    files = LakeFiles(spark)
    if not files.exists(lake.summary):
        return None
    return msgspec.json.decode(files.read(lake.summary), type=AuditReport)


def _line(row: Row) -> str:
    parts = [f"{row.event_key} at {row.window_end_ms}:"]
    names = ("statistic", "window", "window_ms", "window_events", "quantile", "item")
    parts += [f"{name} {row[name]}" for name in names if row[name] is not None]
    parts.append(row.fault)
    if row.estimate is not None:
        parts.append(f"({row.estimate} in [{row.lower}, {row.upper}], exact {row.exact})")
    return " ".join(parts)


# An audit's outcome on the terminal.

_WIDTH = 110
# Nothing in the topic, the lake or a checkpoint distinguishes a seeded state from one of records.
_OF_SEEDS = "windows that begin before a `slidestat seed` fail, too: the topic lacks those events"


def show(report: AuditReport) -> None:
    """Print what was compared, a line for each statistic, and every broken promise's sample."""
    console = Console(markup=False)  # Names of statistics may have brackets.
    console.width = max(console.width, _WIDTH)  # A table that is cut is of no use.
    r = report.records
    console.print(
        f"{r.read:,} records read = {r.counted:,} counted + {r.late:,} late + {r.dead:,} dead"
        + (f" + {r.passed_over:,} passed over" if r.passed_over else "")
        + (f" + {r.unaccounted:,} unaccounted for" if r.unaccounted else ""),
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("statistic", no_wrap=True)
    for column in ("figures", "promised", "median", "99 %", "largest", "broken"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("error", no_wrap=True)
    for statistic in report.statistics:
        table.add_row(*_cells(statistic))
    console.print(table)
    for line in report.broken:
        console.print(f"broken: {line}", highlight=False, markup=False, soft_wrap=True)
    if report.broken:
        console.print(_OF_SEEDS, highlight=False, soft_wrap=True)
    for line in _judged(report.judged):
        console.print(line, highlight=False, soft_wrap=True)
    if report.sample < 1:
        console.print(f"a sample of {report.sample:.4%} of the keys, by a hash", highlight=False)
    if report.published:
        names = ", ".join(report.published)
        console.print(
            f"published, so audited with the referee that answers for them: {names}",
            highlight=False,
            soft_wrap=True,
        )
    figures = sum(statistic.figures for statistic in report.statistics)
    verdict = "every promise kept" if report.is_clean else "PROMISES BROKEN"
    console.print(f"{figures:,} figures in {_records(report)} audited: {verdict}", highlight=False)


def _records(report: AuditReport) -> str:
    if not report.of_rankings:
        return f"{report.emissions:,} emissions"
    return f"{sum(one.emissions for one in report.judged):,} rankings"


def _judged(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield by which declarations emissions were judged, unless by the given one alone."""
    if all(one.declaration and one.is_given for one in judged):
        return
    for one in judged:
        if not one.declaration:
            yield (
                f"{one.emissions:,} emissions without a declaration's fingerprint, of an older"
                " version: judged by the topology given, and not for what they lack"
            )
        else:
            which = "the topology given" if one.is_given else "as the lake keeps it"
            yield f"{one.emissions:,} emissions by declaration {one.declaration}, {which}"


def _cells(s: StatisticSummary) -> tuple[str, ...]:
    unit = s.unit if s.confidence == 1 else f"{s.unit}, in {s.confidence:.4g} of cases"
    return (
        escape(s.statistic),  # It may be of another job.
        f"{s.figures:,}",
        *(f"{number:.4%}" for number in (s.promised, s.median, s.p99, s.worst)),
        f"{s.faults:,}",
        unit,
    )
