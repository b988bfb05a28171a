"""The promise of randomised waves: exact while few, within epsilon but for a chance of delta."""

from collections import deque
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.field_hash import coefficients, level_of, multiples
from slidestat.synopses.distinct.parameters import (
    DistinctParameters,
    failure,
    majority,
    plan,
    tail,
)
from slidestat.synopses.distinct.wave import DistinctWave
from tests.synopses.chances import most_misses, trials
from tests.synopses.distinct.exact_distinct import ITEMS, PARAMETERS, SPAN, exact, not_beyond
from tests.synopses.streams import TIMES

WINDOWS = [1, 2, 17, 100, SPAN - 1, SPAN]


@pytest.mark.parametrize("time_name", TIMES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_few_items_are_exact_at_every_moment(name: str, time_name: str) -> None:
    """Below the capacity, estimate, lower and upper are the exact answer: each n, many moments.

    And what is not exact has at least as many items as the capacity.
    """
    parameters = PARAMETERS[name]
    rng = np.random.default_rng(21)
    times = TIMES[time_name](rng, 400)
    queries = np.unique(
        np.concatenate([times[::3] + 1, times[1::3] + 40, times[-1:] + SPAN, times[-1:] + 9_999])
    )
    for item_name in ITEMS:
        items = ITEMS[item_name](rng, 400)
        result = run_distinct_batch(
            parameters, [None], Batch([0, 400], times, items, [0, len(queries)], queries, WINDOWS)
        )
        for i, now in enumerate(queries):
            for j, n in enumerate(WINDOWS):
                true = exact(times, items, now - n, now)
                figures = (result.estimates[i, j], result.lowers[i, j], result.uppers[i, j])
                if true < parameters.capacity:
                    assert figures == (true, true, true), (item_name, now, n)
                else:
                    assert parameters.capacity <= figures[1] <= figures[0] <= figures[2]


class Figure6:
    """The paper's randomised wave, step by step: queues of positions, for one instance."""

    def __init__(self, parameters: DistinctParameters, instance: int) -> None:
        self.polynomial = coefficients(parameters.seed, parameters.instances)[instance]
        self.capacity, self.span = parameters.capacity, parameters.span
        self.queues = [deque([-1]) for _ in range(64)]  # of the dummy position
        self.window = np.empty(16, np.int64)

    def level(self, position: int) -> int:
        multiples(position, self.window)
        return int(level_of(self.polynomial, self.window))

    def take(self, position: int, bit: int) -> None:
        for queue in self.queues:
            if len(queue) > 1 and queue[0] <= position - self.span:
                queue.popleft()
        if bit:
            for level in range(self.level(position) + 1):
                if len(self.queues[level]) == self.capacity:
                    self.queues[level].popleft()
                self.queues[level].append(position)


def referee(parties: list[Figure6], position: int, n: int) -> float:
    """Steps 1 to 3: the lowest level whose queue begins before the window, for all parties.

    A tail at the window's first position is not enough here, see `complete_level`.
    """
    start = max(0, position - n + 1)
    own = [
        next(
            level
            for level, queue in enumerate(party.queues)
            if queue[0] < start or len(queue) < party.capacity
        )
        for party in parties
    ]
    level = max(own)
    union = set()
    for party, mine in zip(parties, own, strict=True):
        union |= {p for p in party.queues[mine] if p >= start and party.level(p) >= level}
    return 2.0**level * len(union)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_estimate_is_that_of_figure_6(name: str) -> None:
    """One party: the median of the estimates of the paper's own steps, for each n."""
    parameters = PARAMETERS[name]
    waves = [Figure6(parameters, i) for i in range(parameters.instances)]
    ours = DistinctWave.create(parameters)
    bits = np.random.default_rng(8).random(1_500) < 0.8
    beyond = 0
    for position, bit in enumerate(bits.tolist()):
        for wave in waves:
            wave.take(position, bit)
        if bit:
            ours.insert([position], [position])
        if position % 50 == 49:
            for n in (10, 60, 200, 333, SPAN):
                theirs = float(np.median([referee([wave], position, n) for wave in waves]))
                answer = ours.query(n, now=position + 1)
                beyond += not answer.exact
                if answer.exact:
                    assert answer.estimate == theirs
                else:
                    assert answer.estimate == max(theirs, parameters.capacity)
    assert beyond > 20


CASES = {
    "rough": (0.5, 0.1),
    "coarse": (0.3, 0.05),
    "finer": (0.2, 0.2),
    "five instances": (0.5, 1e-6),
}


@pytest.mark.parametrize(
    ("case", "where"),
    [
        *(("rough", where) for where in ("just beyond", "worst place", "many levels")),
        *(("coarse", "worst place"), ("finer", "just beyond"), ("finer", "many levels")),
        ("five instances", "worst place"),
    ],
)
def test_failures_are_no_more_than_delta(case: str, where: str) -> None:
    """Over as many fixed seeds as tell delta from half as much again; where that would take a
    hundred million, over 300 there is no miss at all.

    The worst place is where the level of the proof has the least mean, c / (2 (1 + epsilon)).
    """
    epsilon, delta = CASES[case]
    _, capacity = plan(epsilon, delta)
    distinct = {
        "just beyond": capacity,
        "worst place": 8 * int(capacity / (1 + epsilon)) + 8,
        "many levels": 12 * capacity + 3,
    }[where]
    missed = outside = of_evens = 0
    tries, most = trials(delta) if delta > 0.01 else (300, 0)
    items = np.arange(distinct, dtype=np.int64)
    for seed in range(tries):
        parameters = DistinctParameters(epsilon, delta, SPAN, seed)
        wave = DistinctWave.create(parameters)
        wave.insert(np.zeros(distinct, np.int64), items)
        answer = wave.query(SPAN)
        missed += abs(answer.estimate - distinct) >= epsilon * distinct
        outside += not (answer.lower <= distinct <= answer.upper)
        evens = wave.query(SPAN, predicate=lambda ids: ids % 2 == 0)
        true = (distinct + 1) // 2
        wide = abs(evens.estimate - true) >= epsilon * distinct
        of_evens += wide or not (evens.lower <= true <= evens.upper)
    assert missed <= most
    assert outside <= missed
    assert of_evens <= most_misses(tries, parameters.predicate_delta)


@pytest.mark.parametrize("epsilon", [0.005, 0.05, 0.2, 0.5])
def test_the_chance_for_a_predicate_is_what_is_stated(epsilon: float) -> None:
    """At most 2^((r + 1) / 2) delta with r instances: 2 delta for one, more than that for more."""
    seen = set()
    for delta in (0.5, 0.1, 0.01, 1e-4, 1e-5, 1e-6, 1e-9):
        parameters = DistinctParameters(epsilon, delta, 1, 0)
        r = parameters.instances
        seen.add(r)
        assert parameters.predicate_delta <= 2 ** ((r + 1) / 2) * delta
        assert r == 1 or parameters.predicate_delta > 2 * delta
    assert {1, 3, 5, 7} <= seen


def test_the_bound_of_the_chance_holds() -> None:
    """The chance by moments is no less than the exact one of a fully random hash.

    Of x items, level l has a binomial number; x from one capacity to 64 of them.
    """
    rng = np.random.default_rng(4)
    for epsilon, delta in CASES.values():
        instances, capacity = plan(epsilon, delta)
        assert majority(instances, failure(capacity, epsilon)) <= delta
        assert majority(instances, failure(capacity - 1, epsilon)) > delta
        for x in np.geomspace(capacity, 64 * capacity, 12).astype(int):
            reached = np.full(20_000, x)
            level = np.zeros(20_000, np.int64)
            while (full := reached >= capacity).any():
                reached = np.where(full, rng.binomial(reached, 0.5), reached)
                level += full
            missed = np.abs(reached * 2.0**level - x) >= epsilon * x
            assert not_beyond(int(missed.sum()), 20_000, failure(capacity, epsilon))


@pytest.mark.parametrize("mean", [0.3, 1.0, 7.5, 90.0, 1e6])
def test_a_tail_is_the_least_of_four_moments_of_poisson(mean: float) -> None:
    """T is the least of m_k / t^k, k = 2, 4, 6, 8, with the moments by their recurrence.

    m_{k+1} = mean * sum over j < k of binomial(k, j) m_j.
    """
    moments = [1.0, 0.0]
    for k in range(1, 8):
        moments.append(mean * sum(comb(k, j) * moments[j] for j in range(k)))
    for share in (0.01, 0.2, 0.9):
        expected = min(1.0, *(moments[k] / (share * mean) ** k for k in (2, 4, 6, 8)))
        assert tail(mean, share) == pytest.approx(expected, rel=1e-12)
        assert tail(2 * mean, share) <= max(tail(mean, share) / 2, 1e-300) or tail(mean, share) == 1


def test_predicates_and_samples_of_few_items_are_exact() -> None:
    """Below the capacity, a predicate counts what it holds for, and the sample is the window."""
    wave = DistinctWave.create(PARAMETERS["one instance"])
    wave.insert([1, 2, 3, 3, 5], [10, -7, 10, 4, 2**62])
    assert wave.query(4) == (4.0, 4.0, 4.0, True)
    assert wave.query(4, predicate=lambda ids: ids % 2 == 0) == (3.0, 3.0, 3.0, True)
    assert wave.query(SPAN, predicate=lambda ids: ids < 0) == (1.0, 1.0, 1.0, True)
    assert wave.query(1, now=9) == (0.0, 0.0, 0.0, True)
    assert wave.retained(3).items.tolist() == [4, 10, 2**62]
    assert wave.retained(3).level == 0
    for bad in (lambda ids: ids, lambda ids: ids[:1] > 0, lambda _: True):
        with pytest.raises(SynopsisError, match="a predicate must return a bool"):
            wave.query(4, predicate=bad)


def test_a_sample_is_of_the_window_and_fair() -> None:
    """Of 300 items, each is in the sample as often as others: over 300 seeds, a quarter are of one
    remainder of 4 (3.3 standard deviations of a binomial number)."""
    times = np.arange(400)
    sampled = of_one = 0
    for seed in range(300):
        wave = DistinctWave.create(DistinctParameters(0.5, 0.5, SPAN, seed))
        wave.insert(times, times)
        sample = wave.retained(300)
        assert sample.level > 0
        assert len(sample.items) < wave.parameters.capacity
        assert np.all((sample.items >= 100) & np.isin(sample.items, times))
        assert wave.query(300).estimate == max(2**sample.level * len(sample.items), 32)
        sampled += len(sample.items)
        of_one += int(np.count_nonzero(sample.items % 4 == 1))
    assert abs(of_one - sampled / 4) < 3.3 * np.sqrt(sampled * 3 / 16)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    gaps=st.lists(st.integers(0, 30), max_size=300),
    kinds=st.integers(1, 400),
    n=st.integers(1, SPAN),
)
def test_what_is_exact_is_said_to_be(gaps: list[int], kinds: int, n: int) -> None:
    """`exact` holds exactly if the window has fewer distinct items than the capacity."""
    times = np.cumsum(gaps, dtype=np.int64)
    items = (np.arange(len(gaps)) * 7_919) % kinds
    wave = DistinctWave.create(PARAMETERS["one instance"])
    wave.insert(times, items)
    true = exact(times, items, wave.now - n, wave.now)
    answer = wave.query(n)
    assert answer.exact == (true < wave.parameters.capacity)
    assert not answer.exact or answer[:3] == (true, true, true)


def test_space_is_within_the_theorem() -> None:
    """No level keeps more than the capacity, whatever the stream; and 10^6 items are as expected.

    Expected are c (1 + log2(x / c) / 2) items, of at most 10 bytes here.
    """
    for parameters in PARAMETERS.values():
        for item_name in ITEMS:
            rng = np.random.default_rng(2)
            wave = DistinctWave.create(parameters)
            wave.insert(np.sort(rng.integers(0, SPAN, 3_000)), ITEMS[item_name](rng, 3_000))
            wave.check()
            levels = 1 + np.log2(3_000)
            assert wave.kept() <= parameters.capacity * parameters.instances * (levels + 8)
            assert len(wave.to_bytes()) <= 60 + (10 + parameters.instances) * wave.kept()
    parameters = DistinctParameters(0.1, 0.01, 10**7, 1)
    state = None
    for start in range(0, 10**6, 10**5):
        times = np.arange(start, start + 10**5)
        items = times * 2_654_435_761 % 2**40
        state = run_distinct_batch(
            parameters, [state], Batch([0, 10**5], times, items, [0, 0], [], [])
        ).states[0]
    assert state is not None
    capacity = parameters.capacity
    expected = capacity * (1 + np.log2(10**6 / capacity) / 2)
    wave = DistinctWave.from_bytes(state)
    assert abs(wave.kept() / expected - 1) < 0.1
    assert len(state) <= 12 * wave.kept()
    assert abs(wave.query(10**7).estimate - 10**6) < 10**5
