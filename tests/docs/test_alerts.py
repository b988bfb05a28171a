"""The guide to alerts: its topology, its test and its record, as they are printed there."""

from pathlib import Path

import msgspec
import pytest

from slidestat.cli.display.alerts import change_line
from slidestat.schemas.alert import AlertChange
from slidestat.testing.driver import TopologyDriver
from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "alerts.md"


def test_the_guide_says_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its test passes, and the first change is the record that it shows, byte for byte but for the
    spaces.
    """
    (topology,), (test,), (record,) = (blocks(GUIDE, name) for name in ("toml", "python", "json"))
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
