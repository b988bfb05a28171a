"""Event times of any column to milliseconds since 1970-01-01T00:00:00Z.

Whole columns are converted at once. Text that the quick way does not take is read value by value,
with the same meaning: which way was taken never shows in the result.
"""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.options import TimeUnit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)

# Far beyond any date; within it, products by 1000 stay within int64 and floats are exact.
_LIMIT = 2**53

_INTEGER = r"^[+-]?\d{1,19}$"
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_DATE = r"^\d{4}-|^\d{8}[Tt ]"
_ZONED = r"\d[Tt ]\d\d.*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
# A fraction of a second whose nearest microsecond is the one after its first six digits.
_NEXT_MICROSECOND = re.compile(r"[.,]\d{6}[5-9]")
_LEAP_SECOND = re.compile(r"(?<=:\d\d:)60(?=\D|$)")


_MICROSECONDS = 1_000_000
_PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 1_000,
    TimeUnit.MICROSECONDS: _MICROSECONDS,
    TimeUnit.NANOSECONDS: 1_000_000_000,
}


def epoch_ms(column: pa.Array, unit: TimeUnit) -> pa.Array:
    """Milliseconds (int64) of a column, null where a value is not a time.

    Integers, and text of digits only, count `unit`s. Timestamps and dates know their own unit;
    without a zone they are UTC, and so is ISO 8601 text. A time between two milliseconds is that
    of the earlier one, texts and fractions being read to the nearest microsecond: as a worker has
    it (declare/time_format.py), so that both ways to a topic give the same events. A leap
    second is the second after it, as POSIX has it.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _scaled(column.cast(pa.int64()), TimeUnit(kind.unit))
    if pa.types.is_date32(kind):
        return _scaled(
            pc.multiply(column.cast(pa.int32()).cast(pa.int64()), 86_400), TimeUnit.SECONDS
        )
    if pa.types.is_date64(kind):
        return column.cast(pa.int64())
    if pa.types.is_integer(kind):
        return _scaled(column, unit)
    if pa.types.is_floating(kind):
        return _of_fractions(column.cast(pa.float64()), unit)
    if pa.types.is_string(kind):
        return _text_ms(pc.utf8_trim_whitespace(column), unit)
    return pa.nulls(len(column), pa.int64())


def count_zoneless(column: pa.Array) -> int:
    """How many values are dates or texts of time without a zone, which are taken for UTC."""
    kind = column.type
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and not kind.tz):
        return int(pc.count(column).as_py())
    if pa.types.is_string(kind):
        text = pc.utf8_trim_whitespace(column)
        zoneless = pc.and_(
            pc.match_substring_regex(text, _DATE),
            pc.invert(pc.match_substring_regex(text, _ZONED)),
        )
        return int(pc.sum(zoneless).as_py() or 0)
    return 0


def _scaled(integers: pa.Array, unit: TimeUnit) -> pa.Array:
    """Integers of a unit to milliseconds, rounded down, null beyond the limit of any date."""
    valid = pc.is_valid(integers).to_numpy(zero_copy_only=False)
    values = pc.fill_null(integers, 0).to_numpy(zero_copy_only=False)
    per_second = _PER_SECOND[unit]
    if per_second > 1_000:
        scaled = (values // (per_second // 1_000)).astype(np.int64)
    else:
        valid &= (values < _LIMIT) & (values > -_LIMIT if values.dtype.kind == "i" else True)
        scaled = np.where(valid, values, 0).astype(np.int64) * (1_000 // per_second)
    return pa.array(scaled, mask=~valid)


def _of_fractions(floats: pa.Array, unit: TimeUnit) -> pa.Array:
    """Floating-point numbers of a unit to milliseconds, rounded down, null beyond any date."""
    values: npt.NDArray[np.float64] = floats.to_numpy(zero_copy_only=False)
    per_second = _PER_SECOND[unit]
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


def _text_ms(text: pa.Array, unit: TimeUnit) -> pa.Array:
    try:
        if _all_match(text, _NUMBER):
            return _numbers_ms(pc.utf8_ltrim(text, "+"), unit)
        zoned = pc.match_substring_regex(text, _ZONED)
        if pc.all(zoned).as_py():
            return _scaled(
                text.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), TimeUnit.MICROSECONDS
            )
        if not pc.any(zoned).as_py():
            return _scaled(text.cast(pa.timestamp("us")).cast(pa.int64()), TimeUnit.MICROSECONDS)
    except pa.ArrowInvalid:
        pass  # At least one value is written in another way, or is no time.
    return pa.array([_one_text_ms(value, unit) for value in text.to_pylist()], pa.int64())


def _numbers_ms(text: pa.Array, unit: TimeUnit) -> pa.Array:
    """Convert texts of numbers to milliseconds; whole ones are never made doubles."""
    is_whole = pc.match_substring_regex(text, _INTEGER)
    whole = _scaled(pc.if_else(is_whole, text, None).cast(pa.int64()), unit)
    if pc.all(is_whole).as_py():
        return whole
    floats = pc.if_else(is_whole, None, text).cast(pa.float64())
    return pc.if_else(is_whole, whole, _of_fractions(floats, unit))


def _all_match(text: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, pattern)).as_py())


def _one_text_ms(text: str | None, unit: TimeUnit) -> int | None:
    if text is None:
        return None
    if text.isascii():
        if re.match(_INTEGER, text) and abs(int(text)) < 2**63:
            ms: int | None = _scaled(pa.array([int(text)]), unit)[0].as_py()
            return ms
        if re.match(_NUMBER, text):
            ms = _of_fractions(pa.array([float(text)]), unit)[0].as_py()
            return ms
    # Python's times have no second 60; it is counted as the one that follows 59.
    plain, leap_seconds = _LEAP_SECOND.subn("59", text.upper(), count=1)
    try:
        moment = datetime.fromisoformat(plain)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # Python's times leave out what is finer than a microsecond.
        moment += _MICROSECOND * bool(_NEXT_MICROSECOND.search(plain))
        return (moment - _EPOCH) // _MILLISECOND + 1_000 * leap_seconds
    except (ValueError, OverflowError):
        return None
