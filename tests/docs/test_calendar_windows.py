"""The guide to windows of the calendar: its topology, its figure, and what it says of midnight."""

from pathlib import Path

import msgspec

from slidestat.declare.forms.files import load_topology
from slidestat.testing.driver import TopologyDriver
from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "calendar-windows.md"
# Of 16 November 2023 in Berlin.
MIDNIGHT, HOUR = 1_700_089_200_000, 3_600_000


def test_the_guide_shows_what_is_written(tmp_path: Path) -> None:
    """Its figure is that of two orders on one day, byte for byte but for the spaces; the alert of
    its target fires, and ends with the day.
    """
    (topology, compared), (shown,) = (blocks(GUIDE, it) for it in ("toml", "json"))
    longer = topology.text.replace('span = "25h"', 'span = "193h"')
    (tmp_path / "orders.toml").write_text(longer + compared.text)
    assert [it.name for it in load_topology(str(tmp_path / "orders.toml")).alerts] == [
        *("target", "slow-day")
    ]
    (tmp_path / "orders.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "orders.toml")))
    for time in (MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 10 * HOUR):
        driver.send({"shop": "Mitte", "at": time, "euros": 600})
    driver.close_windows()
    figure = driver.figure("Mitte", "count", "today", at=MIDNIGHT + 10 * HOUR + 60_000)
    written = msgspec.json.format(msgspec.json.encode(figure), indent=0)
    assert written == msgspec.json.format(shown.text.encode(), indent=0)
    ends = [it.window_end_ms - MIDNIGHT for it in driver.emissions]
    # The last one ends what holds: its day is empty.
    assert ends[0] == 10 * HOUR + 60_000
    assert ends[-1] == 24 * HOUR + 60_000
    changes = [(str(it.state), it.window_end_ms - MIDNIGHT) for it in driver.alerts]
    assert changes[0] == ("firing", 10 * HOUR + 60_000)
    assert changes[-1] == ("resolved", 24 * HOUR + 60_000)
