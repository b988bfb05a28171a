"""Emissions as rows: a record for each window, with a column for each figure and its bounds.

A row's Kafka key is the key's text, or KEY/LENGTH (or KEY/today) where there are several windows:
so a table that is upserted by it has the newest figures of each key and window. Rows are identified
by key, window and window end.

A figure that does not cover its whole window, as its statistic was added later, is marked in a
column of its own. Only rows of partitions with such statistics have these columns.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from slidestat.declare.rows import ColumnType, RowColumn, counted_from_column
from slidestat.declare.times.calendar_windows import CalendarWindow, length_at
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Emission

Row = dict[str, Any]
# Makes the writer of rows that have these columns.
WriterOf = Callable[[Sequence[RowColumn]], Callable[[Row], bytes]]

_encode = msgspec.json.Encoder().encode
# The types of Connect's JsonConverter.
_CONNECT = {
    ColumnType.TEXT: "string",
    ColumnType.WHOLE: "int64",
    ColumnType.NUMBER: "double",
    ColumnType.TRUTH: "boolean",
}
_AVRO = {**_CONNECT, ColumnType.WHOLE: "long"}


class Rows:
    """The rows of a topology's emissions."""

    def __init__(self, topology: Topology) -> None:
        self.columns = topology.row_columns
        # The length of each row's window.
        self.windows = topology.window_lengths
        self._window_names = topology.window_names if topology.calendar_windows else {}
        # For each window, the places of a row's figures among an emission's.
        self._places = [
            [
                place
                for place, figure in enumerate(topology.named_figures)
                if figure.window in (None, window)
            ]
            for window in self.windows
        ]
        self._names = [column.name for column in self.columns]
        self._counted_from = [counted_from_column(it.name).name for it in topology.named_figures]

    def of(self, emission: Emission) -> list[Row]:
        """Return a row for each window, short ones first."""
        figures = emission.figures
        after = (
            emission.provisional,
            0 if emission.lost is None else emission.lost.records,
            emission.source_partition,
            emission.source_offset,
        )
        found = []
        for window, places in zip(self.windows, self._places, strict=True):
            numbers = [number for place in places for number in astuple(figures[place])[1:4]]
            end = emission.window_end_ms
            of_window: tuple[Any, ...] = (window,)
            if self._window_names:
                of_window = length_at(window, end), self._window_names[window]
            values = (emission.key, *of_window, end, *numbers, *after)
            row = dict(zip(self._names, values, strict=True))
            for place in places:
                if figures[place].counted_from_ms is not None:
                    row[self._counted_from[place]] = figures[place].counted_from_ms
            found.append(row)
        return found

    def key(self, key: str, window: int) -> bytes:
        """Return the Kafka key of a row."""
        name = window.name if isinstance(window, CalendarWindow) else window
        return (key if len(self.windows) == 1 else f"{key}/{name}").encode()


class RowCodec:
    """A codec that writes rows as records."""

    def __init__(
        self, topology: Topology, writer_of: WriterOf, more: Sequence[RowColumn] = ()
    ) -> None:
        """Create the codec; `more` are columns in addition to those of the topology."""
        self._topology = topology
        self._writer_of = writer_of
        self._rows = Rows(topology)
        self._write = writer_of([*self._rows.columns, *more])
        # Codecs by the names of added figures: the partitions of a worker mostly have the same.
        self._of_added: dict[frozenset[str], RowCodec] = {}

    def of_added(self, labels: Collection[str]) -> "RowCodec":
        """Return a codec whose rows say since when the statistics with these labels count."""
        kind = frozenset(labels)
        if kind not in self._of_added:
            self._of_added[kind] = RowCodec(
                self._topology, self._writer_of, _added_columns(self._topology, kind)
            )
        return self._of_added[kind]

    def records(self, emission: Emission) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows' keys and values, short windows first."""
        rows = self._rows
        for window, row in zip(rows.windows, rows.of(emission), strict=True):
            yield rows.key(emission.key, window), self._write(row)


def _added_columns(topology: Topology, labels: Collection[str]) -> list[RowColumn]:
    names = (
        figure.name
        for place, figure in enumerate(topology.named_figures)
        if any(topology.figure_sources[part].label in labels for part in topology.parts_of(place))
    )
    return [counted_from_column(name) for name in dict.fromkeys(names)]


def avro_types(columns: Sequence[RowColumn]) -> dict[str, str | list[str]]:
    """Return the columns' types in Avro, by their names."""
    return {
        column.name: ["null", _AVRO[column.type]] if column.is_figure else _AVRO[column.type]
        for column in columns
    }


def json_row(row: Row) -> bytes:
    """Return a row as JSON; a number that does not exist is null."""
    return _encode(row)


def connect_row(name: str, columns: Sequence[RowColumn]) -> Callable[[Row], bytes]:
    """Return the writer of rows as Connect's JsonConverter reads them with `schemas.enable`: each
    with the schema of its columns, called `name`.
    """
    fields = [
        {"field": column.name, "type": _CONNECT[column.type], "optional": column.is_figure}
        for column in columns
    ]
    schema = {"type": "struct", "name": name, "optional": False, "fields": fields}
    head = b'{"schema":' + _encode(schema) + b',"payload":'
    nothing = dict.fromkeys(column.name for column in columns)
    return lambda row: head + _encode(nothing | row) + b"}"
