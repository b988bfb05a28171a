"""The figures of a lake as one tidy table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd
from msgspec.structs import FieldInfo
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.spark.delta import require_delta_of_server
from slidestat.spark.lake.lake import Dataset, Lake, no_records, set_aside
from slidestat.spark.session import is_connect
from slidestat.text import qualified, window_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A lake as a client of Spark Connect reads it: its folders are known by what the server finds.

_NOT_THERE = {"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"}


def read_by_server(lake: Lake, spark: Any, dataset: str) -> DataFrame:
    """Return all rows of a dataset; SlidestatError as of `Lake.read`. Cost: some requests."""
    folder = lake.data(dataset)
    if _has_files(spark, f"{folder}/_delta_log/*"):
        with require_delta_of_server(folder):
            return _found(spark.read.format("delta").load(folder))
    dates = f"{lake.compaction}/old/{dataset}"
    if _has_files(spark, f"{dates}/*"):
        raise set_aside(dates)
    try:
        return _found(spark.read.option("mergeSchema", True).parquet(folder))
    except AnalysisException as error:
        if error.getCondition() in _NOT_THERE:
            raise no_records(lake, dataset) from error
        raise


def _has_files(spark: Any, paths: str) -> bool:
    try:
        _found(spark.read.format("binaryFile").load(paths))
    except AnalysisException as error:
        if error.getCondition() in _NOT_THERE:
            return False
        raise SlidestatError(f"{paths} cannot be read: {error}.", "Check the lake.") from error
    return True


def _found(rows: DataFrame) -> DataFrame:
    """Return the rows once the server has looked for them, which asking for columns makes it do."""
    rows.columns  # noqa: B018
    return rows


def read_statistics(spark: SparkSession, lake: str, topology: str) -> DataFrame:
    """Read the figures that an ingest or a backfill has put into a lake, one a row.

    Columns: `key`; `window_start` and `window_end`, timestamps, the start inside and the end not,
    or, of a topology of a sequence, `window_end_seq`, its number, with NULL for both times;
    `statistic`, `quantile`, `item`, `at_least` and `below`, which distinguish figures of a window,
    NULL where they do not apply; `window_ms` or `window_events`, its length; `window`, the name of
    one of the calendar; `estimate`, `lower` and `upper`; what is promised (`relative_error` and the
    others of the schema of emissions); and `provisional`. Of figures that came twice, or were
    replaced, the newest is there. The start of a window of events, or of all since a key's first
    one, is NULL.

    `spark` may be a session of Spark Connect: then the server reads the lake.

    Raises SlidestatError where there is no such lake. Cost: nothing until the rows are asked for,
    then one shuffle by key and window.
    """
    of, read = Lake(lake, topology), read_by_server if is_connect(spark) else Lake.read
    rows = read(of, spark, Dataset.STATISTICS).where("event_key IS NOT NULL")
    emission = f.struct("event_key", "window_end_ms", "figures", "provisional")
    # A backfill's rows have no offsets, and are there once.
    place = f.coalesce("record_offset", f.lit(-1))
    newest = rows.groupBy("key").agg(f.max_by(emission, place).alias("emission"))
    figures = newest.select("emission.*", f.explode("emission.figures").alias("figure"))
    is_time = f.col("window_end_ms") >= EARLIEST_TIME_MS
    end = f.when(is_time, f.col("window_end_ms"))
    start = end - f.col("figure.window_ms")
    return figures.select(
        f.col("event_key").alias("key"),
        f.timestamp_millis(start).alias("window_start"),
        f.timestamp_millis(end).alias("window_end"),
        f.when(~is_time, f.col("window_end_ms")).alias("window_end_seq"),
        *[_field(field) for field in msgspec.structs.fields(Figure)],
        f.coalesce("provisional", f.lit(False)).alias("provisional"),
    )


def _field(field: FieldInfo) -> Column:
    """Return a figure's field as a column; one that an emission leaves out has its default."""
    column = f.col("figure")[field.name]
    if field.required or field.default is None:
        return column.alias(field.name)
    return f.coalesce(column, f.lit(field.default)).alias(field.name)


# Draw figures of a lake: a line of estimates inside the band of their bounds.

# The columns that identify the figures of read_statistics, without the end of the window.
_ONE_LINE = [
    *("key", "statistic", "quantile", "item", "at_least", "below"),
    *("window", "window_ms", "window_events"),
]
_DRAWN = ("window_end", "estimate", "lower", "upper")
# The number of matplotlib's colours before they repeat.
_MOST_LINES = 10
_BAND_ALPHA = 0.25
_INSTALL = "pip install matplotlib"


def plot_figures(figures: DataFrame | pd.DataFrame, axes: "Axes | None" = None) -> "Axes":
    """Draw rows of `read_statistics`, of Spark or of pandas: estimates against the ends of their
    windows, each inside its bounds, a line for each key, statistic and window.

    `axes` are matplotlib's, new ones by default; returned are the axes drawn on. Raises
    SlidestatError for no rows, for a column that is missing, for more than 10 lines, and where
    matplotlib is missing. Cost: the rows are brought to this process.
    """
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise SlidestatError("Nothing can be drawn without matplotlib.", _INSTALL) from error
    missing = [name for name in (*_ONE_LINE, *_DRAWN) if name not in figures.columns]
    if missing:
        raise SlidestatError(
            f"The figures have no column {missing[0]!r}.",
            "Choose rows of read_statistics, with `where`, and leave it its columns.",
        )
    table = figures if isinstance(figures, pd.DataFrame) else figures.toPandas()
    lines = list(_lines(table))
    if not 0 < len(lines) <= _MOST_LINES:
        raise SlidestatError(
            f"There are {len(lines)} lines to draw: different keys, statistics and windows.",
            f"Choose 1 to {_MOST_LINES} of them with `where`, such as"
            " figures.where(\"key = 'ATL' AND statistic = 'count' AND window_ms = 86400000\").",
        )
    if axes is None:
        figure, axes = pyplot.subplots()
        figure.autofmt_xdate()
    for label, rows in lines:
        times = rows["window_end"]
        (line,) = axes.plot(times, rows["estimate"], label=label)
        lower, upper = rows["lower"], rows["upper"]
        axes.fill_between(
            times, lower, upper, color=line.get_color(), alpha=_BAND_ALPHA, linewidth=0
        )
    axes.set_xlabel("end of the window")
    axes.legend()
    return axes


def _lines(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name of each line, and its rows by time."""
    # A window of the calendar is one line, whatever its length is.
    table = table.assign(window_ms=table["window_ms"].mask(table["window"].notna()))
    for values, rows in table.groupby(_ONE_LINE, dropna=False, sort=False):
        known = {
            # NumPy's numbers show their type.
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in zip(_ONE_LINE, values, strict=True)
            if not pd.isna(value)
        }
        is_derived = "derived" in rows and bool(rows["derived"].iloc[0])
        yield (
            f"{known.pop('key')} {_label(known, is_derived=is_derived)}",
            rows.sort_values("window_end"),
        )


def _label(known: dict[str, Any], *, is_derived: bool) -> str:
    """Return the statistic, what distinguishes its figures, and the length of the window."""
    for name in ("window_ms", "window_events"):
        if name in known:
            # pandas has whole numbers as doubles where others are NULL.
            known[name] = int(known[name])
    figure = Figure(estimate=None, lower=None, upper=None, derived=is_derived, **known)
    return ", ".join(filter(None, (qualified(figure), window_text(figure))))
