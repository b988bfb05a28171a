"""Events in CloudEvents' structured mode are read by the names of their fields, as documented."""

import re
from pathlib import Path
from typing import Any

import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from slidestat.schemas.dead_letter import Reason

DOCS = Path(__file__).parents[3] / "docs"


def event(time: str | None, **changes: Any) -> dict[str, Any]:
    own = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.example.order.placed"}
    at = {} if time is None else {"time": time}
    return own | at | {"data": {"customer": "ada", "total": 9.5}} | changes


def test_structured_events_are_read_as_documented(tmp_path: Path) -> None:
    """The example counts events of its type, whose times may have any offset and fraction; without
    a time, or with the data in base64, they are letters.
    """
    text = (DOCS / "source-formats.md").read_text("utf-8")
    (example,) = re.findall(r"\*\*CloudEvents.*?```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "placed.toml").write_text(example)
    driver = TopologyDriver(load_topology(str(tmp_path / "placed.toml")))
    driver.send(event("2025-11-25T16:00:00Z"))
    driver.send(event("2025-11-25T17:00:01.25+01:00"))
    driver.send(event("2025-11-25T16:00:02Z", type="com.example.order.gone"))
    in_base64 = event("2025-11-25T16:00:03Z", data_base64="e30=")
    del in_base64["data"]
    driver.send(in_base64)
    driver.send(event(None))
    driver.close_windows()
    assert [letter.reason for letter in driver.dead_letters] == [Reason.MISSING_FIELD] * 2
    (first, *_) = driver.emissions
    assert first.key == "ada"
    figures = {figure.statistic: figure.estimate for figure in first.figures}
    assert figures["count"] == 2
    assert figures["mean"] == pytest.approx(9.5, rel=0.1)
