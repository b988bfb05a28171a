"""The sample is as large, as uniform and as independent as it says: exact and binomial tests.

Seeds are fixed, so each test gives the same figures forever. Each figure of a test of many is held
to a significance of 10^-6: a sound sample fails one in a million of them.
"""

from itertools import combinations
from math import exp, lgamma, log, log1p

import numpy as np
import pytest

from slidestat.synopses import SynopsisError
from slidestat.synopses.core.philox import priority
from slidestat.synopses.sampling.sample import (
    Sample,
    SampleParameters,
    SlidingSample,
)
from tests.synopses.chances import trials
from tests.synopses.exponential_histogram.test_exponential_histogram_real_events import FLIGHTS
from tests.synopses.streams import TIMES

SIGNIFICANCE = 1e-6
SEEDS = 3_000


def chance(n: int, p: float, seen: int) -> float:
    """The probability of a count as far from n p as `seen`, or farther, on its side."""
    counts = range(seen, n + 1) if seen >= n * p else range(seen + 1)
    logs = (
        lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log1p(-p)
        for k in counts
    )
    return sum(map(exp, logs))


def samples(size: int, window: int, replacement: bool) -> list[list[int]]:
    """The events sampled from the newest `window` of 60, for each of many seeds."""
    drawn = []
    for seed in range(SEEDS):
        sliding = SlidingSample.create(SampleParameters(size, 50, seed, replacement))
        sliding.insert(np.arange(60), np.arange(60.0))
        drawn.append((sliding.sample(window).indices - (60 - window)).tolist())
    return drawn


@pytest.mark.parametrize("window", [7, 31, 50])
def test_without_replacement_all_sets_are_as_likely(window: int) -> None:
    """Each event, and each pair of events, is in the sample as often as it should be."""
    drawn = samples(4, window, replacement=False)
    assert all(len(set(one)) == 4 for one in drawn)
    assert all(one == sorted(one) and one[0] >= 0 and one[-1] < window for one in drawn)
    for event in range(window):
        seen = sum(event in one for one in drawn)
        assert chance(SEEDS, 4 / window, seen) > SIGNIFICANCE
    pairs = dict.fromkeys(combinations(range(window), 2), 0)
    for one in drawn:
        for pair in combinations(one, 2):
            pairs[pair] += 1
    for seen in pairs.values():
        assert chance(SEEDS, 12 / (window * (window - 1)), seen) > SIGNIFICANCE


@pytest.mark.parametrize("window", [1, 7, 50])
def test_with_replacement_draws_are_uniform_and_independent(window: int) -> None:
    """Each draw is each event as often as it should be, and so is each pair of draws."""
    drawn = samples(3, window, replacement=True)
    assert all(len(one) == 3 for one in drawn)
    for draw in range(3):
        for event in range(window):
            seen = sum(one[draw] == event for one in drawn)
            assert window == 1 or chance(SEEDS, 1 / window, seen) > SIGNIFICANCE
    for a, b in combinations(range(3), 2):
        equal = sum(one[a] == one[b] for one in drawn)
        assert window == 1 or chance(SEEDS, 1 / window, equal) > SIGNIFICANCE


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("name", TIMES)
def test_the_sample_is_what_has_the_largest_priorities(name: str, replacement: bool) -> None:
    """For every n, at many moments: as if all events of the window had been kept."""
    parameters = SampleParameters(4, 500, 11, replacement)
    times = TIMES[name](np.random.default_rng(1), 300)
    values = np.random.default_rng(2).normal(0, 1, 300)
    sliding = SlidingSample.create(parameters)
    for start in range(0, 300, 37):
        stop = min(start + 37, 300)
        sliding.insert(times[start:stop], values[start:stop])
        sliding.check()
        for n in (1, 2, 30, 200, 500):
            for now in (sliding.now, sliding.now + 25):
                active = np.flatnonzero((times[:stop] >= now - n) & (times[:stop] < now)).tolist()
                draws = range(4) if replacement else range(1)
                ranked = [
                    sorted(active, key=lambda i, d=d: priority(11, i, d), reverse=True)
                    for d in draws
                ]
                if replacement:
                    expected = [ranks[0] for ranks in ranked if ranks]
                else:
                    expected = sorted(ranked[0][:4])
                found = sliding.sample(n, now)
                assert found.indices.tolist() == expected
                assert found.times.tolist() == times[expected].tolist()
                assert found.values.tolist() == values[expected].tolist()
                assert not found.whole or len(expected) == len(active)
                assert found.whole == (not replacement and len(active) < 4)


@pytest.mark.parametrize("size", [1, 10, 200])
def test_space_is_what_chance_allows(size: int) -> None:
    """What is kept stays within k (1 + H_n - H_k) + t, with t of a chance of 10^-6."""
    events = 100_000
    mean = sum(min(1.0, size / i) for i in range(1, events + 1))
    t = 14 + (2 * 14 * mean) ** 0.5  # exp(-t^2 / (2 (mean + t / 3))) is below 10^-6
    assert exp(-(t**2) / (2 * (mean + t / 3))) < SIGNIFICANCE
    for seed in range(5):
        sliding = SlidingSample.create(SampleParameters(size, events, seed))
        sliding.insert(np.arange(events), np.zeros(events))
        assert min(size, events) <= sliding.kept() <= mean + t
        assert len(sliding.to_bytes()) <= 60 + 16 * sliding.kept()


def test_the_bounds_of_a_share_fail_no_more_often_than_delta() -> None:
    """Over as many seeds as tell delta from half as much again, of a question that a third of the
    events meet.
    """
    for delta in (0.2, 0.05):
        failures = 0
        seeds, most = trials(delta)
        for seed in range(seeds):
            sliding = SlidingSample.create(SampleParameters(30, 1_000, seed))
            sliding.insert(np.arange(1_000), np.arange(1_000) % 3)
            found = sliding.sample(900)
            answer = found.share(found.values == 0.0, delta)
            assert 0 <= answer.lower <= answer.estimate <= answer.upper <= 1
            failures += not (answer.lower <= 300 / 900 <= answer.upper)
        assert failures <= most


def test_the_share_of_a_whole_window_is_exact() -> None:
    """Fewer events than the sample has room for: no chance is left. None at all: no share."""
    sliding = SlidingSample.create(SampleParameters(10, 100, 1))
    sliding.insert([1, 2, 3, 4], [5.0, -0.0, float("inf"), 5.0])
    found = sliding.sample(100)
    assert found.share(found.values == 5.0) == (0.5, 0.5, 0.5)
    assert np.signbit(found.values[1])
    assert found.values[2] == float("inf")
    empty = sliding.sample(1, now=50)
    assert isinstance(empty, Sample)
    assert np.isnan(empty.share([]).estimate)
    for marks, delta in (([True], 0.1), ([True] * 4, 0.0), ([True] * 4, 1.0)):
        with pytest.raises(SynopsisError, match="4 marks"):
            found.share(marks, delta)


def test_questions_and_parameters_that_make_no_sense_are_refused() -> None:
    """A window that is kept, a time that has not passed, a size, a span and a seed."""
    sliding = SlidingSample.create(SampleParameters(3, 100, 1))
    sliding.insert([50], [1.0])
    for n in (0, -1, 101, 2**80):
        with pytest.raises(SynopsisError, match="from 1 to 100"):
            sliding.sample(n)
    with pytest.raises(SynopsisError, match="50 is earlier than 51"):
        sliding.sample(1, now=50)
    for bad in [(0, 1, 1), (2**16 + 1, 1, 1), (1, 0, 1), (1, 2**53 + 1, 1), (1, 1, -1)]:
        with pytest.raises(SynopsisError, match="must be"):
            SampleParameters(*bad)
    for bad in [(1, 1, 2**63), (1.5, 1, 1), (1, True, 1), (1, 1, 1, 2)]:
        with pytest.raises(SynopsisError, match="must be"):
            SampleParameters(*bad)


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the folder of real events is not there")
def test_a_sample_of_flights_answers_a_question_nobody_foresaw() -> None:
    """The share of flights of a week that were more than an hour late, at a chance of 10^-6."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "delay"]).slice(0, 400_000)
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    delays = table["delay"].to_numpy().astype(np.float64)
    week = 7 * 86_400_000
    for replacement in (False, True):
        sliding = SlidingSample.create(SampleParameters(100, week, 4, replacement))
        for part in np.array_split(np.arange(len(times)), 5):
            sliding.insert(times[part], delays[part])
        for n in (3_600_000, week // 7, week):
            found = sliding.sample(n)
            exact = float(np.mean(delays[times >= sliding.now - n] > 60))
            answer = found.share(found.values > 60, SIGNIFICANCE)
            assert answer.lower <= exact <= answer.upper
