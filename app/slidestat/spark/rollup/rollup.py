"""Synopses of many keys, partitions and hours as one: figures that no emission has.

A record of a synopsis topic has the state of one key and statistic in one party (a partition), as
it was just before a tick. A rollup takes from each the summary of the time since the record before
it, so that no event is in two; and summaries merge, hours into days, keys into groups, partitions
into the whole. Each figure's bounds are those of the merged summary (`synopses.merge`).

    ticks of a key       |----1----|----2----|                   |----3----|
    windows taken        [  of 1  )[  of 2  )[        of 3                 )   at most the span

A state answers for its span: where two records lie farther apart than that, the key had no events
in between, or their records are gone (a compacted topic keeps the newest alone).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, Row, functions as f
from pyspark.sql.window import Window
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.options import KEYS_GROUPED_BY, QUANTILES
from slidestat.schemas.synopsis import SynopsisKey
from slidestat.spark.errors import in_words
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import Lake, header
from slidestat.spark.sql.aggregates import FIGURE
from slidestat.spark.sql.foreign import Foreign, column_function
from slidestat.spark.sql.functions import register_functions
from slidestat.spark.sql.readers import figure_of
from slidestat.synopses.core.envelope import START, is_sealed
from slidestat.synopses.merge.window_summary import KINDS, read_summary
from slidestat.text import human_duration

MERGED_AT_ONCE = 4_096
"""The most summaries of one group and window that a task merges in one go."""

_OF = ("topology", "statistic", "key", "party")
_OF_ONE = ("statistic", "group", "start_ms", "end_ms")
_FIGURE = (
    "figure: string, quantile: double, item: string, estimate: double, lower: double, upper: double"
)
_KIND = 3  # the place of the kind in the bytes


@dataclass(frozen=True)
class Rollup:
    """The grouping of a rollup: rows of `by_ms`, and of keys that have one `group`.

    `by_ms` is a multiple of the topology's `every_ms`; windows are [k by_ms, (k + 1) by_ms).
    `group` is an expression over the column `key`, such as "substr(key, 1, 1)"; all keys are one
    group with "'all'". `start_ms` and `end_ms` bound the ticks that are looked at.
    """

    span_ms: int
    every_ms: int
    by_ms: int
    group: str = KEYS_GROUPED_BY
    quantiles: Sequence[float] = QUANTILES
    share: float = 0.01

    def __post_init__(self) -> None:
        if self.by_ms < 1 or self.by_ms % self.every_ms:
            raise SlidestatError(
                f"Windows of {human_duration(self.by_ms)} cut through ticks that are"
                f" {human_duration(self.every_ms)} apart.",
                "Take a multiple of the topology's `every`.",
            )


def require_interval_of(lake: Lake, records: DataFrame, by_ms: int) -> str:
    """Return a remark on the synopses of a lake, which has these records; "" for none.

    Raises SlidestatError for windows shorter than the interval at which they were kept, or across
    it; and for a statistic whose declaration has changed.
    """
    files, kept = LakeFiles(records.sparkSession), []
    if files.exists(lake.backfilled):
        of_history = json.loads(files.read(lake.backfilled)).get("synopses_ms")
        if of_history is None:
            return (
                "This lake has synopses of the end of its history alone, so windows before the last"
                " span are not here: backfill it with --synopses 1d to have them all."
            )
        kept.append(of_history)
    statistic = f.get_json_object(f.col("key").cast("string"), "$[1]")
    interval = header("interval_ms").try_cast("bigint")
    found = records.select(statistic, header("meaning"), interval).distinct().collect()
    meanings: dict[str, set[str]] = {}
    for name, meaning, kept_ms in found:
        if name and meaning:
            meanings.setdefault(name, set()).add(meaning)
        if kept_ms:
            kept.append(kept_ms)
    for name, of_it in sorted(meanings.items()):
        if len(of_it) > 1:
            raise SlidestatError(
                f"The synopses of {name} are of several declarations: {'; '.join(sorted(of_it))}.",
                "They cannot be merged. Give the topology that you changed another name, and so"
                " another part of the lake.",
            )
    for kept_ms in sorted(set(kept)):
        if by_ms % kept_ms:
            raise SlidestatError(
                f"Windows of {human_duration(by_ms)} cut through synopses that are"
                f" {human_duration(kept_ms)} apart.",
                "Take a multiple of the `synopses` that the topology had, or --synopses of a"
                " backfill.",
            )
    return ""


def roll_up(records: DataFrame, rollup: Rollup, fails: bool) -> tuple[DataFrame, Foreign]:
    """Return the figures of records of a synopsis topic or lake; and how many foreign values were
    left out, known once the figures are, unless one `fails` the job. Raises SlidestatError for a
    group that is no expression over the key.
    """
    foreign = register_functions(records.sparkSession, fail_on_foreign=fails)
    with in_words("The rollup", "Give --group an SQL expression over `key`."):
        return figures(merged(summaries(synopses_of(records), rollup)), rollup), foreign


def synopses_of(records: DataFrame) -> DataFrame:
    """Return rows of (topology, statistic, key, party, tick_ms, synopsis) from records of a
    synopsis topic or lake: columns key, value and record_time (or timestamp). Clocks are left out,
    and so are records that came twice.
    """
    time = "record_time" if "record_time" in records.columns else "timestamp"
    parts = f.from_json(f.col("key").cast("string"), "array<string>")
    return (
        records.select(
            parts.alias("parts"),
            f.unix_millis(time).alias("tick_ms"),
            f.col("value").alias("synopsis"),
        )
        .where(f.size("parts") == len(SynopsisKey._fields))
        .select(
            *[f.col("parts")[i].alias(name) for i, name in enumerate(_OF)], "tick_ms", "synopsis"
        )
        .dropDuplicates([*_OF, "tick_ms"])
    )


def summaries(synopses: DataFrame, rollup: Rollup) -> DataFrame:
    """Return (statistic, group, start_ms, end_ms, place, summary): one row for each synopsis, no
    event in two; `place` is a hash by which the summaries of a group can be dealt out.

    Statistics whose synopses have no summary of a window are left out. Needs the functions of
    `register_functions`.
    """
    of_one = Window.partitionBy(*_OF).orderBy("tick_ms")
    start = f.floor((f.col("tick_ms") - 1) / rollup.by_ms) * rollup.by_ms
    before = f.coalesce(f.lag("tick_ms").over(of_one), f.lit(-(2**62)))
    since = f.greatest(before, "start_ms", f.col("tick_ms") - rollup.span_ms)
    return (
        synopses.where(~_is_of_other_kind(f.col("synopsis")))
        .withColumn("start_ms", start.cast("bigint"))
        .withColumn("n", f.col("tick_ms") - since)
        .select(
            "statistic",
            f.expr(rollup.group).cast("string").alias("group"),
            "start_ms",
            (f.col("start_ms") + rollup.by_ms).alias("end_ms"),
            f.xxhash64(*_OF, "tick_ms").alias("place"),
            f.call_function("window_summary", "synopsis", "n", "tick_ms").alias("summary"),
        )
    )


def merged(parts: DataFrame) -> DataFrame:
    """Return one summary for each statistic, group and window, of rows of `summaries`.

    Where a group has more than `MERGED_AT_ONCE`, they are merged in stages, each of which costs
    quantiles by rank 1/2,044 of the events in rank; what items lose in all stages together is
    1/2,049 (`items.py`). How many there are is counted here, without making summaries.
    """
    most = parts.groupBy(*_OF_ONE).count().agg(f.max("count")).first()
    left = 0 if most is None else most[0] or 0
    while left > MERGED_AT_ONCE:
        left = shares_of(left)
        parts = _merged(parts.withColumn("place", f.pmod("place", f.lit(left))), "place")
    return _merged(parts)


def shares_of(summaries: int) -> int:
    """Return into how many shares a hash divides this number of summaries.

    A share has on average half of what is merged at once, and all of it with a chance below
    e^(-790) (Chernoff).
    """
    return -(-2 * summaries // MERGED_AT_ONCE)


def _merged(parts: DataFrame, *within: str) -> DataFrame:
    merge = f.call_function("window_merge", "summary").alias("summary")
    return parts.groupBy(*_OF_ONE, *within).agg(merge)


def figures(summaries: DataFrame, rollup: Rollup) -> DataFrame:
    """Return the figures of merged summaries, one a row: (statistic, group, start_ms, end_ms,
    figure, quantile, item, estimate, lower, upper, summary), with the summary for further merges.
    """
    quantiles, share = tuple(rollup.quantiles), rollup.share

    def found(data: pd.Series) -> pd.Series:
        return pd.Series([one and _figures(bytes(one), quantiles, share) for one in data])

    listed = column_function(found, f"array<struct<{_FIGURE}>>")
    return summaries.withColumn("found", f.explode(listed("summary"))).select(
        *_OF_ONE, "found.*", "summary"
    )


def _figures(data: bytes, quantiles: Sequence[float], share: float) -> list[dict[str, Any]]:
    summary = read_summary(data)
    return [
        {
            "figure": found.figure,
            "quantile": found.quantile,
            "item": found.item,
            **dict(zip(FIGURE, figure_of(summary, found.answer), strict=True)),
        }
        for found in summary.figures(quantiles, share)
    ]


def left_out(topology: Topology) -> list[str]:
    """Return the statistics of a topology whose synopses have no summary of a window."""
    empty = {runner: topology.empty_synopsis(runner) for runner in dict.fromkeys(topology.runners)}
    return [
        label
        for label, runner in zip(topology.labels, topology.runners, strict=True)
        if not (is_sealed(empty[runner]) and empty[runner][_KIND] in KINDS)
    ]


def _is_of_other_kind(synopsis: Column) -> Column:
    """Return whether a value begins as a synopsis does, of a kind that has no summary of a window;
    or is of parts (parted.py), of which one does, or has had no event.
    """
    ours = START.hex().upper()
    kinds = [f"{kind:02X}" for kind in KINDS]
    other = (_hex(synopsis, 1, 3) == ours) & ~_hex(synopsis, _KIND + 1, 1).isin(kinds)
    parts = (_hex(synopsis, 1, 1) == "01") & f.hex(synopsis).contains(ours)
    return other | parts | (f.length(synopsis) == 0)


def _hex(synopsis: Column, first: int, length: int) -> Column:
    return f.hex(f.substring(synopsis, first, length))


_MOST_SHOWN = 200
_ADVICE = "Spark's log says more."
_DAY_MS = 86_400_000
# Wide enough for names as long as they come: a table that is cut is of no use.
_WIDTH = 400


def show(figures: DataFrame) -> None:
    """Print the figures, as many as a person reads; the most frequent items first."""
    often = f.when(f.col("item").isNotNull(), f.col("estimate"))
    order = ("start_ms", "group", "statistic", "quantile", f.desc(often), "item", "figure")
    with in_words("The rollup", _ADVICE):
        rows = figures.orderBy(*order).drop("summary").limit(_MOST_SHOWN + 1).collect()
    if not rows:
        print("There are no synopses of which a window can be told.")
        return
    console = Console(highlight=False, width=_WIDTH)
    console.print(_table(rows[:_MOST_SHOWN]))
    if len(rows) > _MOST_SHOWN:
        print(f"There are more than {_MOST_SHOWN}: --into DIR writes them all.")


def write(figures: DataFrame, folder: str) -> None:
    """Write the figures as Parquet into a folder that is new."""
    with in_words(f"The writing of {folder}", "Give --into a folder that is not there yet."):
        figures.write.parquet(folder)
    print(f"{figures.sparkSession.read.parquet(folder).count():,} figures in {folder}")


def _table(rows: Sequence[Row]) -> Table:
    length = human_duration(rows[0].end_ms - rows[0].start_ms)
    form = "%Y-%m-%d" if all(row.start_ms % _DAY_MS == 0 for row in rows) else "%Y-%m-%d %H:%M"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in (f"{length} from (UTC)", "group", "statistic"):
        table.add_column(column, no_wrap=True)
    for column in ("lower", "estimate", "upper"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        start = datetime.fromtimestamp(row.start_ms / 1_000, UTC).strftime(form)
        numbers = [_number(row[name]) for name in ("lower", "estimate", "upper")]
        # SQL's word for a group that is null.
        table.add_row(
            start, escape("NULL" if row.group is None else row.group), escape(_name(row)), *numbers
        )
    return table


def _name(row: Row) -> str:
    """Return the figure's name: the statistic, and which of its figures if it has several."""
    if row.quantile is not None:
        return f"{row.statistic} {row.quantile:g}"
    if row.item is not None:
        return f"{row.statistic} {row.item}"
    several = row.figure in ("mean", "variance", "deviation") and row.figure != row.statistic
    return f"{row.statistic}: {row.figure}" if several else str(row.statistic)


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:,.6g}" if abs(number) < 1_000 else f"{number:,.0f}"
