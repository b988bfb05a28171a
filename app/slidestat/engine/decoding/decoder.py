"""From JSON records to columns of keys, times, numbers and items; what cannot be read is refused.

msgspec checks types and limits while it parses, so that a good record costs one call and a bad one
brings its own explanation.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.columns import Column
from slidestat.declare.fields import field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.lacked_fields import LackedFields
from slidestat.engine.decoding.record_type import reader, record_type
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import MAX_KEY_LENGTH

# The path that msgspec ends a message with: Expected `int`, got `str` - at `$.time`
_PATH = re.compile(r" - at `\$\.?(?P<field>.*)`$")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot be counted: its row in the batch, and why."""

    row: int
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Readable events: `rows` int64[m] in the batch, `keys` m texts, `times` int64[m], `numbers`
    float64[m] and `items` m texts for each of the topology's columns, NaN and None where an event
    lacks the field; and the refusals, one for each other row of the batch.
    """

    rows: npt.NDArray[np.int64]
    keys: list[str]
    times: npt.NDArray[np.int64]
    numbers: tuple[npt.NDArray[np.float64], ...]
    items: tuple[list[str | None], ...]
    refusals: list[Refusal]


class EventDecoder:
    """Reads a topology's events. About 0.3 microseconds an event."""

    def __init__(self, topology: Topology) -> None:
        record = record_type(topology)
        self._decode = msgspec.json.Decoder(record).decode
        key, time = topology.key_path, topology.time_path
        # None for what the record has itself.
        self._key: Callable[[Any], Any] | None = None
        if topology.publishes_partitions:
            self._key = _no_key
        elif key is not None:
            self._key = reader(record, key)
        self._time = None if time is None else reader(record, time)
        self._times = topology.times
        self._numbers = [reader(record, column.path) for column in topology.columns.numbers]
        self._items = [reader(record, column.path) for column in topology.columns.items]
        self._key_name = topology.key_name
        self._time_name = topology.time_name
        self._limited = {_name(column): column for column in topology.columns.numbers}
        self._item_names = {_name(column) for column in topology.columns.items}
        self._lacking = LackedFields(topology)

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
        if refusals:
            rows = np.delete(rows, [refusal.row for refusal in refusals])
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
        if self._key is None:
            texts = []
            for place, row in enumerate(rows.tolist()):
                text, fault = _key_text(keys[row])
                texts.append(text)
                if fault:
                    detail = f"{self._key_name}: {fault}"
                    faults[place] = Refusal(row, Reason.BAD_KEY, detail)
        else:
            texts = list(map(self._key, events))
        columns = EventColumns(
            rows=rows,
            keys=_decimal(texts),
            times=times,
            numbers=tuple(_doubles(number, events) for number in self._numbers),
            items=tuple(_texts(list(map(item, events))) for item in self._items),
            refusals=refusals,
        )
        for place, detail in self._lacking.of_no_use(columns.numbers, columns.items):
            faults.setdefault(place, Refusal(int(rows[place]), Reason.MISSING_FIELD, detail))
        return _without(columns, faults) if faults else columns

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


def refuse_future(columns: EventColumns, timestamps: Sequence[int], ahead: int) -> EventColumns:
    """Refuse the events whose time lies more than `ahead` ms after their record's timestamp.

    `timestamps` are those of all records of the batch; one that is not positive says nothing.
    """
    stamped = np.asarray(timestamps, np.int64)[columns.rows]
    by = columns.times - stamped
    wrong = (by > ahead) & (stamped > 0)
    if not wrong.any():
        return columns
    refusals = [
        Refusal(row, Reason.FROM_THE_FUTURE, f"{ms} ms after the record's own timestamp")
        for row, ms in zip(columns.rows[wrong].tolist(), by[wrong].tolist(), strict=True)
    ]
    return _without(columns, dict(zip(np.flatnonzero(wrong).tolist(), refusals, strict=True)))


def _without(columns: EventColumns, faults: Mapping[int, Refusal]) -> EventColumns:
    """The columns without the events at the places of `faults`, which are refused."""
    places = np.delete(np.arange(len(columns.rows)), list(faults))
    kept = places.tolist()
    return EventColumns(
        rows=columns.rows[places],
        keys=[columns.keys[place] for place in kept],
        times=columns.times[places],
        numbers=tuple(column[places] for column in columns.numbers),
        items=tuple([column[place] for place in kept] for column in columns.items),
        refusals=sorted([*columns.refusals, *faults.values()], key=lambda refusal: refusal.row),
    )


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
