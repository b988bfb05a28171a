"""A rollup as a table for people, or as Parquet."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Row, functions as f
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slidestat.spark.errors import in_words
from slidestat.text import human_duration

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
        # Of a group that is null, SQL's word.
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
