"""Statistics over a DataFrame: its rows are events, read and counted as a worker would.

    DataFrame -> Arrow -> records, in order of time -> a partition's engine -> figures -> DataFrame

Rows are read as those of a Parquet file of the same types are, by `produce` and backfills.
"""

import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time as clock, timedelta
from numbers import Number
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.derived import EMIT_EVENTS, EMIT_WINDOWS
from slidestat.declare.statistics import ItemCounts, Statistic
from slidestat.declare.times.lengths import window_length
from slidestat.declare.topology import Topology, require_json, require_times
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.tick_records import TickDecoder, ticks_at
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.intake.letters import Letter
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import NO_TIME, RecordBatch
from slidestat.errors import SlidestatError, shown
from slidestat.options import KEY_FIELD, TIME_FIELD, TIME_UNIT, VALUE_FIELD, TimeUnit
from slidestat.produce.cells import Cells, TypedCells
from slidestat.produce.file_records import RECORDS, FileRecords
from slidestat.produce.readers import Rows, is_read_of, no_columns, rows_of_table
from slidestat.schemas.emission import Emission, Figure
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.testing.records import MemoryStore
from slidestat.text import plain_detail

Frame = TypeVar("Frame")

_BATCH_RECORDS = 50_000
_NAME = "frame"
_NO_TIMESTAMP = -1
_UNREADABLE = (pa.ArrowException, OverflowError, TypeError, ValueError, NotImplementedError)
_OWN_COLUMNS = {name: name for name in (KEY_FIELD, TIME_FIELD, VALUE_FIELD)}
_TYPES: dict[str, pa.DataType] = {
    "statistic": pa.string(),
    "item": pa.string(),
    "window_ms": pa.int64(),
    "window_events": pa.int64(),
    "window": pa.string(),
    "counted_from_ms": pa.int64(),
    "derived": pa.bool_(),
}
_TIME = pa.timestamp("ms", "UTC")
_YEAR_MS = 31_556_952_000
# The first sort that fits a Python object: a datetime is a date, too, and NumPy's lengths are
# integers.
_SORTS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("truth values", (bool, np.bool_)),
    ("durations", (timedelta, np.timedelta64)),
    ("numbers", (Number,)),
    ("moments", (datetime, np.datetime64)),
    ("dates", (date,)),
    ("times of day", (clock,)),
    ("texts", (str, bytes)),
)
_LIBRARIES = ("pandas", "polars", "duckdb")
# Types within lists and structs count too, but not names of fields or texts of an enum.
_NOT_WHOLE = re.compile(
    r"""'[^']*'|"[^"]*"|\b(UHUGEINT|BIGNUM|TIME WITH TIME ZONE|BIT)(?=[\[,)]|$)"""
)
# Doubles have each whole number below it.
_FIRST_UNSURE = 2.0**53


def over(
    frame: Frame,
    counted: Topology | Sequence[Statistic],
    *,
    key: str = KEY_FIELD,
    time: str = TIME_FIELD,
    value: str = VALUE_FIELD,
    every: str | None = None,
    windows: Sequence[str] = (),
    unit: str = TIME_UNIT,
) -> Frame:
    """Return the figures of a DataFrame's rows, with their bounds, as a DataFrame of its kind.

    `frame` is of pandas or Polars, a table of Arrow, or anything that gives out Arrow's streams.
    With statistics alone there is one window, of all rows from the first time to the last; with
    `every` ("5m"), one for each length in `windows` ("1h"), by default `every` itself, at each of
    its multiples, as a worker has them. `key`, `time` and `value` name the columns of these; other
    fields are columns of their own names. A topology declares all of that itself: the figures are
    those of a worker that reads the rows in order of time, and goes on until all windows are empty.

    Whole numbers of time count `unit`s: "s", "ms", "us" or "ns". Times without a zone are UTC. Rows
    may be in any order; those that are no events, as they have no time, are left out with a
    warning.

    The columns are those of `slidestat.spark.read_statistics`: key, window_start, window_end,
    statistic, what tells figures of one statistic apart, estimate, lower, upper, and what is
    promised. Raises SlidestatError for a frame that lacks a column or cannot be read. Memory: some
    400 bytes a row, and the figures.
    """
    columns = {KEY_FIELD: key, TIME_FIELD: time, VALUE_FIELD: value}
    for field, column in columns.items():
        if not isinstance(column, str):
            raise SlidestatError(
                f"{field} is {shown(column)}, which is no name of a column.",
                "Give a text; rename the columns of the frame if theirs are numbers.",
            )
    if isinstance(windows, str) or not isinstance(windows, Sequence):
        raise SlidestatError(f"windows is {shown(windows)}.", "Give a list of texts.")
    if isinstance(counted, Topology):
        if (columns, every, windows) != (_OWN_COLUMNS, None, ()):
            raise SlidestatError(
                "A topology declares its fields, windows and ticks itself.",
                "Give it alone, or statistics in its place.",
            )
        _require_figures(counted)
        return _like(frame, _Events.of(frame, counted, {}, unit).figures())
    if every is None:
        if windows:
            raise SlidestatError(
                "There are windows, and nothing says when they end.",
                'Give every="5m" too, or leave windows out for one window of all rows.',
            )
        # The lengths of windows are known only once times are, and do not change the fields.
        any_length = _topology(counted, "1h", "1h")
        return _like(frame, _Events.of(frame, any_length, columns, unit).figures_of_all())
    window_length(every, "every")  # Else the window that is taken from it would be blamed.
    windows = tuple(windows) or (every,)
    span = max(windows, key=lambda text: window_length(text, "windows"))
    topology = _topology(counted, span, every, windows, EMIT_WINDOWS)
    return _like(frame, _Events.of(frame, topology, columns, unit).figures())


def _require_figures(counted: Topology) -> None:
    """Raise SlidestatError for a topology that a frame gives no figures of."""
    require_times(counted, "over")
    require_json(counted, "over")
    if counted.publish:
        raise SlidestatError(
            f"{counted.name} publishes synopses, and a referee has their figures.",
            "Leave publish out: a frame is one partition.",
        )
    if all(isinstance(it, ItemCounts) and not it.items for it in counted.statistics):
        raise SlidestatError(
            f"{counted.name} has no figures but those of items that are asked for later.",
            'Name some to have them in every record: ItemCounts(items=["GET"]).',
        )


def _topology(
    statistics: Sequence[Statistic],
    span: str,
    every: str,
    windows: Sequence[str] = (),
    emit: str = EMIT_EVENTS,
) -> Topology:
    is_list = isinstance(statistics, Sequence) and not isinstance(statistics, str)
    if not is_list:
        raise SlidestatError(
            f"{shown(statistics)} is no topology and no list of statistics.",
            "Give one of them: over(frame, [Count()]).",
        )
    if any(isinstance(it, ItemCounts) and not it.items for it in statistics):
        raise SlidestatError(
            "item_counts has no items, and a frame cannot be asked for some later.",
            'Name those to count: ItemCounts(items=["GET"]); TopItems finds the most frequent.',
        )
    return Topology(
        name=_NAME,
        source=_NAME,
        span=span,
        every=every,
        windows=windows,
        statistics=tuple(statistics),
        emit=emit,
    )


@dataclass(frozen=True)
class _Events:
    """The rows of a table as the events of a topology."""

    topology: Topology
    records: FileRecords
    rows: Sequence[Rows]

    @classmethod
    def of(
        cls, frame: object, topology: Topology, columns: Mapping[str, str], unit: str
    ) -> "_Events":
        records = FileRecords.of(topology, columns, unit)
        table = _table(frame, records.names)
        rows = list(rows_of_table(table, records.names))
        _warn_of_rounded(table, records)
        return cls(topology, records, rows)

    def figures(self) -> pa.Table:
        """Return the figures of all windows, in order of their ends."""
        return _figures(self._emissions())

    def figures_of_all(self) -> pa.Table:
        """Return the figures of one window, which has all events.

        Windows end at multiples of a length: for this one to begin with the first event, all times
        are moved, and its end back again.
        """
        name, unit = self.records.time, self.records.unit
        times = pa.chunked_array(
            [rows.columns[name].times_ms(unit) for rows in self.rows], pa.int64()
        ).to_numpy(zero_copy_only=False)
        times = times[(times >= EARLIEST_TIME_MS) & (times < LATEST_TIME_MS)].astype(np.int64)
        if not len(times):
            return _figures(self._emissions())
        first, end = int(times.min()), int(times.max()) + 1
        length = end - first
        moved = first - -(-first // length) * length
        if end - moved > LATEST_TIME_MS:
            raise SlidestatError(
                f"The times of the rows are {length // _YEAR_MS} years apart, more than one window"
                " can be long.",
                'Give every="365d" for windows of a year, or rows of fewer years.',
            )
        topology = _topology(self.topology.statistics, f"{length}ms", f"{length}ms")
        rows = [
            replace(it, columns=it.columns | {name: _Moved(it.columns[name].column, moved)})
            for it in self.rows
        ]
        found = _Events(topology, replace(self.records, topology=topology), rows)._emissions()
        return _figures(
            msgspec.structs.replace(emission, window_end_ms=end)
            for emission in found
            if emission.window_end_ms + moved == end
        )

    def _emissions(self) -> list[Emission]:
        """Return what a worker emits that reads the records by time, until windows are empty."""
        batches = [self.records.of_rows(rows) for rows in self.rows]
        events = pa.Table.from_batches(batches, RECORDS)
        times = events["timestamp"].fill_null(_NO_TIMESTAMP).to_numpy()
        order = np.argsort(times, kind="stable")
        topology, source = self.topology, self.topology.events_topic
        decoder = TickDecoder(topology)
        codec = JsonCodec()
        engine = PartitionProcessor(topology, source, 0, MemoryStore(), decoder, codec)
        emissions: list[Emission] = []
        letters: list[Letter] = []

        def take(effects: Effects) -> None:
            emissions.extend(codec.decode(value) for _, value, *_ in effects.emissions)
            letters.extend((*effects.dead_letters, *effects.late))

        for start in range(0, len(order), _BATCH_RECORDS):
            chosen = order[start : start + _BATCH_RECORDS]
            part = events.take(pa.array(chosen)).combine_chunks().to_batches()[0]
            keys, values = BinaryColumn.of(part["key"]), BinaryColumn.of(part["value"])
            offsets = np.arange(start, start + len(chosen), dtype=np.int64)
            batch = RecordBatch(source, 0, offsets, keys, values, times[chosen], start)
            take(engine.process(batch))
        if engine.newest_time != NO_TIME:
            span = topology.span_length
            rest = topology.every_ms + topology.lateness_ms + (0 if span.of_events else span.length)
            take(engine.process(ticks_at(engine.newest_time + rest, source, 0, len(order))))
        self._warn(letters, order)
        return emissions

    def _warn(self, letters: Sequence[Letter], order: npt.NDArray[np.int64]) -> None:
        """Warn of rows that are not counted."""
        if letters:
            first = min(letters, key=lambda letter: order[letter.offset])
            row = int(order[first.offset])
            why = self._unsendable(row) or f"{first.reason}, {plain_detail(first.detail)}"
            warnings.warn(
                f"{len(letters):,} of {len(order):,} rows are not counted; the first, at"
                f" {row:,} (from 0): {why}",
                stacklevel=5,
            )

    def _unsendable(self, at: int) -> str:
        """Return what is wrong with a cell for whose value no JSON exists; "" if nothing is."""
        batches = iter(self.rows)
        rows = next(batches)
        while at >= len(rows.numbers):
            at -= len(rows.numbers)
            rows = next(batches)
        key, time = self.records.key, self.records.time
        for name in self.records.names:
            cells = TypedCells(rows.columns[name].column[at : at + 1])
            if name == time and cells.times_ms(self.records.unit)[0].is_valid:
                continue
            if name == time and pa.types.is_duration(cells.column.type):
                return f"{name} is {cells.shown(0)}, a length of time"
            sent = cells.text() if name == key else cells.json()
            if not sent[0].is_valid and not cells.missing()[0]:
                return f"{name} is {cells.shown(0)}, {cells.fault(0)}"
        return ""


class _Moved(TypedCells):
    """Cells whose times are moved back by some milliseconds."""

    def __init__(self, column: pa.Array, moved: int) -> None:
        super().__init__(column)
        self._moved = moved

    def of_rows(self, rows: pa.Array) -> Cells:
        return _Moved(self.column.filter(rows), self._moved)

    def times_ms(self, unit: TimeUnit) -> pa.Array:
        return pc.subtract(super().times_ms(unit), self._moved)


def _table(frame: Any, names: Sequence[str]) -> pa.Table:
    """Return the columns of a frame that these names, or paths, need."""
    try:
        if isinstance(frame, pa.Table):
            table = frame
        elif _library(frame) == "pandas":
            table = _of_pandas(frame, names)
        else:
            if _library(frame) == "polars":
                frame = _of_polars(frame, names)
            elif _library(frame) == "duckdb":
                _require_whole(frame, names)
            elif isinstance(frame, Mapping):  # Lists by their names.
                for name in {*names}.intersection(frame):
                    _require_one_sort(name, set(map(type, frame[name])) - {type(None)})
            table = pa.table(frame)
    except _UNREADABLE as error:
        reason = _first_line(error)
        if isinstance(error, UnicodeEncodeError):  # Nor can its text be printed.
            reason = f"a text has half of a character, {error.object[error.start]!a}"
        raise SlidestatError(
            f"The frame cannot be read: {reason}.",
            "Give a DataFrame of pandas or Polars (collected, if it is lazy), or a table of Arrow,"
            " with one type in each column; whole numbers of more than 64 bits as texts.",
        ) from error
    return table


def _first_line(error: BaseException) -> str:
    return ": ".join(map(str, error.args)).splitlines()[0].rstrip(".")


def _warn_of_rounded(table: pa.Table, records: FileRecords) -> None:
    """Warn of keys and items in floats that are too large for each whole number to be one."""
    items = {column.path for column in records.topology.columns.items}
    names = {records.key, *(name for path, name in records.fields.items() if path in items)}
    for name in sorted(names.intersection(table.column_names)):
        column = table[name]
        if pa.types.is_floating(column.type):
            large = pc.greater_equal(pc.abs(column.cast(pa.float64())), _FIRST_UNSURE)
            if pc.any(pc.and_(large, pc.is_finite(column))).as_py():
                warnings.warn(
                    f"{name} has numbers beyond 2^53 in floats, which may have been rounded: pandas"
                    " makes floats of integers where one is missing. Keep integers, such as with"
                    ' dtype_backend="numpy_nullable" of its readers.',
                    stacklevel=4,
                )


def _of_pandas(frame: Any, names: Sequence[str]) -> pa.Table:
    """Return the columns of a pandas frame, and of its index if that has one of the names."""
    if not hasattr(frame, "columns"):
        raise TypeError(f"a {type(frame).__name__} has no columns")
    if {*frame.index.names}.intersection(names).difference(frame.columns):
        frame = frame.reset_index()
    present = frame.columns.tolist()
    of_names = {name: {column for column in present if is_read_of(column, name)} for name in names}
    missing = [name for name, columns in of_names.items() if not columns]
    if missing:
        raise no_columns(missing, list(map(str, present)), "; an index has to have a name")
    needed = frame.loc[:, frame.columns.isin([*set().union(*of_names.values())])]
    for place, name in enumerate(needed.columns):
        column = needed.iloc[:, place]
        if column.dtype == object:
            _require_one_sort(name, set(map(type, column.dropna())))
    return pa.Table.from_pandas(needed, preserve_index=False)


def _require_one_sort(name: str, types: Iterable[type]) -> None:
    """Raise TypeError for objects of several types: Arrow applies the type of the first ones to
    all. It would turn a moment behind a day into a day, and a number into a moment.
    """
    sorts = sorted({_sort_of(each) for each in types})
    if len(sorts) > 1:
        raise TypeError(f"{name!r} has {' and '.join(sorts)}")


def _sort_of(kind: type) -> str:
    return next((sort for sort, kinds in _SORTS if issubclass(kind, kinds)), "other objects")


def _of_polars(frame: Any, names: Sequence[str]) -> Any:
    """Return the columns of a frame of Polars that are needed, if all are there: Arrow lacks some
    of its types. Raises TypeError for Python objects, of which Polars hands out the addresses.
    """
    is_lazy = "DataFrame" not in {kind.__name__ for kind in type(frame).__mro__}
    schema = {} if is_lazy else getattr(frame, "schema", {})
    needed = {it: [name for name in names if is_read_of(it, name)] for it in schema}
    for name, kind in schema.items():
        if needed[name] and str(kind) == "Object":
            raise TypeError(f"{name!r} has Python objects")
    if {*names}.difference(*needed.values()):
        return frame
    return frame.select([name for name, of in needed.items() if of])


def _require_whole(relation: Any, names: Sequence[str]) -> None:
    """Raise TypeError for columns of DuckDB of types that it hands out as others: numbers without a
    sign wrap, times of day are without their offsets, and bits are bytes.
    """
    for column, kind in zip(relation.columns, map(str, relation.types), strict=True):
        lost = next(filter(None, _NOT_WHOLE.findall(kind)), None)
        if lost and any(is_read_of(column, name) for name in names):
            raise TypeError(f"{column!r} has the type {lost}, which DuckDB gives out as another")


def _like(frame: Frame, table: pa.Table) -> Frame:
    """Return a table as a frame of the other one's kind."""
    found: Any = table
    if _library(frame) == "pandas":
        found = table.to_pandas()
    elif _library(frame) == "polars":
        found = sys.modules["polars"].from_arrow(table)
    return cast(Frame, found)


def _library(frame: object) -> str:
    """Return the library of a frame, also of one that another library has made of it, as GeoPandas
    has of pandas'.
    """
    # DuckDB 1 says _duckdb.
    libraries = {kind.__module__.partition(".")[0].lstrip("_") for kind in type(frame).__mro__}
    return next((library for library in _LIBRARIES if library in libraries), "")


def _figures(emissions: Iterable[Emission]) -> pa.Table:
    """Return a row for each figure."""
    pairs = [(emission, figure) for emission in emissions for figure in emission.figures]
    ends = [emission.window_end_ms for emission, _ in pairs]
    starts = [
        None if figure.window_ms is None else end - figure.window_ms
        for end, (_, figure) in zip(ends, pairs, strict=True)
    ]
    columns = {
        "key": pa.array([emission.key for emission, _ in pairs], pa.string()),
        "window_start": pa.array(starts, _TIME),
        "window_end": pa.array(ends, _TIME),
    }
    for field in msgspec.structs.fields(Figure):
        cells = [getattr(figure, field.name) for _, figure in pairs]
        columns[field.name] = pa.array(cells, _TYPES.get(field.name, pa.float64()))
    return pa.table(columns)
