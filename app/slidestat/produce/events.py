"""Rows of a file to event records: the JSON of schemas.event, a Kafka key and a timestamp."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.fields import FieldPath, field_path
from slidestat.engine.decoding.record_type import KEY, reader, struct_of
from slidestat.engine.decoding.times import remark_on_rounded
from slidestat.errors import SlidestatError
from slidestat.options import KEY_FIELD, TIME_FIELD, TIME_UNIT, TimeUnit
from slidestat.produce.cells import NOT_JSON, Cells, TypedCells, require_wide_times, short
from slidestat.produce.readers import BadRow, Rows
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH
from slidestat.synopses.core.arrays import Bools

# A timestamp of 0 asks Kafka's client for the time of sending.
TIME_OF_SENDING = 0


@dataclass(frozen=True)
class Columns:
    """The columns of a file that hold an event's key, time and value, the unit of its times, and
    the columns that are also sent, under their own names: `more` as their files type them, `texts`
    as texts.

    Without a `value`, that is the column "value", or none if there are others. Raises
    SlidestatError if two columns would have one name.
    """

    key: str = KEY_FIELD
    time: str = TIME_FIELD
    value: str | None = None
    time_unit: TimeUnit = TIME_UNIT
    more: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.value is None and not self.more and not self.texts:
            object.__setattr__(self, "value", "value")
        taken = ["key", "time", *(["value"] if self.value else []), *self.more, *self.texts]
        twice = next((name for name in taken if taken.count(name) > 1), None)
        if twice is not None:
            raise SlidestatError(
                f"An event would have two fields {twice!r}.",
                "--key, --time and --value are sent as key, time and value; name each other column"
                " once.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        value = [self.value] if self.value else []
        return (self.key, self.time, *value, *self.more, *self.texts)


@dataclass(frozen=True)
class Records:
    """Kafka records of some rows, in their order, and what was wrong with the rest; `negative` of
    them have a value below 0, as far as values were read, `non_numbers` one that is no number,
    `valueless` none, `unkeyed` no key, and `zoneless` a time without a zone.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes]
    timestamps_ms: Sequence[int]
    bad: int
    first_bad: BadRow | None
    negative: int = 0
    unkeyed: int = 0
    zoneless: int = 0
    valueless: int = 0
    non_numbers: int = 0
    first_non_number: BadRow | None = None


class _Field(NamedTuple):
    """A field of the records of some rows, in JSON, and the cells that it is made of."""

    name: str
    column: str
    cells: Cells
    json: pa.Array

    def is_good(self) -> Bools:
        """Return in which rows the cell can be sent, or is missing."""
        good = _valid(self.json)
        return good if good.all() else good | self.cells.missing()


def _fields(rows: Rows, columns: Columns) -> Iterator[_Field]:
    if columns.value:
        cells = rows.columns[columns.value]
        yield _Field("value", columns.value, cells, cells.number())
    for name in columns.more:
        yield _Field(name, name, rows.columns[name], rows.columns[name].json())
    for name in columns.texts:
        yield _Field(name, name, rows.columns[name], rows.columns[name].quoted())


def encode(rows: Rows, columns: Columns) -> Records:
    """Encode rows, about 1 microsecond each; a row that is no event is left out and counted. The
    bytes of a row depend on that row alone, and on the types of the columns. Raises SlidestatError
    for times in narrow floats.
    """
    key, time = rows.columns[columns.key], rows.columns[columns.time]
    require_wide_times(columns.time, time)
    keys = _usable(key.text())
    times = time.times_ms(columns.time_unit)
    fields = list(_fields(rows, columns))

    times_ms = times.fill_null(0).to_numpy(zero_copy_only=False)
    in_range = (times_ms >= EARLIEST_TIME_MS) & (times_ms < LATEST_TIME_MS)
    good = _valid(keys) & in_range
    for field in fields:
        good &= field.is_good()
    first_bad = rows.malformed[0] if rows.malformed else None
    zoneless = time.count_zoneless(good)
    numbers = rows.numbers
    if not good.all():
        at = int(np.argmin(good))
        if first_bad is None or rows.numbers[at] < first_bad.row:
            reason = (
                _key_error(columns.key, key, keys, at)
                or _time_error(columns.time, time, times, at)
                or _field_error(fields, at)
            )
            first_bad = BadRow(rows.numbers[at], reason)
        mask = pa.array(good)
        keys, times_ms = keys.filter(mask), times_ms[good]
        fields = [field._replace(json=field.json.filter(mask)) for field in fields]
        numbers = np.asarray(rows.numbers)[good].tolist()

    timestamps_ms = times_ms.tolist()
    members: dict[FieldPath, pa.Array] = {("key",): keys_in_json(keys)}
    members["time",] = pa.array(times_ms).cast(pa.string())
    members |= {(field.name,): field.json for field in fields}
    payloads = objects(members).to_pylist()
    kafka_keys = keys.cast(pa.binary()).to_pylist()
    bad = len(good) - len(payloads) + len(rows.malformed)
    found = Records(kafka_keys, payloads, timestamps_ms, bad, first_bad, zoneless=zoneless)
    if not columns.value:
        return found
    values = fields[0].json
    others = np.flatnonzero(pc.match_substring_regex(values, "^[^-0-9]"))
    first_other = None
    if len(others):
        at = int(others[0])
        first_other = BadRow(numbers[at], short(values[at].as_py()))
    return replace(
        found,
        negative=_negative(values),
        valueless=values.null_count,
        non_numbers=len(others),
        first_non_number=first_other,
    )


def raw_records(lines: Sequence[bytes], key_field: str) -> Records:
    """Return the records of lines as they are. Each has the key of its `key_field`, a path, if any.

    Raises SlidestatError for what is no path.
    """
    keys = raw_keys(lines, field_path(key_field, "--key"))
    times = [TIME_OF_SENDING] * len(lines)
    return Records(keys, lines, times, bad=0, first_bad=None, unkeyed=keys.count(None))


def raw_keys(lines: Iterable[bytes], path: FieldPath) -> list[bytes | None]:
    """Return the key of each line at a path; None where there is none."""
    decode, key_of = _key_reader(path)
    return [_raw_key(decode, key_of, line) for line in lines]


@cache
def _key_reader(path: FieldPath) -> tuple[Callable[[bytes], object], Callable[[object], str | int]]:
    struct = struct_of({path: KEY})
    return msgspec.json.Decoder(struct).decode, reader(struct, path)


def _raw_key(
    decode: Callable[[bytes], object], key_of: Callable[[object], str | int], line: bytes
) -> bytes | None:
    try:
        return str(key_of(decode(line))).encode()
    except NOT_JSON:
        return None


def keys_in_json(keys: pa.Array) -> pa.Array:
    """Return keys as JSON strings; one that comes again is encoded once."""
    return TypedCells(keys).json()


def objects(members: Mapping[FieldPath, pa.Array]) -> pa.Array:
    """Return a JSON object for each row, with members, given as JSON, at these paths; a null one is
    left out, and so is an object within it that has none. Raises as Arrow does for more than 2 GiB.
    """
    inner: dict[str, dict[FieldPath, pa.Array]] = {}
    for path, column in members.items():
        inner.setdefault(path[0], {})[path[1:]] = column
    columns = {
        msgspec.json.encode(name): (below[()] if () in below else _if_any(objects(below))).cast(
            pa.binary()
        )
        for name, below in inner.items()
    }
    # Beside a field that is in all rows, each of the others has a comma of its own.
    always = next((name for name, json in columns.items() if not json.null_count), None)
    before, behind = (b"", b",") if always else (b",", b"")
    parts: list[bytes | pa.Array] = []
    for name, json in columns.items():
        if name == always:
            parts += [name + b":", json]
            before, behind = b",", b""
        elif json.null_count:
            parts.append(pc.binary_join_element_wise(before + name + b":", json, behind, b""))
        else:
            parts += [before + name + b":", json]
    # Each join writes all bytes once more: so there is one where it can be.
    if always:
        return pc.binary_join_element_wise(b"{", *parts, b"}", b"", null_handling="skip")
    # A column more: of one alone Arrow drops the rows that are null.
    joined = pc.binary_join_element_wise(b"", *parts, b"", null_handling="skip")
    return pc.binary_join_element_wise(b"{", pc.binary_replace_slice(joined, 0, 1, b""), b"}", b"")


def _if_any(found: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(found, b"{}"), None, found)


def _usable(keys: pa.Array) -> pa.Array:
    """Return keys, null where one is empty or beyond MAX_KEY_LENGTH."""
    length = pc.utf8_length(keys)
    usable = pc.and_(pc.greater(length, 0), pc.less_equal(length, MAX_KEY_LENGTH))
    return pc.if_else(usable, keys, None)


def _negative(numbers: pa.Array) -> int:
    """Return how many of these JSON numbers are below 0; -0.0 is not."""
    signed = numbers.filter(pc.starts_with(numbers, "-"))
    return int(pc.sum(pc.less(signed.cast(pa.float64()), 0)).as_py() or 0)


def _valid(column: pa.Array) -> Bools:
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _key_error(column: str, key: Cells, keys: pa.Array, at: int) -> str | None:
    if keys[at].is_valid:
        return None
    if key.missing()[at]:
        return f"{column} (the key) is missing"
    text = key.text()[at].as_py()
    if text is None:
        return f"{column} (the key) is {key.shown(at)}, {key.fault(at)}"
    if not text:
        return f"{column} (the key) is empty"
    return f"{column} (the key) is longer than {MAX_KEY_LENGTH} characters"


def _time_error(column: str, time: Cells, times: pa.Array, at: int) -> str | None:
    if time.missing()[at]:
        return f"{column} (the time) is missing"
    time_ms = times[at].as_py()
    if time_ms is None:
        remark = remark_on_rounded(time.text()[at].as_py())
        return f"{column} (the time) is {time.shown(at)}, which is not a time{remark}"
    if EARLIEST_TIME_MS <= time_ms < LATEST_TIME_MS:
        return None
    return (
        f"{column} (the time) is {time.shown(at)}, which is {_date(time_ms)}; events lie "
        f"from {_date(EARLIEST_TIME_MS)} to {_date(LATEST_TIME_MS)}, exclusive, and integers "
        "count what --time-unit says"
    )


def _field_error(fields: Iterable["_Field"], at: int) -> str:
    field = next(field for field in fields if not field.is_good()[at])
    what = f"{field.column} (the value)" if field.name == "value" else field.column
    return f"{what} is {field.cells.shown(at)}, {field.cells.fault(at)}"


def _date(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return "no date"
