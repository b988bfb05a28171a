"""Formats of event times in records, and the millisecond of each.

A format is declared, never guessed. The times of 1980 to 2100 in seconds, milliseconds,
microseconds and nanoseconds are four ranges that do not touch: events in another unit than their
topology's make dead letters. A time between two milliseconds is that of the earlier one in every
format, so that one moment lies in the same windows however it is written; texts and fractions are
read to the nearest microsecond.

A global sequence number is a clock, too: one that advances by one with each event of a stream that
is split over partitions. Then everything about milliseconds applies to numbers: lengths are numbers
of events, and windows are those of the last n of the whole. Numbers lie below all times in
milliseconds, so that wherever one of the two is shown it is plain which it is; they cannot be
distinguished from times in seconds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.synopses.core.arrays import Integers

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimeFormat:
    """A way to write times: `text` for people, `type` what msgspec reads. `to_ms` makes of `count`
    times as they were read, an array of them too, int64[count] milliseconds; `written` is a
    millisecond as JSON has it. An event's time is from `earliest` on and before `latest`. Where
    `unit` is events, milliseconds are numbers of a sequence; `is_text` tells of times that are
    written as text.
    """

    text: str
    type: object
    to_ms: Callable[[Iterable[Any], int], Integers]
    written: Callable[[int], object]
    earliest: int = EARLIEST_TIME_MS
    latest: int = LATEST_TIME_MS
    unit: str = "ms"
    is_text: bool = False

    @property
    def is_sequence(self) -> bool:
        """Return whether times are numbers of a global sequence."""
        return self.unit == "events"


def _milliseconds(times: Iterable[int], count: int) -> Integers:
    return times if isinstance(times, np.ndarray) else np.fromiter(times, np.int64, count)


def _from_seconds(times: Iterable[float], count: int) -> Integers:
    # Doubles hold these seconds to a quarter of a microsecond: 0.123 may lie just below 123 ms.
    seconds = times if isinstance(times, np.ndarray) else np.fromiter(times, np.float64, count)
    microseconds = np.rint(seconds * 1e6).astype(np.int64)
    return microseconds // 1_000


def _from_datetimes(times: Iterable[datetime], count: int) -> Integers:
    return _from_seconds(map(datetime.timestamp, times), count)


def _from_datetimes_in_utc(times: Iterable[datetime], count: int) -> Integers:
    """Return times in milliseconds; those without a zone are in UTC, not in the machine's zone."""
    zoned = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)
    return _from_datetimes(zoned, count)


def _integers(text: str, to_a_millisecond: int) -> TimeFormat:
    limits = Meta(ge=EARLIEST_TIME_MS * to_a_millisecond, lt=LATEST_TIME_MS * to_a_millisecond)
    return TimeFormat(
        text,
        Annotated[int, limits],
        lambda times, count: _milliseconds(times, count) // to_a_millisecond,
        lambda ms: ms * to_a_millisecond,
    )


TIME_FORMATS = {
    "ms": TimeFormat(
        "milliseconds",
        Annotated[int, Meta(ge=EARLIEST_TIME_MS, lt=LATEST_TIME_MS)],
        _milliseconds,
        lambda ms: ms,
    ),
    "s": TimeFormat(
        "seconds",
        Annotated[float, Meta(ge=EARLIEST_TIME_MS / 1_000, lt=LATEST_TIME_MS / 1_000)],
        _from_seconds,
        lambda ms: ms / 1_000,
    ),
    "us": _integers("microseconds", 1_000),
    "ns": _integers("nanoseconds", 1_000_000),
    "iso8601": TimeFormat(
        "ISO 8601 text with a time zone",
        Annotated[datetime, Meta(tz=True)],
        _from_datetimes,
        lambda ms: (_EPOCH + timedelta(milliseconds=ms)).isoformat(),
        is_text=True,
    ),
    "iso8601-utc": TimeFormat(
        "ISO 8601 text, in UTC where it has no time zone",
        datetime,
        _from_datetimes_in_utc,
        lambda ms: (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None).isoformat(),
        is_text=True,
    ),
    "sequence": TimeFormat(
        "numbers of a global sequence",
        Annotated[int, Meta(ge=0, lt=EARLIEST_TIME_MS)],
        _milliseconds,
        lambda number: number,
        earliest=0,
        latest=EARLIEST_TIME_MS,
        unit="events",
    ),
}
