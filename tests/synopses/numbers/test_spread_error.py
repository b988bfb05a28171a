"""The promise of mean, variance and standard deviation, against exact fractions.

Nothing is allowed on top of what is promised: roots are compared by their squares.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, log, nextafter, sqrt

import numpy as np
import pytest

from slidestat.synopses import Batch, SynopsisError
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.moments.spread import (
    Spread,
    SpreadParameters,
    SpreadResult,
    run_spread_batch,
)
from tests.oracles import ExactWindow, decimal
from tests.synopses.exponential_histogram.test_exponential_histogram_real_events import FLIGHTS
from tests.synopses.streams import TIMES
from tests.synopses.valued import SIGNED

SPAN = 500
SIZE = 400
WINDOWS = [1, 2, 7, 50, 200, 333, 500]
ROUNDING = Fraction(1, 2**50)

Figures = tuple[float, float, float]


def root_up(x: Fraction) -> Fraction:
    """A number not below the root, right to 2^-60 of a millionth."""
    scale = 10**18
    return Fraction(isqrt(x.numerator * scale * scale // x.denominator) + 1, scale)


class Promise:
    """The exact answers of a stream, and what may be between them and those of a synopsis."""

    def __init__(
        self, parameters: SpreadParameters, times: Sequence[int], values: Sequence[float]
    ) -> None:
        units = [decimal(value) * 10**parameters.decimals for value in values]
        self.inexact_from = next(
            (t for t, unit in zip(times, units, strict=True) if unit.denominator != 1), 2**61
        )
        exact = [decimal(value) for value in values]
        self.counts = ExactWindow(times, [1] * len(times))
        self.sums = ExactWindow(times, exact)
        self.squares = ExactWindow(times, [value * value for value in exact])
        self.half = (Fraction(1, 2) + Fraction(1, 2**12)) / 10**parameters.decimals
        self.share = Fraction(parameters.relative_error)
        self.share_of_deviation = Fraction(parameters.relative_error_of_deviation)
        self.share_of_mean = Fraction(parameters.mean_error_in_deviations)

    def keep(self, start: int, now: int, mean: Figures, variance: Figures, dev: Figures) -> None:
        count = self.counts.sum(start, now)
        if count == 0:
            assert all(np.isnan([*mean, *variance, *dev]))
            return
        exact_mean = Fraction(self.sums.sum(start, now)) / count
        exact = Fraction(self.squares.sum(start, now)) / count - exact_mean**2
        half = self.half if self.inexact_from < now else Fraction(0)
        assert mean[1] <= exact_mean <= mean[2]
        assert variance[1] <= exact <= variance[2]
        assert Fraction(dev[1]) ** 2 <= exact <= Fraction(dev[2]) ** 2
        for figures in (mean, variance, dev):
            assert figures[1] <= figures[0] <= figures[2]
        off = abs(Fraction(mean[0]) - exact_mean) - abs(exact_mean) * ROUNDING - half
        if half == 0:
            assert off <= 0 or off**2 <= self.share_of_mean**2 * exact
            assert abs(Fraction(variance[0]) - exact) <= self.share * exact
            assert Fraction(dev[0]) ** 2 <= (1 + self.share_of_deviation) ** 2 * exact
            assert Fraction(dev[0]) ** 2 >= (1 - self.share_of_deviation) ** 2 * exact
        else:
            root = root_up(exact)
            assert off <= self.share_of_mean * (root + half)
            assert Fraction(variance[0]) <= (1 + self.share) * (root + half) ** 2
            assert Fraction(variance[0]) >= (1 - self.share) * max(Fraction(0), root - half) ** 2
            off = abs(Fraction(dev[0]) - root) - half
            assert off <= self.share_of_deviation * (root + half)


def figures_of(result: SpreadResult, query: int, k: int) -> list[Figures]:
    return [
        (float(of.estimates[query, k]), float(of.lowers[query, k]), float(of.uppers[query, k]))
        for of in (result.mean, result.variance, result.deviation)
    ]


def check(
    parameters: SpreadParameters,
    times: Sequence[int],
    values: Sequence[float],
    queries: Sequence[int],
    windows: Sequence[int],
) -> None:
    promise = Promise(parameters, times, values)
    asked = [0, len(queries)]
    result = run_spread_batch(
        parameters, [None], Batch([0, len(times)], times, values, asked, queries, windows)
    )
    for i, now in enumerate(queries):
        for k, n in enumerate(windows):
            promise.keep(now - n, now, *figures_of(result, i, k))


@pytest.mark.parametrize("epsilon", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("value_name", SIGNED)
def test_bounds_and_error_hold_at_every_moment(value_name: str, epsilon: float) -> None:
    """All three statistics, for every n tried, right after each event, later, and after all."""
    parameters = SpreadParameters(epsilon, SPAN, 2)
    for i, name in enumerate(TIMES):
        rng = np.random.default_rng(i)
        times = TIMES[name](rng, SIZE).tolist()
        values = SIGNED[value_name](rng, SIZE).tolist()
        after = sorted({t + d for t in times for d in (0, 1, 30)})
        queries = [*after[:: 6 if i else 1], times[-1] + SPAN, times[-1] + SPAN + 1]
        check(parameters, times, values, queries, WINDOWS)


@pytest.mark.parametrize("epsilon", [0.5, 0.1])
def test_every_window_of_a_long_stream(epsilon: float) -> None:
    """One event a tick, buckets combined many times over, every window at some moments."""
    size = 3_000
    rng = np.random.default_rng(4)
    parameters = SpreadParameters(epsilon, 1_000, 2)
    swing = 100 * np.sin(np.arange(size) / 50) + rng.normal(0, 20, size)
    check(
        parameters,
        range(size),
        np.round(swing, 2).tolist(),
        [1_000, 1_777, 2_048, 3_000],
        range(1, 1_001),
    )
    jumps = np.where(np.arange(size) % 700 < 650, 5.0, 5e6)
    check(parameters, range(size), jumps.tolist(), [1_400, 2_111, 3_000], range(1, 1_001))


@pytest.mark.parametrize("seed", range(40))
def test_streams_made_to_hurt(seed: int) -> None:
    """Stretches of any length and level: old spread is hidden by new, means jump far and back."""
    rng = np.random.default_rng(seed)
    parameters = SpreadParameters([0.5, 0.3, 0.1][seed % 3], 2_000, 0)
    pieces = []
    while sum(map(len, pieces)) < 2_000:
        length = int(2 ** rng.uniform(0, 9))
        level = float(np.round(rng.choice([-1, 1]) * 10 ** rng.uniform(0, 9)))
        width = float(10 ** rng.uniform(-1, 7))
        pieces.append(np.round(rng.normal(level, width, length)))
    values = np.concatenate(pieces)
    queries = np.unique(rng.integers(1, len(values) + 1, 8)).tolist()
    windows = np.unique(rng.integers(1, 2_001, 60)).tolist()
    check(parameters, range(len(values)), values.tolist(), queries, windows)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e9, -1e9])
def test_no_cancellation_far_from_zero(offset: float) -> None:
    """The spread of 0, 0.001, 0.002 is the same anywhere; E[x^2] - E[x]^2 has no digit of it."""
    cycle = np.array([0, 1, 2] * 400)
    spread = Spread.create(SpreadParameters(0.01, 5_000))
    spread.insert(np.arange(1_200), offset + cycle / 1_000)
    estimate, lower, upper = spread.variance(5_000)
    exact = Fraction(2, 3) / 10**6
    assert lower <= exact <= upper
    assert upper <= lower * (1 + 2**-40)
    naive = np.mean((offset + cycle / 1_000) ** 2) - np.mean(offset + cycle / 1_000) ** 2
    assert abs(estimate - exact) <= Fraction(1, 2**40) * exact
    assert abs(offset) < 1e6 or abs(naive - float(exact)) > 0.1 * float(exact)


def test_equal_values_have_no_spread_at_all() -> None:
    """0, 0, 0, not a rounding more, however many and wherever they are."""
    for value in (0.1, -1e9 + 0.001, 0.0, 1e9):
        spread = Spread.create(SpreadParameters(0.5, 3_000))
        spread.insert(np.arange(5_000), np.full(5_000, value))
        for n in (1, 10, 1_234, 3_000):
            assert spread.variance(n) == spread.deviation(n) == (0.0, 0.0, 0.0)
            assert spread.mean(n).estimate == pytest.approx(value, rel=2**-50, abs=0)


def test_windows_of_whole_buckets_are_exact_but_for_rounding() -> None:
    """Few events, or ties: nothing is combined over times, so nothing is estimated."""
    spread = Spread.create(SpreadParameters(0.5, 100, 0))
    spread.insert(np.repeat([1, 2, 3], 1_000), np.arange(3_000.0))
    assert [count for count, _, _ in spread.buckets()] == [1_000] * 3
    exact = Fraction(2_000**2 - 1, 12)
    estimate, lower, upper = spread.query(2)
    assert lower <= exact <= upper <= lower * (1 + 2**-40)
    assert abs(estimate - exact) <= exact / 2**50


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("kind", ["normal", "heavy", "falling", "walk"])
def test_space_stays_within_the_theorem(kind: str, epsilon: float) -> None:
    """2 B or B + 32 buckets, with B of the proof, at many moments of 200,000 events."""
    size = 200_000
    rng = np.random.default_rng(5)
    values = {
        "normal": lambda: np.round(rng.normal(0, 1_000, size)),
        "heavy": lambda: np.round(np.minimum(rng.pareto(0.8, size) * 10, 1e9)),
        "falling": lambda: np.round(1e9 * 0.9999 ** np.arange(size)),
        "walk": lambda: np.cumsum(rng.integers(-9, 10, size)).astype(np.float64),
    }[kind]()
    parameters = SpreadParameters(epsilon, 150_000, 0)
    spread = Spread.create(parameters)
    for start in range(0, size, 9_973):
        stop = min(start + 9_973, size)
        spread.insert(np.arange(start, stop), values[start:stop])
        spread.check()
        buckets = spread.buckets()
        events = sum(count for count, _, _ in buckets)
        span = float(np.ptp(values[stop - events : stop]))
        most = 2 * log(events**2 * max(span, 2) ** 2 / 2) / log(1 + 1 / parameters.parts) + 5
        assert len(buckets) <= max(2 * most, most + 32)
        assert len(buckets) <= events
        assert len(spread.to_bytes()) <= 60 + 40 * len(buckets)


def test_ten_million_events_are_a_few_hundred_buckets() -> None:
    """The theorem's B for 10^7 events of 12 deviations' range, and the answers of whole numbers."""
    size = 10_000_000
    values = np.round(np.random.default_rng(6).normal(0, 1_000, size))
    parameters = SpreadParameters(0.1, size, 0)
    spread = Spread.create(parameters)
    for start in range(0, size, size // 10):
        stop = start + size // 10
        spread.insert(np.arange(start, stop), values[start:stop])
    spread.check()
    width = float(np.ptp(values))
    most = 2 * log(size**2 * width**2 / 2) / log(1 + 1 / parameters.parts) + 5
    assert len(spread.buckets()) <= 2 * most
    assert len(spread.to_bytes()) <= 60 + 40 * len(spread.buckets())
    whole = values.astype(np.int64)
    for n in (1_000, 123_457, 4_000_000, size):
        total, squares = int(whole[-n:].sum()), int((whole[-n:] ** 2).sum())
        exact = Fraction(squares, n) - Fraction(total, n) ** 2
        answer = spread.variance(n)
        assert answer.lower <= exact <= answer.upper
        assert abs(Fraction(answer.estimate) - exact) <= Fraction(parameters.relative_error) * exact


def test_values_up_to_2_to_the_40_units_are_taken_and_no_more() -> None:
    """Larger ones and what is not finite are refused by name; nothing is taken."""
    parameters = SpreadParameters(0.1, 100)
    most = 2.0**40 / 1_000
    spread = Spread.create(parameters)
    spread.insert([1, 2], [most, -most])
    assert spread.variance(100).lower <= decimal(most) ** 2 <= spread.variance(100).upper
    before = spread.to_bytes()
    for value in (nextafter(most, 2e9), -1e300, float("nan"), float("inf"), float("-inf")):
        with pytest.raises(SynopsisError, match=r"2\^40 units"):
            spread.insert([3, 4], [1.0, value])
    assert spread.to_bytes() == before


def test_a_window_too_large_is_refused_wherever_batches_end() -> None:
    """2^20 values of 2^40 units fit; one more does not, until some have expired."""
    parameters = SpreadParameters(0.5, 2**20 + 1, 0)
    size = 2**20
    values = np.where(np.arange(size) % 2 == 0, 2.0**40, -(2.0**40))
    spread = Spread.create(parameters)
    spread.insert(np.arange(size), values)
    for n in (2, 1_000, size):
        answer = spread.deviation(n)
        assert answer.lower <= 2.0**40 <= answer.upper
    with pytest.raises(WindowTooLargeError, match="more than can be kept"):
        spread.insert([size], [1.0])
    again = Spread.create(parameters)
    with pytest.raises(WindowTooLargeError):
        again.insert(np.arange(size + 1), np.append(values, 1.0))
    spread.insert([3 * size], [7.0])
    assert spread.mean(10).estimate == 7.0


def test_groups_of_a_batch_do_not_touch_each_other() -> None:
    """A batch of many keys is what each would do alone, and queries leave no trace."""
    rng = np.random.default_rng(8)
    parameters = SpreadParameters(0.3, SPAN, 1)
    sizes = (0, 5, 400, 1, 30)
    columns = [(np.cumsum(rng.integers(0, 9, n)), rng.normal(0, 9, n)) for n in sizes]
    alone = []
    for times, values in columns:
        spread = Spread.create(parameters)
        spread.insert(times, values)
        alone.append(spread)
    starts = np.cumsum([0, *sizes])
    every = [np.concatenate(column) for column in zip(*columns, strict=True)]
    now = [max(spread.now, 0) for spread in alone]
    result = run_spread_batch(
        parameters, [None] * 5, Batch(starts, *every, range(6), now, [SPAN, 9])
    )
    for i, spread in enumerate(alone):
        assert result.states[i] == spread.to_bytes()
        for k, n in enumerate((SPAN, 9)):
            mine = [spread.mean(n, now[i]), spread.variance(n, now[i]), spread.deviation(n, now[i])]
            assert np.array_equal(figures_of(result, i, k), mine, equal_nan=True)
    with pytest.raises(SynopsisError, match=r"group 1: .*other parameters"):
        run_spread_batch(
            SpreadParameters(0.3, SPAN, 2),
            [None, result.states[2]],
            Batch([0, 0, 0], [], [], [0, 0, 0], [], []),
        )


def test_the_promises_follow_from_epsilon() -> None:
    """The variance keeps epsilon, the deviation about half, the mean epsilon of a deviation."""
    for epsilon in [0.5, 0.37, 0.3, 0.2, 0.1, 0.05, 0.01, 0.001, 1e-6]:
        parameters = SpreadParameters(epsilon, 1)
        assert parameters.relative_error <= epsilon
        assert parameters.mean_error_in_deviations <= epsilon
        assert parameters.relative_error_of_deviation <= epsilon / (1 + sqrt(1 - epsilon**2))
        read = Spread.from_bytes(Spread.create(parameters).to_bytes()).parameters
        assert read.parts == parameters.parts
    for bad in [(0, 1, 3), (0.6, 1, 3), (1e-7, 1, 3), (float("nan"), 1, 3), (0.1, 0, 3)]:
        with pytest.raises(SynopsisError, match="must be"):
            SpreadParameters(*bad)
    for bad in [(0.1, 2**53 + 1, 3), (0.1, 1.5, 3), (0.1, 1, -1), (0.1, 1, 10), (0.1, True, 3)]:
        with pytest.raises(SynopsisError, match="must be"):
            SpreadParameters(*bad)


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the folder of real events is not there")
def test_flights_keep_the_promise() -> None:
    """The spread of delays, of windows of a minute to a week, with exact whole-number sums."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "delay"]).slice(0, 400_000)
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    delays = table["delay"].to_numpy().astype(np.float64)
    day = 86_400_000
    queries = np.linspace(times[0] + 1, times[-1] + 2 * day, 60).astype(np.int64)
    for epsilon in (0.3, 0.05):
        check(
            SpreadParameters(epsilon, 7 * day, 0),
            times.tolist(),
            delays.tolist(),
            queries.tolist(),
            [60_000, 3_600_000, day, 7 * day],
        )
