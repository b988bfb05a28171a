"""Alerts on changes: one alert for one change, with what it is from and to, and none of chance."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import SlidestatError, TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import (
    Count,
    LandmarkCount,
    Maximum,
    Mean,
    Minimum,
    Quantiles,
    Rate,
    Statistic,
)
from slidestat.declare.topology import Topology
from slidestat.schemas.alert import AlertChange, FoundChange
from slidestat.schemas.sequence import SequenceAlertChange, decode_alert_change
from tests.engine.cases import Case, cases, laws, topology
from tests.engine.partition.test_partition_crash import same_end, through_crashes, undisturbed
from tests.engine.streams import START_MS

MINUTE, HOUR = 60_000, 3_600_000
BEGIN = START_MS // HOUR * HOUR
STATISTICS = (
    Count(),
    Count(name="errors", where="status >= 500"),
    Rate(),
    Mean(),
    Minimum(epsilon=0),
    Maximum(epsilon=0),
)


def law(*alerts: Alert, statistics: tuple[Statistic, ...] = STATISTICS, **more: object) -> Topology:
    declared: dict[str, object] = {
        "name": "law",
        "source": "s",
        "span": "3h",
        "every": "1m",
        "windows": ("1h",),
        "statistics": statistics,
        "alerts": alerts,
    }
    return Topology(**declared | more)  # type: ignore[arg-type]


def driven(
    declared: Topology,
    minutes: int,
    each: int = 10,
    *,
    value: Callable[[int, Random], float] = lambda _, random: random.gauss(100, 10),
    is_error: Callable[[int, Random], bool] = lambda _, random: random.random() < 0.1,
    comes: Callable[[int], int | None] = lambda _: None,
) -> list[AlertChange]:
    """What is told of a key that has so many events a minute, or as many as `comes` says."""
    random = Random(1)
    driver = TopologyDriver(declared)
    events: list[dict[str, object]] = []
    for minute in range(minutes):
        at = BEGIN + MINUTE * minute
        known = comes(minute)
        number = each if known is None else known
        events.append({"key": "clock", "time": at, "value": 1, "status": 200})
        events += (
            {
                "key": "k",
                "time": time,
                "value": value(minute, random),
                "status": 500 if is_error(minute, random) else 200,
            }
            for time in sorted(at + random.randrange(MINUTE) for _ in range(number))
        )
    # At once: that batches do not show in changes is what the law of crashes says.
    driver.send(*events)
    driver.advance_to(BEGIN + MINUTE * minutes)
    return [change for change in driver.alerts if change.key == "k"]


def minute_of(time_ms: int) -> float:
    return (time_ms - BEGIN) / MINUTE


def found_in(change: AlertChange) -> FoundChange:
    assert change.change is not None
    return change.change


SLOWER = Alert(name="slower", change="mean", delta=0.001)
MORE_ERRORS = Alert(name="errors", change="errors / count", delta=0.001)
BUSIER = Alert(name="busier", change="rate", delta=0.001)


def test_a_mean_that_rises_is_told_once() -> None:
    """Since when, from what and to what; resolved when the window has nothing from before."""
    told = driven(
        law(SLOWER), 330, value=lambda minute, random: random.gauss(100 + 20 * (minute >= 150), 10)
    )
    fired, resolved = told
    assert (fired.state, fired.certainty) == ("firing", "certain")
    assert 150 < minute_of(fired.window_end_ms) <= 153
    found = found_in(fired)
    assert abs(minute_of(found.since_ms) - 150) <= 1
    assert abs(found.before.estimate - 100) < 2  # type: ignore[operator]
    assert abs(found.after.estimate - 120) < 6  # type: ignore[operator]
    assert found.delta == 0.001
    assert [(it.statistic, it.window_ms) for it in fired.figures] == [("mean", HOUR)]
    assert (resolved.state, resolved.change) == ("resolved", None)
    assert 195 < minute_of(resolved.window_end_ms) <= 211


def test_a_share_and_a_rate_that_change_are_told() -> None:
    told = driven(
        law(MORE_ERRORS, BUSIER),
        260,
        is_error=lambda minute, random: random.random() < (0.4 if minute >= 150 else 0.1),
        comes=lambda minute: 10 if minute < 200 else 30,
    )
    first = {it.alert: it for it in reversed(told) if it.state == "firing"}
    errors, busier = first["errors"], first["busier"]
    found = found_in(errors)
    assert abs(minute_of(found.since_ms) - 150) <= 8
    assert 0.07 < found.before.estimate < 0.13  # type: ignore[operator]
    assert 0.25 < found.after.estimate < 0.6  # type: ignore[operator]
    rate = found_in(busier)
    assert abs(minute_of(rate.since_ms) - 200) <= 1
    assert rate.before.lower <= 1 / 6 <= rate.before.upper  # type: ignore[operator]
    assert rate.after.lower <= 1 / 2 <= rate.after.upper  # type: ignore[operator]


def test_a_derived_share_is_the_share() -> None:
    shown = {"is_error": lambda minute, random: random.random() < 0.1 + 0.4 * (minute >= 90)}
    one = driven(law(MORE_ERRORS), 110, **shown)  # type: ignore[arg-type]
    other = driven(
        law(
            replace(MORE_ERRORS, change="error_rate"),
            derived=("errors_1h / count_1h as error_rate",),
        ),
        110,
        **shown,  # type: ignore[arg-type]
    )
    assert [found_in(it) for it in one] == [found_in(it) for it in other]
    assert len(one) == 1


@pytest.mark.parametrize("first", [1, 40])
def test_the_first_events_are_no_change(first: int) -> None:
    """A key that begins with few events, or with many at once, and comes again after a silence."""
    told = driven(
        law(SLOWER, MORE_ERRORS, BUSIER), 55, comes=lambda minute: first if minute > 3 else 0
    )
    assert told == []
    told = driven(law(SLOWER, MORE_ERRORS), 120, comes=lambda it: 5 if it < 30 or it > 75 else 0)
    assert told == []


def test_what_stops_and_comes_again_is_a_change_of_its_rate() -> None:
    told = driven(law(BUSIER), 240, comes=lambda minute: 0 if 130 <= minute < 150 else 10)
    assert told[0].state == "firing"
    found = found_in(told[0])
    assert abs(minute_of(found.since_ms) - 130) <= 1
    assert found.after.estimate == 0


@pytest.mark.parametrize("level", [0.1, -7.3, 1e6])
def test_constant_values_do_not_change(level: float) -> None:
    """However they are rounded; and the least step is one, which no variance hides."""
    assert driven(law(SLOWER), 100, value=lambda *_: level) == []
    told = driven(law(SLOWER), 100, value=lambda minute, _: round(level + 0.01 * (minute >= 80), 2))
    assert [it.state for it in told] == ["firing"]
    assert minute_of(found_in(told[0]).since_ms) == 80


def test_a_condition_chooses_among_changes() -> None:
    """Only upwards, only by much; `before` and `after` are NULL where there is no change."""

    conditions = {
        "much": "after > 1.15 * before",
        "down": "after < before",
        "twice": "after > 2 * before",
        "many": "after > before and count >= 100",
        "none": "before is null",
    }
    told = driven(
        law(*(replace(SLOWER, name=name, when=when) for name, when in conditions.items())),
        172,
        value=lambda minute, random: random.gauss(100 + 30 * (minute >= 150), 10),
    )
    found = sorted(f"{it.alert} {it.state} {it.certainty}" for it in told)
    assert found == ["many firing certain", "much firing certain"]


def test_extremes_of_the_same_values_find_more() -> None:
    def when(*statistics: Statistic) -> float:
        told = driven(
            law(SLOWER, statistics=statistics),
            200,
            value=lambda minute, random: random.gauss(100 + 10 * (minute >= 150), 10),
        )
        return minute_of(told[0].window_end_ms) if told else np.inf

    assert when(Mean(epsilon=0.01), Minimum(), Maximum()) < when(Mean(epsilon=0.01))


def test_late_events_and_their_order_do_not_matter() -> None:
    def told(seed: int) -> list[AlertChange]:
        random = Random(1)
        events = [
            {
                "key": "k",
                "time": BEGIN + 6_000 * i + random.randrange(3_000),
                "value": random.gauss(100 + 30 * (i >= 1_500), 10),
                "status": 200,
            }
            for i in range(2_000)
        ]
        disorder = Random(seed)
        events.sort(key=lambda it: it["time"] + disorder.randrange(60_000))
        driver = TopologyDriver(law(SLOWER, lateness="1m"))
        driver.send(*events)
        driver.close_windows()
        return [replace_offset(change) for change in driver.alerts]

    def replace_offset(change: AlertChange) -> AlertChange:
        return AlertChange(
            **{name: getattr(change, name) for name in change.__struct_fields__}
            | {"source_offset": 0}
        )

    assert told(1) == told(2)
    assert told(1)[0].change is not None


def test_numbers_of_a_sequence() -> None:
    declared = Topology(
        name="law",
        source="s",
        span="1000 events",
        every="10 events",
        time_format="sequence",
        statistics=(Mean(),),
        alerts=(SLOWER,),
    )
    random = Random(1)
    driver = TopologyDriver(declared)
    driver.send(
        *(
            {"key": "k", "time": i, "value": random.gauss(100 + 30 * (i >= 1_500), 10)}
            for i in range(2_000)
        )
    )
    driver.close_windows()
    fired = driver.alerts[0]
    assert isinstance(fired, SequenceAlertChange)
    assert abs(found_in(fired).since_ms - 1_500) <= 10
    assert decode_alert_change(driver.alerts[0].__class__ and _json(fired)) == fired


def _json(change: AlertChange) -> bytes:
    import msgspec

    data = msgspec.json.encode(change)
    assert b'"since_seq"' in data
    return data


CHANGING = topology(
    windows=("330ms", "1s"),
    every="50ms",
    statistics=(Count(), Count(name="some", where="value > 40"), Rate(), Mean(), Maximum()),
    alerts=(
        Alert(name="mean", change="mean", window="1s", delta=0.5),
        Alert(name="share", change="some_1s / count_1s", delta=0.5, when="after > before"),
        Alert(name="rate", change="rate_330ms", delta=0.5, for_=2),
    ),
)


@settings(laws, max_examples=10)
@given(
    cases(topologies=["no lateness"], max_size=150),
    st.lists(st.integers(0, 120), min_size=1, max_size=4),
)
def test_crashes_leave_no_trace_in_changes(case: Case, crashes: list[int]) -> None:
    """Other batches and crashes: the same changes, byte for byte."""
    case = replace(case, topology=CHANGING)
    same_end(through_crashes(case, crashes), undisturbed(case))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("count", "a count, which is larger in a longer window"),
        ("maximum", "of which no change can be found"),
        ("mean / count", "does not follow that the first counts a part"),
        ("count / errors", "does not follow that the first counts a part"),
        ("errors_1h / count_2h", "of which no change can be found"),
        ("landmark_count", "of which no change can be found"),
        ("other", "is no figure that it could read"),
        ("mean + 1", "neither a figure nor one divided by another"),
        ("mean >", "change is 'mean >'"),
        ("rate_3h", "a rate over the whole span"),
        ("mean_1m", "no tick within it"),
        ("p50", "of which no change can be found"),
    ],
)
def test_what_has_no_change(change: str, words: str) -> None:
    with pytest.raises(SlidestatError, match=words):
        law(
            Alert(name="a", change=change, window="" if "_" in change else "1h"),
            statistics=(*STATISTICS, LandmarkCount(), Quantiles()),
            windows=("1m", "1h", "2h", "3h"),
        )


def test_what_is_refused_of_an_alert_on_a_change() -> None:
    with pytest.raises(SlidestatError, match="over no window of one length"):
        law(SLOWER, span="100 events", windows=(), statistics=(Mean(),))
    for delta in (0, 1, "x", True, float("nan")):
        with pytest.raises(SlidestatError, match="delta is"):
            Alert(name="a", change="mean", delta=delta)  # type: ignore[arg-type]
    with pytest.raises(SlidestatError, match="no change is asked for"):
        Alert(name="a", when="count > 1", delta=0.1)
    with pytest.raises(SlidestatError, match="when is ''"):
        Alert(name="a")
    with pytest.raises(SlidestatError, match="reads 'before', which is no figure"):
        law(Alert(name="a", when="before > 1"))
