"""Times as texts: the one reader of ISO 8601, for workers, files, proposals and casts.

A column of plain texts is converted at once by Arrow, others text by text, with the same meaning.
What is finer than a microsecond is read to the nearest one, and a leap second is the second after
it, as POSIX has it.
"""

import re
from datetime import date
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.synopses.core.arrays import Bools, Integers

_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# What Arrow reads in the same way; in nanoseconds it has the years from 1678 to 2261.
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
SPACES = " \t\n\r\f\v"


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
    found.microseconds[plain] = (nanoseconds + 500) // 1_000
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
    fraction = (parts["fraction"] or "").ljust(7, "0")
    microseconds = int(fraction[:6]) + (fraction[6] >= "5")
    return seconds * _MICROSECONDS + microseconds, parts["zone"] is not None


def _seconds(hours: str | None, minutes: str | None, seconds: str | None) -> int:
    return 3_600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
