"""What CONTRIBUTING says of adding a statistic is what the statistics that are there have."""

import re

import pytest

from slidestat.declare.kinds import KINDS
from tests.docs.markdown import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_NAMED = re.compile(r"`([\w./-]+)`")
_STARRED = re.compile(rf"{_NAMED.pattern}\s\*")


def starred() -> list[str]:
    """The files of the checklist that name every statistic."""
    return _STARRED.findall(CONTRIBUTING.read_text("utf-8"))


def test_the_checklist_stars_files() -> None:
    """There are some, and each is there."""
    assert len(starred()) >= 6
    assert [name for name in starred() if not (ROOT / name).is_file()] == []


def test_a_statistic_is_at_most_twelve_files() -> None:
    """One of a synopsis that is there: its module, and the files that the checklist names."""
    checklist = CONTRIBUTING.read_text("utf-8").split("2. **Declaration**")[1].split("\n## ")[0]
    named = {name for name in _NAMED.findall(checklist) if (ROOT / name).is_file()}
    assert {"CHANGELOG.md", "benchmarks/results/errors.svg"} < named
    assert 1 + len(named) <= 12


@pytest.mark.parametrize("name", starred())
def test_a_starred_file_names_every_statistic(name: str) -> None:
    """By its kind or by its class."""
    text = (ROOT / name).read_text("utf-8")
    forgotten = {
        kind
        for kind, statistic in KINDS.items()
        if not re.search(rf"\b(?:{kind}|{statistic.__name__})\b", text)
    }
    assert forgotten == set()
