"""The data of a report: a few keys over time, all errors as histograms, top items."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession, functions as f

from slidestat.errors import SlidestatError, unknown
from slidestat.schemas.emission import Figure
from slidestat.spark.audit.derived import OF_BOUNDS
from slidestat.spark.audit.report import AuditReport, audit_of
from slidestat.spark.audit.workers import FigureRow
from slidestat.spark.lake.lake import AUDIT, Lake
from slidestat.spark.lake.wire_columns import struct_type
from slidestat.text import qualified, window_text

# Bars of a histogram over the share of its promise that a figure used.
_BARS = 40
_KEYS = 8
_QUALIFIERS = ("window", "window_ms", "window_events", "quantile", "at_least", "below")


class Series(msgspec.Struct, frozen=True):
    """A series of one figure of one key over time: columns of equal length, null where there is no
    figure. `window` is empty for a derived figure.
    """

    name: str
    window: str
    unit: str
    promised: float
    confidence: float
    times: list[float]
    estimates: list[float | None]
    lowers: list[float | None]
    uppers: list[float | None]
    exacts: list[float | None]


class TopItem(msgspec.Struct, frozen=True):
    """An item of a top list, and how often it came."""

    item: str
    estimate: float
    lower: float
    upper: float
    exact: float


class TopList(msgspec.Struct, frozen=True):
    """A key's most frequent items in its last window that has any."""

    name: str
    window: str
    until: float
    items: list[TopItem]


class KeyData(msgspec.Struct, frozen=True):
    """The data of one key."""

    key: str
    series: list[Series]
    tops: list[TopList]


class ErrorHistogram(msgspec.Struct, frozen=True):
    """A histogram of the shares of their promise that the figures of a statistic used: `exact` none
    of it, then bars of equal width up to all of it; `beyond` broke it.
    """

    statistic: str
    exact: int
    bars: list[int]
    beyond: int


class ReportData(msgspec.Struct, frozen=True):
    """The data that the page shows."""

    topology: str
    made: str
    audit: AuditReport
    is_clean: bool
    first: float
    last: float
    all_keys: int
    histograms: list[ErrorHistogram]
    keys: list[KeyData]


def report_data(spark: SparkSession, lake: Lake, keys: Sequence[str]) -> ReportData:
    """Read the last audit of a lake, with `keys` shown over time: by default the busiest.

    Raises SlidestatError without an audit, and for a key that it has not.
    """
    audit = audit_of(spark, lake)
    if audit is None:
        raise SlidestatError(
            f"{lake.folder} has no audit.",
            f"Make one: slidestat spark audit TOPOLOGY --lake {lake.root}.",
        )
    rows = spark.read.schema(struct_type(FigureRow)).parquet(lake.data(AUDIT))
    rows = rows.where("statistic IS NOT NULL")
    if audit.progress is not None:  # A killed audit after it may have more.
        rows = rows.where(f.col("part") < audit.progress.parts)
    busiest = [
        row.event_key
        for row in rows.groupBy("event_key")
        .agg(f.max("events").alias("n"))
        .orderBy(f.desc("n"), "event_key")
        .collect()
    ]
    for key in keys:
        if key not in busiest:
            raise unknown(f"No figure of the key {key!r} was audited.", key, busiest[:20])
    chosen = list(keys) or busiest[:_KEYS]
    of_chosen = rows.where(f.col("event_key").isin(chosen)).collect()
    span = rows.agg(f.min("window_end_ms"), f.max("window_end_ms")).collect()[0]
    return ReportData(
        lake.topology,
        datetime.now(UTC).isoformat(timespec="seconds"),
        audit,
        audit.is_clean,
        (span[0] or 0) / 1000,
        (span[1] or 0) / 1000,
        len(busiest),
        _histograms(rows, [s.statistic for s in audit.statistics]),
        [_key(key, [row for row in of_chosen if row.event_key == key]) for key in chosen],
    )


def _histograms(rows: DataFrame, order: Sequence[str]) -> list[ErrorHistogram]:
    share = f.col("observed") / f.col("promised")
    bar = (
        f.when(f.col("observed") == 0, -1)
        .when((f.col("fault") != "") | (f.col("observed") > f.col("promised")), _BARS)
        .otherwise(f.least(f.floor(share * _BARS), f.lit(_BARS - 1)))
    )
    counted = rows.groupBy("statistic", bar.alias("bar")).count().collect()
    found = {(row.statistic, row.bar): row["count"] for row in counted}
    return [
        ErrorHistogram(
            name,
            found.get((name, -1), 0),
            [found.get((name, bar), 0) for bar in range(_BARS)],
            found.get((name, _BARS), 0),
        )
        for name in order
    ]


def _key(key: str, rows: Sequence[Row]) -> KeyData:
    lines: dict[tuple[object, ...], list[Row]] = {}
    lists: dict[tuple[object, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.window_end_ms):
        # A window of the calendar is one line, whatever its length is.
        length = row.window or row.window_ms
        place = (row.statistic, length, *(row[name] for name in _QUALIFIERS[2:]))
        (lines if row.item is None else lists).setdefault(place, []).append(row)
    return KeyData(key, [_series(of) for of in lines.values()], [_top(of) for of in lists.values()])


def _series(rows: Sequence[Row]) -> Series:
    figure = _figure(rows[0])
    return Series(
        qualified(figure),
        window_text(figure),
        next((row.unit for row in rows if row.unit), ""),
        rows[0].promised or 0.0,
        figure.confidence,
        [row.window_end_ms / 1000 for row in rows],
        *([row[name] for row in rows] for name in ("estimate", "lower", "upper", "exact")),
    )


def _top(rows: Sequence[Row]) -> TopList:
    last = rows[-1].window_end_ms
    figure = _figure(rows[-1])
    items = [
        TopItem(row.item, row.estimate, row.lower, row.upper, row.exact)
        for row in rows
        if row.window_end_ms == last and row.estimate is not None
    ]
    items.sort(key=lambda item: -item.estimate)
    return TopList(figure.statistic, window_text(figure), last / 1000, items)


def _figure(row: Row) -> Figure:
    return Figure(
        row.statistic,
        row.estimate,
        row.lower,
        row.upper,
        confidence=1.0 if row.confidence is None else row.confidence,
        derived=row.unit == OF_BOUNDS,
        **{name: row[name] for name in _QUALIFIERS},
    )


# The report's page: one HTML file that needs no other, with data and the charts' code in it.

_PARTS = resources.files("slidestat.spark.report") / "static"
_CHARTS = resources.files("slidestat.web") / "static" / "vendor" / "uplot"
# The charts' code is a module; here it and ours are one script.
_EXPORT = "export { uPlot as default };"


def write_page(data: ReportData, file: Path) -> None:
    """Write the page; raises SlidestatError if the file cannot be written."""
    try:
        file.write_text(page_of(data), encoding="utf-8")
    except OSError as error:
        raise SlidestatError(
            f"{file} cannot be written: {error.strerror}.", "Give another --output."
        ) from error


def page_of(data: ReportData) -> str:
    """Return the page as text.

    Keys and items are foreign texts: in the data no "<" is left that could end its element, and the
    page's code writes them as text alone.
    """
    encoded = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    charts = (_CHARTS / "uPlot.esm.js").read_text("utf-8").replace(_EXPORT, "")
    page = (_PARTS / "report.html").read_text("utf-8")
    for place, text in (
        ("/*charts-style*/", (_CHARTS / "uPlot.min.css").read_text("utf-8")),
        ("/*style*/", (_PARTS / "report.css").read_text("utf-8")),
        ("/*charts*/", charts),
        ("/*code*/", (_PARTS / "report.js").read_text("utf-8")),
        ("/*data*/", encoded),
    ):
        page = page.replace(place, text)
    return page
