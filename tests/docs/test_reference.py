"""The reference of declarations: what the code says, whole and true."""

import re
from dataclasses import fields
from typing import get_type_hints

import pytest

from benchmarks.harness.examples import example
from scripts import reference
from slidestat.declare.kinds import KINDS
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError

DECLARED = (Topology, Referee, *KINDS.values())
_RANGE = re.compile(r"(\d[\d.e-]*) to ([\d.,]*\d)(?!\^)")


def test_the_page_is_what_the_code_says() -> None:
    """`make reference` would change nothing; it fails for a field that no docstring explains."""
    assert reference.FILE.read_text("utf-8") == reference.render()


def test_a_field_without_a_meaning_is_told() -> None:
    """Nobody can add one and leave its row empty."""
    with pytest.raises(LookupError, match="no docstring of Count tells what weight is"):
        reference.meaning(KINDS["count"], "weight")


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
def test_docstrings_explain_what_there_is(declared: type) -> None:
    """No entry is left of a field that has gone."""
    known = {field.name for field in fields(declared)} | {"promise", "union", "Source"}
    for told in declared.__mro__:
        assert reference.entries(told).keys() <= known


@pytest.mark.parametrize("kind", KINDS)
def test_a_statistic_has_a_union_if_its_docstring_has_one(kind: str) -> None:
    """How synopses of many parties answer, and with which error; nothing for those that cannot."""
    declared = KINDS[kind]
    assert any("union" in reference.entries(known) for known in declared.__mro__) == (
        declared.can_be_united
    )


@pytest.mark.parametrize("kind", KINDS)
def test_promises_are_the_same_whatever_the_span(kind: str) -> None:
    """So the page may tell those of one."""
    statistic = example(KINDS[kind])
    promises = {statistic.promise(span) for span in (1, 1_000, 3_600_000, 10**11)}
    assert len(promises) == 1


def ranges() -> list[tuple[type[Statistic], str, float, float]]:
    """The numbers that are said to go from one to another."""
    found = []
    for statistic in KINDS.values():
        for name, hint in get_type_hints(statistic).items():
            if hint in (int, float) and (
                match := _RANGE.search(reference.meaning(statistic, name))
            ):
                least, most = (float(text.replace(",", "")) for text in match.groups())
                found.append((statistic, name, least, most))
    return found


@pytest.mark.parametrize(
    ("statistic", "name", "least", "most"),
    ranges(),
    ids=[f"{statistic.kind}-{name}" for statistic, name, *_ in ranges()],
)
def test_numbers_go_as_far_as_is_said(
    statistic: type[Statistic], name: str, least: float, most: float
) -> None:
    """Both ends are taken, and nothing beyond them."""
    beside = {"epsilon": least} if name == "share" else {}
    whole = get_type_hints(statistic)[name] is int
    ends = [int(end) if whole else end for end in (least, most)]
    for end in ends:
        assert getattr(example(statistic, **{name: end}, **beside), name) == end
    beyond = [ends[0] - 1, ends[1] + 1] if whole else [ends[0] * 0.99, ends[1] * 1.01]
    for number in beyond:
        with pytest.raises(SlidestatError, match=name):
            example(statistic, **{name: number}, **beside)


def test_all_parameters_of_error_have_a_range() -> None:
    """None of the page's numbers is left out of the test above, but for the seed."""
    numbers = {
        (statistic, name)
        for statistic in KINDS.values()
        for name, hint in get_type_hints(statistic).items()
        if hint in (int, float) and name != "seed"
    }
    assert {(statistic, name) for statistic, name, *_ in ranges()} == numbers
