"""The promise of the waves: bounds that hold and an error that is kept, at every moment.

All comparisons are between whole numbers: nothing is allowed on top of what is promised.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult
from slidestat.synopses.waves.parameters import WaveParameters
from slidestat.synopses.waves.waves import run_wave_batch
from tests.synopses.streams import TIMES
from tests.wave_oracles import exact_sums, moments

EPSILONS = [1.0, 0.4, 1 / 3, 0.1, 0.05, 0.01]
SIZE = 1_500
SPAN = 1_000
WINDOWS = np.array([1, 2, 3, 7, 50, 333, 999, 1_000])

VALUES: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "ones": lambda rng, size: np.ones(size, np.int64),  # noqa: ARG005
    "zeros": lambda rng, size: np.zeros(size, np.int64),  # noqa: ARG005
    "dice": lambda rng, size: rng.integers(0, 7, size),
    "uniform": lambda rng, size: rng.integers(0, 10**6, size),
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**9),
    "mostly nothing": lambda rng, size: np.where(rng.random(size) < 0.05, 9, 0),
    "falling": lambda rng, size: np.arange(size, 0, -1),  # noqa: ARG005
    "rising": lambda rng, size: np.arange(size),  # noqa: ARG005
    "powers of two": lambda rng, size: 1 << rng.integers(0, 30, size),
    "one below powers of two": lambda rng, size: (1 << rng.integers(0, 30, size)) - 1,
    "once in a while huge": lambda rng, size: np.where(rng.random(size) < 0.02, 2**41, 1),
}


def asked(
    kind: str,
    parameters: WaveParameters,
    times: Integers,
    values: Integers | None,
    queries: Integers,
    asks: npt.ArrayLike,
) -> BatchResult:
    ends = [0, len(times)]
    return run_wave_batch(
        kind, parameters, [None], Batch(ends, times, values, [0, len(queries)], queries, asks)
    )


def kept(parameters: WaveParameters, result: BatchResult, exact: Integers) -> None:
    """Bounds hold, the estimate is between them, and the error is exact / (2 c - 1) at most."""
    assert np.all(result.lowers <= exact)
    assert np.all(exact <= result.uppers)
    assert np.all(result.lowers <= result.estimates)
    assert np.all(result.estimates <= result.uppers)
    doubled = (2 * result.estimates).astype(np.int64)
    assert np.all(doubled == 2 * result.estimates)
    assert np.all((2 * parameters.per_level - 1) * np.abs(doubled - 2 * exact) <= 2 * exact)
    assert 1 / (2 * parameters.per_level - 1) == parameters.relative_error <= parameters.epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", TIMES)
def test_counts_keep_bounds_and_error_at_every_moment(name: str, epsilon: float) -> None:
    """(2 c - 1) |estimate - exact| <= exact, for every n at every moment; whole estimates."""
    times = TIMES[name](np.random.default_rng(1), SIZE)
    parameters = WaveParameters(epsilon, SPAN)
    queries = moments(times, SPAN)
    result = asked("count", parameters, times, None, queries, WINDOWS)
    kept(parameters, result, exact_sums(times, np.ones_like(times), queries, WINDOWS))
    assert np.all(result.estimates == np.rint(result.estimates))


@pytest.mark.parametrize("per_level", [1, 2, 3, 6, 40])
def test_the_error_bound_holds_for_every_window_of_every_total(per_level: int) -> None:
    """One event a tick, and one in three, all totals to 300, all windows: nothing escapes."""
    parameters = WaveParameters(1 / (2 * per_level - 1), 900)
    assert parameters.per_level == per_level
    windows = np.arange(1, 901, 2)
    for times in (np.arange(300), 3 * np.arange(300)):
        queries = np.arange(1, times[-1] + 2)
        result = asked("count", parameters, times, None, queries, windows)
        exact = exact_sums(times, np.ones_like(times), queries, windows)
        kept(parameters, result, exact)
        few = exact <= 2 * per_level - 1
        assert np.all(result.lowers[few] == result.uppers[few])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", VALUES)
def test_sums_keep_bounds_and_error_at_every_moment(name: str, epsilon: float) -> None:
    """As for counts, with values of all sizes and with none."""
    rng = np.random.default_rng(2)
    parameters = WaveParameters(epsilon, SPAN)
    for time_name in ("uniform", "bursty"):
        times = TIMES[time_name](rng, SIZE)
        values = VALUES[name](rng, SIZE).astype(np.int64)
        queries = moments(times, SPAN)
        result = asked("sum", parameters, times, values, queries, WINDOWS)
        kept(parameters, result, exact_sums(times, values, queries, WINDOWS))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", TIMES)
def test_a_sum_of_ones_knows_what_a_count_knows(name: str, epsilon: float) -> None:
    """The two waves are one for values of 1: the same bounds, and middles that round alike."""
    times = TIMES[name](np.random.default_rng(3), SIZE)
    parameters = WaveParameters(epsilon, SPAN)
    queries = moments(times, SPAN)
    count = asked("count", parameters, times, None, queries, WINDOWS)
    total = asked("sum", parameters, times, np.ones_like(times), queries, WINDOWS)
    assert np.array_equal(count.lowers, total.lowers)
    assert np.array_equal(count.uppers, total.uppers)
    assert np.array_equal(count.estimates, np.ceil(total.estimates))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", TIMES)
def test_ages_keep_bounds_and_error_at_every_moment(name: str, epsilon: float) -> None:
    """How long ago each of many events was: bounds always, the error while it is in the span."""
    times = TIMES[name](np.random.default_rng(4), SIZE)
    parameters = WaveParameters(epsilon, SPAN)
    queries = moments(times, SPAN)
    numbers = np.array([1, 2, 3, 4, 5, 8, 13, 33, 100, 700, SIZE, 2 * SIZE])
    result = asked("position", parameters, times, None, queries, numbers)
    seen = np.searchsorted(times, queries)[:, None]
    exists = numbers <= seen
    ages = queries[:, None] - times[np.where(exists, seen - numbers, 0)]
    exact = np.where(exists, ages.astype(np.float64), np.inf)
    assert np.all(result.lowers <= exact)
    assert np.all(exact <= result.uppers)
    assert np.all(result.lowers <= result.estimates)
    assert np.all(result.estimates <= result.uppers)
    near = exists & (ages <= SPAN)
    doubled = (2 * result.estimates[near]).astype(np.int64)
    assert np.all(doubled == 2 * result.estimates[near])
    c = parameters.per_level
    assert np.all((2 * c - 1) * np.abs(doubled - 2 * ages[near]) <= 2 * ages[near])


@pytest.mark.parametrize("per_level", [1, 2, 5])
def test_ages_keep_the_error_for_every_event_of_every_pattern(per_level: int) -> None:
    """All events of a stream with short and long pauses, at every tick of its life."""
    parameters = WaveParameters(1 / (2 * per_level - 1), 4_000)
    rng = np.random.default_rng(per_level)
    times = np.cumsum(rng.choice([0, 1, 2, 3, 17, 64, 129], 120)).astype(np.int64)
    queries = np.arange(times[0] + 1, times[-1] + 40)
    numbers = np.arange(1, 121)
    result = asked("position", parameters, times, None, queries, numbers)
    seen = np.searchsorted(times, queries)[:, None]
    exists = numbers <= seen
    ages = (queries[:, None] - times[np.where(exists, seen - numbers, 0)])[exists]
    assert np.all(result.lowers[exists] <= ages)
    assert np.all(ages <= result.uppers[exists])
    errors = np.abs(2 * result.estimates[exists] - 2 * ages)
    assert np.all((2 * per_level - 1) * errors <= 2 * ages)
    assert np.all(np.isinf(result.lowers[~exists]))
