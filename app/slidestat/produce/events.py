"""Rows of a file to event records: the JSON of schemas.event, a Kafka key and a timestamp."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.fields import field_path
from slidestat.engine.decoding.record_type import KEY, reader, struct_of
from slidestat.errors import SlidestatError
from slidestat.options import TimeUnit
from slidestat.produce.columns import as_text, json_values, key_text, number_text
from slidestat.produce.readers import NOT_JSON, BadRow, Rows
from slidestat.produce.times import count_zoneless, epoch_ms
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH

# A timestamp of 0 asks Kafka's client for the time of sending.
TIME_OF_SENDING = 0


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold an event's key, time and value, the unit of its times, and the
    columns that are sent under their own names as well.

    Without a `value`, that is the column "value", or none if there are others. Raises
    SlidestatError if two columns would have one name.
    """

    key: str = "key"
    time: str = "time"
    value: str | None = None
    time_unit: TimeUnit = TimeUnit.MILLISECONDS
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.value is None and not self.more:
            object.__setattr__(self, "value", "value")
        taken = ["key", "time", *(["value"] if self.value else []), *self.more]
        twice = next((name for name in taken if taken.count(name) > 1), None)
        if twice is not None:
            raise SlidestatError(
                f"An event would have two fields {twice!r}.",
                "--key, --time and --value are sent as key, time and value; name each other column"
                " once.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key, self.time, *([self.value] if self.value else []), *self.more)


@dataclass(frozen=True)
class Records:
    """Kafka records of some rows, in their order, and what was wrong with the rest; `negative` of
    them have a value below 0, as far as values were read, `unkeyed` no key, and `zoneless` a time
    without a zone.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes]
    timestamps_ms: Sequence[int]
    bad: int
    first_bad: BadRow | None
    negative: int = 0
    unkeyed: int = 0
    zoneless: int = 0


def encode(rows: Rows, columns: Columns) -> Records:
    """Encode rows, about 1 microsecond each; a row that is no event is left out and counted."""
    raw = {name: as_text(rows.columns[name]) for name in columns.names}
    raw_keys, raw_times = raw[columns.key], raw[columns.time]
    keys = key_text(raw_keys)
    times = epoch_ms(raw_times, columns.time_unit)
    values = number_text(raw[columns.value]) if columns.value else None

    times_ms = times.fill_null(0).to_numpy(zero_copy_only=False)
    in_range = (times_ms >= EARLIEST_TIME_MS) & (times_ms < LATEST_TIME_MS)
    good = _valid(keys) & in_range
    if values is not None:
        good &= _valid(values)
    first_bad = rows.malformed[0] if rows.malformed else None
    if not good.all():
        at = int(np.argmin(good))
        reason = _key_error(columns.key, raw_keys[at], keys[at]) or _time_error(
            columns.time, raw_times[at], times[at]
        )
        if reason is None and columns.value:
            reason = _value_error(columns.value, raw[columns.value][at])
        if first_bad is None or rows.numbers[at] < first_bad.row:
            first_bad = BadRow(rows.numbers[at], reason or "")
        mask = pa.array(good)
        keys, times_ms = keys.filter(mask), times_ms[good]
        values = None if values is None else values.filter(mask)
        raw = {name: column.filter(mask) for name, column in raw.items()}

    timestamps_ms = times_ms.tolist()
    kafka_keys, json_keys = _encoded_keys(keys)
    pieces = [
        [b'{"key":%b,"time":%d' % pair for pair in zip(json_keys, timestamps_ms, strict=True)]
    ]
    if values is not None:
        pieces.append(_members("value", _bytes(values)))
    pieces += [_members(name, json_values(raw[name])) for name in columns.more]
    pieces.append([b"}"] * len(timestamps_ms))
    payloads = list(map(b"".join, zip(*pieces, strict=True)))
    bad = len(good) - len(payloads) + len(rows.malformed)
    negative = 0 if values is None else _negative(values)
    zoneless = count_zoneless(raw[columns.time])
    return Records(kafka_keys, payloads, timestamps_ms, bad, first_bad, negative, zoneless=zoneless)


def raw_records(lines: Sequence[bytes], key_field: str) -> Records:
    """Records of lines as they are, under the key in `key_field`, a path, where there is one.

    Raises SlidestatError for what is no path.
    """
    path = field_path(key_field, "--key")
    struct = struct_of({path: KEY})
    decode, key_of = msgspec.json.Decoder(struct).decode, reader(struct, path)
    keys = [_raw_key(decode, key_of, line) for line in lines]
    times = [TIME_OF_SENDING] * len(lines)
    return Records(keys, lines, times, bad=0, first_bad=None, unkeyed=keys.count(None))


def _raw_key(
    decode: Callable[[bytes], object], key_of: Callable[[object], str | int], line: bytes
) -> bytes | None:
    try:
        return str(key_of(decode(line))).encode()
    except NOT_JSON:
        return None


def _encoded_keys(keys: pa.Array) -> tuple[list[bytes], list[bytes]]:
    """Each key as UTF-8 and as a JSON string; a key that comes again is encoded once."""
    index = keys.dictionary_encode()
    codes = index.indices.to_numpy()
    unique = index.dictionary.to_pylist()
    as_utf8 = np.array([key.encode() for key in unique], dtype=object)
    as_json = np.array([msgspec.json.encode(key) for key in unique], dtype=object)
    return as_utf8[codes].tolist(), as_json[codes].tolist()


def _members(name: str, values: Iterable[bytes | None]) -> list[bytes]:
    """A field of each record as it stands in its object; nothing where the value is missing."""
    start = b",%b:" % msgspec.json.encode(name)
    return [b"" if value is None else start + value for value in values]


def _bytes(text: pa.Array) -> list[bytes]:
    values: list[bytes] = text.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return values


def _negative(numbers: pa.Array) -> int:
    """How many of these JSON numbers are below 0; -0.0 is not."""
    signed = numbers.filter(pc.starts_with(numbers, "-"))
    return int(pc.sum(pc.less(signed.cast(pa.float64()), 0)).as_py() or 0)


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _key_error(column: str, raw: pa.Scalar, key: pa.Scalar) -> str | None:
    if key.is_valid:
        return None
    if not raw.is_valid:
        return f"{column} (the key) is missing"
    if pa.types.is_nested(raw.type):
        return f"{column} (the key) is {_shown(raw)}, which is not one value"
    if raw.as_py() == "":
        return f"{column} (the key) is empty"
    return f"{column} (the key) is longer than {MAX_KEY_LENGTH} characters"


def _time_error(column: str, raw: pa.Scalar, time_ms: pa.Scalar) -> str | None:
    if not raw.is_valid:
        return f"{column} (the time) is missing"
    if not time_ms.is_valid:
        return f"{column} (the time) is {_shown(raw)}, which is not a time"
    if EARLIEST_TIME_MS <= time_ms.as_py() < LATEST_TIME_MS:
        return None
    return (
        f"{column} (the time) is {_shown(raw)}, which is {_date(time_ms.as_py())}; events lie "
        f"from {_date(EARLIEST_TIME_MS)} to {_date(LATEST_TIME_MS)}, exclusive, and integers "
        "count what --time-unit says"
    )


def _value_error(column: str, raw: pa.Scalar) -> str:
    if not raw.is_valid:
        return f"{column} (the value) is missing"
    return f"{column} (the value) is {_shown(raw)}, which is not a finite number"


def _shown(raw: pa.Scalar) -> str:
    text = repr(raw.as_py()) if pa.types.is_string(raw.type) else str(raw)
    return text if len(text) <= 60 else text[:57] + "..."


def _date(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return "no date"
