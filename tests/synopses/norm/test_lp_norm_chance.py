"""Norms miss their bounds no more often than delta: binomial tests over fixed seeds, as many as
chances.py says. Draws are held to a significance of 10^-6: sound ones fail one in a million.
"""

from math import erf

import numpy as np
import pytest

from slidestat.synopses import Batch, LpNorm, LpNormParameters, SynopsisError, run_lp_norm_batch
from slidestat.synopses.norm.stable import MAX_DRAW, UNIT, quantile, sketches, table
from tests.synopses.celled import ITEMS
from tests.synopses.chances import trials
from tests.synopses.numbers.test_sample_chance import SIGNIFICANCE, chance

SIZE = 700
SPAN = 600
WINDOWS = [60, 300, 600]


def exact(p: float, items: np.ndarray, weights: np.ndarray) -> float:
    _, places = np.unique(items, return_inverse=True)
    return float((np.bincount(places, weights) ** p).sum() ** (1 / p))


@pytest.mark.parametrize(
    ("item_name", "p", "delta"),
    [
        ("constant", 1.1, 0.3),
        ("zipf", 1.5, 0.3),
        ("zipf", 2, 0.1),
        ("all different", 2, 0.3),
        ("hashes", 1.1, 0.3),
    ],
)
def test_misses_are_no_more_than_delta(item_name: str, p: float, delta: float) -> None:
    """Bounds, and the error asked for, of several windows; each seed is another draw of all."""
    rng = np.random.default_rng(3)
    items = ITEMS[item_name](rng, SIZE).astype(np.int64)
    weights = rng.integers(1, 9, SIZE)
    outside = np.zeros(len(WINDOWS), np.int64)
    far = np.zeros(len(WINDOWS), np.int64)
    known = np.array([exact(p, items[-n:], weights[-n:]) for n in WINDOWS])
    epsilon = 0.6
    seeds, most = trials(delta)
    for seed in range(seeds):
        parameters = LpNormParameters(p, epsilon, delta, SPAN, seed)
        result = run_lp_norm_batch(
            parameters,
            [None],
            Batch([0, SIZE], np.arange(SIZE), items, [0, 1], [SIZE], WINDOWS),
            weights,
        )
        lower, estimate, upper = (f[0] for f in (result.lowers, result.estimates, result.uppers))
        assert np.all(lower <= estimate)
        assert np.all(estimate <= upper)
        outside += (known < lower) | (known > upper)
        far += np.abs(estimate - known) > epsilon * known
    assert max(*outside.tolist(), *far.tolist()) <= most


@pytest.mark.parametrize("p", [1.05, 1.3, 1.7, 2])
def test_draws_have_the_stable_law(p: float) -> None:
    """Sums of draws of many items, over their norm, have the law of one: at some quantiles."""
    rows = 20_000
    for count in (1, 40):
        items = np.arange(count) * 7_919
        weights = np.arange(1, count + 1)
        sums = sketches(table(p), 11, items, weights, rows).sum(axis=0) / UNIT
        norm = exact(p, items, weights)
        for u in (0.3, 0.5, 0.85, 0.99):
            seen = int(np.count_nonzero(np.abs(sums) <= norm * float(quantile(p, 1 - u))))
            assert min(chance(rows, u + d, seen) for d in (-(2.0**-9), 0)) > SIGNIFICANCE or (
                abs(seen / rows - u) <= 2.0**-9
            )
    signs = np.sign(sketches(table(p), 5, np.arange(1), np.ones(1, np.int64), rows))
    assert chance(rows, 0.5, int(np.count_nonzero(signs > 0))) > SIGNIFICANCE


def test_order_2_is_the_normal_law() -> None:
    """P(|v| > x) is that of a normal variable of variance 2, from the middle to the far tail."""
    for x in (0.01, 0.3, 1.0, 2.0, 4.0, 6.0, 8.0):
        assert float(quantile(2, 1 - erf(x / 2))) == pytest.approx(x, rel=1e-4)
    for p in (1.05, 1.5, 2):
        draws = table(p)
        used = np.concatenate([draws[0, :-1], draws[1, :-1], draws[2]])
        assert np.all(np.diff(used) >= 0)
        assert draws.max() <= MAX_DRAW


def test_few_events_are_exact_and_few_bytes() -> None:
    """The newest events are kept as they are: 5 take less than 100 bytes, and nothing is unsure."""
    noon = 1_700_000_000_000
    norm = LpNorm.create(LpNormParameters(2, 0.3, 0.01, 3_600_000))
    assert norm.query(1) == (0.0, 0.0, 0.0)
    norm.insert(noon + np.arange(5) * 600_000, [3, 4, 3, 2**62, -(2**62)], [1, 4, 2, 1, 1])
    assert len(norm.to_bytes()) < 100
    estimate, lower, upper = norm.query(3_600_000)
    assert estimate**2 == pytest.approx(9 + 16 + 2, rel=1e-12)
    assert upper - lower <= estimate * 2**-38
    assert norm.query(3_600_000, now=norm.now + 4_000_000) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("p", "epsilon"), [(1, 0.1), (1.5, 0.6), (2, 0.6), (2, 0.3)])
def test_space_follows_from_the_rows_and_the_ratio(p: float, epsilon: float) -> None:
    """Buckets are 2 (2 log(F) / log(1 + beta) + 3) + 32 at most, and a sketch 9 bytes a row."""
    parameters = LpNormParameters(p, epsilon, 0.1, 20_000, 9)
    norm = LpNorm.create(parameters)
    rng = np.random.default_rng(4)
    for start in range(0, 40_000, 10_000):
        norm.insert(np.arange(start, start + 10_000), rng.zipf(1.5, 10_000) % 500)
        norm.check()
        buckets = len(norm.buckets())
        size = exact(p, np.zeros(1, np.int64), np.array([20_000])) ** p
        most = 2 * (2 * np.log(size) / np.log1p(parameters.beta) + 3) + 32
        assert buckets <= most
        assert len(norm.to_bytes()) <= 60 + buckets * (30 + 6 * (32 + parameters.rows))


def test_bad_parameters_and_weights_are_refused_by_name() -> None:
    """Each is named with what it may be; nothing is taken in."""
    good = (2, 0.5, 0.1, 9, 0)
    for place, value in (
        *((0, p) for p in (0.9, 2.1, 1.01, float("nan"), 1.3333333333)),
        *((1, epsilon) for epsilon in (0, 0.04, 0.95, 1 / 3)),
        *((2, delta) for delta in (0, 0.6, 1e-7)),
        *((3, span) for span in (0, 2**53 + 1, 1.5, True)),
        *((4, seed) for seed in (-1, 2**62, 0.5)),
    ):
        bad = [*good]
        bad[place] = value
        with pytest.raises(SynopsisError, match="must be"):
            LpNormParameters(*bad)
    with pytest.raises(SynopsisError, match="epsilon or delta must be larger"):
        LpNormParameters(1.05, 0.05, 1e-6, 9)
    norm = LpNorm.create(LpNormParameters(*good))
    for weight in (0, -1, 2**30 + 1):
        with pytest.raises(SynopsisError, match="weights must be"):
            norm.insert([1, 2], [1, 1], [1, weight])
    with pytest.raises(SynopsisError, match="whole numbers"):
        norm.insert([1], [1], [0.5])
    with pytest.raises(SynopsisError, match=r"group 1: .*other parameters"):
        run_lp_norm_batch(
            LpNormParameters(2, 0.5, 0.1, 9, 1),
            [None, norm.to_bytes()],
            Batch([0, 0, 0], [], [], [0, 0, 0], [], []),
        )
