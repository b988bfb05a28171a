"""Figures of windows of the calendar: against all events, at all ticks, however they are read."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import (
    Alert,
    Count,
    Distinct,
    Mean,
    Quantiles,
    Sum,
    TopItems,
    Topology,
    TopologyDriver,
)
from slidestat.declare.statistics import runner
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.schemas.emission import Emission, Figure

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NEAR = [
    ("Europe/Berlin", "2026-03-28T23:00"),
    ("Europe/Berlin", "2026-10-24T22:00"),
    ("America/Sao_Paulo", "2017-10-15T03:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Australia/Lord_Howe", "2024-04-06T15:00"),
    ("UTC", "2024-01-01T00:00"),
]
WINDOWS = ("90m", "this_hour", "today", "this_week")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


def declared(zone: str = "Europe/Berlin", **fields: Any) -> Topology:
    given: dict[str, Any] = {
        **{"name": "t", "source": "s", "span": "8d", "every": "30m", "windows": WINDOWS},
        "statistics": [Count(epsilon=0.1), Sum(epsilon=0.1, decimals=0)],
    }
    return Topology(time_zone=zone, **(given | fields))


def events_at(*times: int, key: str = "k") -> list[dict[str, Any]]:
    return [{"key": key, "time": time, "value": 1 + time % 7} for time in times]


def window_of(figure: Figure) -> str:
    return figure.window or "90m"


def start_of(window: str, zone: str, end: int) -> int:
    if window == "90m":
        return end - 90 * MINUTE
    return int(CalendarWindow(window, zone).starts(np.array([end]))[0])


def require_exact(emission: Emission, zone: str, times: Sequence[int]) -> None:
    """Require that bounds have the exact figures of all windows."""
    end = emission.window_end_ms
    assert [window_of(it) for it in emission.figures] == [*("this_hour", "90m", *WINDOWS[2:])] * 2
    for figure in emission.figures:
        start = start_of(window_of(figure), zone, end)
        assert figure.window_ms == end - start
        inside = times[bisect_left(times, start) : bisect_left(times, end)]
        exact = sum(1 + it % 7 for it in inside) if figure.statistic == "sum" else len(inside)
        assert figure.lower is not None
        assert figure.upper is not None
        assert figure.lower <= exact <= figure.upper
        assert abs((figure.estimate or 0) - exact) <= 0.1 * exact


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from(NEAR),
    st.sampled_from(["windows", "events", "always", "change"]),
    st.lists(st.integers(-2 * DAY // MINUTE, 2 * DAY // MINUTE), min_size=1, max_size=40),
)
def test_bounds_hold_at_each_tick(near: tuple[str, str], emit: str, minutes: list[int]) -> None:
    zone, midnight = near
    times = sorted(ms(midnight) + minute * MINUTE for minute in minutes)
    driver = TopologyDriver(declared(zone, emit=emit))
    driver.send(*events_at(*times))
    driver.close_windows()
    for emission in driver.emissions:
        require_exact(emission, zone, times)
    if emit == "always":
        return
    ends = [emission.window_end_ms for emission in driver.emissions]
    assert ends == sorted(set(ends))
    if emit == "windows":
        # The newest record never shows events in a window that is empty.
        for emission, following in zip(driver.emissions, [*ends[1:], ends[-1] + DAY], strict=True):
            for figure in emission.figures:
                last = following - 30 * MINUTE
                start = start_of(window_of(figure), zone, last)
                is_empty = bisect_left(times, start) == bisect_left(times, last)
                assert not (is_empty and figure.estimate)


def test_a_day_is_whole_at_midnight_and_empty_at_the_next_tick() -> None:
    driver = TopologyDriver(declared(windows=["today"]))
    noon, midnight = ms("2026-10-24T10:00"), ms("2026-10-24T22:00")
    driver.send(*events_at(noon, noon + MINUTE, midnight - 1))
    driver.advance_to(midnight + DAY)
    found = [
        (it.window_end_ms - midnight, it.figures[0].estimate, it.figures[0].window_ms)
        for it in driver.emissions
    ]
    assert found == [
        (30 * MINUTE - 12 * HOUR, 2.0, 12 * HOUR + 30 * MINUTE),
        (0, 3.0, 24 * HOUR),
        (30 * MINUTE, 0.0, 30 * MINUTE),
    ]
    assert driver.figure("k", "count", "today").window == "today"


def test_a_day_has_23_or_25_hours() -> None:
    lengths = []
    for day in ("2026-03-29T10:00", "2026-06-01T10:00", "2026-10-25T10:00"):
        driver = TopologyDriver(declared(windows=["today"], emit="always"))
        driver.send(*events_at(ms(day)))
        driver.advance_to(ms(day) + DAY)
        lengths.append(max(it.figures[0].window_ms or 0 for it in driver.emissions) // HOUR)
    assert lengths == [23, 24, 25]


@pytest.mark.parametrize("emit", ["windows", "always", "change"])
def test_no_byte_depends_on_how_many_ticks_are_asked_at_once(
    emit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = ["ago(count_today, '24h') - count_today as before"]
    statistics = [
        *(Count(), Count(name="sevens", where="value = 7"), Sum(), Quantiles(quantiles=(0.5, 0.9))),
        *(Distinct(field="item"), TopItems(field="item")),
    ]
    midnight = ms("2026-10-24T22:00")
    rng = np.random.default_rng(0)
    events = [
        {"key": f"k{number % 3}", "time": midnight + at, "value": at % 11, "item": str(at % 5)}
        for number, at in enumerate(sorted(rng.integers(-DAY // 2, DAY // 2, 100).tolist()))
    ]
    found = []
    for at_once in (1, 3, 10_000):
        monkeypatch.setattr(runner, "_TICKS_AT_ONCE", at_once)
        driver = TopologyDriver(
            declared(
                emit=emit,
                span="9d",
                every="1h",
                statistics=statistics,
                derived=past if emit == "windows" else [],
            )
        )
        driver.send(*events[:70])
        driver.commit()
        driver.restart()
        for event in events[70:]:
            driver.send(event)
        driver.close_windows()
        found.append([msgspec.json.encode(emission) for emission in driver.emissions])
    assert len(found[0]) > 30
    assert found[0] == found[1] == found[2]


def past_window(zone: str, window: str, end: int, ago: int) -> tuple[int, int]:
    """Return the window that was current so long before, as far as it had come by then."""
    return start_of(window, zone, end - ago), end - ago


@settings(deadline=None, max_examples=10, derandomize=True)
@given(
    st.sampled_from(NEAR),
    st.sampled_from([HOUR, DAY, 7 * DAY]),
    st.lists(st.integers(-2 * DAY // MINUTE, 2 * DAY // MINUTE), min_size=1, max_size=30),
)
def test_the_past_is_the_window_that_was_current(
    near: tuple[str, str], ago: int, minutes: list[int]
) -> None:
    """In questions, in derived figures, and in what is written by a condition."""
    zone, midnight = near
    times = sorted(ms(midnight) + minute * MINUTE for minute in minutes)
    driver = TopologyDriver(
        declared(
            zone,
            span="15d",
            windows=("today", "this_week"),
            statistics=[Count(epsilon=0.1), Mean(epsilon=0.3, decimals=0)],
            derived=[
                f"ago(count_today, '{ago // HOUR}h') as before",
                f"ago(mean_today, '{ago // HOUR}h') as mean_before",
            ],
            emit="always",
        )
    )
    driver.send(*events_at(*times))
    driver.advance_to(times[-1] + 2 * DAY)
    assert driver.emissions
    for emission in driver.emissions:
        start, end = past_window(zone, "today", emission.window_end_ms, ago)
        exact = bisect_left(times, end) - bisect_left(times, start)
        before, mean = emission.figures[-2:]
        assert (before.lower or 0) <= exact <= (before.upper or 0)
        values = [1 + it % 7 for it in times[bisect_left(times, start) : bisect_left(times, end)]]
        if values:
            assert (mean.lower or 0) <= sum(values) / len(values) <= (mean.upper or 99)
    now = times[-1] + 2 * DAY + 1
    answer = driver.query("k", ["today", "this_week"], ["count"], ago=f"{ago // HOUR}h")
    assert answer is not None
    assert answer.window_end_ms == now - ago
    for figure in answer.figures:
        start, end = past_window(zone, window_of(figure), now, ago)
        assert figure.window_ms == end - start
        exact = bisect_left(times, end) - bisect_left(times, start)
        assert (figure.lower or 0) <= exact <= (figure.upper or 0)


def test_a_day_is_compared_with_the_one_before() -> None:
    """At the same elapsed instant: after a day of 25 hours that is an hour later by the clock."""
    midnight = ms("2026-10-24T22:00")
    driver = TopologyDriver(
        declared(
            span="50h",
            windows=["today"],
            statistics=[Count()],
            alerts=[Alert(name="more", when="count_today > ago(count_today, '24h')")],
        )
    )
    driver.send(*events_at(midnight + HOUR, midnight + 26 * HOUR, midnight + 26 * HOUR + 1))
    driver.advance_to(midnight + 30 * HOUR)
    # Today is two events from 01:30 on; 24 hours before was 02:30 of the longer day, with one.
    assert [(str(it.state), it.window_end_ms - midnight) for it in driver.alerts] == [
        ("firing", 90 * MINUTE),
        ("firing", 2 * HOUR),  # What fires is written again each day of UTC.
        ("resolved", 25 * HOUR + 30 * MINUTE),
        ("firing", 26 * HOUR + 30 * MINUTE),
    ]


def test_all_readers_know_the_window() -> None:
    midnight = ms("2026-10-24T22:00")
    driver = TopologyDriver(
        declared(
            windows=["1h", "today"],
            derived=["count_1h / count_today as share"],
            having="count_today >= 2",
            alerts=[Alert(name="busy", when="count_today >= 3", resolve="count_today = 0")],
        )
    )
    driver.send(*events_at(midnight + 1, midnight + HOUR, midnight + HOUR + 1))
    driver.advance_to(midnight + 2 * HOUR)
    assert [it.window_end_ms - midnight for it in driver.emissions] == [90 * MINUTE]
    answer = driver.query("k", ["1h", "today", "this_hour"], ["count"])
    assert answer is not None
    assert [(it.window, it.window_ms, it.estimate) for it in answer.figures] == [
        (None, HOUR, 1.0),
        ("this_hour", 1, 0.0),
        ("today", 2 * HOUR + 1, 3.0),
    ]
    ranking = driver.ranking("count_today", largest=1)
    assert [(it.key, it.figure.window, it.figure.window_ms) for it in ranking.places] == [
        ("k", "today", 2 * HOUR + 1)
    ]
    driver.advance_to(midnight + 26 * HOUR)
    changes = [(str(it.state), it.window_end_ms - midnight) for it in driver.alerts]
    # What fires is written again each day of UTC.
    assert changes == [
        ("firing", 90 * MINUTE),
        ("firing", 2 * HOUR),
        ("resolved", 25 * HOUR + 30 * MINUTE),
    ]
    assert [(it.window, it.window_ms) for it in driver.alerts[0].figures] == [
        ("today", 90 * MINUTE)
    ]


def test_rows_have_the_name_and_the_length() -> None:
    midnight = ms("2026-10-24T22:00")
    driver = TopologyDriver(
        declared(windows=["1h", "today"], output_shape="rows", statistics=[Count()])
    )
    driver.send(*events_at(midnight + 1))
    driver.advance_to(midnight + HOUR)
    assert [
        (row["window"], row["window_ms"], row["window_end_ms"] - midnight, row["count"])
        for row in driver.rows
    ] == [("1h", HOUR, 30 * MINUTE, 1.0), ("today", 30 * MINUTE, 30 * MINUTE, 1.0)]


def test_a_statistic_that_was_added_covers_the_next_day() -> None:
    midnight = ms("2026-10-24T22:00")
    driver = TopologyDriver(declared(windows=["today"], emit="always", statistics=[Count()]))
    driver.send(*events_at(midnight + HOUR))
    driver.advance_to(midnight + 2 * HOUR)
    driver.change_statistics(
        declared(windows=["today"], emit="always", statistics=[Count(), Sum()])
    )
    driver.send(*events_at(midnight + 3 * HOUR, midnight + 26 * HOUR))
    driver.advance_to(midnight + 28 * HOUR)
    marked = [
        it.window_end_ms - midnight
        for it in driver.emissions
        if any(figure.counted_from_ms is not None for figure in it.figures)
    ]
    assert max(marked) == 25 * HOUR
    assert max(it.window_end_ms for it in driver.emissions) == midnight + 28 * HOUR
