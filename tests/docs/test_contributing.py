"""What CONTRIBUTING says of adding a statistic is what the statistics that are there have."""

import re

import pytest

from slidestat.declare.kinds import KINDS
from tests.docs.markdown import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_STARRED = re.compile(r"`([\w./-]+)`\s\*")


def starred() -> list[str]:
    """The files of the checklist that name every statistic."""
    return _STARRED.findall(CONTRIBUTING.read_text("utf-8"))


def test_the_checklist_stars_files() -> None:
    """There are some, and each is there."""
    assert len(starred()) >= 6
    assert [name for name in starred() if not (ROOT / name).is_file()] == []


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
