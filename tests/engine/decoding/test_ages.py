"""How long ago events were, as a topology tells it; the laws of a partition hold them to it."""

import pytest

from slidestat import AgeOfLast, Alert, SlidestatError, Topology, TopologyDriver
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of


def test_ages_are_told_as_documented() -> None:
    """In milliseconds before the windows' end, once in an emission; null for what is not there."""
    asked = Topology(
        name="errors",
        source="requests",
        span="1h",
        every="1m",
        windows=("1m", "1h"),
        statistics=(AgeOfLast(), AgeOfLast(number=3), AgeOfLast(number=4)),
    )
    assert asked.labels == ("age_of_last", "age_of_last_3", "age_of_last_4")
    assert len(set(asked.runners)) == 1
    driver = TopologyDriver(asked)
    start = 1_700_000_040_000
    for time in (0, 1_000, 59_000):
        driver.send({"key": "a", "time": start + time})
    driver.close_windows()
    ages = {
        emission.window_end_ms - start: [figure.estimate for figure in emission.figures]
        for emission in driver.emissions
    }
    # The minute after the last event, and the first ones that find none in a window or the span.
    assert ages == {
        60_000: [1_000, 60_000, None],
        120_000: [61_000, 120_000, None],
        3_660_000: [None] * 3,
    }


def test_ages_are_counted_in_events_where_windows_are() -> None:
    """The place of the nth last event that is taken in, counted back from the newest of all, as the
    paper's wave knows it; and no alert on one is evaluated while nothing comes.
    """
    asked = Topology(
        name="errors",
        source="requests",
        span="10 events",
        every="1m",
        statistics=(
            AgeOfLast(),
            AgeOfLast(number=2, name="error_2", where="value >= 5"),
            AgeOfLast(number=4, name="error_4", where="value >= 5"),
        ),
        alerts=(Alert(name="rare", when="error_2 > 4"),),
    )
    driver = TopologyDriver(asked)
    start = 1_700_000_040_000
    for second, value in enumerate((9, 1, 9, 1, 1, 9, 1)):
        driver.send({"key": "a", "time": start + second * 1_000, "value": value})
    driver.close_windows()
    (emission,) = driver.emissions
    assert [figure.estimate for figure in emission.figures] == [1, 5, None]
    assert [(alert.alert, alert.window_end_ms) for alert in driver.alerts] == [
        ("rare", start + 60_000)
    ]


def test_ages_of_a_sequence_are_counted_in_its_numbers() -> None:
    """From the number after the windows."""
    asked = Topology(
        name="bits",
        source="requests",
        time_field="number",
        time_format="sequence",
        span="100 events",
        every="10 events",
        statistics=(AgeOfLast(), AgeOfLast(number=3)),
    )
    driver = TopologyDriver(asked)
    for number in (1, 4, 8, 10):
        driver.send({"key": "a", "number": number})
    first = driver.emissions[0]
    assert [figure.estimate for figure in first.figures] == [2, 9]


def test_ages_in_each_form() -> None:
    """As TOML's tables and as flags."""
    needed = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    wanted = Topology(**needed, statistics=(AgeOfLast(number=100, epsilon=0.05),))
    table = {"kind": "age_of_last", "number": 100, "epsilon": 0.05}
    assert topology_of({**needed, "statistics": [table]}) == wanted
    flag = "age_of_last:number=100:epsilon=0.05"
    assert topology_of_flags({**needed, "statistics": [flag]}) == wanted
    assert wanted.labels == ("age_of_last_100",)


@pytest.mark.parametrize("number", [0, -1, 1.0, True, 10**12 + 1, "1"])
def test_numbers_that_no_event_has(number: object) -> None:
    """They are refused, by name."""
    with pytest.raises(SlidestatError, match="the number of age_of_last is"):
        AgeOfLast(number=number)  # type: ignore[arg-type]
