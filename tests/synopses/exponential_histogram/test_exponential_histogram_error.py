"""The promise of the exponential histogram: bounds that hold and an error that is kept.

All comparisons are exact: integers and fractions, nothing is allowed on top of what is promised.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    CountParameters,
    Estimate,
    ExponentialHistogram,
    Parameters,
    SumParameters,
    run_batch,
)
from tests.oracles import ExactWindow, decimal
from tests.synopses.streams import TIMES, VALUES

EPSILONS = [1.0, 0.5, 0.3, 0.1, 0.05, 0.01, 0.001]
SIZE = 1_200
SPAN = 1_000
WINDOWS = [1, 2, 3, 7, 50, 333, 999, 1_000]


def answers(
    parameters: Parameters,
    times: Sequence[int],
    values: Sequence[float] | None,
    queries: Sequence[int],
    windows: Sequence[int],
) -> list[list[Estimate]]:
    result = run_batch(
        parameters,
        [None],
        Batch([0, len(times)], times, values, [0, len(queries)], queries, windows),
    )
    figures = np.stack([result.estimates, result.lowers, result.uppers], axis=-1).tolist()
    return [[Estimate(*figure) for figure in row] for row in figures]


def moments(times: Sequence[int]) -> list[int]:
    """Right after each event's time, a little later, and after all has expired."""
    after = {t + d for t in times for d in (0, 1, 30)}
    return sorted(after | {times[-1] + SPAN + d for d in (-1, 0, 1, 2)})


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", TIMES)
def test_counts_keep_bounds_and_error_at_every_moment(name: str, epsilon: float) -> None:
    """lower <= exact <= upper and 2 l |estimate - exact| <= exact, for every n at every moment."""
    parameters = CountParameters(epsilon, SPAN)
    per_level = parameters.buckets_per_level
    times = TIMES[name](np.random.default_rng(1), SIZE).tolist()
    exact = ExactWindow(times, [1] * SIZE)
    queries = moments(times)
    for now, row in zip(queries, answers(parameters, times, None, queries, WINDOWS), strict=True):
        for n, (estimate, lower, upper) in zip(WINDOWS, row, strict=True):
            count = exact.sum(now - n, now)
            assert lower <= count <= upper
            assert 2 * per_level * abs(int(2 * estimate) - 2 * count) <= 2 * count
            assert 2 * estimate == lower + upper


@pytest.mark.parametrize("per_level", [1, 2, 3, 5, 50])
def test_the_error_bound_holds_for_every_window_of_every_total(per_level: int) -> None:
    """One event a tick, all totals to 300, all windows: nothing between the merges escapes."""
    parameters = CountParameters(0.5 / per_level, 300)
    windows = range(1, 301)
    rows = answers(parameters, range(300), None, range(1, 301), windows)
    for now, row in enumerate(rows, start=1):
        for n, (estimate, lower, upper) in zip(windows, row, strict=True):
            count = min(n, now)
            assert lower <= count <= upper
            assert 2 * per_level * abs(estimate - count) <= count


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("name", VALUES)
def test_sums_keep_bounds_and_error_at_many_moments(name: str, epsilon: float) -> None:
    """As for counts, against exact fractions; a unit more once values had more decimals."""
    parameters = SumParameters(epsilon, SPAN, decimals=3)
    rng = np.random.default_rng(2)
    times = TIMES["uniform"](rng, SIZE).tolist()
    values = VALUES[name](rng, SIZE).tolist()
    exact = ExactWindow(times, map(decimal, values))
    inexact = any(decimal(value) * 1000 % 1 for value in values)
    share = Fraction(1, 2 * parameters.buckets_per_level)
    unit = Fraction(1, 1000) * (1 + Fraction(1, 2**20)) if inexact else 0
    rounding = Fraction(1, 2**48) if inexact else Fraction(1, 2**52)
    queries = moments(times)[::3]
    for now, row in zip(queries, answers(parameters, times, values, queries, WINDOWS), strict=True):
        for n, (estimate, lower, upper) in zip(WINDOWS, row, strict=True):
            total = exact.sum(now - n, now)
            assert Fraction(lower) <= total <= Fraction(upper)
            assert lower <= estimate <= upper
            needed = rounding if inexact or total * 1000 >= 2**52 * share else 0
            assert abs(Fraction(estimate) - total) <= total * (share + needed) + unit


@pytest.mark.parametrize("decimals", range(10))
def test_decimals_are_exact_while_buckets_are_single(decimals: int) -> None:
    """The bounds of a decimal value are the doubles next to it, or itself if it is one."""
    unit = Fraction(1, 10**decimals)
    rng = np.random.default_rng(decimals)
    for number in [1, 2, 3, 7, 10, 49, *rng.integers(1, 50, 30).tolist()]:
        histogram = ExponentialHistogram.create(SumParameters(0.01, 10, decimals))
        histogram.insert([5], [float(number * unit)])
        estimate, lower, upper = histogram.query(10)
        exact = number * unit
        assert estimate == float(exact)
        assert Fraction(lower) <= exact <= Fraction(upper)
        assert upper in (lower, np.nextafter(lower, np.inf))


@pytest.mark.parametrize("value", [1 / 3, 0.0004, 1e-9, 1e-300, 5e-324])
def test_parts_of_a_unit_are_carried_not_lost(value: float) -> None:
    """However many values far below one unit: the sum is off by less than a unit in all."""
    size = 30_000
    parameters = SumParameters(0.1, size, decimals=3)
    windows = [1, 10, 1_000, size]
    row = answers(parameters, range(size), [value] * size, [size], windows)[0]
    for n, (estimate, lower, upper) in zip(windows, row, strict=True):
        exact = n * Fraction(value)
        assert Fraction(lower) <= exact <= Fraction(upper)
        assert abs(Fraction(estimate) - exact) <= exact / 10 + Fraction(1, 1000)


def test_an_empty_window_is_exactly_nothing_until_parts_were_carried() -> None:
    """0, 0, 0 while all values are decimals of the unit; then up to a unit may be hidden there."""
    histogram = ExponentialHistogram.create(SumParameters(0.1, 100))
    assert histogram.query(100) == Estimate(0.0, 0.0, 0.0)
    histogram.insert([1], [12.34])
    assert histogram.query(50, now=100) == Estimate(0.0, 0.0, 0.0)
    histogram.insert([2], [0.0001])
    estimate, lower, upper = histogram.query(50, now=100)
    assert (estimate, lower) == (0.0, 0.0)
    assert 0.001 < upper < 0.0010001
