"""A referee over parties with windows of the calendar: against all events, and audited."""

from bisect import bisect_left
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from slidestat import Count, Quantiles, Referee, RefereeDriver, Sum, TopItems, Topology
from slidestat.declare.forms.resolved import resolved
from slidestat.referee.live_referee import RefereeQuery
from slidestat.referee.party_synopses import AnsweredTicks
from slidestat.spark.audit.calendar import calendar_of
from slidestat.spark.audit.declaration import declaration_of
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.key import audit_key

HOUR, DAY, EVERY = 3_600_000, 86_400_000, 1_800_000
# The begin of 25 October 2026 in Berlin, a day of 25 hours.
MIDNIGHT = 1_792_879_200_000
WINDOWS = ("24h", "this_hour", "today")


def declared(**fields: Any) -> Referee:
    topology = Topology(
        name="t",
        source="s",
        span="26h",
        every="30m",
        windows=WINDOWS,
        time_zone="Europe/Berlin",
        statistics=[Count(epsilon=0.1), Sum(epsilon=0.1), Quantiles(), TopItems(limit=3)],
        publish="partition",
    )
    return Referee(of=topology, patience="3d", **fields)


def length_of(window: str, end: int) -> int:
    return DAY if window == "24h" else calendar_of("Europe/Berlin").length(window, end)


@settings(deadline=None, max_examples=8, derandomize=True)
@given(
    st.sampled_from(["events", "windows", "always"]),
    st.lists(st.tuples(st.integers(-DAY, 2 * DAY), st.integers(0, 2)), min_size=1, max_size=20).map(
        sorted
    ),
)
def test_answers_are_of_the_days_of_all_parties(emit: str, events: list[tuple[int, int]]) -> None:
    """Figures are of the same windows as those of a topology, at each tick, and none is missing:
    an audit has all of them right; with "windows" the newest never shows events that are gone.
    """
    referee = declared(emit=emit)
    driver = RefereeDriver(referee, partitions=3)
    times = [MIDNIGHT + at for at, _ in events]
    for time, (_, partition) in zip(times, events, strict=True):
        driver.send({"key": "k", "time": time, "value": 1}, partition=partition)
    until = times[-1] + 2 * DAY
    driver.advance_to(until)
    answers = {it.window_end_ms: it for it in driver.emissions if not it.provisional}
    assert answers
    for end, answer in answers.items():
        counts = {it.window or "24h": it for it in answer.figures if it.statistic == "count"}
        assert counts.keys() == set(WINDOWS)
        for window, figure in counts.items():
            length = length_of(window, end)
            assert figure.window_ms == length
            exact = bisect_left(times, end) - bisect_left(times, end - length)
            assert (figure.lower or 0) <= exact <= (figure.upper or 0)
    declaration = declaration_of(resolved(referee))
    columns = {
        name: ["1" if paths else None for _ in times]
        for name in declaration.columns
        for paths, *_ in [name]
    }
    key = ExactKey(np.array(times), np.array([it for _, it in events]), columns)
    watermark = until // EVERY * EVERY
    found = [*audit_key(declaration, key, "s", answers, watermark, -(2**62))]
    assert [it for it in found if it.violation] == []
    if emit != "events":
        ends = sorted(answers)
        for end, following in zip(ends, [*ends[1:], watermark + EVERY], strict=True):
            for figure in answers[end].figures:
                last = following - EVERY
                start = last - length_of(figure.window or "24h", last)
                is_empty = bisect_left(times, start) == bisect_left(times, last)
                assert not (figure.statistic == "count" and is_empty and figure.estimate)


def test_a_day_is_over_at_the_tick_after_midnight() -> None:
    """Also where a tick has events of two days: the first of them is gone at that tick."""
    silence = AnsweredTicks.of(declared())
    noon = MIDNIGHT + 12 * HOUR
    found = sorted(set(silence.between(noon, noon, noon + 3 * DAY)))
    assert [(it - noon) / HOUR for it in found] == [0.5, 13.5, 24, 26]


def test_questions_have_the_day() -> None:
    driver = RefereeDriver(declared(), partitions=2)
    for partition in (0, 1, 1):
        driver.send({"time": MIDNIGHT + HOUR, "value": 1}, partition=partition)
    driver.advance_to(MIDNIGHT + 25 * HOUR)
    question = RefereeQuery(driver.referee, ["today"], ["count"])
    (processor,) = driver._processors
    answer = question.answer(processor.view(), "s")
    assert answer is not None
    assert [(it.window, it.window_ms, it.estimate) for it in answer.figures] == [
        ("today", 25 * HOUR, 3.0)
    ]
