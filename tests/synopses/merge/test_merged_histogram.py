"""Laws of merged histograms: the error that is stated, at every moment and for every grouping."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from slidestat.synopses import (
    CountParameters,
    CountWave,
    ExponentialHistogram,
    MergedHistogram,
    SumParameters,
    SumWave,
    SynopsisError,
    WaveParameters,
)
from slidestat.synopses.core.errors import WindowTooLargeError
from tests.synopses.parties import FAMILIES, NUMBERS, SPAN, SPLITS, Split, drawn, synopsis, taken

SPANS = [*range(1, 20), *range(20, 1_000, 41), 998, 999, 1_000]
NAMES = ("count", "coarse count", "sum", "count wave", "sum wave")


def units(name: str, seen: Split, start: int, end: int) -> Fraction:
    window = seen.window(start, end).tolist()
    return Fraction(len(window)) if "count" in name else sum(map(decimal, window), Fraction(0))


def decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def assert_keeps_its_promise(name: str, merged: MergedHistogram, seen: Split) -> None:
    merged.check()
    assert MergedHistogram.from_bytes(merged.to_bytes()).to_bytes() == merged.to_bytes()
    parts = merged.parameters.buckets_per_level
    promise = (1 + Fraction(1, 2 * parts)) ** (merged.depth + 1) - 1
    assert Fraction(merged.relative_error) >= promise
    for now in (merged.now, merged.now + 13, merged.now + 900):
        for n in SPANS:
            exact = units(name, seen, now - n, now)
            found = merged.query(n, now)
            assert Fraction(found.lower) <= exact <= Fraction(found.upper)
            assert found.lower <= found.estimate <= found.upper
            off = abs(Fraction(found.estimate) - exact)
            assert off <= (promise + Fraction(1, 1 << 52)) * exact


@pytest.mark.parametrize("parties", NUMBERS)
@pytest.mark.parametrize("split_name", SPLITS)
@pytest.mark.parametrize("name", NAMES)
def test_parts_merged_at_once_keep_the_stated_error(
    name: str, split_name: str, parties: int
) -> None:
    """(1 + e)^2 - 1 for many parts, e for one; bounds hold; order does not show."""
    values = FAMILIES[name].values[parties % len(FAMILIES[name].values)]
    split = taken(name, drawn(split_name, values, parties, 1_200, parties))
    for until in (30, 1_200):
        seen = Split(split.times[:until], split.values[:until], split.whose[:until], parties)
        sent = [synopsis(name, seen, party).to_bytes() for party in range(parties)]
        merged = MergedHistogram.of(sent)
        assert merged.depth <= 1
        assert merged.to_bytes() == MergedHistogram.of(sent[::-1]).to_bytes()
        assert_keeps_its_promise(name, merged, seen)


@pytest.mark.parametrize("name", ["count", "sum", "count wave", "sum wave"])
def test_any_grouping_keeps_the_error_of_its_depth(name: str) -> None:
    """Trees, chains and all at once: each answers within the error that its depth states."""
    values = FAMILIES[name].values[0]
    split = taken(name, drawn("skewed", values, 8, 1_500, 5))
    leaves = [
        MergedHistogram.from_bytes(synopsis(name, split, party).to_bytes()) for party in range(8)
    ]
    pairs = [leaves[i].merge(leaves[i + 1]) for i in range(0, 8, 2)]
    tree = pairs[0].merge(pairs[1]).merge(pairs[2].merge(pairs[3]))
    mixed = leaves[0].merge(pairs[1], leaves[1]).merge(pairs[2], pairs[3])
    chain = leaves[0]
    for leaf in leaves[1:5]:
        chain = chain.merge(leaf)
    chain = chain.merge(*leaves[5:])
    for merged, depth in ((tree, 3), (mixed, 3), (chain, 5), (leaves[0].merge(*leaves[1:]), 1)):
        assert merged.depth <= depth
        assert_keeps_its_promise(name, merged, split)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_with_nothing_in_the_span_changes_nothing(name: str) -> None:
    """Empty ones, and ones whose events have all expired: the same bytes, before or behind."""
    split = taken(name, drawn("evenly", FAMILIES[name].values[0], 2, 700, 2))
    one, two = (synopsis(name, split, party) for party in range(2))
    empty = FAMILIES[name].create(0)
    old = FAMILIES[name].create(0)
    columns = [np.arange(50) - 5 * SPAN] + [np.arange(50)] * (FAMILIES[name].takes != "times")
    old.insert(*columns)
    alone = MergedHistogram.from_bytes(one.to_bytes())
    assert alone.to_bytes() == one.to_bytes()
    for nothing in (empty, old):
        void = MergedHistogram.from_bytes(nothing.to_bytes())
        assert alone.merge(void).to_bytes() == one.to_bytes()
        assert void.merge(alone, void).to_bytes() == one.to_bytes()
        both = MergedHistogram.of([one.to_bytes(), two.to_bytes()])
        assert both.merge(void).to_bytes() == both.to_bytes()
    void = MergedHistogram.from_bytes(empty.to_bytes())
    assert void.merge(void).to_bytes() == empty.to_bytes()
    later = FAMILIES[name].create(0)
    later.advance(one.now + 300)
    one.advance(one.now + 300)
    assert alone.merge(MergedHistogram.from_bytes(later.to_bytes())).to_bytes() == one.to_bytes()


def test_a_part_that_is_behind_counts_with_what_it_had() -> None:
    """The merge is at the latest time of its parts; what has expired by then is in no window."""
    sent = []
    for start in (0, 600, 1_400):
        histogram = ExponentialHistogram.create(CountParameters(0.1, SPAN))
        histogram.insert(np.arange(start, start + 200))
        sent.append(histogram.to_bytes())
    merged = MergedHistogram.of(sent)
    assert merged.now == 1_600
    for n, exact in ((100, 100), (200, 200), (1_000, 400)):
        found = merged.query(n)
        assert found.lower <= exact <= found.upper
        assert abs(found.estimate - exact) <= merged.relative_error * exact


def test_values_with_more_decimals_come_on_top_once_a_part() -> None:
    """A stray unit for each such part, even one that has no whole unit at all."""
    rng = np.random.default_rng(4)
    sent, times, values = [], [], []
    for part in range(6):
        histogram = ExponentialHistogram.create(SumParameters(0.1, SPAN, 1))
        mine = rng.uniform(0, 0.004 if part < 2 else 3, 20 if part < 2 else 200)
        at = np.sort(rng.integers(0, 900, len(mine)))
        histogram.insert(at, mine)
        sent.append(histogram.to_bytes())
        times += at.tolist()
        values += mine.tolist()
    pairs = [MergedHistogram.of(sent[:3]), MergedHistogram.of(sent[3:])]
    for merged in (MergedHistogram.of(sent), pairs[0].merge(pairs[1])):
        for n in (1, 10, 100, 500, 1_000):
            rows = zip(times, values, strict=True)
            exact = sum((Fraction(x) for t, x in rows if t >= merged.now - n), Fraction(0))
            found = merged.query(n)
            assert Fraction(found.lower) <= exact <= Fraction(found.upper)
            strays = 6 * Fraction(1, 10) * (1 + Fraction(1, 1 << 20))
            slack = Fraction(merged.relative_error) * (exact + strays) + strays
            assert abs(Fraction(found.estimate) - exact) <= slack


def test_what_cannot_be_merged_is_refused() -> None:
    """Nothing, other things, an error of 100 %, too deep a chain, and more than 2^61 units."""
    count = ExponentialHistogram.create(CountParameters(0.5, SPAN))
    count.insert(np.arange(50))
    state = count.to_bytes()
    with pytest.raises(SynopsisError, match="nothing to merge"):
        MergedHistogram.of([])
    for other in (
        ExponentialHistogram.create(CountParameters(0.5, SPAN + 1)),
        ExponentialHistogram.create(CountParameters(0.1, SPAN)),
        ExponentialHistogram.create(SumParameters(0.5, SPAN, 0)),
    ):
        with pytest.raises(SynopsisError, match="made with the same"):
            MergedHistogram.of([state, other.to_bytes()])
    once = MergedHistogram.of([state, state])
    assert once.query(50).lower <= 100 <= once.query(50).upper
    with pytest.raises(SynopsisError, match="2 merges one after another are too many"):
        once.merge(once)
    fine = ExponentialHistogram.create(CountParameters(0.001, SPAN))
    fine.insert([1])
    chain = leaf = MergedHistogram.from_bytes(fine.to_bytes())
    for _ in range(16):
        chain = chain.merge(leaf)
    assert chain.query(10) == (17.0, 17.0, 17.0)
    with pytest.raises(SynopsisError, match="17 merges one after another"):
        chain.merge(leaf)


def test_units_up_to_the_limit_and_beyond_it() -> None:
    """Half of 2^62 units may be in the span of a merge; more is refused, and says so."""
    wave = SumWave.create(WaveParameters(0.1, SPAN))
    wave.insert(np.arange(100), np.full(100, 2**53))
    states = [wave.to_bytes()] * 2
    merged = MergedHistogram.of(states)
    for n in (1, 10, 55, 100, 1_000):
        exact = 2 * min(n, 100) * 2**53
        found = merged.query(n)
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)
        assert abs(Fraction(found.estimate) - exact) <= Fraction(merged.relative_error) * exact
    with pytest.raises(WindowTooLargeError):
        MergedHistogram.of(states * 2)


def test_too_many_units_are_refused_before_they_are_laid_out() -> None:
    """However deep the merge: a part of 2^60 units, halved 15 times, takes no memory first."""
    parameters = SumParameters(0.001, SPAN, 0)
    one, huge = (ExponentialHistogram.create(parameters) for _ in range(2))
    one.insert([1], [1])
    huge.insert(np.arange(128), np.full(128, 2.0**53))
    chain = leaf = MergedHistogram.from_bytes(one.to_bytes())
    for _ in range(15):
        chain = chain.merge(leaf)
    tracemalloc.start()
    with pytest.raises(WindowTooLargeError, match=r"more than 2\^46 units"):
        chain.merge(MergedHistogram.from_bytes(huge.to_bytes()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize("parties", [2, 64])
def test_a_merge_is_as_small_as_a_histogram_of_its_units(parties: int) -> None:
    """At most (l + 1)(log2(N / l + 1) + 1) buckets for twice the union's events N."""
    split = drawn("evenly", "constant", parties, 20_000, 3)
    merged = MergedHistogram.of(
        [synopsis("count", split, party).to_bytes() for party in range(parties)]
    )
    per_level = merged.parameters.buckets_per_level
    inside = len(split.window(merged.now - SPAN, merged.now))
    most = (per_level + 1) * (np.log2(2 * 1.11 * inside / per_level + 1) + 1)
    assert len(merged.to_bytes()) <= 60 + 3 * most


def test_a_wave_that_promises_nothing_is_not_merged() -> None:
    """With an error of 100 % a wave keeps no half of anything to feed again."""
    wave = CountWave.create(WaveParameters(1.0, 1_000))
    wave.insert(list(range(56)))
    with pytest.raises(SynopsisError, match="error of 100 %"):
        MergedHistogram.of([wave.to_bytes()] * 3)
