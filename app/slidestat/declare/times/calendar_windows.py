"""Windows of the calendar: those that begin with an hour, a day or a week of a time zone.

A window that ends at t is of the hour, the day or the week that has the last millisecond before t:
it is never empty in length, and the one that ends at midnight is the whole day. As all windows it
is [start, t), so it is a window of a length that depends on t, and of at most the longest hour, day
or week of the zone. The bounds of a synopsis hold for every length up to its span.

- A *day* begins when the zone's clocks first show its date: at midnight, or later where midnight is
  skipped. A date that is shown again, after clocks were put back over midnight, is of the day
  that has begun. So days follow each other, and one that is skipped altogether has no length.
- A *week* begins with its Monday.
- An *hour* begins when the clocks show a full hour, and when they are changed. So an hour that is
  repeated is two hours, and none is longer than 60 minutes.

The rules are those of the package `tzdata`, never the machine's: figures must be the same on all.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np

from slidestat.errors import SlidestatError, near_name
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.synopses.core.arrays import Integers

HOUR, DAY, WEEK = CALENDAR_WINDOWS = ("this_hour", "today", "this_week")

_MINUTE_MS, _QUARTER_MS, _HOUR_MS, _DAY_MS = 60_000, 900_000, 3_600_000, 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The first Monday, and more weeks than the times of events can span.
_FIRST, _WEEKS = datetime(1979, 12, 3), 6_270
# Rules change: wherever clocks may be changed at all, a day may get an hour more.
_CHANGE_MS = _HOUR_MS
_UTC = "UTC"
_ABBREVIATION = 5


class CalendarWindow(int):
    """A window of the calendar of a time zone; as a number the longest that it may be, in ms. It is
    equal to no window of another name, also of that length.
    """

    name: str
    zone: str

    def __new__(cls, name: str, zone: str) -> "CalendarWindow":
        """Create the window `name`, one of CALENDAR_WINDOWS; `zone` is one that is known."""
        window = super().__new__(cls, _longest(name, zone))
        window.name, window.zone = name, zone
        return window

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.name, self.zone

    def __repr__(self) -> str:
        return f"{self.name} in {self.zone}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalendarWindow) and repr(self) == repr(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.name, self.zone))

    def __lt__(self, other: int) -> bool:
        return _order(self) < _order(other)

    def __gt__(self, other: int) -> bool:
        return _order(self) > _order(other)

    def starts(self, ends: Integers) -> Integers:
        """Return int64[n]: where the windows start that end at `ends`."""
        starts = _starts(self.name, self.zone)
        found = starts[np.searchsorted(starts, _within(ends)) - 1]
        # Windows beyond the times that events may have are empty.
        clipped: Integers = np.clip(found, ends - int(self), ends - 1)
        return clipped

    def next_starts(self, times: Integers) -> Integers:
        """Return int64[n]: the first start after each time. An event of that time has left the
        window at the first tick after it.
        """
        starts = _starts(self.name, self.zone)
        found = starts[np.searchsorted(starts, _within(times), side="right")]
        # Times of no event stay below all others.
        return np.where(times < EARLIEST_TIME_MS, times, found)


def is_within(small: int, large: int) -> bool:
    """Return whether a window is a part of another one that ends with it, whenever that is."""
    if isinstance(large, CalendarWindow):
        return isinstance(small, CalendarWindow) and small <= large
    return small <= large


def starts_at(windows: tuple[int, ...], ends: Integers) -> Integers:
    """Return int64[n]: where the window starts that starts first of those that end at `ends`."""
    starts: Integers = ends - lengths_at(windows, ends).max(axis=1)
    return starts


def lengths_at(windows: tuple[int, ...], ends: Integers) -> Integers:
    """Return int64[n, windows]: the lengths of windows that end at `ends`."""
    return np.stack(
        [
            ends - it.starts(ends)
            if isinstance(it, CalendarWindow)
            else np.full(len(ends), it, np.int64)
            for it in windows
        ],
        axis=1,
    )


def length_at(window: int, end: int) -> int:
    return int(lengths_at((window,), np.array([end]))[0, 0])


def check_zone(zone: object) -> None:
    """Raise SlidestatError for what is no time zone."""
    if not isinstance(zone, str) or zone not in _zones():
        # Abbreviations are of clocks at one time of the year, and alike: CEST is not EST. And
        # Etc/GMT+2 is two hours behind.
        places = sorted(it for it in _zones() if "/" in it and not it.startswith("Etc/"))
        is_short = len(str(zone)) <= _ABBREVIATION
        near = None if is_short else near_name(str(zone).replace(" ", "_"), places)
        guess = f"Did you mean {near}? " if near is not None else ""
        raise SlidestatError(
            f"time_zone is {zone!r}, which is no time zone.",
            f'{guess}Write a name of the IANA database, such as "Europe/Berlin", or "UTC".',
        )


def rules_of_zone(zone: str) -> str:
    """Return a short text that differs for different rules of a zone: 16 hexadecimal digits."""
    return hashlib.sha256(_file(zone)).hexdigest()[:16]


def calendar_window(name: str, zone: str, field: str) -> CalendarWindow:
    """Return the window of this name; raises SlidestatError, naming the `field`, without a zone."""
    if not zone:
        raise SlidestatError(
            f"{field} is {name!r}, and there is no time_zone.",
            'Say whose day it is: time_zone = "Europe/Berlin", or "UTC".',
        )
    check_zone(zone)
    return CalendarWindow(name, zone)


def _order(window: int) -> tuple[int, str]:
    return int(window), window.name if isinstance(window, CalendarWindow) else ""


def _within(times: Integers) -> Integers:
    return np.clip(times, EARLIEST_TIME_MS - 7 * _DAY_MS, LATEST_TIME_MS + 7 * _DAY_MS)


# The rules of the pinned package.


@cache
def _zones() -> frozenset[str]:
    return frozenset((files("tzdata") / "zones").read_text("utf-8").split())


def _file(zone: str) -> bytes:
    return files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()


@cache
def _zone(zone: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


@cache
def _longest(name: str, zone: str) -> int:
    if name == HOUR:
        return _HOUR_MS
    usual = _DAY_MS if name == DAY else 7 * _DAY_MS
    found = int(np.diff(_starts(name, zone)).max())
    return found if zone == _UTC else max(found, usual + _CHANGE_MS)


@cache
def _starts(name: str, zone: str) -> Integers:
    """Return all starts in order, int64[n]."""
    starts, irregular = _days(zone)
    if name == WEEK:
        starts = starts[::7]
    if name == HOUR:
        rules = _zone(zone)
        regular = np.delete(starts[:-1], irregular)
        hours = [(regular[:, np.newaxis] + np.arange(0, _DAY_MS, _HOUR_MS)).ravel()]
        hours += [_hours(int(starts[it]), int(starts[it + 1]), rules) for it in irregular]
        starts = np.concatenate(hours)
    starts = np.sort(starts)
    # A date that is skipped begins where the next one does.
    distinct: Integers = starts[np.append(True, np.diff(starts) > 0)]
    return distinct


@cache
def _days(zone: str) -> tuple[Integers, Integers]:
    """Return the start of each date, int64[n], and the places of those on which clocks change."""
    rules = _zone(zone)

    def offset_of(day: int) -> int:
        # If a date has two midnights, the first one counts; if its midnight is skipped, the offset
        # before.
        return _ms((_FIRST + timedelta(days=day)).replace(tzinfo=rules).utcoffset())

    offsets = np.array([offset_of(day) for day in range(7 * _WEEKS + 1)])
    first = (_FIRST - _EPOCH.replace(tzinfo=None)) // timedelta(milliseconds=1)
    midnights = first + np.arange(len(offsets)) * _DAY_MS
    starts = midnights - offsets
    changes = np.flatnonzero(np.diff(offsets))
    for day in changes.tolist():
        start = int(starts[day])
        if start + _offset(start, rules) != midnights[day]:
            # The date begins where clocks are put forward over its midnight.
            while _offset(start - 1, rules) == _offset(start, rules):
                start -= _MINUTE_MS
            starts[day] = start
    return starts, changes


def _hours(first: int, last: int, rules: ZoneInfo) -> Integers:
    """Return the starts of the hours of a day on which clocks are changed: that is at minutes."""
    found, before = [first], _offset(first - 1, rules)
    for quarter in range(first, last, _QUARTER_MS):
        after = _offset(quarter + _QUARTER_MS - 1, rules)
        if after == before:
            found += [quarter] * ((quarter + after) % _HOUR_MS == 0)
            continue
        for minute in range(quarter, quarter + _QUARTER_MS, _MINUTE_MS):
            offset = _offset(minute, rules)
            if offset != _offset(minute - 1, rules) or (minute + offset) % _HOUR_MS == 0:
                found.append(minute)
        before = after
    return np.array(found, np.int64)


def _offset(time: int, rules: ZoneInfo) -> int:
    return _ms((_EPOCH + timedelta(milliseconds=time)).astimezone(rules).utcoffset())


def _ms(offset: timedelta | None) -> int:
    if offset is None:
        raise ValueError("a time without an offset")
    return offset // timedelta(milliseconds=1)
