"""The guide to rows: its topology, its test and its record, as they are printed there."""

import json
from pathlib import Path

import pytest

from slidestat.testing.driver import TopologyDriver
from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "rows.md"


def test_the_guide_says_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its test passes, and the first row is the one that it shows, column by column."""
    (topology,), (test,), (record,) = (blocks(GUIDE, name) for name in ("toml", "python", "json"))
    (tmp_path / "latency.toml").write_text(topology.text)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(test.text, GUIDE.name, "exec"), names)  # noqa: S102  it is ours
    driver = names["driver"]
    assert isinstance(driver, TopologyDriver)
    assert list(json.loads(record.text).items()) == list(driver.rows[0].items())
