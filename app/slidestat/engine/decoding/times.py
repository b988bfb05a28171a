"""Times as numbers and as texts, to milliseconds: one reader for workers, files and proposals.

Columns of plain values are converted at once, others value by value, with the same meaning. A time
between two milliseconds is that of the earlier one, in every format, so that one moment lies in the
same windows however it is written; fractions of numbers are read to the nearest microsecond. A leap
second is the second after it, as POSIX has it.

A text such as 1.76407E+12 is what Excel, `%g` and others leave of 1764071234567, and the event may
be of two hours later. So the text of a number with a power and at most 7 digits is no time, unless
it is written as Java, and so Spark, writes a double, which has all of its digits: 1.764072E9 is a
full hour in seconds. Python writes all of them, too, but powers for nanoseconds alone. Numbers of
JSON are what they are.
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.times.time_format import TimeFormat
from slidestat.engine.records import NO_TIME
from slidestat.schemas.dead_letter import Reason
from slidestat.synopses.core.arrays import Bools, Floats, Integers

_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# Texts that Arrow reads in the same way; its nanoseconds reach from 1678 to 2261.
_PLAIN = (
    r"^(?:19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    rf"(?:\.[0-9]{{1,9}})?{_ZONE}?$"
)
_ISO = re.compile(
    r"(?P<date>[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}-?[0-9]))"
    r"(?:[T ](?P<hour>[01][0-9]|2[0-3])"
    r"(?::?(?P<minute>[0-5][0-9])(?::?(?P<second>[0-5][0-9]|60)(?:[.,](?P<fraction>[0-9]+))?)?)?"
    r"(?P<zone> ?(?:Z|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3])"
    r"(?::?(?P<minutes>[0-5][0-9])(?::?(?P<seconds>[0-5][0-9]))?)?))?)?"
)
_EPOCH = date(1970, 1, 1).toordinal()
_MICROSECONDS = 1_000_000
# White space by Unicode: Excel and web pages leave a no-break space before a number.
_SPACES = (
    *(*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680),
    *(*range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)
SPACES = "".join(map(chr, _SPACES))


class Moments(NamedTuple):
    """The moments of n texts: int64[n] `microseconds` since 1970, UTC where a text has no zone; and
    bool[n] which texts are times, and which of these have a zone.
    """

    microseconds: Integers
    are_times: Bools
    are_zoned: Bools


def moments_of(texts: pa.Array) -> Moments:
    """Read texts in ISO 8601, whatever spaces are around them: a date, a time of day from
    hours to any fraction of a second, and a zone, with or without the signs between their parts.
    """
    trimmed = pc.utf8_trim(texts.cast(pa.large_string()), SPACES)
    found = Moments(
        np.zeros(len(texts), np.int64), np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    )
    plain: Bools = pc.fill_null(pc.match_substring_regex(trimmed, _PLAIN), False).to_numpy(
        zero_copy_only=False
    )
    try:
        _read_plain(trimmed, plain, found)
    except pa.ArrowInvalid:  # There is a 30th of February among them.
        plain = np.zeros(len(texts), bool)
    others = np.flatnonzero(~plain)
    for row, text in zip(others.tolist(), trimmed.take(others).to_pylist(), strict=True):
        moment = _moment(text)
        if moment is not None:
            found.microseconds[row], found.are_zoned[row] = moment
            found.are_times[row] = True
    return found


def _read_plain(texts: pa.Array, plain: Bools, found: Moments) -> None:
    some = texts.filter(pa.array(plain))
    zoned = pc.match_substring_regex(some, f"{_ZONE}$")
    # Arrow wants a zone in all of them or in none.
    utc, nothing = (pa.scalar(text, pa.large_string()) for text in ("Z", ""))
    with_zones = pc.if_else(zoned, some, pc.binary_join_element_wise(some, utc, nothing))
    nanoseconds = pc.cast(pc.cast(with_zones, pa.timestamp("ns", "UTC")), pa.int64()).to_numpy()
    found.microseconds[plain] = nanoseconds // 1_000
    found.are_times[plain] = True
    found.are_zoned[plain] = zoned.to_numpy(zero_copy_only=False)


def _moment(text: str | None) -> tuple[int, bool] | None:
    """Return the microseconds of one text, and whether it has a zone; None if it is no time."""
    parts = None if text is None else _ISO.fullmatch(text.upper())
    if parts is None:
        return None
    try:
        day = date.fromisoformat(parts["date"]).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = 86_400 * day + _seconds(parts["hour"], parts["minute"], parts["second"])
    away = _seconds(parts["hours"], parts["minutes"], parts["seconds"])
    seconds += away if parts["sign"] == "-" else -away
    microseconds = int((parts["fraction"] or "").ljust(6, "0")[:6])
    return seconds * _MICROSECONDS + microseconds, parts["zone"] is not None


def _seconds(hours: str | None, minutes: str | None, seconds: str | None) -> int:
    return 3_600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)


# Numbers since 1970, and texts of such.

_INTEGER = r"^[+-]?[0-9]{1,19}$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_POWER = r"[eE][+-]?[0-9]+$"
_OF_JAVA = r"^\+?[0-9]\.[0-9]+E[0-9]+$"
# Excel, `%g`, SQL Server, and MySQL of 32 bits write 6, `%e` and R 7.
_MOST_ROUNDED = 7
# Far beyond any date; within it, products by 1000 stay within int64 and floats are exact.
_LIMIT = 2**53
_BEYOND = 2.0**63


def scaled(integers: pa.Array, per_second: int) -> pa.Array:
    """Return integers of a unit as milliseconds, rounded down, null beyond any date."""
    valid = pc.is_valid(integers).to_numpy(zero_copy_only=False)
    values = pc.fill_null(integers, 0).to_numpy(zero_copy_only=False)
    if per_second > 1_000:
        milliseconds = (values // (per_second // 1_000)).astype(np.int64)
    else:
        valid &= (values < _LIMIT) & (values > -_LIMIT if values.dtype.kind == "i" else True)
        milliseconds = np.where(valid, values, 0).astype(np.int64) * (1_000 // per_second)
    return pa.array(milliseconds, mask=~valid)


def of_fractions(floats: pa.Array, per_second: int) -> pa.Array:
    """Return doubles of a unit as milliseconds, rounded down, null beyond any date."""
    values = floats.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore", over="ignore"):
        # Doubles hold times of today to a quarter of a microsecond: 0.123 may lie below 123 ms.
        # Nanoseconds are whole numbers already.
        if per_second > _MICROSECONDS:
            whole = np.floor(values)
        else:
            whole = np.rint(values * (_MICROSECONDS // per_second))
        per_ms = max(per_second, _MICROSECONDS) // 1_000
        valid = np.abs(whole) < float(min(_LIMIT * per_ms, 2**63))  # False for NaN, as nulls are
    return pa.array(np.where(valid, whole, 0).astype(np.int64) // per_ms, mask=~valid)


def of_number_texts(texts: pa.Array, per_second: int) -> pa.Array:
    """Return texts of numbers of a unit as milliseconds, null for others and for those that are
    rounded; whole ones are never made doubles.
    """
    trimmed = pc.utf8_trim(texts.cast(pa.large_string()), SPACES)
    # Arrow reads no plus.
    written = pc.replace_substring_regex(trimmed, r"^\+([0-9.])", r"\1")
    whole = pc.if_else(pc.match_substring_regex(written, _INTEGER), written, None)
    try:
        integers = whole.cast(pa.int64())
    except pa.ArrowInvalid:  # Some of 19 digits are more than that.
        numbers = [None if text is None else int(text) for text in whole.to_pylist()]
        integers = pa.array([None if n is None or abs(n) >= 2**63 else n for n in numbers])
        integers = integers.cast(pa.int64())
    are_fractions = pc.and_(integers.is_null(), pc.match_substring_regex(written, _NUMBER))
    if pc.any(are_fractions).as_py():
        are_fractions = pc.and_not(are_fractions, are_rounded(written))
    fractions = pc.if_else(are_fractions, written, None)
    try:
        doubles = fractions.cast(pa.float64())
    except pa.ArrowInvalid:  # It reads fewer of them than Python.
        doubles = pa.array(
            [None if text is None else float(text) for text in fractions.to_pylist()], pa.float64()
        )
    return pc.coalesce(scaled(integers, per_second), of_fractions(doubles, per_second))


def are_number_texts(texts: pa.Array) -> pa.Array:
    """Return which texts are decimal numbers, with a power or without, and with spaces around."""
    return pc.match_substring_regex(pc.utf8_trim(texts, SPACES), _NUMBER)


def are_rounded(texts: pa.Array) -> pa.Array:
    """Return which texts are numbers that lost digits: a power, few digits, no double of Java's."""
    written = pc.utf8_trim(texts, SPACES)
    has_power = pc.and_(are_number_texts(texts), pc.match_substring_regex(written, _POWER))
    has_power = pc.and_not(has_power, pc.match_substring_regex(written, _OF_JAVA))
    digits = pc.replace_substring_regex(written, f"{_POWER}|[^0-9]", "")
    is_short = pc.less_equal(pc.binary_length(pc.utf8_ltrim(digits, "0")), _MOST_ROUNDED)
    return pc.and_(has_power, is_short)


def remark_on_rounded(text: object) -> str:
    """Return what to do about a time that has lost digits; "" of another one."""
    if not isinstance(text, str) or not are_rounded(pa.array([text]))[0].as_py():
        return ""
    if abs(float(text)) >= _BEYOND:  # It is none in any unit.
        return ""
    return (
        ", and has lost its last digits: write it out in full where it comes from (in Excel, give"
        " the column the format 0 before it is saved)"
    )


# Why times that are floating-point numbers of 32 bits are refused, and what to do.
NARROW = "of which two that follow each other are minutes apart"
WIDE_TIMES = "times as timestamps, or as numbers of 64 bits, made of what they were before"


def narrow_time(name: str) -> str:
    """Return why a schema's times in floats of 32 bits are refused, and what to do."""
    return f"{name} (the time) is a float of 32 bits, {NARROW}: have it send {WIDE_TIMES}"


# The times of a topology's records.

NOT_A_TIME = NO_TIME
_MOST_SHOWN = 60


def event_times(values: Sequence[Any] | Floats | Integers, known: TimeFormat) -> Integers:
    """Return the times of records in milliseconds, `NOT_A_TIME` for texts that are none; `values`
    are numbers within the limits of the format, or texts.
    """
    if known.is_sequence:
        return np.asarray(values, np.int64)
    if isinstance(values, np.ndarray):
        return _of_numbers(values, known)
    kinds = [type(value) for value in values]
    found = np.full(len(kinds), NOT_A_TIME, np.int64)
    for kind in dict.fromkeys(kinds):
        places = np.flatnonzero([other is kind for other in kinds])
        some = [values[place] for place in places.tolist()]
        if kind is str:
            found[places] = texts_ms(pa.array(some, pa.large_string()), known)
        else:
            found[places] = _of_numbers(np.array(some, kind), known)
    return found


def texts_ms(texts: pa.Array, known: TimeFormat) -> Integers:
    """Return texts as milliseconds, `NOT_A_TIME` for what is no time in a format."""
    if not known.is_text:
        milliseconds = of_number_texts(texts, known.per_second)
        found: Integers = milliseconds.fill_null(NOT_A_TIME).to_numpy()
        return found
    moments = moments_of(texts)
    are_times = moments.are_times & (moments.are_zoned | (not known.needs_zone))
    return np.where(are_times, moments.microseconds // 1_000, NOT_A_TIME)


def _of_numbers(numbers: Floats | Integers, known: TimeFormat) -> Integers:
    convert = of_fractions if numbers.dtype.kind == "f" else scaled
    milliseconds = convert(pa.array(numbers), known.per_second)
    found: Integers = milliseconds.fill_null(NOT_A_TIME).to_numpy()
    return found


def time_errors(
    times: Integers, values: Sequence[Any] | pa.Array, known: TimeFormat, name: str
) -> dict[int, tuple[Reason, str]]:
    """Return why values are no times, by their places, with the reason of their letters."""
    found = {}
    for place in np.flatnonzero(times == NOT_A_TIME).tolist():
        value = values[place]
        value = value.as_py() if isinstance(value, pa.Scalar) else value
        detail = f"{name}: {repr(value)[:_MOST_SHOWN]} is no time in {known.text}"
        detail += remark_on_rounded(value)
        found[place] = Reason.BAD_TIME, detail
    return found
