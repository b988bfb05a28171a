"""The three scenarios of Gibbons and Tirthapura 2002, section 3.4, over 1 to 64 parties.

Scenario 1 for windows of time (windows of separate streams add up) is `test_merge_answers.py`.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import cycle, product

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses import (
    Bundle,
    CountParameters,
    CountWave,
    DistinctParameters,
    DistinctWave,
    ExponentialHistogram,
    LeanDistinct,
    LeanDistinctParameters,
    SumParameters,
    SumWave,
    WaveParameters,
    insert_bits,
    merge_distinct,
    union_count,
    union_distinct,
    union_distinct_where,
    union_lean_distinct,
    union_totals,
)
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.field_hash import coefficients, level_of, multiples
from tests.synopses.chances import trials

N = 300
NUMBERS = (1, 2, 8, 64)
LENGTH = 1_000

Rng = np.random.Generator
Whose = npt.NDArray[np.int64]

# Who sees which item of the one logical stream.
SPLITS: dict[str, Callable[[Rng, int], Whose]] = {
    "evenly": lambda rng, parties: rng.integers(0, parties, LENGTH),
    "skewed": lambda rng, parties: np.minimum(rng.zipf(1.5, LENGTH), parties) - 1,
    "some silent": lambda rng, parties: rng.integers(0, (parties + 1) // 2, LENGTH),
    "one late": lambda rng, parties: np.where(
        np.arange(LENGTH) < 900, rng.integers(0, parties, LENGTH), 0
    ),
    "bursts": lambda rng, parties: np.repeat(rng.integers(0, parties, LENGTH // 50), 50),
}

MAKE: dict[str, Callable[[], CountWave | SumWave | ExponentialHistogram]] = {
    "ones, wave": lambda: CountWave.create(WaveParameters(0.1, N)),
    "ones, histogram": lambda: ExponentialHistogram.create(CountParameters(0.1, N)),
    "sum, wave": lambda: SumWave.create(WaveParameters(0.1, N)),
    "sum, histogram": lambda: ExponentialHistogram.create(SumParameters(0.1, N, 0)),
}


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("parties", NUMBERS)
def test_the_last_n_of_each_stream(name: str, parties: int) -> None:
    """Scenario 1: each party numbers its own items, and has come to a number of its own. Of the
    last n <= N items of each, or of all where there are fewer: the exact count of ones, or sum, is
    within the bounds, and the estimate within the promise of one party.
    """
    rng = np.random.default_rng(parties)
    streams, sent = [], {}
    for party in range(parties):
        values = rng.integers(0, 2 if "ones" in name else 50, LENGTH * (party % 3) // 2)
        synopsis = MAKE[name]()
        if "ones" in name:
            synopsis.insert(np.flatnonzero(values == 1))
        else:
            synopsis.insert(np.arange(len(values)), values)
        # As bundles have them, by name.
        sent[f"party-{party:02}"] = synopsis.to_bytes()
        streams.append(values)
    spans = [1, 2, 10, 77, 150, 299, N]
    bundle = Bundle.of(sent)
    promise = Fraction(bundle.parameters.relative_error)  # type: ignore[attr-defined]
    answers = union_totals([bundle, bundle], 2 * list(map(len, streams)), spans)
    for k, n in enumerate(spans):
        exact = sum(int(values[max(0, len(values) - n) :].sum()) for values in streams)
        for b in (0, 1):
            assert answers.lowers[b, k] <= exact <= answers.uppers[b, k]
            assert abs(Fraction(answers.estimates[b, k]) - exact) <= promise * exact
    with pytest.raises(SynopsisError, match="for each part"):
        union_totals([bundle, bundle], [LENGTH] * (2 * parties + 1), spans)


@pytest.mark.parametrize("parties", [2, 5])
def test_different_items_in_the_last_n_of_each_stream(parties: int) -> None:
    """Scenario 1 with what cannot be added up: an item that several parties saw counts once. Of
    few items the count is exact; of more than a state keeps, within the promise.
    """
    rng = np.random.default_rng(parties)
    made_with = DistinctParameters(0.25, 0.001, N, 5)
    lean_with = LeanDistinctParameters(0.25, 0.001, N, 5)
    streams = [rng.integers(0, 10**9, LENGTH - 97 * party) for party in range(parties)]
    for values in streams[1:]:
        values[-30:] = streams[0][-30:]
    waves, leans = {}, {}
    for party, values in enumerate(streams):
        wave, lean = DistinctWave.create(made_with), LeanDistinct.create(lean_with)
        for synopsis in (wave, lean):
            synopsis.insert(np.arange(len(values)), values)
        waves[f"party-{party}"], leans[f"party-{party}"] = wave.to_bytes(), lean.to_bytes()
    times, spans = [len(values) for values in streams], [1, 4, 77, N]
    for answers in (
        union_distinct([Bundle.of(waves)], times, spans),
        union_lean_distinct([Bundle.of(leans)], times, spans),
    ):
        for k, n in enumerate(spans):
            exact = len(np.unique(np.concatenate([values[-n:] for values in streams])))
            assert answers.lowers[0, k] <= exact <= answers.uppers[0, k]
            assert abs(answers.estimates[0, k] - exact) <= 0.25 * exact
            assert n > 4 or answers.lowers[0, k] == exact == answers.uppers[0, k]
    odd = union_distinct_where(Bundle.of(waves), spans, np.array(times), lambda it: it % 2 == 1)
    for n, found in zip(spans, odd, strict=True):
        items = np.unique(np.concatenate([values[-n:] for values in streams]))
        exact = int(np.count_nonzero(items % 2))
        assert found.lower <= exact <= found.upper


def each_with_two(firsts: Iterable[str], seconds: Iterable[str]) -> list[tuple[int, str, str]]:
    """Each of the first with each of the second, and with each pair one number of parties of many:
    all numbers in turn, so that each of both has each number. One party is no split: it comes once.
    """
    numbers = cycle(NUMBERS[1:])
    pairs = list(product(firsts, seconds))
    return [(1, *pairs[0]), *((next(numbers), *pair) for pair in pairs)]


@pytest.mark.parametrize(("parties", "name", "split"), each_with_two(MAKE, SPLITS))
def test_the_last_n_of_one_stream_with_global_numbers(name: str, split: str, parties: int) -> None:
    """Scenario 2: the numbers of items in the whole stream stand for times. Of any n <= N last
    items of the whole, whoever saw them, half of them before a restart: the exact count of ones, or
    sum, is within the bounds, and the estimate within the promise of one party.
    """
    rng = np.random.default_rng(parties)
    whose = SPLITS[split](rng, parties)
    values = rng.integers(0, 2 if "ones" in name else 50, LENGTH)
    sent = {}
    for party in range(parties):
        synopsis = MAKE[name]()
        for half in (np.arange(LENGTH) < LENGTH // 2, np.arange(LENGTH) >= LENGTH // 2):
            mine = half & (whose == party)
            if "ones" in name:
                synopsis.insert(np.flatnonzero(mine & (values == 1)))
            else:
                synopsis.insert(np.flatnonzero(mine), values[mine])
            synopsis = type(synopsis).from_bytes(synopsis.to_bytes())
        sent[f"party-{party}"] = synopsis.to_bytes()
    spans = [1, 2, 10, 77, 150, 299, N]
    bundle = Bundle.of(sent)
    promise = Fraction(bundle.parameters.relative_error)  # type: ignore[attr-defined]
    answers = union_totals([bundle], [LENGTH], spans)
    for k, n in enumerate(spans):
        exact = int(values[LENGTH - n :].sum())
        assert answers.lowers[0, k] <= exact <= answers.uppers[0, k]
        assert abs(Fraction(answers.estimates[0, k]) - exact) <= promise * exact


def streams_of_bits(rng: Rng, parties: int, kind: str) -> npt.NDArray[np.bool_]:
    """bool[parties, LENGTH]."""
    bits = rng.random((parties, LENGTH)) < 1.5 / parties
    if kind == "the same everywhere":
        bits[:] = bits[0]
    elif kind == "some silent":
        bits[parties // 2 + 1 :] = False
    elif kind == "skewed":
        bits &= rng.random((parties, LENGTH)) < (1 / np.arange(1, parties + 1))[:, np.newaxis]
    return bits


KINDS = ("independent", "the same everywhere", "some silent", "skewed")


def sent_by(
    bits: npt.NDArray[np.bool_], parameters: DistinctParameters, ends: npt.NDArray[np.int64]
) -> list[bytes]:
    """What the parties send that have come to `ends`, restarted half-way."""
    states = []
    for row, end in zip(bits, ends.tolist(), strict=True):
        party = DistinctWave.create(parameters)
        insert_bits(party, row[: end // 2])
        party = DistinctWave.from_bytes(party.to_bytes())
        insert_bits(party, row[end // 2 : end])
        states.append(party.to_bytes())
    return states


# (epsilon, delta) by what they take: of N bits, the first keep all.
PROMISES = {
    "one instance, exact": (0.2, 0.01),
    "one instance": (0.5, 0.01),
    "three instances": (0.5, 1e-5),
    "five instances": (0.5, 1e-6),
}


def test_promises_take_what_they_are_named_for() -> None:
    """As many instances, of a capacity below N where answers are to depend on coins."""
    taken = {}
    for name, (epsilon, delta) in PROMISES.items():
        parameters = DistinctParameters(epsilon, delta, N, 1)
        taken[name] = (parameters.instances, parameters.capacity > N)
    assert taken == {
        "one instance, exact": (1, True),
        "one instance": (1, False),
        "three instances": (3, False),
        "five instances": (5, False),
    }


@pytest.mark.parametrize(("parties", "promise", "kind"), each_with_two(PROMISES, KINDS))
def test_union_counting_over_parties(promise: str, parties: int, kind: str) -> None:
    """Scenario 3: the state of the union is that of one party that sees the OR of all bits, of
    which those count that have come; answers are within the bounds and less than epsilon off, for
    any n <= N, and exact below the capacity.
    """
    rng = np.random.default_rng(parties)
    bits = streams_of_bits(rng, parties, kind)
    epsilon, delta = PROMISES[promise]
    parameters = DistinctParameters(epsilon, delta, N, 5)
    ends = np.full(parties, LENGTH)
    ends[1::3] -= rng.integers(0, 200, len(ends[1::3]))  # these are late
    states = sent_by(bits, parameters, ends)
    come = bits & (np.arange(LENGTH) < ends[:, np.newaxis])
    union = come.any(axis=0)
    (alone,) = sent_by(union[np.newaxis], parameters, np.array([LENGTH]))
    assert merge_distinct(states) == alone
    for n in (1, 13, 150, N):
        exact = int(union[LENGTH - n :].sum())
        answer = union_count(states, n)
        assert answer.lower <= exact <= answer.upper
        assert answer.exact == (exact < parameters.capacity)
        if answer.exact:
            assert answer.estimate == exact
        else:
            assert abs(answer.estimate - exact) < epsilon * exact


@pytest.mark.parametrize(("delta", "instances"), [(0.01, 1), (1e-5, 3), (1e-6, 5), (1e-8, 7)])
@pytest.mark.parametrize("parties", NUMBERS)
def test_the_answer_over_parties_is_the_median_of_the_instances(
    parties: int, delta: float, instances: int
) -> None:
    """Of each instance, the positions of the union that its coins take to the lowest level with
    fewer than the capacity, times 2^level; the answer is the median, and no single instance's.
    """
    parameters = DistinctParameters(0.5, delta, LENGTH, 5)
    assert parameters.instances == instances
    capacity = parameters.capacity
    bits = np.random.default_rng(parties).random((parties, LENGTH)) < 2 / parties
    union = np.flatnonzero(bits.any(axis=0))
    states = sent_by(bits, parameters, np.full(parties, LENGTH))
    window = np.empty(16, np.int64)
    levels = np.empty((instances, len(union)), np.int64)
    for place, position in enumerate(union.tolist()):
        multiples(position, window)
        for instance, polynomial in enumerate(coefficients(parameters.seed, instances)):
            levels[instance, place] = level_of(polynomial, window)
    estimates = []
    for n in range(300, LENGTH + 1, 20):
        of_window = levels[:, union >= LENGTH - n]
        assert of_window.shape[1] >= capacity
        each = []
        for of_instance in of_window:
            level = 0
            while (kept := int(np.count_nonzero(of_instance >= level))) >= capacity:
                level += 1
            each.append(float(kept << level))
        answer = union_count(states, n)
        assert answer.estimate == max(float(np.median(each)), capacity)
        estimates.append((answer.estimate, each))
    for instance in range(instances):
        is_answer = all(estimate == each[instance] for estimate, each in estimates)
        assert is_answer == (instances == 1)


@pytest.mark.parametrize(
    ("delta", "instances"), [(0.25, 1), (1e-5, 3), (1e-6, 5)], ids=["one", "three", "five"]
)
def test_answers_over_parties_fail_no_more_than_delta(delta: float, instances: int) -> None:
    """Over as many seeds as tell delta from half as much again (300, and no miss, where delta is
    tiny), stored coins each: with epsilon 0.5, by one instance or the median of several, answers
    for three parties that are off by epsilon, or out of their bounds, are no more than delta says.
    """
    rng = np.random.default_rng(1)
    bits = rng.random((3, LENGTH)) < 0.5
    exact = int(bits.any(axis=0)[LENGTH - N :].sum())
    failed = 0
    seeds, most = trials(delta) if delta > 0.01 else (300, 0)
    for seed in range(seeds):
        parameters = DistinctParameters(0.5, delta, N, seed)
        assert parameters.instances == instances
        answer = union_count(sent_by(bits, parameters, np.full(3, LENGTH)), N)
        assert not answer.exact
        inside = answer.lower <= exact <= answer.upper
        failed += abs(answer.estimate - exact) >= 0.5 * exact or not inside
    assert failed <= most


def test_coins_that_are_not_shared_cannot_be_merged() -> None:
    """Parties of other seeds are refused: their samples say nothing of each other's."""
    bits = np.ones((1, 10), np.bool_)
    sent = [sent_by(bits, DistinctParameters(0.5, 0.25, N, s), np.array([10]))[0] for s in (1, 2)]
    with pytest.raises(SynopsisError):
        union_count(sent, N)
