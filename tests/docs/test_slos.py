"""The guide to objectives: what its example shows, and what it says of good, bad and neither."""

from pathlib import Path

import msgspec
import pytest

from slidestat import Slo, Topology, TopologyDriver
from slidestat.admin.alertmanager import RelayedAlerts
from slidestat.cli.display.watch import change_line
from slidestat.declare.forms.files import load_topology
from tests.docs.markdown import ROOT, blocks, commands
from tests.examples.test_examples import driven

GUIDE = ROOT / "docs" / "slos.md"
NOON = 1_700_049_600_000


def test_a_page_goes_out_as_the_guide_says() -> None:
    """The lines of `watch`, and what is posted, are those of the example's events; its commands are
    typed at a broker by the example's own test.
    """
    (shown,), (posted,) = blocks(GUIDE, "text"), blocks(GUIDE, "json")
    example = ROOT / "examples" / "web-slo"
    alerts = driven(example).alerts
    assert [change_line(it) for it in alerts] == shown.text.splitlines()
    relayed = RelayedAlerts()
    relayed.take(alerts[0], alerts[0].window_end_ms + 1)
    (told,) = relayed.due(alerts[0].window_end_ms + 1)
    sent = msgspec.json.decode(msgspec.json.encode(told.alert))
    known = msgspec.json.decode(posted.text)
    assert {name: sent[name] for name in known} == known
    typed = set(commands(example / "README.md"))
    assert {it for it in commands(GUIDE) if "alertmanager" not in it} == typed


def test_the_guide_declares_what_it_says(tmp_path: Path) -> None:
    """Its topology has the figures and alerts of its table, and its alerts are the usual ones."""
    declared, alerts = blocks(GUIDE, "toml")
    (tmp_path / "web.toml").write_text(declared.text)
    topology = load_topology(str(tmp_path / "web.toml"))
    assert {"availability_events", "availability_bad"} <= set(topology.labels)
    derived = {it.name for it in topology.derived_figures}
    assert {"availability_burn_5m", "availability_budget_left"} <= derived
    assert "availability_page_1h" in {alert.name for alert in topology.alerts}
    (tmp_path / "same.toml").write_text(declared.text.rstrip("\n") + f"\n{alerts.text}")
    assert load_topology(str(tmp_path / "same.toml")) == topology


@pytest.mark.parametrize(
    ("good", "bad_of_three"),
    [
        ("status < 500", 1),
        ("status is not null and status < 500", 2),
        ("status is null or status < 500", 1),
        ("case when path <> '/health' then status < 500 end", 0),
    ],
)
def test_an_event_without_the_field(good: str, bad_of_three: int) -> None:
    """Neither, bad, good, and of no concern, as it is written there."""
    assert good in GUIDE.read_text("utf-8").replace("\n", " ")
    slo = Slo(name="up", good=good, objective=0.9, alerts=[])
    driver = TopologyDriver(Topology(name="w", source="s", span="1h", every="1m", slos=[slo]))
    events = ({"status": 200, "path": "/"}, {"path": "/"}, {"status": 500, "path": "/health"})
    for second, event in enumerate(events):
        driver.send({"key": "a", "time": NOON + 1_000 * second, **event})
    driver.advance_to(NOON + 60_000)
    known = {"status < 500": 2}.get(good, 1 if "case" in good else 3)
    told = [driver.figure("a", f"up_{name}", "1h").estimate for name in ("events", "bad")]
    assert told == [known, bad_of_three]
    assert driver.dead_letters == []
