"""Runs of events: what a batch has of one key, in order of time, as one row of Spark.

A row for each event would be made, sorted, brought over and taken apart one by one. The columns of
a run are bytes, so Spark moves them as they are; and the runs of a key that lie one after another
are one run again, without a copy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.synopses.core.arrays import Integers

_TIMES, _PLACES = "times", "places"
_NULL = -1


class TextColumns(NamedTuple):
    """The columns of a run that have one column of texts: their lengths, and themselves."""

    lengths: str
    texts: str


def text_columns(number: int) -> TextColumns:
    """Return the columns with the texts of one of `Declaration.columns`."""
    return TextColumns(f"lengths_{number}", f"texts_{number}")


def run_columns(texts: int) -> dict[str, str]:
    """Return the columns of a run with so many columns of texts, with their types: `at` is the time
    of its first event, a place is that of an event (`ExactKey`).
    """
    bytes_of = [_TIMES, _PLACES, *(name for n in range(texts) for name in text_columns(n))]
    return {"event_key": "string", "at": "long", **dict.fromkeys(bytes_of, "binary")}


def pack(
    keys: pa.Array, times: Integers, places: Integers, texts: Sequence[pa.Array]
) -> dict[str, pa.Array]:
    """Return the columns of the runs of some events, each of one key. Cost: a sort."""
    codes = keys.dictionary_encode().indices.to_numpy()
    order = np.lexsort((places, times, codes))
    codes, times = codes[order], times[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    edges = np.append(starts, len(codes))
    firsts = order[starts]
    columns = {
        "event_key": keys.take(pa.array(firsts)),
        "at": pa.array(times[starts]),
        _TIMES: _cut(times, edges),
        _PLACES: _cut(places[order], edges),
    }
    place = pa.array(order)
    for number, column in enumerate(texts):
        ordered = column.take(place)
        offsets = np.frombuffer(ordered.buffers()[1], np.int32)[: len(order) + 1]
        lengths = np.diff(offsets)
        lengths[ordered.is_null().to_numpy(zero_copy_only=False)] = _NULL
        names = text_columns(number)
        columns[names.lengths] = _cut(lengths, edges)
        columns[names.texts] = _binary(ordered.buffers()[2], offsets[edges])
    return columns


class Run(NamedTuple):
    """A run of events of one key, those of each packed run in order of time."""

    times: Integers
    places: Integers
    texts: list[pa.Array]


def unpack(rows: pa.RecordBatch, texts: int) -> Run:
    """Return the events of some rows of one key; a row may be no run, with nulls in its columns."""
    columns = []
    for names in map(text_columns, range(texts)):
        lengths = np.frombuffer(_joined(rows.column(names.lengths)), np.int32)
        columns.append(_texts(lengths, _joined(rows.column(names.texts))))
    times, places = (
        np.frombuffer(_joined(rows.column(name)), np.int64) for name in (_TIMES, _PLACES)
    )
    return Run(times, places, columns)


def _cut(numbers: npt.NDArray[np.generic], edges: Integers) -> pa.Array:
    """Return the bytes of numbers, from each edge to the next."""
    return _binary(pa.py_buffer(np.ascontiguousarray(numbers)), edges * numbers.itemsize)


def _binary(data: pa.Buffer | None, offsets: npt.NDArray[np.integer]) -> pa.Array:
    starts = pa.py_buffer(offsets.astype(np.int32))
    buffers = [None, starts, data or pa.py_buffer(b"")]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _joined(column: pa.Array) -> memoryview:
    """Return the bytes of all rows; a null has none."""
    _, offsets, data = column.cast(pa.binary()).buffers()
    if data is None or not len(column):
        return memoryview(b"")
    edges = np.frombuffer(offsets, np.int32)
    return memoryview(data)[edges[column.offset] : edges[column.offset + len(column)]]


def _texts(lengths: npt.NDArray[np.int32], data: memoryview) -> pa.Array:
    is_there = lengths != _NULL
    offsets = np.append(0, np.cumsum(np.where(is_there, lengths, 0))).astype(np.int32)
    there = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    buffers = [there, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)
