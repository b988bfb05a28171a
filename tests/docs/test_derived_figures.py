"""The guide to derived figures: its topology, its record, and what it says of widths."""

from pathlib import Path

import msgspec

from slidestat.declare.forms.files import load_topology
from slidestat.schemas.emission import Emission, Figure
from slidestat.testing.driver import TopologyDriver
from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "derived-figures.md"
NOON = 1_700_049_600_000


def figures_of(emission: Emission) -> dict[str, Figure]:
    return {figure.statistic: figure for figure in emission.figures if figure.derived}


def test_the_guide_shows_what_is_written(tmp_path: Path) -> None:
    """Its figure is that of two requests, byte for byte but for the spaces; NULL without any."""
    ((topology, *_), (shown,)) = (blocks(GUIDE, it) for it in ("toml", "json"))
    (tmp_path / "api.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "api.toml")))
    for second, status in enumerate((200, 503)):
        driver.send({"key": "/buy", "time": NOON + second, "took_ms": 8, "status": status})
    driver.close_windows()
    first, emptied = driver.emissions[0], driver.emissions[1]
    told = msgspec.json.format(msgspec.json.encode(figures_of(first)["error_rate"]), indent=0)
    assert told == msgspec.json.format(shown.text.encode(), indent=0)
    assert {name: it.estimate for name, it in figures_of(first).items()} == {
        "error_rate": 0.5,
        "burn_rate": 0.5 / (1 - 0.999),
        "tail": 1.0,
        "slower": 0.0,
    }
    assert {(it.estimate, it.lower, it.upper) for it in figures_of(emptied).values()} == {
        (None, None, None)
    }
    assert driver.alerts == []


def test_the_guide_says_how_wide_an_error_rate_is(tmp_path: Path) -> None:
    """Of 20,000 requests, of which one in nine fails: within 2.02 %, and 4.1 % wide; an alert fires
    on it, surely.
    """
    topology, *_ = blocks(GUIDE, "toml")
    (tmp_path / "api.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "api.toml")))
    driver.send(
        *(
            {
                "key": "/buy",
                "time": NOON + 10 * i,
                "took_ms": i % 90,
                "status": 200 + 300 * (not i % 9),
            }
            for i in range(20_000)
        )
    )
    driver.close_windows()
    rates = [figures_of(it)["error_rate"] for it in driver.emissions]
    for rate in (it for it in rates if it.estimate is not None):
        assert rate.lower is not None
        assert rate.upper is not None
        assert rate.upper <= 1.041 * rate.lower
        assert rate.lower >= rate.upper * (1 - 0.0202) ** 2
    assert [(it.state, it.certainty) for it in driver.alerts] == [
        ("firing", "certain"),
        ("resolved", "certain"),
    ]
    assert [it.statistic for it in driver.alerts[0].figures] == ["error_rate", "count"]
