"""Places of keys by figures with bounds: right whatever the exact figures are, and no wider."""

import math
from itertools import permutations, product
from random import Random

import msgspec
import numpy as np
from hypothesis import given, strategies as st

from slidestat.declare.expressions.intervals import Numbers
from slidestat.engine.emissions.rankings import (
    NO_PLACE,
    Ranked,
    keys_in_two_places,
    leading,
    places,
    that_may_have_places,
    that_may_lead,
    turned,
)
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import Contender
from slidestat.synopses.core.arrays import Bools, Floats

# Few values, so that ties and touching bounds are common.
VALUES = st.integers(-3, 3).map(float)
ENDS = st.one_of(VALUES, st.sampled_from([-math.inf, math.inf]))
SIZES = st.integers(1, 5)


@st.composite
def figures(draw: st.DrawFn) -> tuple[float, float, float, bool]:
    """An estimate in its bounds, or none, and whether the key surely has a place."""
    low, high = sorted((draw(ENDS), draw(ENDS)))
    inside = [v for v in (-3.0, -1.0, 0.0, 2.0, 3.0, low, high) if low <= v <= high]
    finite = [v for v in inside if math.isfinite(v)]
    estimate = draw(st.sampled_from([*finite, math.nan]))
    if math.isnan(estimate):
        return estimate, -math.inf, math.inf, False
    return estimate, low, high, draw(st.booleans())


def columns(drawn: list[tuple[float, float, float, bool]]) -> tuple[Floats, Bools]:
    table = np.array([row[:3] for row in drawn], float).reshape(-1, 3)
    return table, np.array([row[3] for row in drawn], bool)


def place_of(row: int, exact: list[float | None]) -> int:
    """The place of a row by exact figures, of which None has no place."""
    own = exact[row]
    assert own is not None
    return 1 + sum(
        it is not None and (it > own or (it == own and other < row))
        for other, it in enumerate(exact)
        if other != row
    )


@given(st.lists(figures(), max_size=40), SIZES, st.randoms(use_true_random=False))
def test_whoever_leads_may_lead_before_keys_are_sorted(
    drawn: list[tuple[float, float, float, bool]], size: int, random: Random
) -> None:
    """In whatever order the keys come: all that lead in their order are among those kept."""
    table, _ = columns(drawn)
    shuffled = np.array(random.sample(range(len(table)), len(table)), np.int64)
    kept = set(shuffled[that_may_lead(table[shuffled], size)].tolist())
    assert kept >= set(leading(table, size).tolist())


@given(st.lists(figures(), max_size=6), SIZES)
def test_a_place_is_between_the_exact_ones_at_most(
    drawn: list[tuple[float, float, float, bool]], size: int
) -> None:
    """The places between which a key is are the least and the largest that any exact figures give
    it: where the key itself is at an end of its bounds, and each other one as well, or away.
    """
    table, sure = columns(drawn)
    found = places(table, sure, size)
    ranked = [row for row in range(len(table)) if not math.isnan(table[row, 0])]
    assert found.rows.tolist() == sorted(ranked, key=lambda row: (-table[row, 0], row))[:size]
    ways = [
        [low, high] if is_sure else [low, high, None]
        for (_, low, high), is_sure in zip(table.tolist(), sure.tolist(), strict=True)
    ]
    for place, (row, first, last) in enumerate(zip(*(it.tolist() for it in found), strict=True), 1):
        exact = [place_of(row, list(each)) for each in product(*ways) if each[row] is not None]
        assert first == min(exact) <= place <= max(exact)
        if not sure[row] or max(exact) > size:
            assert last == NO_PLACE
        else:
            assert last == max(exact)


@given(st.lists(figures(), max_size=40), SIZES, st.randoms(use_true_random=False))
def test_a_certain_place_is_right(
    drawn: list[tuple[float, float, float, bool]], size: int, random: Random
) -> None:
    """Wherever the exact figures of all keys are in their bounds."""
    table, sure = columns(drawn)
    found = places(table, sure, size)
    for _ in range(5):
        exact: list[float | None] = [
            None if not is_sure and random.random() < 0.3 else inside(low, high, random)
            for (_, low, high), is_sure in zip(table.tolist(), sure.tolist(), strict=True)
        ]
        for row, first, last in zip(*(it.tolist() for it in found), strict=True):
            if exact[row] is not None:
                place = place_of(row, exact)
                assert first <= place
                assert last == NO_PLACE or place <= last <= size


def inside(low: float, high: float, random: Random) -> float:
    """A value between two, an end of them or a whole one."""
    low, high = max(low, -1e3), min(high, 1e3)
    return random.choice([low, high, random.uniform(low, high), min(max(low, 0.0), high)])


@given(
    st.lists(figures(), max_size=25),
    SIZES,
    st.lists(st.integers(0, 3), min_size=25, max_size=25),
    st.permutations(range(4)),
)
def test_parts_decide_as_the_whole(
    drawn: list[tuple[float, float, float, bool]], size: int, part_of: list[int], order: list[int]
) -> None:
    """The leading keys of partitions, merged in any order and in steps, give the places of all."""
    whole = [contender(f"{row:02}", *of) for row, of in enumerate(drawn)]
    for ranked in (Ranked(size, smallest=False), Ranked(size, smallest=True)):
        merged: list[Contender] = []
        for part in order:
            some = [it for row, it in enumerate(whole) if part_of[row] == part]
            merged = ranked.leading([*ranked.leading(some), *merged])
        assert len(merged) <= 2 * size
        assert merged == ranked.leading(whole)
        assert list(ranked.places(merged)) == list(ranked.places(whole))


def contender(
    key: str,
    estimate: float = 1.0,
    lower: float = 1.0,
    upper: float = 1.0,
    is_sure: bool = True,
    partition: int = 0,
) -> Contender:
    """A key with a figure, in which what is infinite or does not exist is null."""
    of = {"estimate": estimate, "lower": lower, "upper": upper}
    numbers = {name: it if math.isfinite(it) else None for name, it in of.items()}
    figure = msgspec.structs.replace(Figure("count", None, None, None), **numbers)
    return Contender(key, figure, is_sure, partition, 0)


@given(st.lists(figures(), max_size=15), SIZES)
def test_fewer_places_are_the_first_ones(
    drawn: list[tuple[float, float, float, bool]], size: int
) -> None:
    """Whoever asks for more has the same keys at the same places first."""
    table, sure = columns(drawn)
    few, many = places(table, sure, size), places(table, sure, size + 3)
    assert few.rows.tolist() == many.rows.tolist()[:size]
    assert few.first.tolist() == many.first.tolist()[:size]
    last = [it if it <= size else NO_PLACE for it in many.last.tolist()[:size]]
    assert few.last.tolist() == last


def test_an_example() -> None:
    """Two that cannot be told apart, one that is surely behind them, and one that is left out."""
    table = np.array([(10, 9, 11), (30, 25, 33), (28, 24, 31), (9.5, 1, 20.0)])
    found = places(table, np.ones(4, bool), 3)
    assert found.rows.tolist() == [1, 2, 0]
    assert found.first.tolist() == [1, 1, 3]
    assert found.last.tolist() == [2, 2, NO_PLACE]


def test_equal_figures_are_in_the_order_of_keys() -> None:
    """Exact ones, that is certain: whichever way round."""
    table = np.ones((5, 3))
    for figures_of in (table, turned(table)):
        found = places(figures_of, np.ones(5, bool), 3)
        assert found.rows.tolist() == [0, 1, 2]
        assert found.first.tolist() == found.last.tolist() == [1, 2, 3]


def test_more_wide_bounds_than_places() -> None:
    """A key that may be before a place is enough for membership to hold, as long as there is room:
    how many there are is known up to the number of places.
    """
    narrow = [(10.0, 10.0, 10.0), (9.0, 9.0, 9.0), (8.0, 8.0, 8.0)]
    for wide in range(5):
        table = np.array([*narrow, *[(1.0, 0.0, 20.0)] * wide])
        found = places(table, np.ones(len(table), bool), 3)
        assert found.first.tolist() == [1, 2, 3]
        reached = [place + wide for place in (1, 2, 3)]
        assert found.last.tolist() == [it if it <= 3 else NO_PLACE for it in reached]


def test_a_key_in_two_places_is_found() -> None:
    """Producers may spread a key over partitions: both parts of it are there."""
    some = [contender("b", partition=3), contender("a"), contender("b", partition=1)]
    assert list(keys_in_two_places(some)) == [("b", [1, 3])]
    assert not list(keys_in_two_places(some[:2]))


def test_what_is_null_has_no_place() -> None:
    """Neither among the largest nor among the smallest."""
    numbers = Numbers.of(np.array([(math.nan,) * 3, (2.0, 1.0, 3.0), (5.0, 5.0, 5.0)]))
    for smallest in (False, True):
        rows, table, sure = that_may_have_places(numbers, None, smallest=smallest)
        assert rows.tolist() == [1, 2]
        assert rows[places(table, sure, 5).rows].tolist() == ([1, 2] if smallest else [2, 1])


def test_what_leads_is_bounded() -> None:
    """However many keys are equal."""
    for table in (np.ones((1_000, 3)), np.tile((math.nan, -math.inf, math.inf), (1_000, 1))):
        assert len(leading(table, 7)) <= 14


def test_the_order_of_keys_alone_decides_between_equal_ones() -> None:
    """Not the order in which parts come."""
    for some in permutations([contender("b"), contender("a"), contender("c")]):
        assert [it.key for it in Ranked(2, smallest=True).leading(some)] == ["a", "b", "c"]
