"""ARCHITECTURE is a short and true map, and every decision, limit and term has its place."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, links, named
from tests.test_layers import LAYERS

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
GLOSSARY = ROOT / "docs" / "glossary.md"
# Pages for readers of the code: what they name must be there.
INTERNAL = [
    ARCHITECTURE,
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "guarantees.md",
    ROOT / "docs" / "limits.md",
    *DECISIONS,
]
MOST_WORDS = 2_500
_FILE = re.compile(r"`([\w./-]+(?:\.py|/))`")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def test_the_map_is_short() -> None:
    """A newcomer reads it in a quarter of an hour; all else has a page of its own."""
    assert len(ARCHITECTURE.read_text("utf-8").split()) <= MOST_WORDS


def test_the_layers_are_those_of_the_code() -> None:
    """The chain of rooms is what tests/test_layers.py holds imports to."""
    text = ARCHITECTURE.read_text("utf-8")
    chain = re.search(r"`(cli -> .+?)`", text, re.DOTALL)
    assert chain
    rooms = [set(re.split(r",\s+", layer)) for layer in re.split(r"\s+->\s+", chain[1])]
    order = {room: place for place, layer in enumerate(rooms) for room in layer}
    place = {room: number for number, layer in enumerate(LAYERS) for room in layer}
    # Left out of the map: the entry point, and modules of a few lines at the bottom.
    assert place.keys() - order.keys() <= {"__main__", "faces", "missing"}
    assert order.keys() <= place.keys()
    by_place = sorted(order, key=lambda room: place[room])
    assert all(order[above] <= order[below] for above, below in pairwise(by_place))


@pytest.mark.parametrize("document", INTERNAL, ids=named)
def test_files_that_are_named_exist(document: Path) -> None:
    """By their path from the root or from the package, or by their last parts."""
    package = ROOT / "app" / "slidestat"
    everything = [
        *package.rglob("*"),
        *(ROOT / "tests").rglob("*"),
        *(ROOT / "benchmarks").rglob("*"),
    ]
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in everything]
    missing = []
    for name in _FILE.findall(document.read_text("utf-8")):
        wanted = name.rstrip("/")
        if (ROOT / wanted).exists() or any(path.endswith(f"/{wanted}") for path in paths):
            continue
        missing.append(name)
    assert missing == []


def test_the_map_shows_what_is_there() -> None:
    """Each folder and module of the map is where the map has it: in the package, or in the root."""
    block = ARCHITECTURE.read_text("utf-8").split("\n```\n")[1]
    missing, root = [], ROOT
    for line in block.splitlines():
        if name := re.match(r"[\w/]+/", line):
            root = ROOT / name[0]
        for named_here in re.findall(r"(?<![\w./])[\w./]+(?:/|\.pyi?)(?![\w./])", line):
            name_here = named_here.rstrip("/")
            if not (ROOT / name_here).exists() and not any(root.rglob(name_here)):
                missing.append(named_here)
    assert missing == []


@pytest.mark.parametrize("decision", DECISIONS, ids=named)
def test_a_decision_has_its_four_parts(decision: Path) -> None:
    """Context, decision, what was measured and status, none of them empty."""
    text = decision.read_text("utf-8")
    number = int(decision.name[:4])
    assert text.startswith(f"# {number}. ")
    assert _HEADING.findall(text) == ["Context", "Decision", "Measured", "Status"]
    assert all(part.strip() for part in _HEADING.split(text)[2::2])


def test_decisions_are_numbered_and_listed() -> None:
    """Each number once, from 1 on, and each page in the index."""
    assert len(DECISIONS) >= 50
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = links(ROOT / "docs" / "decisions" / "README.md")
    assert sorted(listed) == [path.name for path in DECISIONS]


def test_the_glossary_is_sorted_and_short() -> None:
    """Each term once, in the order of the alphabet, in a few sentences."""
    text = GLOSSARY.read_text("utf-8")
    terms = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert terms == sorted(set(terms), key=str.casefold)
    assert {"Zombie", "Watermark", "Dead letter", "Tick", "Fingerprint", "Wave"} <= set(terms)
    for entry in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert 5 <= len(entry.split()) <= 60, entry
