"""From JSON records to columns of keys, times, numbers and items; what cannot be read is refused.

msgspec checks types and limits while it parses, so that a good record costs one call and a bad one
brings its own explanation.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.columns import Column, Limits
from slidestat.declare.fields import field_text
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.decoding.computed_columns import (
    ComputedColumns,
    items_of,
    keys_of,
    numbers_of,
)
from slidestat.engine.decoding.conditions import Conditions, Judged
from slidestat.engine.decoding.event_columns import EventColumns, Refusal, without
from slidestat.engine.decoding.lacked_fields import LackedFields
from slidestat.engine.decoding.record_type import (
    attributes,
    blank,
    condition_paths,
    reader,
    record_type,
)
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import MAX_KEY_LENGTH

# The path that msgspec ends a message with: Expected `int`, got `str` - at `$.time`
_PATH = re.compile(r" - at `\$\.?(?P<field>.*)`$")


class EventDecoder:
    """Reads a topology's events. About 0.3 microseconds an event."""

    def __init__(self, topology: Topology) -> None:
        record = record_type(topology)
        self._conditions = Conditions(topology, record)
        self._decode_leniently = msgspec.json.Decoder(record_type(topology, lenient=True)).decode
        self._only_in_conditions = [attributes(record, p) for p in condition_paths(topology)]
        self._chosen_columns = topology.chosen_columns
        self._decode = msgspec.json.Decoder(record).decode
        key, time = topology.key_path, topology.time_path
        # None for what the record has itself.
        self._key: Callable[[Any], Any] | None = None
        if topology.publishes_partitions:
            self._key = _no_key
        elif key is not None and key not in topology.computed_fields:
            self._key = reader(record, key)
        self._time = None if time is None else reader(record, time)
        self._times = topology.times
        self._fields = topology.computed_fields
        self._computed = ComputedColumns(topology, record)
        columns = topology.columns
        self._numbers, self._items = (
            {c.path: reader(record, c.path) for c in wanted if c.path not in self._fields}
            for wanted in (columns.numbers, columns.items)
        )
        self._number_paths = {column.path for column in columns.numbers}
        self._item_paths = [column.path for column in columns.items]
        # Their limits are checked after they are computed; of chosen ones after the choice.
        self._computed_numbers = [
            place
            for place, column in enumerate(columns.numbers)
            if column.path in self._fields and place not in topology.chosen_columns
        ]
        self._key_field = None if key is None else self._fields.get(key)
        self._key_name = topology.key_name
        self._time_name = topology.time_name
        self._number_columns = topology.columns.numbers
        self._limited = {_name(column): column for column in topology.columns.numbers}
        self._item_names = {_name(column) for column in topology.columns.items}
        self._lacking = LackedFields(topology)
        self._passes_tombstones_over = topology.passes_tombstones_over

    def decode(
        self,
        records: Sequence[bytes | None],
        keys: Sequence[bytes | None] = (),
        timestamps: Sequence[int] = (),
    ) -> EventColumns:
        """Columns of the readable records and a refusal for each of the others; never raises.

        `keys` and `timestamps` are those of the records, for a topology that reads them.
        """
        events, refusals = self._events(records)
        rows = np.arange(len(records), dtype=np.int64)
        passed_over: list[int] = []
        if refusals:
            rows = np.delete(rows, [refusal.row for refusal in refusals])
            if self._passes_tombstones_over:
                passed_over = [r.row for r in refusals if r.reason is Reason.NULL_RECORD]
                refusals = [r for r in refusals if r.reason is not Reason.NULL_RECORD]
        known: dict[int, Judged] = {}
        if refusals and self._conditions:
            again = self._judge_again(records, refusals)
            refusals = again.refusals
            passed_over += again.passed_over
            rows = np.union1d(rows, [*again.events]).astype(np.int64)
            for row, (event, judged) in sorted(again.events.items()):
                place = int(np.searchsorted(rows, row))
                events.insert(place, event)
                known[place] = judged
        count = len(events)
        if self._time is None:
            times = np.asarray(timestamps, np.int64)[rows]
        else:
            times = self._times.to_ms(map(self._time, events), count)
        faults: dict[int, Refusal] = {}
        outside = np.flatnonzero((times < self._times.earliest) | (times >= self._times.latest))
        for place in outside.tolist():
            detail = f"{self._time_name}: {times[place]} ms is not from 1980 to 2100"
            faults[place] = Refusal(int(rows[place]), Reason.BAD_TIME, detail)
        numbers = {path: _doubles(read, events) for path, read in self._numbers.items()}
        items = {path: _texts(list(map(read, events))) for path, read in self._items.items()}
        all_judged: Judged | None = None
        if self._conditions:
            all_judged = _with_known(self._conditions.of(events, numbers), known)
        computed = self._computed.of(events, numbers)
        if self._key_field is not None:
            texts = keys_of(self._key_field, computed[self._key_field.path])
        elif self._key is None:
            texts = []
            for place, row in enumerate(rows.tolist()):
                text, fault = _key_text(keys[row])
                texts.append(text)
                if fault:
                    detail = f"{self._key_name}: {fault}"
                    faults[place] = Refusal(row, Reason.BAD_KEY, detail)
        else:
            texts = list(map(self._key, events))
        for path, column in computed.items():
            if path in self._number_paths:
                numbers[path] = numbers_of(column)
            if path in self._item_paths:
                items[path] = items_of(self._fields[path], column)
        columns = EventColumns(
            rows=rows,
            keys=_decimal(texts),
            times=times,
            numbers=tuple(numbers[column.path] for column in self._number_columns),
            items=tuple(items[path] for path in self._item_paths),
            refusals=refusals,
        )
        conditions = () if all_judged is None else all_judged.conditions
        for place, reason, detail in self._computed.faults(computed, conditions):
            faults.setdefault(place, Refusal(int(rows[place]), reason, detail))
        for number in self._computed_numbers:
            for place, reason, detail in self._beyond(number, columns.numbers[number]):
                faults.setdefault(place, Refusal(int(rows[place]), reason, detail))
        for place, detail in self._lacking.of_no_use(columns.numbers, columns.items):
            faults.setdefault(place, Refusal(int(rows[place]), Reason.MISSING_FIELD, detail))
        if all_judged is not None:
            return self._chosen(columns, faults, all_judged, passed_over)
        if passed_over:
            columns = replace(
                columns,
                passed_over=np.array(passed_over, np.int64),
                passed_over_times=np.full(len(passed_over), NO_TIME, np.int64),
            )
        return without(columns, faults) if faults else columns

    def _judge_again(
        self, records: Sequence[bytes | None], refusals: Sequence[Refusal]
    ) -> "_JudgedAgain":
        """Judge records that were refused by the conditions alone."""
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
            elif judged.faults:
                detail = judged.faults[0]
                again.refusals.append(Refusal(refusal.row, Reason.NOT_COMPUTABLE, detail))
            elif event is None:
                again.passed_over.append(refusal.row)
            else:
                again.events[refusal.row] = event, judged
        return again

    def _read_leniently(self, record: bytes) -> Any:
        """The event of a record that has other things where conditions alone look; None if more
        than that is wrong.
        """
        try:
            event = self._decode_leniently(record)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        for path in self._only_in_conditions:
            blank(event, path)
        return event

    def _chosen(
        self,
        columns: EventColumns,
        faults: dict[int, Refusal],
        judged: Judged,
        passed_over: Sequence[int],
    ) -> EventColumns:
        """The events that are counted; numbers that nobody takes in are none."""
        rows = columns.rows
        for place, detail in judged.faults.items():
            faults[place] = Refusal(int(rows[place]), Reason.NOT_COMPUTABLE, detail)
        numbers = list(columns.numbers)
        for number, conditions in self._chosen_columns.items():
            taken = np.logical_or.reduce([judged.conditions[place] for place in conditions])
            numbers[number] = np.where(taken, numbers[number], np.nan)
            for place, reason, detail in self._beyond(number, numbers[number]):
                faults.setdefault(place, Refusal(int(rows[place]), reason, detail))
        is_other = ~judged.counted
        is_other[[*judged.faults]] = False
        others = np.flatnonzero(is_other)
        faults = {place: fault for place, fault in faults.items() if not is_other[place]}
        times = columns.times[others]
        timed = (times >= self._times.earliest) & (times < self._times.latest)
        every = np.concatenate([rows[others], np.array(passed_over, np.int64)])
        their_times = np.full(len(every), NO_TIME, np.int64)
        their_times[: len(others)][timed] = times[timed]
        chosen = replace(
            columns,
            numbers=tuple(numbers),
            conditions=judged.conditions,
            passed_over=every,
            passed_over_times=their_times,
        )
        return without(chosen, faults, others)

    def _beyond(
        self, number: int, values: npt.NDArray[np.float64]
    ) -> Iterator[tuple[int, Reason, str]]:
        """The places of values that a column cannot take, and why."""
        column = self._number_columns[number]
        limits = column.limits or Limits()
        for place in np.flatnonzero((values < limits.least) | (values > limits.most)).tolist():
            sign, limit = (">=", limits.least) if values[place] < 0 else ("<=", limits.most)
            negative = sign == ">=" and limits.least == 0
            reason = Reason.NEGATIVE_VALUE if negative else Reason.VALUE_TOO_LARGE
            yield place, reason, f"{_name(column)}: Expected `float` {sign} {limit}"

    def _events(self, records: Sequence[bytes | None]) -> tuple[list[Any], list[Refusal]]:
        events: list[Any] = []
        refusals: list[Refusal] = []
        remaining = iter(records)
        while True:
            try:
                # What comes before a bad record stays in the list, and reading goes on behind it.
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
            return Refusal(row, Reason.NOT_JSON, text)
        path = _PATH.search(text)
        field = path["field"] if path else ""
        detail = text[: path.start()] if path else text
        detail = detail.replace(" | null`", "`")  # What may be lacked is told elsewhere.
        if field:
            detail = f"{field}: {detail}"
        return Refusal(row, self._reason(field, detail), detail)

    def _reason(self, field: str, detail: str) -> Reason:
        if "missing required field" in detail:
            return Reason.MISSING_FIELD
        if ", got " in detail:
            return Reason.WRONG_TYPE
        if field == self._key_name:
            return Reason.BAD_KEY
        if field == self._time_name:
            return Reason.BAD_TIME
        if field in self._limited and ">=" in detail:
            limits = self._limited[field].limits
            negative = limits is not None and limits.least == 0
            return Reason.NEGATIVE_VALUE if negative else Reason.VALUE_TOO_LARGE
        if field in self._limited:
            return Reason.VALUE_TOO_LARGE
        return Reason.BAD_ITEM if field in self._item_names else Reason.WRONG_TYPE


class _JudgedAgain(NamedTuple):
    """Of records that were refused: those that stay so, the rows of those that are not asked for,
    and the events that are right but for what conditions alone read.
    """

    refusals: list[Refusal]
    passed_over: list[int]
    events: dict[int, tuple[Any, Judged]]


def _with_known(judged: Judged, known: Mapping[int, Judged]) -> Judged:
    """With what is known already of the events at some places."""
    if not known:
        return judged
    counted, conditions = judged.counted.copy(), tuple(map(np.copy, judged.conditions))
    for place, found in known.items():
        counted[place] = found.counted[0]
        for column, of_it in zip(conditions, found.conditions, strict=True):
            column[place] = of_it[0]
    faults = {place: detail for place, detail in judged.faults.items() if place not in known}
    return Judged(counted, faults, conditions)


def _key_text(key: bytes | None) -> tuple[str, str]:
    """A record's own key as text, and what is wrong with it, if anything."""
    if key is None:
        return "", "the record has no key"
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return "", "it is not UTF-8"
    if not 1 <= len(text) <= MAX_KEY_LENGTH:
        return "", f"it has {len(text)} characters, not 1 to {MAX_KEY_LENGTH}"
    return text, ""


def _decimal(keys: list[Any]) -> list[str]:
    """Keys as texts: a whole number is its decimal digits."""
    try:
        "".join(keys)  # The quickest way to see that all are texts.
    except TypeError:
        return list(map(str, keys))
    return keys


def _no_key(_event: object) -> str:
    return ""


def _name(column: Column) -> str:
    return field_text(column.path)


def _doubles(number: Callable[[Any], Any], events: list[Any]) -> npt.NDArray[np.float64]:
    """Numbers of events; NaN, which none of them is, where an event has none."""
    try:
        return np.fromiter(map(number, events), np.float64, len(events))
    except TypeError:
        return np.array(list(map(number, events)), np.float64)


def _texts(items: list[object]) -> list[str | None]:
    """Items as texts, but for None: what is no text is written as in JSON."""
    if all(type(item) is str for item in items):
        return items  # type: ignore[return-value]  # As just seen.
    return [
        item if item is None or isinstance(item, str) else msgspec.json.encode(item).decode()
        for item in items
    ]
