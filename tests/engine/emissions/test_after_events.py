"""Emissions after every so many events of a key; the laws of a partition hold them to the model."""

import pytest

from slidestat import Alert, Count, LandmarkCount, SlidestatError, Sum, Topology, TopologyDriver
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of

NEEDED = {"name": "t", "source": "s", "span": "4 events", "every": "3 events"}
START = 1_700_000_040_000


def emitted(topology: Topology, sent: list[tuple[str, int]]) -> list[tuple[str, int, float]]:
    """The key, the time and the landmark count of each emission, of events at these times."""
    driver = TopologyDriver(topology)
    for key, time in sent:
        driver.send({"key": key, "time": START + time, "value": time})
    driver.close_windows()
    return [
        (it.key, it.window_end_ms - START, figure.estimate)
        for it in driver.emissions
        for figure in it.figures
        if figure.statistic == "landmark_count" and figure.estimate is not None
    ]


def test_each_third_event_of_a_key() -> None:
    """In the order of times, not of arrival, whatever other keys have."""
    topology = Topology(**NEEDED, lateness="100ms", statistics=(LandmarkCount(), Sum()))
    times = [10, 0, 20, 50, 30, 40, 60]
    sent = [(key, time) for time in times for key in ("a", "b")][:-1]
    assert emitted(topology, [*sent, ("c", 9_000), ("c", 9_001)]) == [
        ("a", 21, 3),
        ("b", 21, 3),
        ("a", 51, 6),
        ("b", 51, 6),
    ]


def test_events_of_one_time_are_counted_together() -> None:
    """One record for them, with all of them, though some come behind the third."""
    topology = Topology(**NEEDED, statistics=(LandmarkCount(),))
    sent = [("a", time) for time in (0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3)]
    assert emitted(topology, sent) == [("a", 2, 5), ("a", 3, 6), ("a", 4, 13)]


def test_a_key_that_is_forgotten_is_counted_anew() -> None:
    """From its first event after that; it is written once more when it is forgotten."""
    topology = Topology(**NEEDED, forget_after="10s", statistics=(LandmarkCount(),))
    times = [0, 1, 20_000, 20_001, 20_002, 20_003]
    found = emitted(topology, [("a", time) for time in times])
    assert found[:2] == [("a", 10_002, 2), ("a", 20_003, 3)]


def test_it_is_declared_in_each_form() -> None:
    """As TOML's tables and as flags; other windows, and what goes by ticks of time, are refused."""
    topology = Topology(**NEEDED, statistics=(Count(),))
    assert topology_of({**NEEDED, "statistics": [{"kind": "count"}]}) == topology
    assert topology_of_flags({**NEEDED, "statistics": ["count"]}) == topology


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"span": "1h"}, "every is '3 events', but the span is '1h'"),
        ({"every": "0 events"}, "every is 0"),
        ({"idle": "1m"}, "every is '3 events', and idle is '1m'"),
        ({"publish": "partition"}, "every is '3 events', and publish is given"),
        ({"alerts": (Alert(name="many", when="count > 2"),)}, "and alerts is given"),
        ({"having": "count > 2"}, "every is '3 events', and having is given"),
        ({"emit": "change"}, "every is '3 events', and emit = 'change' is given"),
    ],
)
def test_what_goes_by_ticks_of_time_is_refused(fields: dict[str, object], message: str) -> None:
    """By name, with what to do."""
    with pytest.raises(SlidestatError, match=message) as error:
        Topology(**{**NEEDED, "statistics": (Count(),), **fields})  # type: ignore[arg-type]
    assert error.value.advice
