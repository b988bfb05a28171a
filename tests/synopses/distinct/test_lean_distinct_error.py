"""The promise of lean distinct items: bounds and an error that hold but for a chance of delta."""

from itertools import product
from math import ceil, floor, sqrt

import numpy as np
import pytest

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters, reach
from slidestat.synopses.lean_distinct.sketch import (
    LeanDistinct,
    figures_for,
    moments,
    run_lean_distinct_batch,
)
from tests.synopses.chances import trials
from tests.synopses.distinct.exact_distinct import ITEMS, LEAN, SPAN, exact
from tests.synopses.occupied_bits import chances
from tests.synopses.streams import TIMES

HOUR = 3_600_000


@pytest.mark.parametrize(("items", "bitmaps"), [(1, 9), (7, 9), (90, 16), (2_000, 64)])
def test_the_distribution_of_set_bits_is_what_is_drawn(items: int, bitmaps: int) -> None:
    """The finite sums come to one, and agree with 4,000 draws, in their mean and each share."""
    first, shares = chances(items, bitmaps)
    assert shares.min() > -1e-9
    assert abs(shares.sum() - 1) < 1e-9
    rng = np.random.default_rng(items)
    drawn = np.minimum(rng.geometric(0.5, (4_000, items)) - 1, 61) * bitmaps
    drawn = np.sort(drawn + rng.integers(0, bitmaps, drawn.shape), axis=1)
    bits = 1 + np.count_nonzero(np.diff(drawn, axis=1), axis=1)
    seen = np.bincount(bits - first, minlength=len(shares)) / len(bits)
    assert np.abs(np.cumsum(seen) - np.cumsum(shares)).max() < 1.63 / sqrt(len(bits))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.05, 0.01), *product([0.5, 0.3, 0.2, 0.1], [0.1, 0.01, 1e-6])],
)
def test_no_tail_is_heavier_than_half_of_delta(epsilon: float, delta: float) -> None:
    """Computed, not drawn: of counts from the first that is not exact to 32 a bitmap, and beyond.

    Beyond, with 32 items or more a bitmap, twice as many shift all by a bit a bitmap.
    """
    parameters = LeanDistinctParameters(epsilon, delta, SPAN, 0)
    k, c = reach(delta)
    for items in np.unique(np.geomspace(parameters.exact, 64 * parameters.bitmaps, 16).astype(int)):
        mean, variance = (
            float(f[0]) for f in moments(np.array([float(items)]), parameters.bitmaps)
        )
        first, shares = chances(int(items), parameters.bitmaps)
        bits = first + np.arange(len(shares))
        off = k * sqrt(variance) + c
        assert shares[bits >= ceil(mean + off)].sum() <= delta / 2
        assert shares[bits <= floor(mean - off)].sum() <= delta / 2


@pytest.mark.parametrize("epsilon", [0.5, 0.3, 0.1, 0.05, 0.02, 0.01])
@pytest.mark.parametrize("delta", [0.1, 0.01, 1e-6])
def test_no_bounds_are_wider_than_epsilon(epsilon: float, delta: float) -> None:
    """Whatever number of bits is set: any count between the bounds has the estimate near it."""
    parameters = LeanDistinctParameters(epsilon, delta, SPAN, 0)
    few = np.arange(1, 20 / epsilon)
    many = np.floor(np.geomspace(10 / epsilon, 40 * parameters.bitmaps, 400))
    bits = np.unique(np.concatenate([few, many]))
    estimate, lower, upper = figures_for(parameters, np.full(len(bits), -1.0), bits)
    assert np.all((lower <= estimate) & (estimate <= upper))
    assert np.all(estimate - lower <= epsilon * lower * (1 + 1e-12))
    assert np.all(upper - estimate <= epsilon * upper * (1 + 1e-12))
    assert np.all(np.diff(lower) >= 0)
    assert np.all(np.diff(upper) >= 0)


@pytest.mark.parametrize("where", ["first that is not exact", "some a bitmap", "many"])
def test_failures_are_no_more_than_delta(where: str) -> None:
    """Over as many fixed seeds as tell delta from half as much again."""
    seeds, most = trials(0.1)
    made = LeanDistinctParameters(0.2, 0.1, SPAN, 0)
    distinct = {"first that is not exact": made.exact, "some a bitmap": 200, "many": 3_000}[where]
    items, times = np.arange(distinct), np.zeros(distinct, np.int64)
    missed = outside = 0
    for seed in range(seeds):
        parameters = LeanDistinctParameters(0.2, 0.1, SPAN, seed)
        result = run_lean_distinct_batch(
            parameters, [None], Batch([0, distinct], times, items, [0, 1], [1], [1])
        )
        estimate, lower, upper = result.only()
        missed += abs(estimate - distinct) > 0.2 * distinct
        outside += not (lower <= distinct <= upper)
    assert missed <= outside <= most


@pytest.mark.parametrize("time_name", TIMES)
def test_every_window_is_that_of_items_of_its_own(time_name: str) -> None:
    """A window is answered as by a synopsis that saw no others, and exactly while there are few."""
    rng = np.random.default_rng(22)
    times = TIMES[time_name](rng, 300)
    queries = np.unique(np.concatenate([times[::20] + 1, times[-1:] + 99]))
    spans = [1, 17, 100, SPAN]
    beyond = 0
    for item_name in ITEMS:
        items = ITEMS[item_name](rng, 300)
        result = run_lean_distinct_batch(
            LEAN, [None], Batch([0, 300], times, items, [0, len(queries)], queries, spans)
        )
        for i, now in enumerate(queries):
            for j, n in enumerate(spans):
                inside = (times >= now - n) & (times < now)
                own = LeanDistinct.create(LEAN)
                own.insert(times[inside], items[inside])
                figures = (result.estimates[i, j], result.lowers[i, j], result.uppers[i, j])
                assert figures == own.query(SPAN, max(now, own.now))
                true = exact(times, items, now - n, now)
                beyond += true >= LEAN.exact
                assert true >= LEAN.exact or figures == (true, true, true)
    assert beyond > 10 or time_name == "sparse"  # whose windows have few events


def test_a_hundred_thousand_items_take_25_kilobytes_and_five_150_bytes() -> None:
    """At 5 % and a delta of 0.01, over an hour in milliseconds; a tenth of a wave's bytes."""
    parameters = LeanDistinctParameters(0.05, 0.01, HOUR, 2**63 - 1)
    rng = np.random.default_rng(3)
    many = LeanDistinct.create(parameters)
    many.insert(
        1_700_000_000_000 + np.sort(rng.integers(0, HOUR, 10**5)), ITEMS["hashes"](rng, 10**5)
    )
    assert len(many.to_bytes()) <= 25_000
    assert abs(many.query(HOUR).estimate / 10**5 - 1) <= 0.05
    few = LeanDistinct.create(parameters)
    few.insert(1_700_000_000_000 + np.arange(5) * 700_000, ITEMS["hashes"](rng, 5))
    assert len(few.to_bytes()) <= 150


def test_space_is_that_of_the_formula() -> None:
    """m (log2(x / m) + 1/3) bits are stored for x items, of log2 of their mean age and 2 bits."""
    parameters = LeanDistinctParameters(0.1, 0.01, HOUR, 1)
    for x in (10**4, 10**5):
        rng = np.random.default_rng(x)
        synopsis = LeanDistinct.create(parameters)
        synopsis.insert(np.sort(rng.integers(0, HOUR, x)), rng.permutation(x))
        m = parameters.bitmaps
        bits = m * (np.log2(x / m) + 1 / 3)
        assert len(synopsis.to_bytes()) <= 11 * parameters.exact + bits * (np.log2(HOUR) + 2) / 8
