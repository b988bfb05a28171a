"""Alerts and rows read the figures that they name."""

import pytest

from slidestat import TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import AgeOfLast, Count, Items, LandmarkSum, Statistic, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission import FigureTable
from slidestat.errors import SlidestatError
from slidestat.schemas.alert import AlertState
from tests.engine.cases import TOPOLOGIES

START = 1_764_000_000_000
MINUTE = 60_000


def visits(*statistics: Statistic, **declared: object) -> Topology:
    return Topology(
        **{
            "name": "visits",
            "source": "visits",
            "span": "5m",
            "windows": ("1m", "5m"),
            "every": "1m",
            "statistics": statistics,
            **declared,
        }  # type: ignore[arg-type]
    )


def driven(topology: Topology) -> TopologyDriver:
    """Twenty events of 1,000 in a minute, and the window ends after it."""
    driver = TopologyDriver(topology)
    events = [{"key": "k", "time": START + i * 1_000, "value": 1_000.0} for i in range(20)]
    driver.send(*events)
    driver.advance_to(START + MINUTE)
    return driver


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_names_stand_where_their_figures_do(name: str) -> None:
    """Column by column, whatever has no window, or several figures in one."""
    topology = TOPOLOGIES[name]
    models = FigureTable(topology, topology.window_lengths).numbered.models()
    windows = [figure.window_ms or figure.window_events for figure in models]
    assert [figure.window for figure in topology.named_figures] == windows


def test_a_figure_without_a_window_moves_no_other() -> None:
    """Neither in an alert, which says the figure that it went by, nor in a row."""
    statistics = (Count(), AgeOfLast(name="age"), Sum())
    driver = driven(
        visits(
            *statistics,
            alerts=(
                Alert(name="many", when="count > 19", window="5m"),
                Alert(name="much", when="sum > 30000", window="5m"),
                Alert(name="old", when="age >= 0 and sum > 1", window="1m"),
            ),
        )
    )
    fired = {change.alert: change for change in driver.alerts}
    assert set(fired) == {"many", "old"}
    assert [(f.statistic, f.estimate, f.window_ms) for f in fired["many"].figures] == [
        ("count", 20, 300_000)
    ]
    assert fired["old"].state is AlertState.FIRING
    rows = driven(visits(*statistics, output_shape="rows")).rows
    assert {row["window_ms"]: row["count"] for row in rows} == {60_000: 20, 300_000: 20}
    assert {row["age"] for row in rows} == {41_000}


def test_items_that_are_named_have_names() -> None:
    """Each of its own, in alerts and in rows."""
    named = Items(field="page", items=("/a", "/b"), name="pages")
    topology = visits(named, alerts=(Alert(name="a", when="pages__a > 1", window="1m"),))
    driver = TopologyDriver(topology)
    pages = ("/a", "/b", "/a", "/c")
    driver.send(
        *({"key": "k", "time": START + i, "value": 1, "page": p} for i, p in enumerate(pages))
    )
    driver.advance_to(START + MINUTE)
    (change,) = driver.alerts
    assert [(f.item, f.estimate) for f in change.figures] == [("/a", 2)]
    assert {"pages__a", "pages__b"} <= {
        c.name for c in visits(named, output_shape="rows").row_columns
    }


def test_a_name_for_two_figures_is_refused() -> None:
    """Also if one of them is of no window."""
    both = (LandmarkSum(name="total.a"), Sum(name="total_a"))
    with pytest.raises(SlidestatError, match="several statistics have a figure of that name"):
        visits(*both, alerts=(Alert(name="a", when="total_a > 1", window="1m"),))
    with pytest.raises(SlidestatError, match="several columns would be 'total_a'"):
        visits(*both, output_shape="rows")


def test_a_figure_has_a_name_in_each_window_as_it_was_written() -> None:
    """Each text of a length is one, and an alert that uses several says a figure once."""
    alerts = (
        Alert(name="all", when="count_60s >= 20 and count_1m = count and sum_5m > 1", window="1m"),
        Alert(name="none", when="count_5m > 20"),
    )
    declared = visits(Count(), Sum(), windows=("60s", "5m", "1m"), alerts=alerts)
    driver = driven(declared)
    (change,) = driver.alerts
    assert [(it.statistic, it.window_ms) for it in change.figures] == [
        ("count", MINUTE),
        ("sum", 5 * MINUTE),
    ]
    assert [(it.windows, it.window) for it in declared.alert_figures] == [
        ((MINUTE, 5 * MINUTE), MINUTE),
        ((5 * MINUTE,), None),
    ]
