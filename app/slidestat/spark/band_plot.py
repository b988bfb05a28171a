"""Draw figures of a lake: a line of estimates inside the band of their bounds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.text.figure_text import qualified, window_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The columns that identify the figures of read_statistics, without the end of the window.
_ONE_LINE = [
    *("key", "statistic", "quantile", "item", "at_least", "below"),
    *("window_ms", "window_events"),
]
_DRAWN = ("window_end", "estimate", "lower", "upper")
# As many colours as matplotlib has before it begins again.
_MOST_LINES = 10
_BAND_ALPHA = 0.25
_INSTALL = "pip install matplotlib"


def plot_figures(figures: DataFrame | pd.DataFrame, axes: "Axes | None" = None) -> "Axes":
    """Draw rows of `read_statistics`, of Spark or of pandas: estimates against the ends of their
    windows, each inside its bounds, a line for each key, statistic and length of window.

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
    for values, rows in table.groupby(_ONE_LINE, dropna=False, sort=False):
        known = {
            # NumPy's numbers show their type.
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in zip(_ONE_LINE, values, strict=True)
            if not pd.isna(value)
        }
        yield f"{known.pop('key')} {_label(known)}", rows.sort_values("window_end")


def _label(known: dict[str, Any]) -> str:
    """Return the statistic, what distinguishes its figures, and the length of the window."""
    for name in ("window_ms", "window_events"):
        if name in known:
            # pandas has whole numbers as doubles where others are NULL.
            known[name] = int(known[name])
    figure = Figure(estimate=None, lower=None, upper=None, **known)
    return f"{qualified(figure)}, {window_text(figure)}"
