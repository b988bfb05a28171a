"""Reads records by msgspec, one by one, into structs and from these into columns.

msgspec checks types and limits while it parses, so that a good record costs one call and a bad one
brings its own explanation. This is what every other reader is held to.
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from sys import float_info
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.columns import MAX_ITEM_LENGTH, Column
from slidestat.declare.expressions.nodes import WHOLE_LIMIT, Sort
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.casts import are_numbers
from slidestat.engine.decoding.computed_columns import ComputedFields, too_long
from slidestat.engine.decoding.conditions import Judged
from slidestat.engine.decoding.event_columns import FieldColumns, Refusal
from slidestat.engine.decoding.record_type import (
    attributes,
    blank,
    condition_paths,
    reader,
    reads_key,
    record_type,
    struct_of,
)
from slidestat.engine.decoding.struct_values import (
    StructConditions,
    StructValues,
    Written,
    WrittenNumbers,
    numbers_of,
    scalar_texts,
)
from slidestat.engine.decoding.times import event_times, time_errors
from slidestat.engine.events import texts
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import MAX_KEY_LENGTH
from slidestat.synopses.core.rounding import EXACT, down

# The path that msgspec ends a message with: Expected `int`, got `str` - at `$.time`
_PATH = re.compile(r" - at `\$\.?(?P<field>.*)`$")


# msgspec's words for a whole number of more digits than Python reads, and its longest text.
_TOO_MANY_DIGITS = "Integer value out of range"
# Near its end msgspec takes a text that was cut within a character for a record that was cut.
_TRUNCATED = "Input data was truncated"
_HALF_AT_END = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}.{2,5}$", re.DOTALL)
_HALF = "JSON is malformed: unexpected end of escaped utf-16 surrogate pair"
_LONGEST = {Reason.BAD_KEY: MAX_KEY_LENGTH, Reason.BAD_ITEM: MAX_ITEM_LENGTH}


class StructReader:
    """A reader of a topology's records by structs. About 0.3 microseconds a record."""

    def __init__(self, topology: Topology) -> None:
        record = record_type(topology)
        self._conditions = StructConditions(topology, record)
        self._decode_leniently = msgspec.json.Decoder(record_type(topology, lenient=True)).decode
        self._only_in_conditions = [attributes(record, p) for p in condition_paths(topology)]
        self._decode = msgspec.json.Decoder(record).decode
        key, time = topology.key_path, topology.time_path
        # None if the record itself has the key, or the time.
        self._key = reader(record, key) if key is not None and reads_key(topology) else None
        self._time = None if time is None else reader(record, time)
        self._time_path: FieldPath = time or ()
        self._times = topology.times
        self._computed = ComputedFields(topology)
        self._values = StructValues(topology, record, self._computed.fields)
        self._numbers, self._items = (
            {
                c.path: None if c.path in topology.computed_fields else reader(record, c.path)
                for c in of
            }
            for of in (topology.columns.numbers, topology.columns.items)
        )
        self._key_name = topology.key_name
        self._time_name = topology.time_name
        self._number_columns = topology.columns.numbers
        self._limited = {field_text(c.path): c for c in topology.columns.numbers}
        read = (path for path, sort in topology.asked_fields if sort is Sort.NUMBER)
        self._number_paths = {
            field_text(path): path for path in (*(c.path for c in self._number_columns), *read)
        }
        self._item_names = {field_text(column.path) for column in topology.columns.items}

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """Return the fields of readable records, and a refusal for each other one; never raises."""
        events, refusals = self._events(records)
        rows = np.arange(len(records), dtype=np.int64)
        if refusals:
            rows = np.delete(rows, [refusal.row for refusal in refusals])
        known: dict[int, Judged] = {}
        passed_over: list[int] = []
        if refusals and self._conditions:
            again = self._judge_again(records, refusals)
            refusals, passed_over = again.refusals, again.passed_over
            rows = np.union1d(rows, [*again.events]).astype(np.int64)
            for row, (event, judged) in sorted(again.events.items()):
                place = int(np.searchsorted(rows, row))
                events.insert(place, event)
                known[place] = judged
        numbers = {
            path: numbers_of(read, events)
            for path, read in self._numbers.items()
            if read is not None
        }
        written = WrittenNumbers(records, rows)
        judged_all: Judged | None = None
        if self._conditions:
            judged_all = _with_known(self._conditions.of(events, numbers, written), known)
        computed = self._computed.of(len(events), self._values.of(events, numbers, written))
        for column in self._number_columns:
            if column.path in numbers:
                _round_down(column, numbers[column.path], written.of(column.path))
        numbers |= computed.numbers
        keys = computed.keys
        if self._key is not None:
            keys = texts(_decimal(list(map(self._key, events)))).dictionary_encode()
        times, errors = None, {}
        if self._time is not None:
            values = list(map(self._time, events))
            times = event_times(values, self._times)
            errors[self._time_path] = time_errors(times, values, self._times, self._time_name)
        return FieldColumns(
            rows=rows,
            keys=keys,
            times=times,
            numbers=tuple(numbers[path] for path in self._numbers),
            items=tuple(
                computed.items[path]
                if read is None
                else scalar_texts(list(map(read, events)), written.of(path))
                for path, read in self._items.items()
            ),
            judged=judged_all,
            errors=computed.errors | errors,
            refusals=refusals,
            passed_over=passed_over,
        )

    def _judge_again(
        self, records: Sequence[bytes | None], refusals: Sequence[Refusal]
    ) -> "_JudgedAgain":
        """Evaluate only the conditions for records that were refused."""
        again = _JudgedAgain([], [], {})
        for refusal in refusals:
            record = records[refusal.row]
            judged = None if record is None else self._conditions.of_record(record)
            if record is None or judged is None:
                again.refusals.append(refusal)
                continue
            is_counted = bool(judged.counted[0])
            event = self._read_leniently(record) if is_counted else None
            if is_counted and event is None:
                again.refusals.append(refusal)
            elif judged.errors:
                detail = judged.errors[0]
                again.refusals.append(Refusal(refusal.row, Reason.NOT_COMPUTABLE, detail))
            elif event is None:
                again.passed_over.append(refusal.row)
            else:
                again.events[refusal.row] = event, judged
        return again

    def _read_leniently(self, record: bytes) -> Any:
        """Return the event of a record in which fields that only conditions read may have any type;
        None if more than that is wrong.
        """
        try:
            event = self._decode_leniently(record)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        for path in self._only_in_conditions:
            blank(event, path)
        return event

    def _events(self, records: Sequence[bytes | None]) -> tuple[list[Any], list[Refusal]]:
        events: list[Any] = []
        refusals: list[Refusal] = []
        remaining = iter(records)
        while True:
            try:
                # Events before a bad record stay in the list, and reading continues after it.
                events.extend(map(self._decode, remaining))  # type: ignore[arg-type]  # or None
                return events, refusals
            except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError) as error:
                row = len(events) + len(refusals)
                refusals.append(self._refuse(row, records[row], error))

    def _refuse(self, row: int, record: bytes | None, error: Exception) -> Refusal:
        if record is None:
            return Refusal(row, Reason.NULL_RECORD, "the record has no value")
        text = str(error)
        if not isinstance(error, msgspec.ValidationError):
            is_half = text == _TRUNCATED and _HALF_AT_END.search(record[-16:]) is not None
            return Refusal(row, Reason.NOT_JSON, _HALF if is_half else text)
        path = _PATH.search(text)
        field = path["field"] if path else ""
        detail = text[: path.start()] if path else text
        detail = detail.replace(" | null`", "`")  # Missing fields are handled elsewhere.
        reason = self._reason(field, detail)
        if detail == _TOO_MANY_DIGITS and reason in _LONGEST:
            detail = too_long(_LONGEST[reason])
        if field:
            detail = f"{field}: {detail}"
        elif record.lstrip()[:1] == b"[":
            detail += ": a record is one event, so have each of the array sent alone"
        if reason is Reason.WRONG_TYPE and field in self._number_paths:
            detail += _cast_advice(record, self._number_paths[field])
        return Refusal(row, reason, detail)

    def _reason(self, field: str, detail: str) -> Reason:
        if "missing required field" in detail:
            return Reason.MISSING_FIELD
        if ", got " in detail:
            return Reason.WRONG_TYPE
        if field == self._key_name:
            return Reason.BAD_KEY
        if field == self._time_name:
            return Reason.BAD_TIME
        if field in self._limited:
            limits = self._limited[field].limits
            negative = ">=" in detail and limits is not None and limits.least == 0
            return Reason.NEGATIVE_VALUE if negative else Reason.VALUE_TOO_LARGE
        return Reason.BAD_ITEM if field in self._item_names else Reason.WRONG_TYPE


class _JudgedAgain(NamedTuple):
    """The outcome of checking refused records against the conditions again: those that remain
    refused, the rows of those that the condition leaves out, and the events that are valid apart
    from fields that only conditions read.
    """

    refusals: list[Refusal]
    passed_over: list[int]
    events: dict[int, tuple[Any, Judged]]


def _with_known(judged: Judged, known: Mapping[int, Judged]) -> Judged:
    """Return the outcomes with those that are known already at some places."""
    if not known:
        return judged
    counted, conditions = judged.counted.copy(), tuple(map(np.copy, judged.conditions))
    for place, found in known.items():
        counted[place] = found.counted[0]
        for column, of_it in zip(conditions, found.conditions, strict=True):
            column[place] = of_it[0]
    errors = {place: detail for place, detail in judged.errors.items() if place not in known}
    return Judged(counted, errors, conditions)


def _decimal(keys: list[Any]) -> list[str]:
    """Return keys as texts: a whole number as its decimal digits."""
    try:
        "".join(keys)  # The quickest way to see that all are texts.
    except TypeError:
        return list(map(str, keys))
    return keys


def _cast_advice(record: bytes, path: FieldPath) -> str:
    """Return how a field that is the text of a number is read; "" of another one."""
    try:
        found = reader(alone := struct_of({path: str}), path)
        value = found(msgspec.json.decode(record, type=alone))
    except (msgspec.DecodeError, UnicodeError):
        return ""
    if not are_numbers(texts([value]))[0]:
        return ""
    name = field_text(path)
    return f", the text of a number, which cast({name} as double) reads in a computed field"


def _round_down(column: Column, numbers: npt.NDArray[np.float64], written: Written) -> None:
    """Round down numbers from 2^53 on that no double is, where the column asks for it; make those
    beyond all doubles infinite, also if the nearest double is the largest.
    """
    least = EXACT if column.rounds_down else float_info.max
    large = np.flatnonzero(np.abs(numbers) >= least).tolist()
    for place, number in zip(large, written(large) if large else (), strict=True):
        if number is not None and not -float_info.max <= number <= float_info.max:
            numbers[place] = np.copysign(np.inf, numbers[place])
        elif number is not None and column.rounds_down and -WHOLE_LIMIT < number < WHOLE_LIMIT:
            numbers[place] = down(Fraction(number))
