"""A topology that cannot be is refused when it is declared: what is wrong, and what is right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.examples import example
from slidestat import TopologyDriver
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import (
    Above,
    Count,
    Distinct,
    Histogram,
    Mean,
    Norm,
    Quantiles,
    Rate,
    Statistic,
    Sum,
)
from slidestat.declare.times.lengths import duration_ms, window_length
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from tests.engine.cases import CLOCKS


def declare(**changes: Any) -> Topology:
    return Topology(**{"name": "t", "source": "s", "span": "1h", "every": "1m", **changes})


BAD: list[tuple[str, Any, str]] = [
    ("name", "", "1 to 100 letters"),
    ("name", "two words", "1 to 100 letters"),
    ("name", "-t", "1 to 100 letters"),
    ("name", "a" * 101, "1 to 100 letters"),
    ("name", "größe", "1 to 100 letters"),
    ("name", None, "1 to 100 letters"),
    ("source", "", "Name the topic"),
    ("source", None, "Name the topic"),
    ("source", "two words", "1 to 249 letters"),
    ("source", "a" * 250, "1 to 249 letters"),
    ("source", "t-statistics", "another name"),
    ("source", "t-dead-letters", "another name"),
    ("source", "t-late", "another name"),
    ("source", "slidestat-t-t-state-changelog", "another name"),
    ("span", "0s", '"1h"'),
    ("span", "0 events", '"1000 events"'),
    ("span", "9999999999999 events", "at most"),
    ("span", 3600, '"90s"'),
    ("span", "1w", '"90s"'),
    ("span", "36526d", '"36525d"'),
    ("forget_after", "7d", "Leave forget_after out"),
    ("forget_after", "soon", '"7d"'),
    ("forget_after", None, '"7d"'),
    ("every", "0ms", '"1m"'),
    ("every", "", '"90s"'),
    ("every", None, '"90s"'),
    ("every", "9" * 30 + "d", '"36525d"'),
    ("key_field", "kafka:timestamp", "a time_field"),
    ("time_field", "kafka:key", "a key_field"),
    ("value_field", "kafka:key", "a key_field"),
    ("time_format", "seconds", '"iso8601"'),
    ("time_format", "", '"iso8601"'),
    ("time_format", None, '"iso8601"'),
    ("time_format", ["s"], '"iso8601"'),
    ("windows", "1h", '["1h"]'),
    ("windows", None, '["1h"]'),
    ("windows", ["2h"], "shorten the window"),
    ("windows", ["0s"], '"1h"'),
    ("windows", ["10 events"], "both as durations"),
    ("windows", ["1m", "often"], '"today"'),
    ("windows", [60], '"90s"'),
    ("lateness", "2h", "shorten the lateness"),
    ("lateness", "-1s", '"90s"'),
    ("lateness", None, '"90s"'),
    ("statistics", [], "at least one"),
    ("statistics", [Count(), Count(epsilon=0.1)], "each once"),
    ("statistics", [Mean(), Mean(field="value")], "each once"),
    ("statistics", [Sum(field="key")], "another key_field"),
    ("statistics", Count(), "[Count(), Sum()]"),
    ("statistics", ["count"], "[Count(), Sum()]"),
    ("statistics", [Count], "[Count(), Sum()]"),
    ("statistics", None, "[Count(), Sum()]"),
    ("group", "two words", "1 to 100 letters"),
    ("key_field", "", '"request.bytes"'),
    ("time_field", None, '"request.bytes"'),
    ("time_field", "a..b", '"request.bytes"'),
    ("key_field", ["a", ""], '"request.bytes"'),
    ("key_field", "value", "three different"),
]


@pytest.mark.parametrize(("field", "value", "advice"), BAD, ids=str)
def test_a_bad_field_is_named_with_what_would_be_right(field: str, value: Any, advice: str) -> None:
    """The message names the field and what stands there; the advice tells what may stand there."""
    with pytest.raises(SlidestatError) as caught:
        declare(**{field: value})
    if field == "statistics":
        assert "statistic" in caught.value.message
    else:
        assert caught.value.message.startswith(field)
    assert advice in caught.value.advice


@pytest.mark.parametrize("statistic", [Count, Sum])
@pytest.mark.parametrize(
    "epsilon", [0, -0.1, 0.00009, 1.01, float("nan"), float("inf"), "0.1", None]
)
def test_a_bad_epsilon_is_refused(statistic: type[Count] | type[Sum], epsilon: Any) -> None:
    """The statistic and its epsilon are named, and the range that is right."""
    with pytest.raises(SlidestatError, match=f"the epsilon of {statistic.kind} is") as caught:
        statistic(epsilon=epsilon)
    assert "from 0.0001 to 1" in caught.value.advice


@pytest.mark.parametrize("decimals", [-1, 10, 1.5, 2.0, True, "2", None])
def test_bad_decimals_are_refused(decimals: Any) -> None:
    """Only a whole number from 0 to 9 will do."""
    with pytest.raises(SlidestatError, match="the decimals of sum is") as caught:
        Sum(decimals=decimals)
    assert "from 0 to 9" in caught.value.advice


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0s", 0),
        ("1ms", 1),
        ("90s", 90_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 10 m ", 600_000),
        ("36525d", 3_155_760_000_000),
    ],
)
def test_durations_are_read(text: str, ms: int) -> None:
    """A whole number and a unit; blanks do not matter."""
    assert duration_ms(text, "span") == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "s",
        "1 S",
        "1.5h",
        "-1s",
        "1h30m",
        "1e3s",
        "½h",
        "\N{FULLWIDTH DIGIT ONE}s",
        5,
        None,
        b"1s",
    ],
)
def test_what_is_no_duration_is_refused(text: Any) -> None:
    """The field is named, and examples are given."""
    with pytest.raises(SlidestatError, match=r"lateness is .* not a duration") as caught:
        duration_ms(text, "lateness")
    assert '"5m"' in caught.value.advice


@pytest.mark.parametrize("unit", ["ms", "d", " events"])
def test_a_length_of_thousands_of_digits_is_told_in_few(unit: str) -> None:
    """Python reads no such number; leading zeros are none of its digits."""
    with pytest.raises(SlidestatError, match=r"^window is '99999") as caught:
        window_length("9" * 5_000 + unit, "window")
    assert len(caught.value.message) < 100
    assert window_length("0" * 5_000 + "7" + unit, "window") == window_length(f"7{unit}", "window")
    with pytest.raises(SlidestatError, match="is 0"):
        window_length("0" * 5_000 + unit, "window")
    with pytest.raises(SlidestatError, match=r"^windows is '99999"):
        declare(windows=["9" * 5_000 + unit])


def test_every_topology_that_is_taken_has_synopses() -> None:
    """At the limits of span, windows, epsilon and decimals, synopses can still be made."""
    for span in ("1ms", "36525d"):
        for epsilon in (0.0001, 1):
            topology = declare(
                span=span,
                every="36525d",
                windows=[span, span],
                lateness=span,
                statistics=[Count(epsilon=epsilon), Sum(epsilon=epsilon, decimals=9)],
            )
            assert topology.window_lengths == (topology.span_length.length,)
            assert len(topology.runners) == 2
            for statistic in topology.statistics:
                promise = statistic.promise(topology.span_length.length)
                assert promise.relative_error <= epsilon


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_statistic_has_parameters_that_are_right_for_most(kind: type[Statistic]) -> None:
    """Each can be asked for by its name alone; its state says what it is."""
    topology = declare(statistics=[example(kind)])
    assert topology.labels == (kind.kind,)
    assert topology.runners[0].meaning


@pytest.mark.parametrize("statistic", [Mean(field="at.ms"), Distinct(field="at.ms")])
def test_a_statistic_of_the_time_is_refused(statistic: Statistic) -> None:
    """It is said that it is the time, in whatever format that is."""
    for time_format in CLOCKS:
        with pytest.raises(SlidestatError, match=r"reads 'at\.ms', which is the time"):
            declare(time_field="at.ms", time_format=time_format, statistics=[Count(), statistic])


def test_a_record_s_timestamp_has_no_other_format() -> None:
    """It is milliseconds."""
    with pytest.raises(SlidestatError, match="kafka:timestamp") as caught:
        declare(time_field="kafka:timestamp", time_format="s")
    assert "milliseconds" in caught.value.advice


def test_windows_are_the_span_unless_given_and_come_shortest_first() -> None:
    """Each length once, however it is written."""
    assert declare().window_lengths == (3_600_000,)
    in_order = (60_000, 300_000, 3_600_000)
    assert declare(windows=["1h", "60s", "1m", "5m"]).window_lengths == in_order
    of_events = declare(
        span="1_000 events", windows=["1000 events", "1 event"], statistics=[Count()]
    )
    assert of_events.window_lengths == (1, 1_000)


def test_a_rate_needs_windows_of_time() -> None:
    """The last n events have no rate of their own."""
    with pytest.raises(SlidestatError, match=r"rate is asked for.*10 events"):
        declare(span="10 events", statistics=[Rate()])


@pytest.mark.parametrize("quantiles", [(), "0.5", [1.5], [True], [float("nan")], None, [[0.5]]])
def test_bad_quantiles_are_refused(quantiles: Any) -> None:
    """Only a list of numbers from 0 to 1 will do."""
    with pytest.raises(SlidestatError, match="the quantiles are"):
        Quantiles(quantiles=quantiles)


@pytest.mark.parametrize(
    "changes",
    [
        {"statistics": [Sum(field="a"), Mean(field="a.b")]},
        {"statistics": [Sum(field="a.b.c"), Mean(field="a")]},
        {"key_field": "a.b", "statistics": [Sum(field="a")]},
        {"key_field": "a", "time_field": "a.b", "statistics": [Count()]},
        {"time_field": "a", "statistics": [Sum(field=["a", "b.c"])]},
    ],
)
def test_a_path_through_a_value_is_refused(changes: dict[str, Any]) -> None:
    """A field cannot be a number and an object at once."""
    with pytest.raises(SlidestatError, match="'a' is read as a value and as an object"):
        declare(**changes)


def test_statistics_of_several_fields_are_told_apart() -> None:
    """By the field in the name, unless they are given names; equal synopses are kept once."""
    topology = declare(
        value_field="latency",
        statistics=[Mean(), Mean(field="request.bytes"), Mean(name="m"), Rate(), Count()],
    )
    assert topology.labels == ("mean", "mean_request.bytes", "m", "rate", "count")
    assert [".".join(c.path) for c in topology.columns.numbers] == ["latency", "request.bytes"]
    assert len(set(topology.runners)) == 3


def test_quantiles_of_one_field_share_a_state() -> None:
    """It is asked for all of them, and each statistic takes its own; whatever is asked for, the
    states are the same.
    """
    topology = declare(
        statistics=[Quantiles(), Count(), Quantiles(name="tail", quantiles=[1, 0.5])]
    )
    assert len(set(topology.runners)) == len({runner.meaning for runner in topology.runners}) == 2
    assert topology.state_meaning == declare(statistics=[Quantiles(), Count()]).state_meaning
    driver = TopologyDriver(topology)
    for value in range(1, 101):
        driver.send({"key": "a", "time": 1_700_000_000_000 + value, "value": value})
    driver.close_windows()
    figures = driver.emissions[0].figures
    found = [f for f in figures if f.quantile is not None]
    assert [(f.statistic, f.quantile) for f in found] == [
        ("quantile", 0.5),
        ("quantile", 0.9),
        ("quantile", 0.99),
        ("tail", 1.0),
        ("tail", 0.5),
    ]
    for figure, exact in zip(found, (50, 90, 99, 100, 50), strict=True):
        assert abs(figure.estimate - exact) <= 0.01 * exact


@pytest.mark.parametrize(
    "statistic",
    [
        lambda: Above(thresholds=[10**400]),
        lambda: Histogram(edges=[2**53, 2**53 + 1]),
        lambda: Norm(epsilon=0.005, delta=1e-9),
        lambda: Quantiles(quantiles=[0.5, 0.5]),
        lambda: declare(statistics=[Norm(epsilon=0.05, delta=1e-9)]).runners,
    ],
)
def test_numbers_that_cannot_be_kept_are_refused(statistic: Callable[[], object]) -> None:
    """Too large for a double, equal as doubles, too small an error, twice: never a trace."""
    with pytest.raises(SlidestatError):
        statistic()


@pytest.mark.parametrize(
    ("field", "other"), [("windows", ["1m"]), ("every", "2m"), ("value_field", "other")]
)
def test_what_no_state_depends_on_may_change(field: str, other: Any) -> None:
    """Windows, ticks, and a field that is not read."""
    statistics = [Count()]
    before = declare(statistics=statistics)
    assert before.state_meaning == declare(statistics=statistics, **{field: other}).state_meaning


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("source", "r"),
        ("name", "u"),
        ("group", "g"),
        ("span", "2h"),
        ("lateness", "1s"),
        ("key_field", "k"),
        ("key_field", "kafka:key"),
        ("time_field", "t"),
        ("time_field", "kafka:timestamp"),
        ("time_format", "s"),
        ("time_format", "iso8601"),
        ("value_field", "v"),
        ("statistics", [Mean(epsilon=0.2)]),
        ("statistics", [Mean(), Count()]),
    ],
)
def test_what_states_depend_on_may_not_change_unnoticed(field: str, other: Any) -> None:
    """With another meaning, stored states are refused."""
    before = declare(statistics=[Mean()])
    assert before.state_meaning != declare(**{"statistics": [Mean()], field: other}).state_meaning


def test_a_statistic_whose_runner_answers_nothing_of_its_kind_is_told() -> None:
    """A statistic of a user's own may have forgotten its method `numbers`."""
    figures = np.zeros((3, 1, 1))
    assert Statistic.numbers(Count(), {"count": figures}, np.ones(1)).shape == (3, 1, 1, 1)
    with pytest.raises(SlidestatError, match="Count says no figures: its runner answers 'mean'"):
        Statistic.numbers(Count(), {"mean": figures}, np.ones(1))
