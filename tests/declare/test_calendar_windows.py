"""Windows of the calendar against the clocks of many zones, minute by minute."""

import pickle
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import Alert, Count, Rate, Topology
from slidestat.declare.forms.resolved import fingerprint_of, resolved
from slidestat.declare.times.calendar_windows import DAY, HOUR, WEEK, CalendarWindow, is_within
from slidestat.errors import SlidestatError

MINUTE, QUARTER, HOUR_MS, DAY_MS = 60_000, 900_000, 3_600_000, 86_400_000
# Zones by what their clocks did, each with a time in UTC near it.
ODD = [
    ("Europe/Berlin", "2026-03-29T01:00"),  # 23 hours
    ("Europe/Berlin", "2026-10-25T01:00"),  # 25 hours, one of them shown twice
    ("America/New_York", "2026-03-08T07:00"),
    ("America/New_York", "2024-11-03T06:00"),
    ("America/Sao_Paulo", "2017-10-15T03:00"),  # no midnight
    ("America/Sao_Paulo", "2018-02-18T02:00"),  # put back at midnight to the day before
    ("Asia/Beirut", "2023-03-29T22:00"),
    ("Africa/Cairo", "2024-04-25T22:00"),
    ("Asia/Amman", "2021-03-25T22:00"),
    ("America/Havana", "2024-11-03T05:00"),  # midnight twice
    ("America/St_Johns", "2008-11-02T02:31"),  # put back a minute after midnight
    ("America/St_Johns", "2008-03-09T03:31"),
    ("Australia/Lord_Howe", "2024-04-06T15:00"),  # by half an hour
    ("Australia/Lord_Howe", "2024-10-05T15:30"),
    ("Pacific/Apia", "2011-12-30T10:00"),  # a date skipped
    ("Pacific/Kiritimati", "1994-12-31T10:00"),
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("Antarctica/Troll", "2024-10-27T01:00"),  # by two hours
    ("Antarctica/Casey", "2010-03-04T15:00"),  # by three
    ("America/Recife", "2000-10-08T03:00"),  # forward, and back a week later
    ("America/Recife", "2000-10-15T02:00"),
    ("Asia/Kolkata", "2024-06-01T18:30"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),
    ("Asia/Tokyo", "2024-06-01T15:00"),
    ("Asia/Krasnoyarsk", "2014-10-25T18:00"),
    ("Asia/Pyongyang", "2015-08-14T15:00"),
    ("Europe/Moscow", "2011-03-26T23:00"),
    ("Africa/Casablanca", "2024-03-10T02:00"),
    ("Europe/Dublin", "2024-03-31T01:00"),
    ("UTC", "2024-02-29T00:00"),
    ("Africa/Monrovia", "2099-12-31T23:00"),
]


def zone_of(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


class Clocks:
    """The clocks of a zone, read minute by minute."""

    def __init__(self, name: str) -> None:
        self.zone = zone_of(name)

    def at(self, time: int) -> datetime:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)).astimezone(
            self.zone
        )

    def start(self, window: str, end: int) -> int:
        """Return the start of the hour, the day or the week that has the millisecond before
        `end`.
        """
        last = (end - 1) // MINUTE * MINUTE
        if window == HOUR:
            while self.at(last).minute and (
                self.at(last).utcoffset() == self.at(last - 1).utcoffset()
            ):
                last -= MINUTE
            return last
        quarters = range(last // QUARTER * QUARTER - 10 * DAY_MS, last + 1, QUARTER)
        dates = [self.at(quarter).date() for quarter in quarters]
        wanted = max(*dates, self.at(last).date())
        if window == WEEK:
            wanted -= timedelta(days=wanted.weekday())
        found = zip(quarters, dates, strict=True)
        start = next((it for it, shown in found if shown >= wanted), last)
        while self.at(start - MINUTE).date() >= wanted:
            start -= MINUTE
        return start


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(ODD),
    st.sampled_from([HOUR, DAY, WEEK]),
    st.one_of(
        st.integers(-3 * HOUR_MS, 3 * HOUR_MS),
        st.integers(-8 * DAY_MS, 8 * DAY_MS),
        st.integers(-180, 180).map(lambda minutes: minutes * MINUTE),
    ),
)
def test_windows_begin_where_clocks_say(odd: tuple[str, str], name: str, away: int) -> None:
    zone, near = odd
    end = min(ms(near) + away, ms("2100-01-01T00:00"))
    window = CalendarWindow(name, zone)
    start = int(window.starts(np.array([end]))[0])
    assert start == Clocks(zone).start(name, end)
    assert 0 < end - start <= window
    # An event is in all windows up to that which ends with its hour, day or week, and in no later.
    for time in (start, end - 1):
        left = int(window.next_starts(np.array([time]))[0])
        assert window.starts(np.array([left]))[0] == start
        assert window.starts(np.array([left + 1]))[0] == left


@pytest.mark.parametrize("zone", ["America/St_Johns", "Pacific/Apia"])
def test_windows_follow_each_other_and_lie_in_each_other(zone: str) -> None:
    ends = np.arange(ms("1993-01-01T00:00"), ms("2027-01-01T00:00"), 17 * HOUR_MS + 7 * MINUTE)
    hours, days, weeks = (CalendarWindow(name, zone).starts(ends) for name in (HOUR, DAY, WEEK))
    assert (weeks <= days).all()
    assert (days <= hours).all()
    assert (hours < ends).all()
    for starts in (hours, days, weeks):
        assert (np.diff(starts) >= 0).all()


def of(text: str, name: str, zone: str, end: str) -> None:
    window = CalendarWindow(name, zone)
    assert window.starts(np.array([ms(end)]))[0] == ms(text)


def test_days_of_which_others_were_wrong() -> None:
    """Ways in which days, weeks and hours of other systems went wrong."""
    # Midnight to midnight of Copenhagen, not of UTC.
    of("2018-08-08T22:00", DAY, "Europe/Copenhagen", "2018-08-09T06:29")
    of("2018-08-08T22:00", DAY, "Europe/Copenhagen", "2018-08-09T22:00")
    of("2018-08-09T22:00", DAY, "Europe/Copenhagen", "2018-08-09T22:01")
    # No bucket begins an hour late on a day of 25 hours, nor after the event that it has.
    of("2015-10-24T22:00", DAY, "Europe/Oslo", "2015-10-25T22:59")
    of("2024-11-03T05:00", HOUR, "America/New_York", "2024-11-03T05:31")
    of("2024-11-03T06:00", HOUR, "America/New_York", "2024-11-03T06:31")
    # Hours of zones that are off by half an hour, also after a change by half an hour.
    of("2024-04-06T15:30", HOUR, "Australia/Lord_Howe", "2024-04-06T15:40")
    of("2024-04-06T16:30", HOUR, "Australia/Lord_Howe", "2024-04-06T16:40")
    of("2024-06-01T18:30", HOUR, "Asia/Kolkata", "2024-06-01T19:00")
    # Days without a midnight.
    of("2024-04-25T22:00", DAY, "Africa/Cairo", "2024-04-26T12:00")
    of("2016-10-16T03:00", DAY, "America/Sao_Paulo", "2016-10-16T13:00")
    of("2021-03-25T22:00", DAY, "Asia/Amman", "2021-03-25T22:01")
    # A date that was skipped is part of no window, and makes a week of six days.
    of("2011-12-29T10:00", DAY, "Pacific/Apia", "2011-12-30T10:00")
    of("2011-12-30T10:00", DAY, "Pacific/Apia", "2011-12-30T10:01")
    of("2011-12-26T10:00", WEEK, "Pacific/Apia", "2012-01-01T10:00")
    # Days and weeks do not drift behind a change of clocks.
    for day, utc in (("07", 5), ("08", 5), ("09", 4), ("10", 4)):
        start = f"2026-03-{day}T0{utc}:00"
        of(start, DAY, "America/New_York", f"2026-03-{day}T20:00")
    # Of UTC, days are those of UTC wherever it runs.
    of("2017-03-13T00:00", DAY, "UTC", "2017-03-13T19:00")


def test_the_longest_window_is_that_of_the_zone() -> None:
    longest = {
        zone: [int(CalendarWindow(name, zone)) // HOUR_MS for name in (HOUR, DAY, WEEK)]
        for zone in ("UTC", "Europe/Berlin", "Asia/Tokyo", "Antarctica/Casey", "Pacific/Apia")
    }
    assert longest == {
        "UTC": [1, 24, 168],
        "Europe/Berlin": [1, 25, 169],
        "Asia/Tokyo": [1, 25, 169],
        "Antarctica/Casey": [1, 27, 171],
        "Pacific/Apia": [1, 25, 169],
    }


def test_a_window_is_itself_alone() -> None:
    today, week = CalendarWindow(DAY, "Europe/Berlin"), CalendarWindow(WEEK, "Europe/Berlin")
    assert today != 25 * HOUR_MS
    assert len({today, 25 * HOUR_MS, CalendarWindow(DAY, "Asia/Tokyo")}) == 3
    assert sorted([week, today, 25 * HOUR_MS, 5 * MINUTE]) == [
        *(5 * MINUTE, 25 * HOUR_MS, today, week)
    ]
    assert pickle.loads(pickle.dumps(today)) == today  # noqa: S301
    assert is_within(today, week)
    assert is_within(today, 25 * HOUR_MS)
    assert not is_within(5 * MINUTE, today)
    assert not is_within(week, today)


def declared(**fields: Any) -> Topology:
    given: dict[str, Any] = {
        **{"name": "t", "source": "s", "every": "1m", "span": "8d", "statistics": [Count()]},
        **{"windows": ["5m", "today"], "time_zone": "Europe/Berlin"},
    }
    return Topology(**(given | fields))


@pytest.mark.parametrize(
    ("fields", "error", "advice"),
    [
        ({"time_zone": ""}, "windows is 'today', and there is no time_zone", "Europe/Berlin"),
        ({"time_zone": "Europe/Berln"}, "'Europe/Berln', which is no time zone", "Europe/Berlin?"),
        ({"time_zone": "Berlin"}, "'Berlin', which is no time zone", "Europe/Berlin?"),
        ({"time_zone": "New York"}, "'New York', which is no time zone", "America/New_York?"),
        ({"time_zone": "../../etc"}, "no time zone", "IANA"),
        ({"windows": ["5m"], "having": "count_today > 2"}, "reads 'count_today'", 'Put "today"'),
        ({"time_zone": "+02:00"}, "no time zone", "IANA"),
        ({"time_zone": 2}, "time_zone is 2", "IANA"),
        ({"span": "24h"}, "'today', which may be 25h long", '"25h"'),
        ({"span": "7d", "windows": ["this_week"]}, "which may be 169h long", '"169h"'),
        ({"statistics": [Count(), Rate()]}, "'today', and rate is asked for", "Take rate out"),
        ({"span": "100 events"}, "windows has", "Give both"),
        ({"windows": ["yesterday"]}, "'yesterday', which is no window", '"today"'),
        ({"windows": [], "span": "9 events"}, "time_zone is 'Europe/Berlin', but", "Leave it out"),
        (
            {"having": "count_5m > ago(count_today, '7d')"},
            "reads ago(count_today, '7d'), which is not kept: the span is",
            "declare a longer one",
        ),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], error: str, advice: str) -> None:
    with pytest.raises(SlidestatError) as raised:
        declared(**fields)
    assert error in str(raised.value)
    assert advice in raised.value.advice


def test_an_alert_on_an_empty_day_can_fire() -> None:
    """However short the span is behind it: a day empties at midnight."""
    alert = Alert(name="none", when="count_today = 0 and count_5m > 0")
    assert declared(span="25h", alerts=[alert]).alert_figures[0].windows[-1].name == DAY  # type: ignore[attr-defined]


def test_rules_of_the_zone_are_part_of_the_declaration() -> None:
    one, other = declared(), declared(time_zone="Asia/Tokyo")
    table = resolved(one)
    assert table["windows"] == [5 * MINUTE, "today"]
    assert table["time_zone"] == "Europe/Berlin"
    assert len(str(table["time_zone_rules"])) == 16
    assert fingerprint_of(one) != fingerprint_of(other)
    without = declared(windows=["5m"])
    assert "time_zone" not in resolved(without)
    assert fingerprint_of(without) == fingerprint_of(declared(windows=["5m"], time_zone=""))


@pytest.mark.parametrize("zone", ["CEST", "PST", "BST", "IST", "UTC+1", "GMT+2"])
def test_an_abbreviation_is_not_taken_for_another(zone: str) -> None:
    with pytest.raises(SlidestatError, match="no time zone") as raised:
        declared(time_zone=zone)
    assert raised.value.advice.startswith("Write a name of the IANA database")
