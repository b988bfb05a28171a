"""The audit of windows of the calendar: its own clocks, and what a partition puts out by ours."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from slidestat import Count, Distinct, Mean, Quantiles, Sum, TopItems, Topology
from slidestat.declare.times.calendar_windows import (
    CALENDAR_WINDOWS,
    CalendarWindow,
    rules_of_zone,
)
from slidestat.errors import SlidestatError
from slidestat.spark.audit.calendar import Calendar, require_rules
from tests.audit.test_audit_key import Partition
from tests.declare.test_calendar_windows import ODD, ms
from tests.engine.model import Record
from tests.engine.streams import encode

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
STATISTICS = (Count(epsilon=0.1), Sum(epsilon=0.1), Distinct(), TopItems(limit=3), Quantiles())


def asked(zone: str, **fields: Any) -> Topology:
    given: dict[str, Any] = {
        **{"name": "law", "source": "events", "span": "9d", "every": "30m"},
        **{"windows": ("90m", "this_hour", "today", "this_week"), "time_zone": zone},
        "statistics": STATISTICS,
    }
    return Topology(**(given | fields))


def records_at(times: list[int]) -> list[Record]:
    return [
        Record(place, b"", encode("a", time, 1.0 + time % 7), time)
        for place, time in enumerate(sorted(times))
    ]


def later(time: int) -> list[int]:
    """Times by which all windows of the calendar have ended: so many that the clock follows."""
    return [time + 8 * DAY + place for place in range(20)]


@pytest.mark.parametrize(("zone", "near"), ODD)
def test_clocks_are_those_of_the_workers(zone: str, near: str) -> None:
    """Two readings of the same rules: whenever a window ends, it starts at the same instant."""
    calendar = Calendar(zone)
    rng = np.random.default_rng(0)
    times = ms(near) + np.sort(rng.integers(-3 * DAY, 3 * DAY, 80))
    times = np.concatenate([times, ms(near) + np.arange(-3 * HOUR, 3 * HOUR, 15 * MINUTE)])
    for name in CALENDAR_WINDOWS:
        window = CalendarWindow(name, zone)
        lengths = [calendar.length(name, end) for end in times.tolist()]
        assert lengths == (times - window.starts(times)).tolist()
        assert calendar.next_starts(name, times).tolist() == window.next_starts(times).tolist()


@settings(deadline=None, max_examples=8, derandomize=True)
@given(
    st.sampled_from(ODD),
    st.sampled_from(
        [
            {"emit": "events"},
            {"emit": "windows"},
            {"emit": "always"},
            {"emit": "change", "tolerance": "5%"},
            {"having": "count_today >= 3"},
            {"having": "busy > 0.4", "derived": ("count_90m / count_today as busy",)},
            {"having": "count_today > 2", "emit": "change", "windows": ("today",)},
        ]
    ),
    st.lists(st.integers(-2 * DAY // MINUTE, 2 * DAY // MINUTE), min_size=1, max_size=25),
)
def test_what_a_partition_puts_out_is_found_right(
    near: tuple[str, str], fields: dict[str, Any], minutes: list[int]
) -> None:
    zone, at = near
    times = [ms(at) + minute * MINUTE for minute in minutes]
    partition = Partition(asked(zone, **fields), records_at([*times, *later(max(times))]))
    assert partition.violations("a") == []


@pytest.fixture
def partition() -> Partition:
    """Some events of the 25 hours of a day, of one window."""
    midnight = ms("2026-10-24T22:00")
    times = [midnight + hour * HOUR + 45 * MINUTE for hour in range(27)]
    return Partition(
        asked("Europe/Berlin", windows=("today",), statistics=(Count(), Mean())), records_at(times)
    )


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"window_ms": 24 * HOUR}, "not declared: statistic count, window today, window_ms"),
        ({"window": "this_week"}, "not declared: statistic count, window this_week"),
        ({"window": None}, "not declared: statistic count, window_ms"),
        ({"estimate": 24.0, "lower": 24.0, "upper": 24.0}, "more off than promised"),
    ],
)
def test_a_figure_of_another_day_is_found(
    partition: Partition, changes: dict[str, Any], found: str
) -> None:
    """As one is that a worker would write that takes each day for 24 hours."""
    end = ms("2026-10-25T23:00")
    emission = partition.emissions["a"][end]
    assert emission.figures[0].window_ms == 25 * HOUR
    figures = [structs.replace(emission.figures[0], **changes), *emission.figures[1:]]
    partition.emissions["a"][end] = structs.replace(emission, figures=figures)
    violations = partition.violations("a")
    assert any(it.startswith(found) for it in violations), violations


def test_a_silence_that_is_not_told_is_found() -> None:
    """With emit = "windows" a key is written when its day is empty."""
    midnight = ms("2026-10-24T22:00")
    declared = asked("Europe/Berlin", windows=("today",), emit="windows")
    partition = Partition(declared, records_at([midnight + HOUR, *later(midnight)]))
    del partition.emissions["a"][midnight + 25 * HOUR + 30 * MINUTE]
    assert partition.violations("a") == ["not emitted"]


def test_other_rules_are_refused() -> None:
    require_rules("Europe/Berlin", rules_of_zone("Europe/Berlin"))
    with pytest.raises(SlidestatError, match="days of Europe/Berlin by other rules"):
        require_rules("Europe/Berlin", rules_of_zone("Europe/Paris"))
    with pytest.raises(SlidestatError, match="other rules"):
        require_rules("Europe/Nowhere", rules_of_zone("Europe/Paris"))
