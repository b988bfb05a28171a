"""Burn rates and budgets against exact ones, and alerts that are certain only if they are right."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from slidestat import Slo, Topology, TopologyDriver
from slidestat.schemas.alert import AlertChange, AlertState, Certainty
from slidestat.schemas.emission import Emission, Figure
from tests.engine.cases import laws

MINUTE = 60_000
NOON = 1_700_049_600_000
WINDOWS = {"2m": 2, "5m": 5, "20m": 20, "1h": 60}
ALERTS = ("2 over 20m and 2m as page", "1 over 1h and 5m as ticket")
# Of one minute: how many events are good, bad and neither.
Minute = tuple[int, int, int]


def topology(objective: float, least_events: int = 0, **more: object) -> Topology:
    slo = Slo(
        name="up",
        good="status < 500",
        objective=objective,
        alerts=ALERTS,
        least_events=least_events,
    )
    given = {"name": "web", "source": "requests", "span": "1h", "every": "1m", **more}
    return Topology(**given, slos=[slo])  # type: ignore[arg-type]


def driven(declared: Topology, minutes: Sequence[Minute]) -> TopologyDriver:
    driver = TopologyDriver(declared)
    for minute, (good, bad, neither) in enumerate(minutes):
        statuses = [{"status": 200}] * good + [{"status": 503}] * bad
        statuses += [{"status": None}, {}] * (neither // 2) + [{}] * (neither % 2)
        driver.send(
            *(
                {"key": "/buy", "time": NOON + MINUTE * minute + i * 100, **status}
                for i, status in enumerate(statuses)
            )
        )
    driver.close_windows()
    return driver


def exact(minutes: Sequence[Minute], end_ms: int, length: int) -> Fraction | None:
    """The share of bad events of those that are good or bad, in a window of minutes."""
    end = (end_ms - NOON) // MINUTE
    found = minutes[max(0, end - length) : max(0, end)]
    bad, known = sum(it[1] for it in found), sum(it[0] + it[1] for it in found)
    return Fraction(bad, known) if known else None


def of_slo(emission: Emission) -> dict[str, Figure]:
    return {figure.statistic: figure for figure in emission.figures if figure.derived}


few, many = st.integers(0, 4), st.integers(0, 200)
minute = st.one_of(
    st.just((0, 0, 0)), st.tuples(few, few, few), st.tuples(many, st.integers(0, 60), few)
)


@settings(laws, max_examples=15)
@given(st.lists(minute, max_size=12), st.sampled_from([0.5, 0.9, 0.999]), st.sampled_from([0, 50]))
def test_bounds_have_the_exact_rates_and_sure_alerts_are_right(
    minutes: list[Minute], objective: float, least: int
) -> None:
    """Of each window, with gaps, without traffic, and with events that are neither good nor bad."""
    declared = topology(objective, least) if objective > 0.5 else topology(0.75, least)
    budget = 1 - (Fraction(repr(objective)) if objective > 0.5 else Fraction(3, 4))
    driver = driven(declared, minutes)
    assert driver.dead_letters == []
    for emission in driver.emissions:
        figures = of_slo(emission)
        rates = {
            f"up_burn_{text}": exact(minutes, emission.window_end_ms, length)
            for text, length in WINDOWS.items()
        }
        longest = rates["up_burn_1h"]
        wanted = {name: None if it is None else it / budget for name, it in rates.items()}
        wanted["up_budget_left"] = None if longest is None else 1 - longest / budget
        assert set(figures) == set(wanted)
        for name, value in wanted.items():
            check(figures[name], value)
        for name in rates:
            lower, upper = figures[name].lower, figures[name].upper
            if lower is not None and upper is not None:
                assert lower >= 0
                assert Fraction(upper) <= 1 / budget * (1 + Fraction(1, 10**12))
    for change in driver.alerts:
        if change.state is AlertState.FIRING and change.certainty is Certainty.CERTAIN:
            assert holds(minutes, change, budget, least)


def check(figure: Figure, value: Fraction | None) -> None:
    if value is None:
        assert (figure.estimate, figure.lower, figure.upper) == (None, None, None)
        return
    assert figure.estimate is not None
    assert figure.lower is None or Fraction(figure.lower) <= value
    assert figure.upper is None or value <= Fraction(figure.upper)


def holds(minutes: Sequence[Minute], change: AlertChange, budget: Fraction, least: int) -> bool:
    limit, long, short = (2, 20, 2) if change.alert == "up_page_20m" else (1, 60, 5)
    rates = [exact(minutes, change.window_end_ms, length) for length in (long, short)]
    end = (change.window_end_ms - NOON) // MINUTE
    events = sum(it[0] + it[1] for it in minutes[max(0, end - long) : end])
    return events >= least and all(it is not None and it > limit * budget for it in rates)


@pytest.mark.parametrize("behind", [(100, 0, 0), (0, 0, 0)], ids=["good", "silent"])
def test_a_page_goes_out_and_ends_with_the_trouble(behind: Minute) -> None:
    """While half of all requests fail, both alerts fire; each ends within its short window, also
    where nobody sends any more. Its severity is in its records.
    """
    minutes = [(100, 0, 0)] * 20 + [(50, 50, 0)] * 10 + [behind] * 10
    changes = driven(topology(0.9), minutes).alerts
    assert [(it.alert, it.severity, it.state.value) for it in changes] == [
        ("up_ticket_1h", "ticket", "firing"),
        ("up_page_20m", "page", "firing"),
        ("up_page_20m", "page", "resolved"),
        ("up_ticket_1h", "ticket", "resolved"),
    ]
    _, page, *ends = changes
    assert (page.certainty, page.window_end_ms) == (Certainty.CERTAIN, NOON + 29 * MINUTE)
    assert [
        (it.window_end_ms - NOON) // MINUTE <= limit
        for it, limit in zip(ends, (32, 35), strict=True)
    ] == [True, True]


def test_few_events_wake_nobody_if_so_declared() -> None:
    """One failure of one request is all of an hour's budget, and more."""
    minutes = [(0, 1, 0)]
    assert [it.alert for it in driven(topology(0.9), minutes).alerts][:1] == ["up_page_20m"]
    assert driven(topology(0.9, least_events=2), minutes).alerts == []


def test_without_a_bad_event_all_of_the_budget_is_left() -> None:
    """Not a little less, or more."""
    (first, *_) = driven(topology(0.999), [(7, 0, 1)]).emissions
    told = [(it.estimate, it.lower, it.upper) for it in of_slo(first).values()]
    assert told == [(0.0, 0.0, 0.0)] * 4 + [(1.0, 1.0, 1.0)]


def test_all_bad_is_the_largest_rate_there_is() -> None:
    """Ten at 0.9; it is certain, and a budget goes below zero."""
    (first, *_) = driven(topology(0.9), [(0, 100, 50)]).emissions
    figures = of_slo(first)
    assert figures["up_burn_1h"].estimate == pytest.approx(10)
    assert figures["up_budget_left"].estimate == pytest.approx(-9)


@pytest.mark.parametrize("output_format", ["json", "avro"])
def test_rows_and_avro_have_them(output_format: str) -> None:
    """Columns by their names, in the row of each window."""
    declared = topology(0.9, output_shape="rows", output_format=output_format)
    rows = driven(declared, [(9, 1, 0)]).rows
    assert [row["up_burn_20m"] for row in rows[:4]] == [pytest.approx(1.0)] * 4
    assert {"up_burn_2m_lower", "up_budget_left_upper", "up_bad", "up_events"} <= set(rows[0])
