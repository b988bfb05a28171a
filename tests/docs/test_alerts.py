"""The guide to alerts: its topology, its test and its record, as they are printed there."""

from pathlib import Path

import msgspec
import pytest

from slidestat.cli.display.watch import change_line
from slidestat.declare.forms.files import load_topology
from slidestat.schemas.alert import AlertChange
from slidestat.testing.driver import TopologyDriver
from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "alerts.md"


def test_the_guide_says_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its test passes, and the first change is the record that it shows, byte for byte but for the
    spaces.
    """
    (topology, *_), (test,), (_, record) = (blocks(GUIDE, it) for it in ("toml", "python", "json"))
    (tmp_path / "latency.toml").write_text(topology.text)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(test.text, GUIDE.name, "exec"), names)  # noqa: S102  it is ours
    driver = names["driver"]
    assert isinstance(driver, TopologyDriver)
    assert driver.emissions
    shown = msgspec.json.format(record.text.encode(), indent=0)
    assert shown == msgspec.json.format(msgspec.json.encode(driver.alerts[0]), indent=0)
    change = msgspec.json.decode(record.text, type=AlertChange)
    assert change_line(change).startswith(
        "2023-11-15T12:02:00Z slow /search firing certain quantile"
    )


def test_a_budget_that_burns_is_told_of_while_it_does(tmp_path: Path) -> None:
    """By the guide's topology: one error in ten for half an hour fires once both windows burn, and
    is resolved when the short one no longer does; all four figures are in each record.
    """
    _, topology, *_ = blocks(GUIDE, "toml")
    (tmp_path / "budget.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "budget.toml")))
    noon = 1_700_049_600_000
    for minute in range(60):
        fails = 20 <= minute < 50
        driver.send(
            *(
                {
                    "key": "/buy",
                    "time": noon + 60_000 * minute + 2_000 * i,
                    "value": 1,
                    "status": 500 if fails and i % 10 == 0 else 200,
                }
                for i in range(30)
            )
        )
    driver.close_windows()
    changes = [(it.state, (it.window_end_ms - noon) // 60_000) for it in driver.alerts]
    assert changes == [("firing", 24), ("resolved", 55)]
    for change in driver.alerts:
        named = [(it.statistic, it.window_ms) for it in change.figures]
        long, short = 3_600_000, 300_000
        assert named == [
            ("errors", long), ("count", long), ("errors", short), ("count", short)
        ]  # fmt: skip


def test_less_than_half_of_yesterday_is_told_of(tmp_path: Path) -> None:
    """By the guide's topology: one order a minute, and on the second day from noon on one in three
    minutes; two hours of it are told of, until a key has no such past any more.
    """
    *_, topology, _ = blocks(GUIDE, "toml")
    (tmp_path / "orders.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "orders.toml")))
    midnight, minute = 1_700_006_400_000, 60_000
    minutes = [*range(36 * 60), *range(36 * 60, 38 * 60, 3), *range(38 * 60, 39 * 60)]
    driver.send(*({"key": "shop", "time": midnight + minute * at, "value": 1} for at in minutes))
    driver.advance_to(midnight + 39 * 60 * minute - 1)
    changes = [
        (it.state, (it.window_end_ms - midnight) // minute - 36 * 60) for it in driver.alerts
    ]
    assert changes == [("firing", 50), ("resolved", 140)]


def test_a_service_that_stops_alone_in_its_partition_is_told_of(tmp_path: Path) -> None:
    """By the guide's topology: within the window, `idle` and two ticks, provisionally. The record
    is confirmed when it comes back, and taken back for an event that was on its way.
    """
    *_, topology, _, _ = blocks(GUIDE, "toml")
    (tmp_path / "heartbeats.toml").write_text(topology.text)
    declared = load_topology(str(tmp_path / "heartbeats.toml"))
    noon, minute, tick = 1_700_049_600_000, 60_000, 10_000

    def beat(*seconds: int) -> list[dict[str, object]]:
        return [{"key": "search", "time": noon + 1_000 * at, "value": 1} for at in seconds]

    def told(driver: TopologyDriver) -> list[tuple[str, int, bool]]:
        return [
            (str(it.state), (it.window_end_ms - noon) // 1_000, it.provisional)
            for it in driver.alerts
        ]

    for on_its_way, final in (((), "firing"), ((130,), "resolved")):
        driver = TopologyDriver(declared)
        driver.send(*beat(*range(0, 121, 5)))
        assert told(driver) == []
        stopped = noon + 2 * minute
        driver.idle_until(stopped + declared.idle_ms)
        assert told(driver) == []
        driver.idle_until(stopped + minute + declared.idle_ms + 2 * tick)
        assert told(driver) == [("firing", 190, True)]
        driver.send(*beat(*on_its_way, *range(300, 340, 2)))
        assert told(driver)[1] == (final, 190, False)
        newest = {it.window_end_ms: it for it in driver.alerts}
        assert not any(it.provisional for it in newest.values())
        assert driver.alerts[-1].state == "resolved"


def test_a_change_is_told_since_when(tmp_path: Path) -> None:
    """By the guide's topology: slower by a fifth from a minute on; the record has the change that
    is shown. One error in fifty stays so, and is none.
    """
    *_, topology = blocks(GUIDE, "toml")
    (tmp_path / "drift.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "drift.toml")))
    noon, minute = 1_700_049_600_000, 60_000
    for i in range(70 * 30):
        took = 90 + 7 * i % 21 + (20 if i >= 60 * 30 else 0)
        status = 500 if i % 50 == 0 else 200
        event = {"key": "/search", "time": noon + 2_000 * i, "took_ms": took, "status": status}
        driver.send(event)
    driver.advance_to(noon + 70 * minute)
    (fired,) = driver.alerts
    assert (fired.alert, fired.state, fired.certainty) == ("slower", "firing", "certain")
    assert fired.change is not None
    assert fired.change.since_ms == noon + 60 * minute
    shown, _ = blocks(GUIDE, "json")
    told = msgspec.json.format(msgspec.json.encode({"change": fired.change}), indent=0)
    assert told == msgspec.json.format(shown.text.encode(), indent=0)
