"""The reading of raw records inside Spark's Python workers: runs of events, and what is counted.

A record is read once, by each of the declarations that read something else of it. Refused records
have a letter; they are counted, not read. Every number is the record's decimal.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_05UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from slidestat.spark.audit.declaration import Declaration, Path
from slidestat.spark.audit.events import conditions
from slidestat.spark.audit.events.plain_reader import Events, PlainReader, Records
from slidestat.spark.audit.events.runs import pack, run_columns
from slidestat.spark.audit.exact_key import places_in
from slidestat.spark.lake.lake import Dataset
from slidestat.spark.lake.wire_columns import batch_of
from slidestat.synopses.core.arrays import Bools, Integers

_MICROSECONDS = 1_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": _MICROSECONDS, "ns": 1_000_000_000}
# Whole doubles below it are the whole numbers that they look like.
_EXACT = 2**53
# Far beyond all times that an event may have.
_LATEST_MS = 2**62
# Python makes no int of more.
_DIGITS_OF_INT = 4_300
# Digits to which Excel, `%g`, `%e` and the like round a time.
_MOST_ROUNDED = 7
# A double as Java writes it has all of its digits.
_OF_JAVA = re.compile(r"\+?[0-9]\.[0-9]+E[0-9]+")
# Digits that are taken of a number that is not whole; the rest shows in the last digit.
_DIGITS = Context(prec=60, rounding=ROUND_05UP)


class UnreadableError(Exception):
    """A record without one of the fields."""


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # Its exponent is beyond all decimals: as every double reads it.
        return Decimal(repr(float(text)))


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _DIGITS_OF_INT else _decimal(text)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


# json.loads, without a decoder made for each record.
_decode = json.JSONDecoder(parse_float=_decimal, parse_constant=_no_number).decode
# Whole numbers of more digits than Python reads at once.
_decode_any = json.JSONDecoder(
    parse_float=_decimal, parse_int=_whole, parse_constant=_no_number
).decode


class RawRecord(NamedTuple):
    """A record of the source; `timestamp_ms` is Kafka's."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def read_event(declaration: Declaration, record: RawRecord) -> tuple[str, int, list[str | None]]:
    """Return key, time and the text of each of `declaration.columns`, None where the event lacks
    one of its fields; a number keeps its digits.

    Raises UnreadableError for a record without a key or a time, or with a field that is no number
    and no item.
    """
    fields = _fields(record)
    if declaration.key_path is None:
        key = _key(record.key)
    else:
        key = _key(_of(declaration, fields, declaration.key_path))
    time_ms = record.timestamp_ms
    if declaration.time_path is not None:
        time_ms = _time_ms(_at(fields, declaration.time_path), declaration.time_format)
    return (
        key,
        time_ms,
        [
            _joined([_text(_of(declaration, fields, path), as_item) for path in paths])
            if _holds(where, fields)
            else None
            for paths, as_item, where in declaration.columns
        ],
    )


def time_of(declaration: Declaration, record: RawRecord) -> int | None:
    """Return the time of a record that may be no event; None if it has none."""
    if record.value is None:
        return None
    if declaration.time_path is None:
        return record.timestamp_ms
    try:
        return _time_ms(_at(_fields(record), declaration.time_path), declaration.time_format)
    except UnreadableError:
        return None


def is_passed_over(declaration: Declaration, record: RawRecord) -> bool:
    """Return whether the declaration leaves a record out, whatever else is in it."""
    if record.value is None and declaration.tombstones == "pass-over":
        return True
    if not declaration.where:
        return False
    try:
        return not _holds(declaration.where, _fields(record))
    except UnreadableError:
        return False


def _fields(record: RawRecord) -> object:
    # Bytes that are no UTF-8 become surrogates: in fields that are not read they do no harm.
    text = (record.value or b"").decode("utf-8", "surrogateescape")
    try:
        try:
            return _decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:
            return _decode_any(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError from error


def _of(declaration: Declaration, fields: object, path: Path) -> object:
    """Return what an event has there, read or computed; None for null and for nothing."""
    expression = None
    if declaration.computed and len(path) == 1:
        expression = dict(declaration.computed).get(path[0])
    if expression is None:
        return _at(fields, path)
    if not isinstance(fields, dict):
        raise UnreadableError
    try:
        value = conditions.computed(expression, fields)
    except conditions.NotComputableError as error:
        raise UnreadableError from error
    if isinstance(value, float) and not isinstance(value, conditions.Rounded):
        if not value.is_integer():
            return Decimal(repr(value))
        return int(value) if abs(value) < conditions.MOST_WHOLE else Decimal(value)
    return value


def _holds(where: str, fields: object) -> bool:
    if not where:
        return True
    if not isinstance(fields, dict):
        raise UnreadableError
    try:
        return conditions.holds(where, fields)
    except conditions.NotComputableError as error:
        raise UnreadableError from error


def _key(value: object) -> str:
    match value:
        case str():
            return _unicode(value)
        case int() if type(value) is int:
            return str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise UnreadableError from error
    raise UnreadableError


def _time_ms(value: object, time_format: str) -> int:
    """Return the millisecond, the earlier one of a time between two; of a sequence its number."""
    time_ms = _time(value, time_format)
    if abs(time_ms) > _LATEST_MS:
        raise UnreadableError
    return time_ms


def _time(value: object, time_format: str) -> int:
    if time_format in ("iso8601", "iso8601-utc") and isinstance(value, str):
        return _iso_ms(value, zoneless_is_utc=time_format == "iso8601-utc")
    if time_format in _PER_SECOND and isinstance(value, str):
        value = _written_number(value)
    if time_format in _PER_SECOND and type(value) is int:
        return value * 1_000 // _PER_SECOND[time_format]
    if time_format in _PER_SECOND and isinstance(value, Decimal):
        return _from_fraction(value, _PER_SECOND[time_format])
    if time_format == "sequence" and type(value) is int:
        return value
    raise UnreadableError


def _written_number(text: str) -> int | Decimal:
    """Return the number that a text writes, a whole one where it is written as such. One with a
    power and at most 7 digits has lost others, unless Java wrote it.
    """
    text = text.strip(conditions.SPACES)
    if not conditions.NUMBER_TEXT.fullmatch(text):
        raise UnreadableError
    mantissa, _, power = text.upper().partition("E")
    digits = "".join(filter(str.isdigit, mantissa)).lstrip("0")
    if power and len(digits) <= _MOST_ROUNDED and not _OF_JAVA.fullmatch(text):
        raise UnreadableError
    return _whole(text) if text.lstrip("+-").isdigit() else _decimal(text)


def _from_fraction(number: Decimal, per_second: int) -> int:
    """Return milliseconds, by way of the microsecond nearest to the double of a number."""
    if not -_LATEST_MS < number < _LATEST_MS:
        raise UnreadableError
    if per_second > _MICROSECONDS:
        return math.floor(float(number)) * 1_000 // per_second
    times = _MICROSECONDS // per_second
    exact = number * times
    is_whole = exact == exact.to_integral_value()
    return (int(exact) if is_whole else round(float(number) * times)) // 1_000


def _iso_ms(text: str, *, zoneless_is_utc: bool) -> int:
    """Return the milliseconds of an ISO 8601 text, which is read to the nearest microsecond."""
    try:
        microseconds, is_zoned = conditions.iso_microseconds(text)
    except ValueError as error:
        raise UnreadableError from error
    if not is_zoned and not zoneless_is_utc:
        raise UnreadableError
    return microseconds // 1_000


def _at(fields: object, path: Path) -> object:
    """Return the value there; None for null and for nothing."""
    for name in path:
        if fields is None:
            return None
        if not isinstance(fields, dict):
            raise UnreadableError
        fields = fields.get(name)
    return fields


def _joined(texts: list[str | None]) -> str | None:
    """Return texts as one that no other texts are joined to; None unless all are there."""
    if None in texts:
        return None
    return texts[0] if len(texts) == 1 else json.dumps(texts)


def _text(value: object, as_item: bool) -> str | None:
    match value:
        case None:
            return None
        case str() if as_item:
            return _unicode(value)
        case bool() if as_item:
            return "true" if value else "false"
        case int() if type(value) is int and (as_item or _is_double(value)):
            return conditions.item_text(value) if as_item else str(value)
        case conditions.Rounded() if not as_item:
            return repr(float(value))
        case Fraction() if not as_item:  # As it was written; as an item it is refused.
            digits = _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
            return f"{digits:f}"
        case Decimal() if _is_double(value):
            return conditions.item_text(value) if as_item else str(value)
    raise UnreadableError


def _is_double(number: int | Decimal) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _unicode(text: str) -> str:
    """Return the text; raises UnreadableError if bytes or escapes of it are no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnreadableError from error
    return text


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
        """Return the events of some rows, as `read` does; `timed` are passed-over ones alone."""
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
"""The columns that a record is read from: Kafka's columns, and why it was refused, or null."""

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


def reading_columns(declarations: Sequence[Declaration]) -> StructType:
    """Return the columns of `reader_of`: the number of the declaration that a row is of; a run of
    events of a key in a partition, or a `Tally` in the column of that name.
    """
    return from_arrow_schema(_schema(declarations))


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
        self._schema = _schema(declarations)

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
        self, new: pa.RecordBatch, offsets: Integers, partition: int, found: Sequence[ReadRecords]
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
                places_in(partition, places[chosen]),
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
        return batch_of(known, self._schema)


def _streams(declaration: Declaration, keys: pa.Array) -> tuple[pa.Array, Bools]:
    """Return the stream of a referee that each event is in, and which events are in one."""
    if declaration.answers_for_all:
        return pa.array([declaration.source] * len(keys), pa.string()), np.ones(len(keys), bool)
    is_in = pc.is_in(keys, pa.array(declaration.answers_for, pa.string()))
    return keys.filter(is_in), is_in.to_numpy(zero_copy_only=False)


def _count(letters: pa.Array, dataset: Dataset) -> int:
    return pc.sum(pc.equal(letters, str(dataset))).as_py() or 0


def _schema(declarations: Sequence[Declaration]) -> pa.Schema:
    columns = run_columns(max(len(one.columns) for one in declarations))
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
