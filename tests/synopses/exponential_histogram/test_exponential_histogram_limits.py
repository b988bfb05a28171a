"""Where things end: of a window, of time, of totals, of what is taken at all."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses import (
    Batch,
    CountParameters,
    Estimate,
    ExponentialHistogram,
    Parameters,
    SumParameters,
    SynopsisError,
    run_batch,
)
from tests.oracles import ExactWindow, canonical_buckets, live

HUGE = 2**53  # the most units of one value
COUNT = CountParameters(0.1, 100)
SUM = SumParameters(0.1, 100)


def made(parameters: Parameters) -> ExponentialHistogram:
    return ExponentialHistogram.create(parameters)


def test_a_window_has_its_start_and_not_its_end() -> None:
    """[now - n, now): exactly n old is inside, n + 1 old is not, and `now` is not there yet.

    now - n - 1   now - n   ...   now - 1   now
        out         in              in      out
    """
    now, n = 1_000, 60
    for time, inside in [(now - n - 1, 0), (now - n, 1), (now - 1, 1), (now, 0)]:
        result = run_batch(COUNT, [None], Batch([0, 1], [time], None, [0, 1], [now], [n]))
        assert result.estimates[0, 0] == result.lowers[0, 0] == result.uppers[0, 0] == inside


def test_the_longest_window_is_the_span_kept() -> None:
    """An event exactly `span` old still counts; one tick later it is gone from the bytes too."""
    histogram = made(COUNT)
    histogram.insert([0])
    histogram.advance(100)
    assert histogram.query(100) == Estimate(1.0, 1.0, 1.0)
    assert histogram.query(100, now=101) == Estimate(0.0, 0.0, 0.0)
    assert histogram.buckets() == [(1, 0)]
    histogram.advance(101)
    assert histogram.buckets() == []


@pytest.mark.parametrize("parameters", [COUNT, SUM])
def test_nothing_in_is_nothing_out(parameters: Parameters) -> None:
    """No state and no events make an empty state; an empty batch changes no state."""
    none: list[float] | None = [] if parameters is SUM else None
    result = run_batch(
        parameters, [None, None], Batch([0, 0, 0], [], none, [0, 1, 1], [7], [1, 100])
    )
    assert result.estimates.tolist() == result.uppers.tolist() == [[0.0, 0.0]]
    assert result.states == [made(parameters).to_bytes()] * 2
    again = run_batch(parameters, result.states, Batch([0, 0, 0], [], none, [0, 0, 0], [], []))
    assert again.states == result.states
    assert again.estimates.shape == (0, 0)
    assert run_batch(parameters, [], Batch([0], [], none, [0], [], [])).states == []
    assert made(parameters).query(100) == Estimate(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "value", [-1.0, -1e-300, float("nan"), float("inf"), float("-inf"), 1e300, HUGE / 1000 + 1]
)
def test_values_that_cannot_be_summed_are_refused(value: float) -> None:
    """Negative, not finite, or more than 2^53 units: refused by name, and nothing is taken."""
    histogram = made(SUM)
    with pytest.raises(SynopsisError, match="cannot be summed"):
        histogram.insert([1, 2], [1.0, value])
    assert histogram.to_bytes() == made(SUM).to_bytes()


def test_both_zeros_and_the_smallest_and_largest_values_are_summed() -> None:
    """The ends of what is taken are taken."""
    histogram = made(SUM)
    histogram.insert([1, 1, 1, 1], [0.0, -0.0, 5e-324, HUGE / 1000])
    exact = Fraction(HUGE / 1000)
    estimate, lower, upper = histogram.query(1)
    assert lower <= exact <= upper
    assert abs(estimate - exact) <= exact / 10


@pytest.mark.parametrize(
    ("epsilon", "span"),
    [(0, 1), (-0.1, 1), (1.1, 1), (float("nan"), 1), (1e-7, 1), (0.1, 0), (0.1, 2**53 + 1)],
)
def test_parameters_that_make_no_sense_are_refused(epsilon: float, span: int) -> None:
    """Neither a count nor a sum is made with them."""
    with pytest.raises(SynopsisError, match="must be"):
        CountParameters(epsilon, span)
    with pytest.raises(SynopsisError, match="must be"):
        SumParameters(epsilon, span)
    for decimals in (-1, 10):
        with pytest.raises(SynopsisError, match="decimals must be"):
            SumParameters(0.1, 1, decimals)


def test_the_promised_error_is_never_above_epsilon() -> None:
    """l is the least with 1 / (2 l) <= epsilon, also for an epsilon of 1 / (2 l) itself."""
    for epsilon in [1.0, 0.7, 0.5, 0.3, 0.1, 0.07, 0.01, 0.001, 1e-6]:
        parameters = CountParameters(epsilon, 1)
        assert parameters.relative_error <= epsilon
        per_level = parameters.buckets_per_level
        assert per_level == 1 or 0.5 / (per_level - 1) > epsilon
    for per_level in range(1, 10_000):
        assert CountParameters(0.5 / per_level, 1).buckets_per_level == per_level


def test_a_state_of_other_parameters_is_refused() -> None:
    """A count is no sum, and a state keeps its error, its span and its decimals."""
    count, total = made(COUNT).to_bytes(), made(SUM).to_bytes()
    with pytest.raises(SynopsisError, match="kind 2, not of kind 1"):
        run_batch(COUNT, [total], Batch([0, 0], [], None, [0, 0], [], []))
    for other in (CountParameters(0.2, 100), CountParameters(0.1, 101)):
        with pytest.raises(SynopsisError, match="another epsilon"):
            run_batch(other, [count], Batch([0, 0], [], None, [0, 0], [], []))
    parameters = SumParameters(0.1, 100, 2)
    with pytest.raises(SynopsisError, match=r"group 1: .*another epsilon"):
        run_batch(parameters, [None, total], Batch([0, 0, 0], [], [], [0, 0, 0], [], []))


@pytest.mark.parametrize(
    ("starts", "times", "values", "queries"),
    [
        ([0], [], None, [0, 0]),
        ([0, 2], [1], None, [0, 0]),
        ([1, 1], [1], None, [0, 0]),
        ([0, 1], [1.5], None, [0, 0]),
        ([0, 1], [[1]], None, [0, 0]),
        ([0, 1], [1], [1.0], [0, 0]),
        ([0, 1], [1], None, [0, 1]),
    ],
)
def test_columns_that_do_not_fit_each_other_are_refused(
    starts: list[int], times: npt.ArrayLike, values: list[float] | None, queries: list[int]
) -> None:
    """Lengths, kinds and slices are looked at before any compiled code is."""
    with pytest.raises(SynopsisError):
        run_batch(COUNT, [None], Batch(starts, times, values, queries, [], [1]))
    with pytest.raises(SynopsisError):
        run_batch(SUM, [None], Batch([0, 1], [1], None, [0, 0], [], [1]))


def test_the_column_that_is_wrong_is_told() -> None:
    """The starts of the events, those of the queries, or the values."""
    with pytest.raises(SynopsisError, match=r"^starts must rise"):
        Batch([0, 2], [1], None, [0, 0], [], [1])
    with pytest.raises(SynopsisError, match=r"^query_starts must rise"):
        Batch([0, 1], [1], None, [0, 1], [], [1])
    for values in ([[1.0]], [], [1.0, 2.0]):
        with pytest.raises(SynopsisError, match="a value"):
            Batch([0, 1], [1], values, [0, 0], [], [1]).doubles()


@pytest.mark.parametrize("per_level", [1, 5, 500])
def test_windows_of_nearly_2_to_the_62_units_keep_the_bound(per_level: int) -> None:
    """511 values of 2^53 units: nothing wraps, and each window keeps bounds and error."""
    parameters = SumParameters(0.5 / per_level, 1_000, 0)
    times, values = range(511), [HUGE] * 511
    exact = ExactWindow(times, values)
    windows = [1, 2, 3, 10, 100, 510, 511, 1_000]
    queries = range(1, 512)
    result = run_batch(
        parameters,
        [None],
        Batch([0, 511], times, np.array(values, float), [0, 511], queries, windows),
    )
    share = Fraction(1, 2 * per_level) + Fraction(1, 2**52)
    for q, now in enumerate(queries):
        for k, n in enumerate(windows):
            total = exact.sum(now - n, now)
            assert int(result.lowers[q, k]) <= total <= int(result.uppers[q, k])
            assert abs(Fraction(result.estimates[q, k]) - total) <= total * share
    histogram = ExponentialHistogram.from_bytes(result.states[0])
    histogram.check()
    assert histogram.buckets() == canonical_buckets(times, values, per_level)


@pytest.mark.parametrize("per_level", [1, 5, 50])
def test_totals_far_beyond_2_to_the_62_are_lowered_and_nothing_shows(per_level: int) -> None:
    """A long life: the total passes 2^62 many times, the buckets stay those of the true total."""
    parameters = SumParameters(0.5 / per_level, 300, 0)
    rng = np.random.default_rng(8)
    times = np.cumsum(rng.integers(0, 3, 4_000)).tolist()
    values = (HUGE - rng.integers(0, 2**40, 4_000)).tolist()
    whole = made(parameters)
    whole.insert(times, np.array(values, float))
    parts = made(parameters)
    for start in range(0, 4_000, 100):
        end = start + 100
        parts.insert(times[start:end], np.array(values[start:end], float))
        parts.check()
        expected = canonical_buckets(times[:end], values[:end], per_level)
        assert parts.buckets() == live(expected, parts.now - 300)
        exact = sum(
            v for t, v in zip(times[:end], values[:end], strict=True) if t >= parts.now - 99
        )
        estimate, lower, upper = parts.query(99)
        assert lower <= exact <= upper
        assert abs(Fraction(estimate) - exact) <= exact * (parameters.relative_error + 2**-52)
    assert sum(values) > 2**64
    assert parts.to_bytes() == whole.to_bytes()


def test_a_window_of_more_than_2_to_the_62_units_is_refused() -> None:
    """Before anything wraps there is an error, and the state is as it was before."""
    histogram = made(SumParameters(0.1, 1_000, 0))
    times = np.arange(511)
    histogram.insert(times, np.full(511, float(HUGE)))
    before = histogram.to_bytes()
    with pytest.raises(SynopsisError, match=r"more than 2\^62 units"):
        histogram.insert(times + 511, np.full(511, float(HUGE)))
    assert histogram.to_bytes() == before
    histogram.insert(times + 2_000, np.full(511, float(HUGE)))
    assert histogram.query(1_000).lower > 2**61
