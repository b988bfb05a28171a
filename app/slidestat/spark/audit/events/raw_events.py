"""Events read again, for an audit: every number as the decimal that it is in the record."""

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import msgspec

from slidestat.spark.audit.declaration import Declaration, Path
from slidestat.spark.audit.events.conditions import (
    MOST_WHOLE,
    NUMBER_TEXT,
    SPACES,
    NotComputableError,
    Rounded,
    computed,
    holds,
    iso_microseconds,
)

_MICROSECONDS = 1_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": _MICROSECONDS, "ns": 1_000_000_000}
# Whole doubles below it are the whole numbers that they look like.
_EXACT = 2**53
# Far beyond all times that an event may have.
_LATEST_MS = 2**62
# Python makes no int of more.
_DIGITS_OF_INT = 4_300
_FRACTION = re.compile(r"(.*?)[.,]([0-9]+)(.*)")


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


# What json.loads does, without a decoder made for each record.
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
        value = computed(expression, fields)
    except NotComputableError as error:
        raise UnreadableError from error
    if isinstance(value, float) and not isinstance(value, Rounded):
        is_whole = value.is_integer() and abs(value) < _EXACT
        return int(value) if is_whole else Decimal(repr(value))
    return value


def _holds(where: str, fields: object) -> bool:
    if not where:
        return True
    if not isinstance(fields, dict):
        raise UnreadableError
    try:
        return holds(where, fields)
    except NotComputableError as error:
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
    """Return the number that a text writes, a whole one where it is written as such."""
    text = text.strip(SPACES)
    if not NUMBER_TEXT.fullmatch(text) or len(text) > _DIGITS_OF_INT:
        raise UnreadableError
    return int(text) if text.lstrip("+-").isdigit() else _decimal(text)


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
    """Return the milliseconds of an ISO 8601 text; beyond microseconds it is read to the nearest
    one.
    """
    try:
        microseconds, is_zoned = iso_microseconds(text)
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
            return _item(value) if as_item else str(value)
        case Rounded() if not as_item:
            return repr(float(value))
        case Decimal() if _is_double(value):
            return _item(value) if as_item else str(value)
    raise UnreadableError


def _item(value: int | Decimal) -> str:
    """Return what a number is called as an item: a whole one by its digits, others, and those from
    2^100 on that were not written as whole ones, by the shortest text of their double.
    """
    is_short = -MOST_WHOLE < value < MOST_WHOLE
    if isinstance(value, int) or (is_short and value == value.to_integral_value()):
        return str(int(value))
    return msgspec.json.encode(float(value)).decode()


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
