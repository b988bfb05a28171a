"""The table of papers names what there is, and leaves out no statistic and no synopsis."""

import re
from dataclasses import fields

import slidestat.synopses
from slidestat.declare.kinds import KINDS
from slidestat.declare.topology import Topology
from slidestat.spark.sql import aggregates
from tests.docs.markdown import ROOT

WHOLE = (ROOT / "docs" / "papers.md").read_text("utf-8")
PAGE, ERRORS = WHOLE.split("## Where the papers err")
# Rows of tables, without their heads.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not re.match(r"\| *(---|section \||what \||source \|)", line)
]
_ASKED = -2
_NAME = re.compile(r"`(?:--)?(\w+)`")


def named(cell: str) -> set[str]:
    return set(_NAME.findall(cell))


def test_every_class_that_is_named_is_public() -> None:
    """In the column that says where: each is in `slidestat.synopses`."""
    for row in ROWS:
        for name in named(row[_ASKED - 1]):
            assert hasattr(slidestat.synopses, name), row


def test_all_that_is_asked_for_can_be() -> None:
    """A statistic, a parameter of one, a field of a topology, a function of SQL, or a question."""
    parameters = {field.name for kind in KINDS.values() for field in fields(kind)}
    parameters |= {field.name for field in fields(Topology)} | {"item", "rank"}
    for row in ROWS:
        for name in named(row[_ASKED]):
            in_sql = name.startswith("basic_") and callable(getattr(aggregates, name, None))
            assert in_sql or name in parameters or name in KINDS, row


def test_rows_without_a_statistic_say_so() -> None:
    """Whoever asks for nothing of a topology is told that it is in Python alone, or is a proof."""
    for row in ROWS:
        asked = row[_ASKED]
        can_be = named(asked) & KINDS.keys() or "`basic_" in asked or "`publish`" in asked
        assert not asked or "in Python alone" in asked or can_be, row


def test_errors_of_papers_are_tested() -> None:
    """Each test that the last table names is there, and each row names one."""
    rows = [line for line in ERRORS.splitlines() if re.match(r"\| (?!source|-)", line)]
    assert len(rows) >= 6
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for row in rows:
        (name,) = re.findall(r"`(test_\w+)`", row)
        assert f"def {name}(" in tests, row


def test_nothing_is_left_out() -> None:
    """Each statistic, and each class that keeps a synopsis, has a row."""
    told = {name for row in ROWS for cell in row for name in named(cell)}
    synopses = {
        name
        for name in slidestat.synopses.__all__
        if callable(getattr(getattr(slidestat.synopses, name), "create", None))
    }
    assert len(synopses) >= 18
    assert KINDS.keys() | synopses <= told
