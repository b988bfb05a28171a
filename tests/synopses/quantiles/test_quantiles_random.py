"""Quantiles by random thinning: bounds fail no oftener than delta, and by chance alone.

Seeds are fixed, as many as chances.py says.
"""

from itertools import cycle

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    RandomQuantileParameters,
    RandomQuantiles,
    SynopsisError,
    run_quantile_batch,
)
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.quantiles.quantiles import QuantileBatch
from slidestat.synopses.quantiles.random_layout import choose
from tests.synopses.chances import trials
from tests.synopses.numbers.test_sample_chance import SIGNIFICANCE, chance
from tests.synopses.quantiles.test_quantiles_error import QUANTILES, STREAMS, off
from tests.synopses.streams import TIMES


def asked(
    parameters: RandomQuantileParameters, times: Integers, values: Floats, spans: list[int]
) -> QuantileBatch:
    """All quantiles of all spans at the end of the stream."""
    ends = [0, len(times)]
    return run_quantile_batch(
        parameters, [None], Batch(ends, times, values, [0, 1], times[-1:] + 1, spans), QUANTILES
    )


def failures(
    result: QuantileBatch, promise: float, times: Integers, values: Floats, spans: list[int]
) -> list[int]:
    """For each answer, 1 if its bounds or its rank do not hold; what is promised is checked."""
    failed = []
    for k, span in enumerate(spans):
        window = np.sort(values[times > times[-1] - span])
        for j, quantile in enumerate(QUANTILES):
            rank = max(1, -(-round(quantile * 10**6) * len(window) // 10**6))
            figures = (result.estimates, result.lowers, result.uppers, result.rank_errors)
            estimate, lower, upper, error = (float(part[0, k, j]) for part in figures)
            assert lower <= estimate <= upper
            assert error <= promise * len(window)
            holds = lower <= window[rank - 1] <= upper
            holds &= off(window, estimate, rank) <= error
            holds &= off(window, lower, rank) <= 2 * promise * len(window)
            holds &= off(window, upper, rank) <= 2 * promise * len(window)
            failed.append(not holds)
    return failed


@pytest.mark.parametrize("delta", [0.5, 0.2])
@pytest.mark.parametrize("name", ["normal", "sorted", "organ pipe", "zoom in", "saw", "prices"])
def test_failures_keep_to_delta(name: str, delta: float) -> None:
    """Of many seeds, no oftener than delta for any window and quantile: fixed size and n-of-N."""
    size = 6_000
    times, values = np.arange(size), STREAMS[name](np.random.default_rng(1), size)
    spans = [150, 1_000, 4_000]
    seen = np.zeros(len(spans) * len(QUANTILES), np.int64)
    seeds, most = trials(delta)
    for seed in range(seeds):
        parameters = RandomQuantileParameters(0.1, 4_000, delta, seed)
        result = asked(parameters, times, values, spans)
        seen += failures(result, parameters.rank_error, times, values, spans)
    assert seen.max() <= most


@pytest.mark.parametrize("time_name", TIMES)
def test_failures_keep_to_delta_by_time(time_name: str) -> None:
    """Variable-size windows: whatever the times, each quantile of each window; each seed has
    another stream.
    """
    delta, size = 0.5, 3_000
    seeds, most = trials(delta)
    rng = np.random.default_rng(2)
    for epsilon, span in ((0.2, 700), (0.1, 10**6)):
        spans = [span // 5 + 1, span]
        seen = np.zeros(len(spans) * len(QUANTILES), np.int64)
        for seed, name in zip(range(seeds), cycle(STREAMS), strict=False):
            times, values = TIMES[time_name](rng, size), STREAMS[name](rng, size)
            parameters = RandomQuantileParameters(epsilon, span, delta, seed)
            result = asked(parameters, times, values, spans)
            seen += failures(result, parameters.rank_error, times, values, spans)
        assert seen.max() <= most


def test_thinning_is_unbiased() -> None:
    """Over many seeds, estimates of the median are as often too high as too low."""
    size, seeds = 3_000, 400
    times = np.arange(size)
    values = np.random.default_rng(3).permutation(size).astype(np.float64)
    above = below = 0
    for seed in range(seeds):
        parameters = RandomQuantileParameters(0.2, size, 0.5, seed)
        estimate = asked(parameters, times, values, [size]).estimates[0, 0, 4]
        above += estimate > 1_510
        below += estimate < 1_490
    assert above + below > seeds / 10
    assert chance(above + below, 0.5, above) > SIGNIFICANCE


def test_few_events_are_answered_exactly() -> None:
    """Up to 10 / epsilon events or so nothing is left to chance."""
    for epsilon in (0.5, 0.1, 0.01):
        size = 2 ** (choose(epsilon, 0.01)[0] + 2)
        values = np.random.default_rng(1).normal(0, 1, size)
        summary = RandomQuantiles.create(RandomQuantileParameters(epsilon, 10**6, 0.01, 5))
        summary.insert(np.arange(size), values)
        for quantile in QUANTILES:
            exact = np.sort(values)[max(1, -(-round(quantile * 10**6) * size // 10**6)) - 1]
            assert summary.query(10**6, quantile) == (exact, exact, exact, 0.0)


def test_seeds_are_part_of_the_state() -> None:
    """Another seed thins otherwise, and does not read this one's bytes."""
    values = np.random.default_rng(4).normal(0, 1, 3_000)
    states = []
    for seed in (0, 1, 2**63 - 1):
        summary = RandomQuantiles.create(RandomQuantileParameters(0.2, 3_000, 0.1, seed))
        summary.insert(np.arange(3_000), values)
        states.append(summary.to_bytes())
    assert len({state[30:] for state in states}) == 3
    other = RandomQuantileParameters(0.2, 3_000, 0.1, 7)
    with pytest.raises(SynopsisError, match="another epsilon"):
        run_quantile_batch(other, states[:1], Batch([0, 0], [], [], [0, 0], [], []), [])


def test_parameters_are_checked() -> None:
    """A chance of failure and a seed that can be kept to."""
    for delta in (0.0, 0.51, float("nan")):
        with pytest.raises(SynopsisError, match="delta must be from"):
            RandomQuantileParameters(0.1, 10, delta, 1)
    for seed in (-1, 2**63, 1.5, True):
        with pytest.raises(SynopsisError, match="seed must be a whole number"):
            RandomQuantileParameters(0.1, 10, 0.1, seed)  # type: ignore[arg-type]
