"""The examples do what their pages say: figures and alerts in memory, commands at a real broker."""

import json
import re
from pathlib import Path

import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from slidestat.text import numbers_text, qualified, window_text
from tests.docs.markdown import ROOT, commands
from tests.docs.reader import Reader

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/topology.toml"))


def driven(example: Path) -> TopologyDriver:
    """Return the driver of an example's topology after its events."""
    driver = TopologyDriver(load_topology(str(example / "topology.toml")))
    for line in (example / "events.jsonl").read_text("utf-8").splitlines():
        driver.send(json.loads(line))
    return driver


def test_there_are_six_and_the_index_lists_them() -> None:
    """Each folder is in the table, and no other."""
    index = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert re.findall(r"\| \[([a-z-]+)\]\(\1/README\.md\)", index) != []
    assert set(re.findall(r"\]\(([a-z-]+)/README\.md\)", index)) == {it.name for it in EXAMPLES}
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_figures_and_alerts_are_those_of_the_page(example: Path) -> None:
    """Every event counts, and each row of the table is a figure of its key's newest emission."""
    driver = driven(example)
    assert driver.dead_letters == []
    assert driver.late == []
    newest = {emission.key: emission for emission in driver.emissions}
    rows = {
        (key, qualified(figure), window_text(figure), *texts)
        for key, emission in newest.items()
        for figure in emission.figures
        for texts in [numbers_text(figure.estimate, figure.lower, figure.upper)]
    }
    page = (example / "README.md").read_text("utf-8")
    shown = {
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith("| key |")
    }
    assert len(shown) >= 6
    assert shown <= rows
    alerts = [
        f"- `{alert.alert}` of `{alert.key}`: {alert.state.value}, {alert.certainty.value}."
        for alert in driver.alerts
    ]
    assert [line for line in page.splitlines() if line.startswith("- `")] == alerts


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_commands_do_as_they_are_written(
    example: Path, tmp_path: Path, bootstrap_servers: str
) -> None:
    """They are typed in the example's folder; those of Spark are only read."""
    with Reader(tmp_path, bootstrap_servers, {}) as reader:
        for name in ("topology.toml", "events.jsonl"):
            (reader.folder / name).write_bytes((example / name).read_bytes())
        for command in commands(example / "README.md"):
            if command.startswith("slidestat spark "):
                reader.parse(command)
            else:
                reader.follow(command)
