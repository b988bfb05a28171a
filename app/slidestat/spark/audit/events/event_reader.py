"""Reads raw records for an audit: those that are plain a column at a time, all others one by one.

Both ways read the same; what is not plain is left to the careful one, which is the referee.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slidestat.spark.audit.columns.column import Int64s
from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.audit.events.plain_reader import Events, PlainReader, Records
from slidestat.spark.audit.events.raw_events import (
    RawRecord,
    UnreadableError,
    is_passed_over,
    read_event,
    time_of,
)


class ReadRecords(NamedTuple):
    """A batch of records: its events, in order, the rows that are passed over, and those with a
    time, with their times; all other rows are no events.
    """

    events: Events
    passed_over: Int64s
    timed: Int64s
    times: Int64s


class EventReader:
    """A reader of records by one declaration."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._plain = PlainReader(declaration) if PlainReader.is_plain(declaration) else None

    def read(self, records: Records) -> ReadRecords:
        """Read a batch; never raises for what a record has."""
        parts = [] if self._plain is None else self._plain.read(records)
        is_left = np.ones(len(records.values), bool)
        for part in parts:
            is_left[part.rows] = False
        slow = self._one_by_one(records, np.flatnonzero(is_left))
        events = _in_order([*parts, slow.events])
        timed = np.concatenate([events.rows, slow.timed])
        times = np.concatenate([events.times, slow.times])
        return ReadRecords(events, slow.passed_over, timed, times)

    def _one_by_one(self, records: Records, rows: Int64s) -> ReadRecords:
        """Return the events of some rows, as `read` does; `timed` are only those that are passed
        over.
        """
        found: list[tuple[int, str, int, list[str | None]]] = []
        passed_over: list[int] = []
        timed: list[tuple[int, int]] = []
        place = pa.array(rows)
        keys, values = records.keys.take(place).to_pylist(), records.values.take(place).to_pylist()
        for row, key, value, stamp in zip(
            rows.tolist(), keys, values, records.stamps[rows].tolist(), strict=True
        ):
            record = RawRecord(key, value, stamp)
            if is_passed_over(self._declaration, record):
                passed_over.append(row)
                time = time_of(self._declaration, record)
                if time is not None:
                    timed.append((row, time))
                continue
            try:
                found.append((row, *read_event(self._declaration, record)))
            except UnreadableError:
                continue
        columns = range(len(self._declaration.columns))
        events = Events(
            _int64s([row for row, _, _, _ in found]),
            pa.array([key for _, key, _, _ in found], pa.string()),
            _int64s([time for _, _, time, _ in found]),
            [pa.array([texts[column] for *_, texts in found], pa.string()) for column in columns],
        )
        rows_timed, times = (_int64s([one[side] for one in timed]) for side in (0, 1))
        return ReadRecords(events, _int64s(passed_over), rows_timed, times)


def _in_order(parts: list[Events]) -> Events:
    """Return the events of all parts by row."""
    parts = [part for part in parts if len(part.rows)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    place = pa.array(order)
    return Events(
        rows[order],
        pa.concat_arrays([part.keys for part in parts]).take(place),
        np.concatenate([part.times for part in parts])[order],
        [
            pa.concat_arrays(columns).take(place)
            for columns in zip(*(part.texts for part in parts), strict=True)
        ],
    )


def _int64s(numbers: list[int]) -> Int64s:
    return np.array(numbers, np.int64)
