"""The reading of raw records inside Spark's Python workers: runs of events, and what is counted.

A record is read once, by each of the declarations that read something else of it. Those that were
refused have a letter and are counted, not read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.audit.events.plain_reader import Events, PlainReader, Records
from slidestat.spark.audit.events.raw_events import (
    RawRecord,
    UnreadableError,
    is_passed_over,
    read_event,
    time_of,
)
from slidestat.spark.audit.events.runs import pack, run_columns
from slidestat.spark.lake.lake import Dataset
from slidestat.synopses.core.arrays import Bools, Integers

# Reads raw records for an audit: those that are plain a column at a time, all others one by one.
#
# Both ways read the same; what is not plain is left to the careful one, which is the referee.


class ReadRecords(NamedTuple):
    """A batch of records: its events, in order, the rows that are passed over, and those with a
    time, with their times; all other rows are no events.
    """

    events: Events
    passed_over: Integers
    timed: Integers
    times: Integers


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

    def _one_by_one(self, records: Records, rows: Integers) -> ReadRecords:
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


def _int64s(numbers: list[int]) -> Integers:
    return np.array(numbers, np.int64)


RECORD_COLUMNS = ("partition", "offset", "key", "value", "ms", "letter")
"""What a record is read from: Kafka's columns, and as what it was refused, or null."""

_FOREVER = 2**62


class Tally(msgspec.Struct, frozen=True):
    """A tally of some records: how many there were of each outcome, and the bytes of their values;
    the first offset with an event at the asked time or later, and the newest time of the first
    records.
    """

    read: int = 0
    late: int = 0
    dead: int = 0
    passed_over: int = 0
    unaccounted: int = 0
    bytes: int = 0
    first_since: int = _FOREVER
    newest_of_first: int = -_FOREVER


class Asked(NamedTuple):
    """The questions about each partition: the outcomes of records beyond the offset `after`, the
    newest time of those before the offset `first`, and the offset at which the events since
    `since_ms` begin.
    """

    after: Mapping[int, int]
    first: Mapping[int, int]
    since_ms: Mapping[int, int]


def reading_columns(declarations: Sequence[Declaration]) -> str:
    """Return the columns of `reader_of`: the number of the declaration that a row is of; a run of
    events of a key in a partition, or a `Tally` in the column of that name.
    """
    columns = run_columns(max(len(one.columns) for one in declarations))
    tallies = ", ".join(f"{name}: bigint" for name in Tally.__struct_fields__)
    found = {"reading": "int", "source_partition": "int", **columns, "tally": f"struct<{tallies}>"}
    return ", ".join(f"{name} {kind}" for name, kind in found.items())


def reader_of(
    declarations: Sequence[Declaration], asked: Asked
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task of `mapInArrow` over `RECORD_COLUMNS`. Cost: 0.5 microseconds and more a plain
    record, eight others.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reading = _Reading(declarations, asked)
        for batch in batches:
            partitions = batch.column("partition")
            for partition in partitions.unique().to_pylist():
                own = batch.filter(pc.equal(partitions, partition))
                yield from reading.of(partition, own)

    return read


class _Reading:
    def __init__(self, declarations: Sequence[Declaration], asked: Asked) -> None:
        self._declarations = declarations
        self._readers = [EventReader(declaration) for declaration in declarations]
        self._asked = asked
        texts = max(len(declaration.columns) for declaration in declarations)
        self._schema = _schema(run_columns(texts))

    def of(self, partition: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some records of one partition."""
        letters, offsets = batch.column("letter"), batch.column("offset").to_numpy()
        own = batch.filter(letters.is_null())
        records = Records(
            own.column("key").cast(pa.binary()),
            own.column("value").cast(pa.binary()),
            own.column("ms").to_numpy(),
        )
        own_offsets = own.column("offset").to_numpy()
        found = [reader.read(records) for reader in self._readers]
        is_new = offsets > self._asked.after.get(partition, -1)
        outcomes = self._outcomes(batch.filter(pa.array(is_new)), own_offsets, partition, found)
        for number, (declaration, read) in enumerate(zip(self._declarations, found, strict=True)):
            yield self._runs(number, partition, declaration, read, own_offsets)
            tally = self._times(partition, own_offsets[read.timed], read.times)
            if number == 0:
                tally = msgspec.structs.replace(tally, **outcomes)
            yield self._rows(number, partition, {"tally": pa.array([msgspec.to_builtins(tally)])})

    def _outcomes(
        self,
        new: pa.RecordBatch,
        offsets: Integers,
        partition: int,
        found: Sequence[ReadRecords],
    ) -> dict[str, int]:
        letters = new.column("letter")
        is_new = offsets > self._asked.after.get(partition, -1)
        is_event, is_passed_over = (np.zeros(len(offsets), bool) for _ in range(2))
        for read in found:
            is_event[read.events.rows] = True
            is_passed_over[read.passed_over] = True
        return {
            "read": new.num_rows,
            "late": _count(letters, Dataset.LATE),
            "dead": _count(letters, Dataset.DEAD_LETTERS),
            "passed_over": int(np.count_nonzero(is_new & is_passed_over & ~is_event)),
            "unaccounted": int(np.count_nonzero(is_new & ~is_passed_over & ~is_event)),
            "bytes": pc.sum(pc.binary_length(new.column("value"))).as_py() or 0,
        }

    def _times(self, partition: int, offsets: Integers, times: Integers) -> Tally:
        asked = self._asked
        is_first = offsets < asked.first.get(partition, -1)
        is_since = times >= asked.since_ms.get(partition, _FOREVER)
        return Tally(
            first_since=int(offsets[is_since].min(initial=_FOREVER)),
            newest_of_first=int(times[is_first].max(initial=-_FOREVER)),
        )

    def _runs(
        self,
        number: int,
        partition: int,
        declaration: Declaration,
        read: ReadRecords,
        offsets: Integers,
    ) -> pa.RecordBatch:
        events, places = read.events, offsets[read.events.rows]
        if declaration.is_of_referee:
            # A stream is in all partitions.
            streams, chosen = _streams(declaration, events.keys)
            events, places = (
                events.only(chosen)._replace(keys=streams),
                np.full(np.count_nonzero(chosen), partition, np.int64),
            )
        columns = pack(events.keys, events.times, places, events.texts)
        return self._rows(number, partition, columns)

    def _rows(self, number: int, partition: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        count = len(next(iter(columns.values())))
        known = {
            "reading": pa.array(np.full(count, number, np.int32)),
            "source_partition": pa.array(np.full(count, partition, np.int32)),
            **columns,
        }
        return pa.record_batch(
            [
                known[field.name].cast(field.type)
                if field.name in known
                else pa.nulls(count, field.type)
                for field in self._schema
            ],
            schema=self._schema,
        )


def _streams(declaration: Declaration, keys: pa.Array) -> tuple[pa.Array, Bools]:
    """Return the stream of a referee that each event is in, and which events are in one."""
    if declaration.answers_for_all:
        return pa.array([declaration.source] * len(keys), pa.string()), np.ones(len(keys), bool)
    is_in = pc.is_in(keys, pa.array(declaration.answers_for, pa.string()))
    return keys.filter(is_in), is_in.to_numpy(zero_copy_only=False)


def _count(letters: pa.Array, dataset: Dataset) -> int:
    return pc.sum(pc.equal(letters, str(dataset))).as_py() or 0


def _schema(columns: Mapping[str, str]) -> pa.Schema:
    kinds = {"string": pa.string(), "long": pa.int64(), "binary": pa.binary()}
    tally = pa.struct([(name, pa.int64()) for name in Tally.__struct_fields__])
    return pa.schema(
        [
            ("reading", pa.int32()),
            ("source_partition", pa.int32()),
            *((name, kinds[kind]) for name, kind in columns.items()),
            ("tally", tally),
        ]
    )
