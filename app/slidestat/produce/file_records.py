"""Rows of files as the records that `slidestat produce` would have sent of them.

    Parquet, CSV, TSV   an object with the fields that the topology reads, made of their columns
    JSON lines          each line as it is, as with `produce --raw`; an object as well where
                        columns or the unit of times are named

One reading of files serves both (`slidestat.produce`), and a worker's decoder judges the records.
So a row that is no event becomes the dead letter that it would have become, with its text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.times import are_number_texts, are_rounded
from slidestat.engine.records import NO_TIME
from slidestat.errors import SlidestatError, shown
from slidestat.options import TIME_UNIT, TimeUnit
from slidestat.produce.cells import Cells, require_wide_times
from slidestat.produce.events import keys_in_json, objects, raw_keys
from slidestat.produce.files import WHOLE, EventFile, Format, Share
from slidestat.produce.readers import Reader, Rows, missing_columns, require_own_separator
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS

# Large types: merged pieces may have more than 2 GiB of texts.
RECORDS = pa.schema(
    [("timestamp", pa.int64()), ("key", pa.large_binary()), ("value", pa.large_binary())]
)


class Part(NamedTuple):
    """A share of a file; `rank` is the file's place among all."""

    file: EventFile
    rank: int
    share: Share = WHOLE


def named_columns(
    topology: Topology, key: str | None, time: str | None, value: str | None
) -> dict[str, str]:
    """Return the columns that are given for the fields of key, time and value, by field."""
    fields = (topology.key_name, topology.time_name, field_text(topology.value_path))
    given = zip(fields, (key, time, value), strict=True)
    return {field: column for field, column in given if column is not None}


@dataclass(frozen=True)
class FileRecords:
    """A reader of files' rows as records of a topology: `key` and `time` are the columns of these,
    whose whole numbers count `unit`s, and `fields` those of the other fields that it reads. Lines
    of JSON are records already where they have a `line_key`, the path of their keys.
    """

    topology: Topology
    key: str
    time: str
    unit: TimeUnit
    fields: Mapping[FieldPath, str]
    line_key: FieldPath | None

    @classmethod
    def of(cls, topology: Topology, given: Mapping[str, str], unit: str) -> "FileRecords":
        """Make the reader; a field is in the column of its own name unless another is `given`.
        Raises SlidestatError for a unit that is none.
        """
        if unit not in [*TimeUnit]:
            raise SlidestatError(f"unit is {shown(unit)}.", f"Give one of {', '.join(TimeUnit)}.")
        names = {path: field_text(path) for path in _paths(topology)}
        is_raw = topology.time_path is not None and not given and unit == TIME_UNIT
        return cls(
            topology,
            given.get(topology.key_name, topology.key_name),
            given.get(topology.time_name, topology.time_name),
            TimeUnit(unit),
            {path: given.get(name, name) for path, name in names.items()},
            topology.key_path if is_raw else None,
        )

    @property
    def names(self) -> list[str]:
        """Return the columns that are read, each once."""
        keys = (self.key,) if self.has_key else ()
        return list(dict.fromkeys((*keys, self.time, *self.fields.values())))

    @property
    def has_key(self) -> bool:
        """Return whether rows have the key; one that is computed is found when records are read."""
        return self.topology.key_path not in self.topology.computed_fields

    def require_columns(self, files: Sequence[EventFile], path: str) -> None:
        """Raise SlidestatError if no file of `path` has a column; each line of JSON has its own."""
        missing, present = self.names, list[str]()
        for file in files:
            if file.format is Format.JSON_LINES:
                return
            present = Reader(file).columns()
            missing = [name for name in missing if name not in present]
            if not missing:
                return
        if missing and files:
            own = (self.topology.key_name, self.topology.time_name)
            fields = dict.fromkeys((*own, *map(field_text, self.fields)))
            require_own_separator(file, present)
            none, known, guess = missing_columns(missing[:1], present)
            raise SlidestatError(
                f"{path} has no column {none}; {known}.",
                f"{guess}Say which column holds each of {', '.join(fields)}.",
            )

    def are_zoneless(self, file: EventFile) -> bool:
        """Return whether the first rows of a file have texts of times without an offset."""
        if file.format is Format.JSON_LINES and self.line_key is not None:
            return False  # The topology declares what they mean.
        for rows in Reader(file).batches([self.time]):
            cells = rows.columns[self.time]
            is_typed = pa.types.is_temporal(cells.column.type)
            return not is_typed and cells.count_zoneless(np.ones(len(cells), bool)) > 0
        return False

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the records of a part, in the order of its rows, with the columns of `RECORDS`;
        raises SlidestatError for a file that cannot be read, and for one without a key or a time.
        """
        reader = Reader(part.file, part.share)
        if self.line_key is not None and part.file.format is Format.JSON_LINES:
            for _, lines in reader.lines():
                there = [self._with_folders(x, part.file.folders) for x in lines if x.strip()]
                yield _of_lines(self._decoder, self.line_key, there)
            return
        may_lack = {*self.fields.values()} - {self.key, self.time}
        for rows in reader.batches(self.names, may_lack):
            if len(rows.numbers):
                yield self.of_rows(rows)
            if rows.malformed:
                texts = [row.text for row in rows.malformed]
                yield _batch(pa.nulls(len(texts)), pa.nulls(len(texts)), texts)

    def of_rows(self, rows: Rows) -> pa.RecordBatch:
        """Return the records of rows, with the columns of `RECORDS`; raises SlidestatError for
        times in narrow floats.
        """
        time = rows.columns[self.time]
        require_wide_times(self.time, time)
        times = time.times_ms(self.unit)
        keys = pa.nulls(len(times), pa.string())
        members: dict[FieldPath, pa.Array] = {}
        if self.has_key:
            key = rows.columns[self.key]
            keys = key.text()
            # A record's own key and time are not in its value.
            if self.topology.key_path is not None:
                members[self.topology.key_path] = _there(key, keys_in_json(keys))
        if self.topology.time_path is not None:
            format = self.topology.time_format
            members[self.topology.time_path] = _there(time, _in_format(times, time, format))
        for path, name in self.fields.items():
            cells = rows.columns[name]
            is_value = path == self.topology.value_path
            members[path] = _there(cells, cells.number() if is_value else cells.json())
        values = objects(members) if members else pa.repeat(b"{}", len(keys))
        return _batch(times, keys, values)

    def _with_folders(self, line: bytes, folders: Mapping[str, str | None]) -> bytes:
        """Return a line with what its folders' names have; its own fields come last, and hold."""
        found = {path: folders[name] for path, name in self._own.items() if name in folders}
        if not found or not line.lstrip().startswith(b"{"):
            return line
        rest = line.lstrip()[1:].lstrip()
        start = msgspec.json.encode({path[0]: text for path, text in found.items()})[:-1]
        return start + (b"" if rest.startswith(b"}") else b",") + rest

    @cached_property
    def _decoder(self) -> EventDecoder:
        return EventDecoder(self.topology)

    @cached_property
    def _own(self) -> dict[FieldPath, str]:
        own = {self.topology.key_path: self.key, self.topology.time_path: self.time}
        found = {path: name for path, name in own.items() if path is not None}
        return {path: name for path, name in (found | {**self.fields}).items() if len(path) == 1}


def _paths(topology: Topology) -> Iterator[FieldPath]:
    """Yield the fields that statistics and expressions read, each once, without key and time."""
    columns = topology.columns
    read = (column.path for column in (*columns.numbers, *columns.items))
    own = (topology.key_path, topology.time_path, *topology.computed_fields)
    yield from dict.fromkeys(
        path for path in (*read, *topology.expression_fields) if path not in own
    )


def _of_lines(decoder: EventDecoder, path: FieldPath, lines: list[bytes]) -> pa.RecordBatch:
    """Return lines as records, with the times and keys that the decoder reads; those that are no
    events have a key where one is found.
    """
    events = decoder.decode(lines, [None] * len(lines), np.full(len(lines), NO_TIME))
    times = np.full(len(lines), NO_TIME)
    times[events.rows] = events.times
    times[events.passed_over] = events.passed_over_times
    is_event = np.zeros(len(lines), bool)
    is_event[events.rows] = decoder.reads_keys
    others = np.flatnonzero(~is_event)
    own = events.keys.cast(pa.large_string()).cast(pa.large_binary())
    found = raw_keys((lines[row] for row in others.tolist()), path)
    keys = pa.concat_arrays([own[: is_event.sum()], pa.array(found, pa.large_binary())])
    order = np.argsort(np.concatenate((np.flatnonzero(is_event), others)))
    return _batch(pa.array(times, mask=times == NO_TIME), keys.take(pa.array(order)), lines)


def _there(cells: Cells, json: pa.Array) -> pa.Array:
    """Return cells in JSON, null where they are missing. One that cannot be sent is as it is, which
    is no JSON: so its record is refused, and has it.
    """
    faults = pc.and_(json.is_null(), pa.array(~cells.missing()))
    if not pc.any(faults).as_py():
        return json.cast(pa.binary())
    shown = [_shown(cells.column[at : at + 1]) for at in np.flatnonzero(faults).tolist()]
    return pc.replace_with_mask(json.cast(pa.binary()), faults, pa.array(shown, pa.binary()))


def _shown(column: pa.Array) -> bytes:
    """Return the only cell of a column."""
    cell = column[0]
    try:
        value = cell.as_py()
    except (OverflowError, LookupError, ValueError):  # Python has fewer times than Arrow.
        value = getattr(cell, "value", None)
        if value is None:  # One in a list or a struct.
            value = column.to_string(indent=0, skip_new_lines=True)[1:-1]
    return b"<%b>" % (value if isinstance(value, bytes) else str(value).encode())


def _in_format(times: pa.Array, cells: Cells, time_format: str) -> pa.Array:
    """Return times in JSON as the topology reads them; what is none, or far from all times, as it
    is, but for numbers and their texts: in another unit they may be times. A number that has lost
    digits is a text, as which it is refused.
    """
    text = times.cast(pa.string())
    # The numbers of durations would be read as times.
    if pa.types.is_duration(cells.column.type):
        return text
    is_other = times.is_null()
    if time_format != TIME_UNIT:
        is_time = pc.and_(pc.greater_equal(times, EARLIEST_TIME_MS), pc.less(times, LATEST_TIME_MS))
        is_other = pc.invert(pc.fill_null(is_time, False))
        written = TIME_FORMATS[time_format].written
        texts = [
            None if other else msgspec.json.encode(written(ms)).decode()
            for ms, other in zip(times.to_pylist(), is_other.to_pylist(), strict=True)
        ]
        text = pa.array(texts, pa.string())
    if not pc.any(is_other).as_py():
        return text
    others = cells.of_rows(is_other)
    json, is_rounded = others.json(), are_rounded(others.text())
    if time_format != TIME_UNIT:
        is_number = pc.or_(pc.invert(pc.starts_with(json, '"')), are_number_texts(others.text()))
        json = pc.if_else(is_number, None, json)
    json = pc.if_else(pc.fill_null(is_rounded, False), others.quoted(), json)
    return pc.replace_with_mask(text, is_other, json)


def _batch(times: pa.Array, keys: pa.Array, values: pa.Array | list[bytes]) -> pa.RecordBatch:
    if isinstance(values, list):
        values = pa.array(values, pa.large_binary())
    columns = (times, keys, values)
    return pa.record_batch(
        [column.cast(kind.type) for column, kind in zip(columns, RECORDS, strict=True)],
        schema=RECORDS,
    )
