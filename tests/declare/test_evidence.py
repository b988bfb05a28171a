"""Changes: no more false alarms than promised, what the theorem finds is found, and bounds of a
synopsis add none.
"""

from collections.abc import Callable
from math import exp, lgamma, log, sqrt

import numpy as np
import pytest

from slidestat.declare.expressions.evidence import (
    Change,
    change_of_mean,
    change_of_rate,
    change_of_share,
    cut_ages,
    evidence,
    needed,
)
from slidestat.synopses import (
    Batch,
    CountParameters,
    SpreadParameters,
    run_batch,
    run_spread_batch,
)
from slidestat.synopses.core.arrays import Floats
from tests.synopses.chances import trials
from tests.synopses.streams import TIMES, VALUES

WINDOW, STEP = 240, 10
AGES = cut_ages(WINDOW, STEP)
DRAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(5, 1, n),
    "heavy": lambda rng, n: rng.lognormal(3, 2, n),
    "coins": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.01).astype(float),
    "constant": lambda _, n: np.full(n, 0.5),
}


def exactly(numbers: Floats) -> Floats:
    """Figures that are known: estimate and bounds are one."""
    return np.broadcast_to(numbers, (3, *numbers.shape))


def sums(times: Floats, values: Floats, lengths: tuple[int, ...], now: int) -> Floats:
    """What came in the last of each length, float64[1, lengths]."""
    return np.array([[values[times >= now - length].sum() for length in lengths]])


def exact_mean(times: Floats, values: Floats, now: int, *, known: bool) -> Change:
    lengths = (*AGES, WINDOW)
    count = sums(times, np.ones_like(values), lengths, now)
    with np.errstate(all="ignore"):
        mean = sums(times, values, lengths, now) / count
    inside = values[times >= now - WINDOW]
    variance = np.full_like(mean, inside.var() if len(inside) else np.nan)
    least, largest = (inside.min(), inside.max()) if known and len(inside) else (-np.inf, np.inf)
    return change_of_mean(
        AGES,
        *map(exactly, (mean, variance, count)),
        np.array([least]),
        np.array([largest]),
    )


def exact_share(times: Floats, hits: Floats, now: int) -> Change:
    lengths = (*AGES, WINDOW)
    return change_of_share(
        AGES,
        exactly(sums(times, hits, lengths, now)),
        exactly(sums(times, np.ones_like(hits), lengths, now)),
    )


def exact_rate(times: Floats, now: int) -> Change:
    lengths = (*AGES, WINDOW, 2 * WINDOW)
    counts = sums(times, np.ones(len(times)), lengths, now)
    return change_of_rate(AGES, WINDOW, exactly(counts))


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("known", [False, True], ids=["no extremes", "extremes"])
def test_a_mean_that_stays_is_rarely_a_change(name: str, known: bool) -> None:
    """Whatever the distribution is, and however unevenly the events come."""
    delta = 0.3
    seeds, most = trials(delta)
    alarms = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        times = np.sort(rng.integers(0, WINDOW, int(rng.integers(2, 400))) ** 2 // WINDOW)
        found = exact_mean(times, DRAWS[name](rng, len(times)), WINDOW, known=known)
        alarms += found.evidence[0] >= needed(delta, len(AGES))
    assert alarms <= most


@pytest.mark.parametrize("share", [0.5, 0.1, 0.003])
def test_a_share_that_stays_is_rarely_a_change(share: float) -> None:
    delta = 0.3
    seeds, most = trials(delta)
    alarms = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        times = np.sort(rng.integers(0, WINDOW, int(rng.integers(1, 2_000))))
        found = exact_share(times, (rng.random(len(times)) < share).astype(float), WINDOW)
        alarms += found.evidence[0] >= needed(delta, len(AGES))
    assert alarms <= most


@pytest.mark.parametrize("rate", [0.05, 1.0, 30.0])
def test_a_rate_that_stays_is_rarely_a_change(rate: float) -> None:
    """Also right after the key began, and if its events are few."""
    delta = 0.3
    seeds, most = trials(delta)
    alarms = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        begin = int(rng.integers(-2 * WINDOW, WINDOW))
        events = rng.poisson(rate * (WINDOW - begin))
        times = np.sort(rng.integers(begin, WINDOW, events))
        alarms += exact_rate(times, WINDOW).evidence[0] >= needed(delta, len(AGES))
    assert alarms <= most


def test_evidence_is_at_most_that_of_the_exact_law() -> None:
    """Of a sample of 1,000 from a window of 100,000, half of it ones, the exact probability is at
    most exp(-E); and far out E is more than 1 / 1.5 of the exact one, so 1.5 times as much would
    not pass.
    """
    n, ones, n1 = 100_000, 50_000, 1_000

    def choose(of: int, k: int) -> float:
        return lgamma(of + 1) - lgamma(k + 1) - lgamma(of - k + 1)

    for more in (20, 50, 100, 150):
        exact = sum(
            exp(choose(ones, k) + choose(n - ones, n1 - k) - choose(n, n1))
            for k in range(n1 // 2 + more, n1 + 1)
        )
        found = float(
            evidence(np.array(more / n1), np.array(0.25), np.array(0.5), np.array(float(n1)))
        )
        assert exact <= exp(-found)
        if more >= 100:
            assert exact > exp(-1.5 * found)


@pytest.mark.parametrize(("n0", "n1"), [(2_000, 2_000), (5_000, 300)])
def test_what_the_theorem_finds_is_found(n0: int, n1: int) -> None:
    """A share that changes by as much is found but for a probability of delta."""
    delta = 0.1
    age = AGES[-1]
    cut = needed(delta, len(AGES)) / (3 * n1)
    reached = cut + sqrt(cut**2 + 2 * 0.25 * needed(delta, len(AGES)) / n1)
    apart = (n0 + n1) / n0 * reached + sqrt(log(1 / delta) * (1 / n0 + 1 / n1) / 2)
    before, after = 0.5 - apart / 2, 0.5 + apart / 2
    seeds, most = trials(delta)
    missed = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        old, new = rng.random(n0) < before, rng.random(n1) < after
        times = np.concatenate(
            (rng.integers(0, WINDOW - age, n0), rng.integers(WINDOW - age, WINDOW, n1))
        )
        hits = np.concatenate((old, new)).astype(float)
        found = exact_share(times, hits, WINDOW)
        missed += found.evidence[0] < needed(delta, len(AGES))
        assert found.before[0, 1] <= old.mean() <= found.before[0, 2] or found.ages[0] != age
    assert missed <= most


@pytest.mark.parametrize("value_name", [name for name in VALUES if "far" not in name])
@pytest.mark.parametrize("time_name", TIMES)
def test_bounds_of_a_synopsis_add_no_evidence(time_name: str, value_name: str) -> None:
    """Evidence is at most the exact one at that cut, and what is told of both parts holds."""
    rng = np.random.default_rng(3)
    times = TIMES[time_name](rng, 1_500)
    values = np.round(np.minimum(VALUES[value_name](rng, len(times)), 1e6), 3)
    values[len(times) // 2 :] *= 3
    hits = values > np.median(values)
    now = int(times[-1]) + 1
    window = max(2 * STEP, min(2_000, now - int(times[0])))
    ages = cut_ages(window, STEP)
    lengths = (*ages, window, 2 * window)

    spread = run_spread_batch(
        SpreadParameters(0.1, 2 * window, 3),
        [None],
        Batch([0, len(times)], times, values, [0, 1], [now], lengths[:-1]),
    )
    means, variances, events = (
        np.stack((it.estimates, it.lowers, it.uppers))
        for it in (spread.mean, spread.variance, spread.events)
    )
    inside = values[times >= now - window]
    ends = np.array([inside.min()]), np.array([inside.max()])
    counted = [
        run_batch(
            CountParameters(0.1, 2 * window),
            [None],
            Batch([0, int(kept.sum())], times[kept], None, [0, 1], [now], lengths),
        )
        for kept in (hits, np.ones_like(hits))
    ]
    some, all_ = (np.stack((it.estimates, it.lowers, it.uppers)) for it in counted)

    exact = {n: values[times >= now - n] for n in lengths}
    size = np.array([[float(len(exact[n])) for n in lengths]])
    assert (events[1] <= size[:, :-1]).all()
    assert (size[:, :-1] <= events[2]).all()
    true_hits = np.array([[float(hits[times >= now - n].sum()) for n in lengths]])
    mean = np.array([[exact[n].mean() if len(exact[n]) else np.nan for n in lengths[:-1]]])
    variance = np.full_like(mean, inside.var())
    for found, whole in (
        (
            change_of_mean(ages, means, variances, events, *ends),
            change_of_mean(ages, *map(exactly, (mean, variance, size[:, :-1])), *ends),
        ),
        (
            change_of_share(ages, some[:, :, :-1], all_[:, :, :-1]),
            change_of_share(ages, exactly(true_hits[:, :-1]), exactly(size[:, :-1])),
        ),
        (change_of_rate(ages, window, all_), change_of_rate(ages, window, exactly(size))),
    ):
        assert found.evidence[0] <= whole.evidence[0] * (1 + 1e-9)
        if found.ages[0] == whole.ages[0] and whole.evidence[0] > 0:
            for told, true in ((found.before, whole.before), (found.after, whole.after)):
                assert told[0, 1] <= true[0, 0] * (1 + 1e-9) + 1e-9
                assert true[0, 0] <= told[0, 2] * (1 + 1e-9) + 1e-9


def test_cuts_are_at_ticks() -> None:
    assert cut_ages(60, 10) == (10, 20, 30)
    assert cut_ages(19, 10) == ()
    assert cut_ages(20, 10) == (10,)
    ages = cut_ages(86_400_000, 60_000)
    assert len(ages) == 34
    assert ages[0] == 60_000
    assert ages[-1] == 43_200_000
    assert all(age % 60_000 == 0 for age in ages)
