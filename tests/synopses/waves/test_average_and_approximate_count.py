"""The promise of what is made of other synopses: averages, and counts among the last n events."""

from fractions import Fraction

import numpy as np
import pytest

from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.parameters import AverageParameters
from tests.synopses.streams import TIMES
from tests.synopses.waves.test_wave_error import VALUES
from tests.wave_oracles import exact_sums


@pytest.mark.parametrize("epsilon", [1.0, 0.25, 0.1, 0.01])
@pytest.mark.parametrize("name", VALUES)
def test_averages_keep_bounds_and_error(name: str, epsilon: float) -> None:
    """lower <= exact <= upper and |estimate - exact| <= exact / (c - 1), in fractions."""
    rng = np.random.default_rng(11)
    parameters = AverageParameters(epsilon, 300)
    assert parameters.relative_error <= epsilon
    share = Fraction(1, parameters.waves.per_level - 1) + Fraction(1, 2**51)
    for time_name in ("uniform", "bursty"):
        times, values = TIMES[time_name](rng, 400), VALUES[name](rng, 400).astype(np.int64)
        average = AverageWave.create(parameters)
        for start in range(0, 400, 40):
            batch = slice(start, start + 40)
            average.insert(times[batch], values[batch])
            for now in (average.now, average.now + 1, average.now + 120):
                for n in (1, 2, 30, 299, 300):
                    window = np.array([now]), np.array([n])
                    seen = times[: start + 40], values[: start + 40]
                    total = int(exact_sums(*seen, *window)[0, 0])
                    count = int(exact_sums(seen[0], np.ones_like(seen[0]), *window)[0, 0])
                    estimate, lower, upper = average.query(n, now)
                    if count == 0:
                        assert np.isnan([estimate, lower, upper]).all()
                        continue
                    exact = Fraction(total, count)
                    assert Fraction(lower) <= exact <= Fraction(upper)
                    assert lower <= estimate <= upper
                    assert abs(Fraction(estimate) - exact) <= exact * share
        average.check()


def test_a_long_life_of_huge_values_keeps_the_average() -> None:
    """Totals beyond 2^62, and a small window: nothing wraps."""
    average = AverageWave.create(AverageParameters(0.1, 300))
    times, values = np.arange(4_000), 2**53 - np.arange(4_000)
    average.insert(times, values)
    estimate, lower, upper = average.query(200)
    exact = Fraction(sum(values[-200:].tolist()), 200)
    assert Fraction(lower) <= exact <= Fraction(upper)
    assert abs(Fraction(estimate) - exact) <= exact / 10


def test_an_average_refuses_what_its_sum_refuses_and_keeps_its_state() -> None:
    """Nothing is counted of a batch that cannot be summed."""
    average = AverageWave.create(AverageParameters(0.3, 200))
    average.insert([1], [5])
    before = average.to_bytes()
    for times, values in (([2], [-1]), ([0, 0], [1, 1]), ([2, 3], [1]), ([2], [0.5])):
        with pytest.raises(SynopsisError):
            average.insert(times, values)
        assert average.to_bytes() == before
    for epsilon, span in ((1e-6, 9), (1.5, 9), (0.1, 0), (0.1, 2**53 + 1), (float("nan"), 9)):
        with pytest.raises(SynopsisError, match="must be"):
            AverageParameters(epsilon, span)
    with pytest.raises(SynopsisError, match="epsilon must be from 1e-05 to 1, not 1e-06"):
        AverageParameters(1e-6, 9)


def test_an_average_read_back_has_the_promise_it_was_made_with() -> None:
    """The error of the bytes is the promised one, for every number of items a level."""
    for least in [*range(1, 300), 99_999, 100_000]:
        parameters = AverageParameters(1 / least, 9)
        assert parameters.waves.per_level == least + 1
        again = AverageWave.from_bytes(AverageWave.create(parameters).to_bytes())
        assert again.parameters == parameters


@pytest.mark.parametrize("epsilon", [1.0, 0.5, 0.34, 0.25, 0.1, 0.03])
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_approximate_counts_keep_bounds_and_error(share: float, epsilon: float) -> None:
    """max((l + 2), 2 l) |estimate - exact| <= exact for each n at each moment; whole estimates."""
    parameters = ApproximateCountParameters(150, epsilon)
    l = parameters.buckets_per_level  # noqa: E741 - the paper's name
    assert parameters.relative_error == 1 / min(l + 2, 2 * l) <= epsilon
    count = ApproximateCount.create(parameters)
    bits = np.random.default_rng(3).random(400) < share
    for seen, bit in enumerate(bits, start=1):
        count.insert(bit)
        for n in (1, 2, 5, 20, 77, 149, 150):
            exact = int(bits[max(0, seen - n) : seen].sum())
            estimate, lower, upper = count.query(n)
            assert lower <= exact <= upper
            assert lower <= estimate <= upper
            assert estimate == int(estimate)
            assert min(l + 2, 2 * l) * abs(int(estimate) - exact) <= exact


def test_approximate_counts_refuse_what_is_no_bit() -> None:
    """Bits are True, False, 1 and 0; n and epsilon are in their ranges; n is kept or refused."""
    count = ApproximateCount.create(ApproximateCountParameters(9, 0.5))
    for bad in ([2], [-1], [0.5], [[0, 1]], ["yes"]):
        with pytest.raises(SynopsisError, match="bits"):
            count.insert(bad)
    for n, epsilon in ((0, 0.5), (2**53 + 1, 0.5), (9, 0.0), (9, 1.1), (9, float("nan"))):
        with pytest.raises(SynopsisError, match="must be"):
            ApproximateCountParameters(n, epsilon)
    with pytest.raises(SynopsisError, match="from 1 to 9"):
        count.query(10)
    last = ApproximateCount.create(ApproximateCountParameters(9, 0.5))
    last.advance(2**61 - 1)
    before = last.to_bytes()
    with pytest.raises(SynopsisError, match="out of range"):
        last.insert([1, 0])  # the first would have a place, the second has none
    assert last.to_bytes() == before
    count.insert([])
    count.advance(7)
    assert count.now == 7
    assert count.query() == (0.0, 0.0, 0.0)
