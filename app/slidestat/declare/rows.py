"""The columns of a topology's rows: what a record has where `output_shape` is "rows"."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from slidestat.declare.figure_names import NamedFigure, ambiguous_names
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.base import ListStatistic
from slidestat.errors import SlidestatError


class ColumnType(Enum):
    """The type of a column's values."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    TRUTH = "truth value"


@dataclass(frozen=True)
class RowColumn:
    """A column; only those of figures can be null."""

    name: str
    type: ColumnType
    is_figure: bool = False
    older_name: str = ""
    """The name of a column in rows that were written before."""


BOUNDS = ("", "_lower", "_upper")
"""Behind the name of a figure: its estimate, its lower and its upper bound."""

_COUNTED_FROM = "_counted_from_ms"
"""Behind the name of a figure: since when it is counted, of a statistic that was added later."""


def row_columns(
    figures: Sequence[NamedFigure], window: str, *, is_sequence: bool, names_windows: bool
) -> list[RowColumn]:
    """Return the columns, in order; `window` is the name of the column of the windows' lengths,
    which end at times or at numbers of a sequence. If it `names_windows`, there is one for their
    names as well: windows of the calendar have different lengths.
    """
    names = dict.fromkeys(figure.name for figure in figures)
    return [
        RowColumn("key", ColumnType.TEXT),
        RowColumn(window, ColumnType.WHOLE),
        *((RowColumn("window", ColumnType.TEXT),) if names_windows else ()),
        RowColumn("window_end_seq", ColumnType.WHOLE, older_name="window_end_ms")
        if is_sequence
        else RowColumn("window_end_ms", ColumnType.WHOLE),
        *(
            RowColumn(name + bound, ColumnType.NUMBER, is_figure=True)
            for name in names
            for bound in BOUNDS
        ),
        RowColumn("provisional", ColumnType.TRUTH),
        RowColumn("lost_records", ColumnType.WHOLE),
        RowColumn("source_partition", ColumnType.WHOLE),
        RowColumn("source_offset", ColumnType.WHOLE),
    ]


def counted_from_column(figure: str) -> RowColumn:
    """Return the column with the time since which a figure of this name is counted, while it does
    not cover its whole window.
    """
    return RowColumn(figure + _COUNTED_FROM, ColumnType.WHOLE, is_figure=True)


def check_rows(
    statistics: Sequence[Statistic], figures: Sequence[NamedFigure], columns: Sequence[RowColumn]
) -> None:
    """Raise SlidestatError where figures have no column of their own."""
    for statistic in statistics:
        if isinstance(statistic, ListStatistic):
            raise SlidestatError(
                f'output_shape is "rows", and {statistic.kind} has a figure for each item.',
                "Keep it in a topology without output_shape, or take it out.",
            )
    names = Counter(column.name for column in columns)
    names.update({counted_from_column(figure.name).name for figure in figures})
    twice = ambiguous_names(figures)
    twice |= {name for name, count in names.items() if count > 1}
    if twice:
        raise SlidestatError(
            f'output_shape is "rows", and several columns would be {min(twice)!r}.',
            "Give the statistics other names.",
        )
