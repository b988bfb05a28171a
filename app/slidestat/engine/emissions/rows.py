"""Emissions as rows: a record for each window, with a column for each figure and its bounds.

A row's Kafka key is the key's text, or KEY/LENGTH where there are several windows: so a table that
is upserted by it has the newest figures of each key and window. What tells all rows apart is key,
window and window end.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from slidestat.declare.rows import ColumnType, RowColumn
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Emission

Row = dict[str, Any]

_encode = msgspec.json.Encoder().encode
# As Connect's JsonConverter has them.
_CONNECT = {
    ColumnType.TEXT: "string",
    ColumnType.WHOLE: "int64",
    ColumnType.NUMBER: "double",
    ColumnType.TRUTH: "boolean",
}
_AVRO = {
    ColumnType.TEXT: "string",
    ColumnType.WHOLE: "long",
    ColumnType.NUMBER: "double",
    ColumnType.TRUTH: "boolean",
}


class Rows:
    """The rows of a topology's emissions."""

    def __init__(self, topology: Topology) -> None:
        self.columns = topology.row_columns
        self._windows = topology.window_lengths
        names = [column.name for column in self.columns]
        self._window_column = names[1]
        # Of each window, which of an emission's figures a row has, in order.
        self._places = [
            [
                place
                for place, figure in enumerate(topology.named_figures)
                if figure.window in (None, window)
            ]
            for window in self._windows
        ]
        self._names = names

    @property
    def windows(self) -> Sequence[int]:
        """The length of each row's window."""
        return self._windows

    def of(self, emission: Emission) -> list[Row]:
        """A row for each window, short ones first."""
        figures = emission.figures
        after = (
            emission.provisional,
            0 if emission.lost is None else emission.lost.records,
            emission.source_partition,
            emission.source_offset,
        )
        found = []
        for window, places in zip(self._windows, self._places, strict=True):
            numbers = [number for place in places for number in astuple(figures[place])[1:4]]
            values = (emission.key, window, emission.window_end_ms, *numbers, *after)
            found.append(dict(zip(self._names, values, strict=True)))
        return found

    def key(self, key: str, window: int) -> bytes:
        """The Kafka key of a row."""
        return (key if len(self._windows) == 1 else f"{key}/{window}").encode()


class RowCodec:
    """Rows as records, each written by `write`."""

    def __init__(self, topology: Topology, write: Callable[[Row], bytes]) -> None:
        self._rows = Rows(topology)
        self._write = write
        self.records_each = len(self._rows.windows)

    def records(self, emission: Emission) -> Iterator[tuple[bytes, bytes]]:
        """The rows' keys and values, short windows first."""
        rows = self._rows
        for window, row in zip(rows.windows, rows.of(emission), strict=True):
            yield rows.key(emission.key, window), self._write(row)


def avro_types(columns: Sequence[RowColumn]) -> dict[str, str | list[str]]:
    """The columns' types in Avro, by their names."""
    return {
        column.name: ["null", _AVRO[column.type]] if column.is_figure else _AVRO[column.type]
        for column in columns
    }


def json_row(row: Row) -> bytes:
    """A row as JSON; a number that does not exist is null."""
    return _encode(row)


def connect_row(name: str, columns: Sequence[RowColumn]) -> Callable[[Row], bytes]:
    """The writer of rows as Connect's JsonConverter reads them with `schemas.enable`: each with the
    schema of its columns, called `name`.
    """
    fields = [
        {"field": column.name, "type": _CONNECT[column.type], "optional": column.is_figure}
        for column in columns
    ]
    schema = {"type": "struct", "name": name, "optional": False, "fields": fields}
    head = b'{"schema":' + _encode(schema) + b',"payload":'
    return lambda row: head + _encode(row) + b"}"
