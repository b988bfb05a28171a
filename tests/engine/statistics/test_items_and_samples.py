"""Counts of named items, and samples, as a topology tells them; tests/engine/cases.py has both."""

from collections import Counter

import pytest

from slidestat import Items, Sample, SlidestatError, Topology, TopologyDriver
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.schemas.emission import Figure

NEEDED = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
START_MS = 1_700_000_040_000


def figures(topology: Topology, values: list[object]) -> list[Figure]:
    """Those of the window that has all of the values."""
    driver = TopologyDriver(topology)
    for i, value in enumerate(values):
        driver.send({"key": "a", "time": START_MS + i, "value": value})
    driver.close_windows()
    return driver.emissions[0].figures


def test_named_items_are_counted_in_their_order_and_others_are_not() -> None:
    """Also those that never came; numbers and truth values by their JSON texts."""
    asked = Topology(**NEEDED, statistics=(Items(items=("b", "404", "true", "a", "none")),))
    found = figures(asked, ["a", "b", "a", 404, True, "x", 404.5, False, "a"])
    assert [(f.item, f.estimate, f.lower, f.upper) for f in found] == [
        ("b", 1, 1, 1),
        ("404", 1, 1, 1),
        ("true", 1, 1, 1),
        ("a", 3, 3, 3),
        ("none", 0, 0, 0),
    ]


def test_the_same_items_in_another_order_share_a_state() -> None:
    """Stored states go on when the list is put in another order; more items are another meaning."""
    one, other, more = (
        Topology(**NEEDED, statistics=(Items(items=items),)).state_meaning
        for items in (("a", "b"), ("b", "a"), ("a", "b", "c"))
    )
    assert one == other != more


@pytest.mark.parametrize("items", [(), "ab", ("a", "a"), (1,), ("x" * 257,), ("a",) * 101])
def test_items_that_cannot_be_named(items: object) -> None:
    """They are refused, with what to give."""
    with pytest.raises(SlidestatError, match="the items of items are"):
        Items(items=items)  # type: ignore[arg-type]


def test_a_sample_is_of_the_values_and_the_same_each_time() -> None:
    """A small window whole, old to new, a large one as many as asked for; another seed draws
    others.
    """
    asked = Topology(**NEEDED, statistics=(Sample(size=5, seed=3),))
    assert [(f.item, f.estimate) for f in figures(asked, [3, -1.5, 3])] == [
        ("0", 3),
        ("1", -1.5),
        ("2", 3),
    ]
    values: list[object] = [float(n) for n in range(200)]
    drawn = figures(asked, values)
    assert len(drawn) == 5
    assert all(f.estimate == f.lower == f.upper == float(f.item or "") for f in drawn)
    assert drawn == figures(asked, values)
    others = Topology(**NEEDED, statistics=(Sample(size=5, seed=4),))
    assert drawn != figures(others, values)


def test_each_event_is_drawn_as_often() -> None:
    """Of 20 events 5 are drawn, under 400 seeds: each some 100 times. Off by more than 45 any of
    them is in 1 of 600 sets of seeds (Hoeffding); these are always the same.
    """
    drawn: Counter[str | None] = Counter()
    for first in range(0, 400, 20):
        seeds = range(first, first + 20)
        samples = tuple(Sample(size=5, seed=seed, name=f"sample_{seed}") for seed in seeds)
        found = figures(Topology(**NEEDED, statistics=samples), list(range(20)))
        drawn.update(figure.item for figure in found)
    assert set(drawn) == {str(n) for n in range(20)}
    assert all(55 <= count <= 145 for count in drawn.values())


def test_both_in_each_form() -> None:
    """As Python, as TOML's tables and as flags."""
    wanted = Topology(
        **NEEDED,
        statistics=(Items(field="code", items=("404", "true")), Sample(field="ms", size=3, seed=1)),
    )
    tables = [
        {"kind": "items", "field": "code", "items": ["404", "true"]},
        {"kind": "sample", "field": "ms", "size": 3, "seed": 1},
    ]
    assert topology_of({**NEEDED, "statistics": tables}) == wanted
    flags = ["items:code:items=404,true", "sample:ms:size=3:seed=1"]
    assert topology_of_flags({**NEEDED, "statistics": flags}) == wanted
