"""Sum up the result of an audit for a person."""

from collections.abc import Iterable

import msgspec
from pyspark.sql import Row, SparkSession, functions as f

from slidestat.spark.audit.audit_progress import Progress
from slidestat.spark.audit.audit_workers import FigureRow
from slidestat.spark.audit.declaration import Declaration, labels_of
from slidestat.spark.lake.lake import AUDIT, Lake
from slidestat.spark.lake.lake_files import LakeFiles
from slidestat.spark.lake.wire_columns import struct_type

_SAMPLES = 10
# Percentiles are right to one in so many.
_RANKS = 10_000


class Records(msgspec.Struct, frozen=True):
    """Counts of raw records by outcome, up to the last one that an emission rests on; `bytes` are
    those of their values.
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
    """All figures of one statistic: how far off they were, in `unit`, how many violations."""

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
        """A statistic that chance enters may miss as often as its confidence allows."""
        return self.faults <= (1 - self.confidence) * self.figures


class Judged(msgspec.Struct, frozen=True):
    """How many emissions a declaration had, by its fingerprint, "" of those without one; and
    whether it is the one that was given.
    """

    declaration: str
    emissions: int
    is_given: bool


class AuditReport(msgspec.Struct, frozen=True):
    """The outcome of an audit. `broken` are samples of violations, one line each; `judged` tells by
    which declarations emissions were judged, the newest last. `sample` is the share of keys whose
    figures were judged; `published` are keys that a referee answers for.
    """

    records: Records
    emissions: int
    emission_bytes: int
    statistics: list[StatisticSummary]
    other_faults: int
    broken: list[str]
    judged: list[Judged] = []
    sample: float = 1.0
    published: list[str] = []
    # Of no use to a person: an audit that can be gone on from has one.
    progress: Progress | None = None

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
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
    """The report of the audit that a lake has."""
    rows = spark.read.schema(struct_type(FigureRow)).parquet(lake.data(AUDIT))
    # Of emissions that are missing or strange, the statistic is null.
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
        )
        .collect()
    )
    order = {label: place for place, label in enumerate(labels_of(declarations))}
    summaries = [
        StatisticSummary(
            row.statistic,
            row.unit or "",
            1.0 if row.confidence is None else row.confidence,
            row.figures,
            row.promised or 0.0,
            row.percentiles[0] if row.percentiles else 0.0,
            row.percentiles[1] if row.percentiles else 0.0,
            row.worst or 0.0,
            row.faults,
        )
        for row in sorted(groups, key=lambda row: order.get(row.statistic, len(order)))
        if row.statistic is not None
    ]
    others = sum(row.faults for row in groups if row.statistic is None)
    broken = [summary.statistic for summary in summaries if not summary.is_kept]
    sample: list[Row] = []
    if broken or others:
        is_broken = f.col("statistic").isNull() | f.col("statistic").isin(broken)
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


def audit_of(spark: SparkSession, lake: Lake) -> AuditReport | None:
    """Return the report of the last audit of a lake; None without one, or if it was interrupted."""
    files = LakeFiles(spark)
    if not files.exists(lake.summary):
        return None
    return msgspec.json.decode(files.read(lake.summary), type=AuditReport)


def _line(row: Row) -> str:
    parts = [f"{row.event_key} at {row.window_end_ms}:"]
    names = ("statistic", "window_ms", "window_events", "quantile", "item")
    parts += [f"{name} {row[name]}" for name in names if row[name] is not None]
    parts.append(row.fault)
    if row.estimate is not None:
        parts.append(f"({row.estimate} in [{row.lower}, {row.upper}], exact {row.exact})")
    return " ".join(parts)
