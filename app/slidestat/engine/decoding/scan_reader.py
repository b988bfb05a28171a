"""Reads plain records by kernels, all of a batch in one call, and leaves the others to msgspec.

A plain record is read as msgspec reads it, to the last bit, and is right in all that a reader
checks; so a record that lacks something, or has a wrong value, is left to msgspec to refuse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nextafter
from typing import Any

import numpy as np
import pyarrow as pa

from slidestat.declare.columns import MAX_ITEM_LENGTH, Limits
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn, arrow_of_spans
from slidestat.engine.decoding.computed_columns import ComputedFields
from slidestat.engine.decoding.conditions import Conditions
from slidestat.engine.decoding.evaluation import Computed, doubles
from slidestat.engine.decoding.event_columns import (
    FieldColumns,
    RecordReader,
    interleaved,
    placed_at,
)
from slidestat.engine.decoding.json_scan.columns import check_texts, read_doubles, read_wholes
from slidestat.engine.decoding.json_scan.plan import (
    DECIMAL,
    DEEPEST_FIELD,
    FALSE,
    INNER,
    MOST_FIELDS,
    NAME_END,
    NAME_START,
    NOTHING,
    OUTER,
    TAKES,
    TEXT,
    TRUE,
    WHOLE,
    Found,
    Plan,
)
from slidestat.engine.decoding.json_scan.records import read_records
from slidestat.engine.decoding.record_type import reads_key
from slidestat.engine.decoding.times import event_times, texts_ms, time_errors
from slidestat.schemas.event import MAX_KEY_LENGTH
from slidestat.synopses.core.arrays import Bytes, Floats, Integers

# The fields of a topology's records, as kernels look for them.

_ANY = NOTHING | TEXT | WHOLE | DECIMAL | FALSE | TRUE
_OF_SORT = {
    Sort.NUMBER: NOTHING | WHOLE | DECIMAL,
    Sort.TEXT: NOTHING | TEXT,
    Sort.TRUTH: NOTHING | FALSE | TRUE,
    Sort.ANY: _ANY,
    # A number with a fraction is formatted again, as one of an item.
    Sort.SCALAR: _ANY & ~DECIMAL,
}
_INT64 = (-(2**63), 2**63 - 1)
_NO_LIMIT = (-np.inf, np.inf)
_ANY_LENGTH = (0, 2**63 - 1)


@dataclass
class Sought:
    """A field that is looked for: the sorts of values that are plain for it, whether it must be
    there, and what is read of it: a double or an int64 within its limits, or its raw text, which
    has so many `characters` if it is a string.
    """

    takes: int = _ANY
    is_required: bool = False
    has_double: bool = False
    has_whole: bool = False
    characters: tuple[int, int] = _ANY_LENGTH
    limits: tuple[float, float] = _NO_LIMIT
    whole_limits: tuple[int, int] = _INT64


@dataclass(frozen=True)
class ScanPlan:
    """A kernel's plan, the fields that are `sought`, and where they are in what it finds."""

    plan: Plan
    sought: dict[FieldPath, Sought]
    places: dict[FieldPath, int]

    def room(self, records: int) -> Found:
        """Return empty arrays for the fields of a number of records."""
        shape = (len(self.places), records)
        return Found(
            is_plain=np.empty(records, bool),
            sorts=np.zeros(shape, np.uint8),
            starts=np.empty(shape, np.int64),
            ends=np.empty(shape, np.int64),
        )

    @classmethod
    def of(cls, topology: Topology) -> "ScanPlan | None":
        """Return the plan of a topology; None if it has more fields than kernels can look for."""
        sought = _sought(topology)
        deepest = max(map(len, sought), default=0)
        objects = {path[:depth] for path in sought for depth in range(1, len(path))}
        if len(sought) + len(objects) > MOST_FIELDS or deepest > DEEPEST_FIELD:
            return None
        return _planned(sought)


def _sought(topology: Topology) -> dict[FieldPath, Sought]:
    """Return the fields that a topology reads; each takes what suits all its readers."""
    found: dict[FieldPath, Sought] = {}
    key, time = topology.key_path, topology.time_path
    if time is not None:
        found[time] = _time(topology)
    computed = topology.computed_fields
    if key is not None and reads_key(topology):
        length = (1, MAX_KEY_LENGTH)
        found[key] = Sought(TEXT | WHOLE, is_required=True, characters=length)
    for column in (c for c in topology.columns.items if c.path not in computed):
        field = found.setdefault(column.path, Sought(characters=(0, MAX_ITEM_LENGTH)))
        field.takes &= ~DECIMAL  # It is formatted again: 1e2 is the item 100.0.
    for place, column in enumerate(topology.columns.numbers):
        if column.path in computed:
            continue
        field = found.setdefault(column.path, Sought())
        field.takes &= _OF_SORT[Sort.NUMBER]
        field.has_double = True
        limits = Limits() if place in topology.chosen_columns else column.limits or Limits()
        field.limits = (limits.least, limits.most)
    for path, sorts in topology.expression_fields.items():
        for sort in sorts:
            field = found.setdefault(path, Sought())
            field.takes &= _OF_SORT[sort]
            field.has_double |= sort is Sort.NUMBER and not field.has_whole
    for field in found.values():
        if field.is_required:
            field.takes &= ~NOTHING
        if not field.has_double:
            # Whether it is too large is not checked.
            field.takes &= ~DECIMAL
    return found


def _time(topology: Topology) -> Sought:
    times = topology.times
    if times.is_text:
        return Sought(TEXT, is_required=True)
    # A fraction in other units than seconds is not plain, and neither is a number in a text.
    limits = [limit * times.per_second // 1_000 for limit in (times.earliest, times.latest)]
    if times.per_second == 1:
        seconds = (float(limits[0]), nextafter(limits[1], -np.inf))
        return Sought(WHOLE | DECIMAL, is_required=True, has_double=True, limits=seconds)
    return Sought(WHOLE, is_required=True, has_whole=True, whole_limits=(limits[0], limits[1] - 1))


def _planned(sought: dict[FieldPath, Sought]) -> ScanPlan:
    tree: dict[str, Any] = {}
    for path in sought:
        inner = tree
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = {}
    # Object by object, so that the fields of each are side by side.
    objects: list[FieldPath] = [()]
    fields: dict[FieldPath, int] = {}
    firsts, outer = [0], []
    for number, around in enumerate(objects):
        inner = tree
        for name in around:
            inner = inner[name]
        for name, content in inner.items():
            fields[*around, name] = len(fields)
            outer.append(number)
            if content:
                objects.append((*around, name))
        firsts.append(len(fields))
    all_of = [sought.get(path) or _object(path, sought) for path in fields]
    names = [path[-1].encode("utf-8", "surrogatepass") for path in fields]
    table = np.empty((len(fields), 5), np.int64)
    table[:, NAME_END] = np.cumsum([len(name) for name in names])
    table[:, NAME_START] = table[:, NAME_END] - [len(name) for name in names]
    table[:, OUTER] = outer
    table[:, INNER] = [objects.index(path) if path in objects else -1 for path in fields]
    table[:, TAKES] = [field.takes for field in all_of]
    plan = Plan(
        names=np.frombuffer(b"".join(names), np.uint8),
        fields=table,
        firsts=np.array(firsts, np.int64),
        required=np.array([sum(1 << i for i, f in enumerate(all_of) if f.is_required)], np.int64),
        followers=np.full(len(fields) + len(objects), -1, np.int64),
        path=np.empty(DEEPEST_FIELD, np.int64),
    )
    return ScanPlan(plan, sought, fields)


def _object(path: FieldPath, sought: dict[FieldPath, Sought]) -> Sought:
    """Return the requirement for an object on the way to fields: it may be missing, or null, where
    all of them may.
    """
    is_required = any(
        field.is_required for other, field in sought.items() if other[: len(path)] == path
    )
    return Sought(0 if is_required else NOTHING, is_required=is_required)


class ScanReader:
    """A reader of a topology's records; `others` reads those that are not plain."""

    # Smaller batches are for the others, too: one costs 70 us here, however few its records are.
    FEWEST = 300

    def __init__(self, topology: Topology, plan: ScanPlan, others: RecordReader) -> None:
        self._plan = plan
        self._others = others
        self._key = topology.key_path if reads_key(topology) else None
        self._time = topology.time_path
        self._times = topology.times
        self._time_name = topology.time_name
        self._numbers = [column.path for column in topology.columns.numbers]
        self._items = [column.path for column in topology.columns.items]
        self._conditions = Conditions(topology)
        self._computed = ComputedFields(topology)
        self._read_numbers = [p for p in self._numbers if p not in topology.computed_fields]

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """Return the fields of all records; cost: 0.17 microseconds for a plain one of 55 bytes."""
        if len(records) < self.FEWEST:
            return self._others.read(records)
        column = BinaryColumn.of(records)
        fields = _Fields(self._plan, column.buffer, column.starts, column.ends)
        if fields.are_all:
            return self._columns(fields)
        left = np.flatnonzero(~fields.is_plain)
        others = self._others.read(column.take(left))
        return interleaved(self._columns(fields), placed_at(left, others))

    def _columns(self, fields: "_Fields") -> FieldColumns:
        numbers = {path: fields.doubles(path) for path in self._read_numbers}
        count = len(fields.rows)
        times, errors = None, {}
        if self._time is not None:
            is_text = self._times.is_text
            values = fields.texts(self._time) if is_text else fields.numbers(self._time)
            times = (texts_ms if is_text else event_times)(values, self._times)
            errors[self._time] = time_errors(times, values, self._times, self._time_name)
        judged = None
        if self._conditions:
            judged = self._conditions.judged(count, fields.of_sorts(self._conditions.fields))
        computed = self._computed.of(count, fields.of_sorts(self._computed.fields))
        numbers |= computed.numbers
        return FieldColumns(
            rows=fields.rows,
            keys=computed.keys
            if self._key is None
            else fields.texts(self._key).dictionary_encode(),
            times=times,
            numbers=tuple(numbers[path] for path in self._numbers),
            items=tuple(
                computed.items[path] if path in computed.items else fields.texts(path)
                for path in self._items
            ),
            judged=judged,
            errors=computed.errors | errors,
        )


class _Fields:
    """The fields of those of n records that are plain: `is_plain` bool[n], and the others' rows."""

    def __init__(self, plan: ScanPlan, buffer: Bytes, starts: Integers, ends: Integers) -> None:
        self._buffer = buffer
        self._places = plan.places
        self._numbers: dict[FieldPath, Floats | Integers] = {}
        found = plan.room(len(starts))
        read_records(buffer, starts, ends, plan.plan, found)
        self.is_plain = found.is_plain
        for path, sought in plan.sought.items():
            self._read(path, sought, found)
        self.rows = np.flatnonzero(self.is_plain)
        self.are_all = len(self.rows) == len(starts)
        self._sorts, self._starts, self._ends = found.sorts, found.starts, found.ends
        if not self.are_all:
            rows = self.rows
            self._sorts = found.sorts[:, rows]
            self._starts, self._ends = found.starts[:, rows], found.ends[:, rows]
            self._numbers = {path: column[rows] for path, column in self._numbers.items()}

    def _read(self, path: FieldPath, sought: Sought, found: Found) -> None:
        """Read a field's numbers, or check its texts."""
        is_plain, place = found.is_plain, self._places[path]
        sorts, starts, ends = found.sorts[place], found.starts[place], found.ends[place]
        if sought.has_whole:
            wholes = np.empty(len(sorts), np.int64)
            read_wholes(self._buffer, is_plain, starts, ends, *sought.whole_limits, wholes)
            self._numbers[path] = wholes
        elif sought.has_double:
            doubles = np.full(len(sorts), np.nan)
            read_doubles(self._buffer, is_plain, sorts, starts, ends, *sought.limits, doubles)
            self._numbers[path] = doubles
        else:
            check_texts(self._buffer, is_plain, sorts, starts, ends, *sought.characters)

    def numbers(self, path: FieldPath) -> Floats | Integers:
        """Return the numbers at a path: int64 if the field takes only whole ones, else float64 with
        NaN where there is none.
        """
        return self._numbers[path]

    def doubles(self, path: FieldPath) -> Floats:
        """Return the numbers at a path as float64, NaN where there is none."""
        return self._numbers[path].astype(np.float64, copy=False)

    def texts(self, path: FieldPath) -> pa.Array:
        """Return the texts at a path, null where there is none."""
        place = self._places[path]
        sorts, starts, ends = self._sorts[place], self._starts[place], self._ends[place]
        return arrow_of_spans(pa.large_string(), self._buffer, sorts, starts, ends)

    def of_sorts(
        self, fields: Sequence[tuple[FieldPath, Sort]]
    ) -> dict[tuple[FieldPath, Sort], Computed]:
        """Return what expressions read."""
        return {(path, sort): Computed(self.of_sort(path, sort)) for path, sort in fields}

    def of_sort(self, path: FieldPath, sort: Sort) -> pa.Array:
        """Return what an expression reads."""
        sorts = self._sorts[self._places[path]]
        nothing = sorts <= NOTHING
        match sort:
            case Sort.TEXT | Sort.SCALAR:
                return self.texts(path)
            case Sort.NUMBER:
                return doubles(self.doubles(path))
            case Sort.TRUTH:
                return pa.array(sorts == TRUE, mask=nothing)
            case Sort.ANY:
                return pa.array(~nothing, mask=nothing)
