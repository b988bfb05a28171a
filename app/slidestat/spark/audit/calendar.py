"""Windows of the calendar as an audit has them: read from the clocks of a time zone.

A worker goes by lists of all starts (`declare/times/calendar_windows.py`). Here a start is looked
for where it is needed: the first instant at which the clocks show a date or a later one, and the
last one before a time at which they show a full hour, or were changed. Clocks are changed at full
minutes.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np

from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers

_MINUTE_MS, _QUARTER_MS, _HOUR_MS, _DAY_MS = 60_000, 900_000, 3_600_000, 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# No clock is further ahead of UTC, or behind it.
_FURTHEST_MS = 15 * _HOUR_MS
_MOST_STARTS = 100_000


class Calendar:
    """The clocks of a time zone, by the rules of the installed package `tzdata`."""

    def __init__(self, zone: str) -> None:
        with files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as file:
            self._rules = ZoneInfo.from_file(file, key=zone)
        self._start_of: dict[str, Callable[[int], int]] = {
            "today": lambda time: self._date_start(self._date_of(time)),
            "this_week": lambda time: self._date_start(_monday(self._date_of(time))),
            "this_hour": self._hour_start,
        }
        self._date_start = lru_cache(_MOST_STARTS)(self._first_shown)
        self._length_of = lru_cache(_MOST_STARTS)(self._length)
        self._left_at = lru_cache(_MOST_STARTS)(self._next_start)

    def length(self, window: str, end: int) -> int:
        """Return the length in ms of the window of this name that ends at `end`."""
        return self._length_of(window, end)

    def next_starts(self, window: str, times: Integers) -> Integers:
        """Return int64[n]: where the window begins that follows the one of each time."""
        minutes, place = np.unique(times // _MINUTE_MS, return_inverse=True)
        found = [self._left_at(window, minute * _MINUTE_MS) for minute in minutes.tolist()]
        starts: Integers = np.array(found, np.int64)[place]
        return starts

    def _length(self, window: str, end: int) -> int:
        return end - self._start_of[window](end - 1)

    def _next_start(self, window: str, time: int) -> int:
        if window == "this_hour":
            return next(
                minute
                for minute in range(time + _MINUTE_MS, time + _HOUR_MS + 1, _MINUTE_MS)
                if self._begins_hour(minute)
            )
        days = 1
        if window == "this_week":
            days = 7 - self._date_of(time).weekday()
        following = self._date_of(time) + timedelta(days)
        while self._date_start(following) <= time:  # A date that is skipped is no day.
            following += timedelta(days)
        return self._date_start(following)

    def _shown(self, time: int) -> datetime:
        return (_EPOCH + timedelta(milliseconds=time)).astimezone(self._rules)

    def _date_of(self, time: int) -> date:
        """Return the date of the day that a time is of: of two that are shown again, the later."""
        shown = self._shown(time).date()
        following = shown + timedelta(1)
        return following if self._date_start(following) <= time else shown

    def _first_shown(self, day: date) -> int:
        midnight = (datetime(day.year, day.month, day.day, tzinfo=UTC) - _EPOCH) // timedelta(
            milliseconds=1
        )
        quarter = midnight - _FURTHEST_MS
        while self._shown(quarter).date() < day:
            quarter += _QUARTER_MS
        minutes = range(quarter - _QUARTER_MS, quarter + 1, _MINUTE_MS)
        return next(it for it in minutes if self._shown(it).date() >= day)

    def _hour_start(self, time: int) -> int:
        minute = time // _MINUTE_MS * _MINUTE_MS
        while not self._begins_hour(minute):
            minute -= _MINUTE_MS
        return minute

    def _begins_hour(self, minute: int) -> bool:
        shown = self._shown(minute)
        return not shown.minute or shown.utcoffset() != self._shown(minute - 1).utcoffset()


def _monday(day: date) -> date:
    return day - timedelta(day.weekday())


@cache
def calendar_of(zone: str) -> Calendar:
    """Return the calendar of a time zone."""
    return Calendar(zone)


def require_rules(zone: str, rules: str) -> None:
    """Raise SlidestatError unless the installed rules of a time zone are those with this digest."""
    try:
        found = files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()
    except OSError:
        found = b""
    if hashlib.sha256(found).hexdigest()[: len(rules)] != rules:
        raise SlidestatError(
            f"Figures are of days of {zone} by other rules than those that are installed here.",
            "Audit them where the package tzdata has the version that the workers have.",
        )
