"""A rollup as a table for people, or as Parquet."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame
from rich import box
from rich.console import Console
from rich.table import Table

from app.analytics.faults import in_words

_MOST_SHOWN = 200
_ADVICE = "Spark's log says more."


def show(figures: DataFrame) -> None:
    """Print the figures, as many as a person reads."""
    order = ("start_ms", "group", "statistic", "quantile")
    with in_words("The rollup", _ADVICE):
        rows = figures.orderBy(*order).drop("summary").limit(_MOST_SHOWN + 1).collect()
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("from (UTC)", "to (UTC)", "group", "statistic", "figure", "of"):
        table.add_column(column)
    for column in ("lower", "estimate", "upper"):
        table.add_column(column, justify="right")
    for row in rows[:_MOST_SHOWN]:
        of = row.item if row.quantile is None else f"p = {row.quantile:g}"
        numbers = [_number(row[name]) for name in ("lower", "estimate", "upper")]
        times = [_time(row.start_ms), _time(row.end_ms)]
        table.add_row(*times, row.group, row.statistic, row.figure, of or "", *numbers)
    Console(highlight=False).print(table)
    if len(rows) > _MOST_SHOWN:
        print(f"There are more than {_MOST_SHOWN}: --into DIR writes them all.")


def write(figures: DataFrame, folder: str) -> None:
    """Write the figures as Parquet into a folder that is new."""
    with in_words(f"The writing of {folder}", "Give --into a folder that is not there yet."):
        figures.write.parquet(folder)
    print(f"{figures.sparkSession.read.parquet(folder).count():,} figures in {folder}")


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:,.6g}" if abs(number) < 1_000 else f"{number:,.0f}"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
