"""Rows of files as events, without a detour through JSON.

A row whose cells are plainly what the topology takes comes as a key, a time, numbers and
items, and these are what a decoder would have made of its JSON. Any other row comes as the JSON
record that it would have been, for the decoder that a worker has to judge: so nothing is taken or
refused that a worker would not have taken or refused, in the same words.
"""

from dataclasses import replace
from functools import reduce
from itertools import starmap
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as f
from pyspark.sql.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
)

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.decoding.field_columns import Interleaving
from slidestat.engine.events import texts
from slidestat.engine.records import RecordBatch
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH
from slidestat.spark.backfill.reading.named_columns import NamedColumns, column_of

Int64s = npt.NDArray[np.int64]

_NUMBER, _ITEM = "number_{}", "item_{}"
_DECIMAL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def plain_columns(
    rows: DataFrame, topology: Topology, names: NamedColumns
) -> tuple[Column, list[Column]]:
    """Return (whether the cells of a row are plain, its numbers and its items); `names` are the
    columns that hold what the topology reads. Where it has expressions, no row is: its decoder
    computes them.
    """
    columns, plain = [], [f.lit(not topology.expression_fields)]
    for i, wanted in enumerate(topology.columns.numbers):
        number = _number(rows, names.fields.get(wanted.path), are_texts=names.are_texts)
        columns.append(number.alias(_NUMBER.format(i)))
        if wanted.limits is not None:  # NaN is more than the most.
            plain.append(number.between(wanted.limits.least, wanted.limits.most))
    for i, wanted in enumerate(topology.columns.items):
        item = _item(rows, names.fields.get(wanted.path))
        columns.append(item.alias(_ITEM.format(i)))
        plain.append(f.length(item) <= MAX_ITEM_LENGTH)
    return _all(plain), columns


def plain_place(topology: Topology, time: Column, key_text: Column) -> Column:
    """Return whether a time in milliseconds and a key are such as an event may have."""
    in_time = (time >= EARLIEST_TIME_MS) & (time < LATEST_TIME_MS)
    if topology.publishes_partitions:  # Its events may have any key, or none.
        return f.coalesce(in_time, f.lit(False))
    return _all([in_time, f.length(key_text).between(1, MAX_KEY_LENGTH)])


def row_schema(topology: Topology) -> pa.Schema:
    """Return the columns of files' rows as they come: a value where they are not plain, else the
    rest.
    """
    columns = topology.columns
    numbers = [(_NUMBER.format(i), pa.float64()) for i in range(len(columns.numbers))]
    items = [(_ITEM.format(i), pa.large_string()) for i in range(len(columns.items))]
    # Of large types: pieces that are merged may have more than 2 GiB of texts.
    own = [("timestamp", pa.int64()), ("key", pa.large_binary()), ("value", pa.large_binary())]
    return pa.schema([*own, *numbers, *items])


class PlainEvents:
    """A reader of the rows of pieces."""

    def __init__(self, topology: Topology, decoder: EventDecoder) -> None:
        self._decoder = decoder
        self._has_keys = not topology.publishes_partitions
        self._numbers = [_NUMBER.format(i) for i in range(len(topology.columns.numbers))]
        self._items = [_ITEM.format(i) for i in range(len(topology.columns.items))]

    def columns(self, part: pa.RecordBatch, batch: RecordBatch) -> EventColumns:
        """Return the events of a batch of files' rows, and the refusals; `part` has its Arrow
        columns.
        """
        is_record = part["value"].is_valid().to_numpy(zero_copy_only=False)
        if not is_record.any():
            return self._plain(part, np.arange(len(part)))
        if is_record.all():
            return self._decoder.decode(batch.values, batch.keys, batch.timestamps)
        rows = np.flatnonzero(is_record)
        places = rows.tolist()
        judged = self._decoder.decode(
            [batch.values[row] for row in places],
            [batch.keys[row] for row in places],
            [batch.timestamps[row] for row in places],
        )
        others = np.flatnonzero(~is_record)
        return _joined(self._plain(part.take(pa.array(others)), others), judged, rows)

    def _plain(self, part: pa.RecordBatch, rows: Int64s) -> EventColumns:
        count = len(rows)
        return EventColumns(
            rows=rows,
            keys=_texts(part["key"]) if self._has_keys else texts([""] * count),
            times=part["timestamp"].to_numpy(),
            numbers=tuple(part[name].to_numpy() for name in self._numbers),
            items=tuple(_texts(part[name]) for name in self._items),
            refusals=[],
        )


def _joined(plain: EventColumns, judged: EventColumns, rows: Int64s) -> EventColumns:
    """Return the events of both in order of their rows; those judged were at `rows`."""
    both = Interleaving(plain.rows, rows[judged.rows])
    return EventColumns(
        rows=both.rows,
        keys=both.texts(plain.keys, judged.keys),
        times=both.arrays(plain.times, judged.times),
        numbers=tuple(starmap(both.arrays, zip(plain.numbers, judged.numbers, strict=True))),
        items=tuple(starmap(both.texts, zip(plain.items, judged.items, strict=True))),
        refusals=[replace(refusal, row=int(rows[refusal.row])) for refusal in judged.refusals],
    )


def _texts(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_string())


def _number(rows: DataFrame, name: str | None, *, are_texts: bool) -> Column:
    """Return a column of numbers as the double that its JSON would be read as; null for other
    columns.
    """
    if name is None:  # It is computed.
        return f.lit(None).cast("double")
    kind, column = rows.schema[name].dataType, column_of(name)
    if isinstance(kind, IntegralType | DoubleType):
        return column.cast("double")
    if isinstance(kind, FloatType | DecimalType):
        return column.cast("string").cast("double")
    if are_texts and isinstance(kind, StringType):
        return f.when(column.rlike(_DECIMAL), column.try_cast("double"))
    return f.lit(None).cast("double")


def _item(rows: DataFrame, name: str | None) -> Column:
    """Return a column of texts, whole numbers or truth values as JSON's text; null for other
    columns, and for bytes that are no text.
    """
    if name is None:
        return f.lit(None).cast("string")
    kind, column = rows.schema[name].dataType, column_of(name)
    if isinstance(kind, StringType | IntegralType | BooleanType):
        item = column.cast("string")
        return f.when(f.is_valid_utf8(item), item)
    return f.lit(None).cast("string")


def _all(conditions: list[Column]) -> Column:
    """Return whether all hold; an unknown one does not."""
    return f.coalesce(reduce(and_, conditions, f.lit(True)), f.lit(False))
