"""Event times of any column of a file to milliseconds since 1970-01-01T00:00:00Z."""

import pyarrow as pa
import pyarrow.compute as pc

from slidestat.engine.decoding.times import moments_of, of_fractions, of_number_texts, scaled
from slidestat.options import TimeUnit

_DATE = r"^\d{4}-|^\d{8}[Tt ]"
_PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 1_000,
    TimeUnit.MICROSECONDS: 1_000_000,
    TimeUnit.NANOSECONDS: 1_000_000_000,
}


def epoch_ms(column: pa.Array, unit: TimeUnit) -> pa.Array:
    """Return milliseconds (int64) of a column, null where a value is not a time.

    Numbers, and texts of numbers, count `unit`s. Timestamps and dates know their own unit; without
    a zone they are UTC, and so is ISO 8601 text. Numbers and texts are read as a worker reads them
    (engine/decoding/times.py), so that both ways to a topic give the same events.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return scaled(column.cast(pa.int64()), _PER_SECOND[TimeUnit(kind.unit)])
    if pa.types.is_date32(kind):
        return scaled(pc.multiply(column.cast(pa.int32()).cast(pa.int64()), 86_400), 1)
    if pa.types.is_date64(kind):
        return column.cast(pa.int64())
    if pa.types.is_integer(kind):
        return scaled(column, _PER_SECOND[unit])
    if pa.types.is_floating(kind):
        return of_fractions(column.cast(pa.float64()), _PER_SECOND[unit])
    if pa.types.is_decimal(kind):
        return of_number_texts(column.cast(pa.string()), _PER_SECOND[unit])
    if pa.types.is_string(kind):
        text = pc.utf8_trim_whitespace(column)
        numbers = of_number_texts(text, _PER_SECOND[unit])
        moments = moments_of(pc.if_else(numbers.is_null(), text, None))
        times = pa.array(moments.microseconds // 1_000, mask=~moments.are_times)
        return pc.coalesce(numbers, times)
    return pa.nulls(len(column), pa.int64())


def count_zoneless(column: pa.Array) -> int:
    """Count the values that are dates or texts of time without a zone, which are taken for UTC."""
    kind = column.type
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and not kind.tz):
        return int(pc.count(column).as_py())
    if pa.types.is_string(kind):
        text = pc.utf8_trim_whitespace(column)
        moments = moments_of(pc.if_else(pc.match_substring_regex(text, _DATE), text, None))
        return int((moments.are_times & ~moments.are_zoned).sum())
    return 0
