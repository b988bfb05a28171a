"""The promise of minimum and maximum: exact, or to the relative error, in a bounded state."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from slidestat.synopses import Batch, Estimate, SynopsisError
from slidestat.synopses.extremes.extreme import Extreme, ExtremeParameters, run_extreme_batch
from tests.synopses.exponential_histogram.test_exponential_histogram_real_events import FLIGHTS
from tests.synopses.hostile import sealed
from tests.synopses.streams import TIMES
from tests.synopses.valued import SIGNED

SPAN = 500
SIZE = 400
WINDOWS = [1, 2, 7, 50, 333, 500]
OF = {"minimum": min, "maximum": max}


def moments(times: Sequence[int]) -> list[int]:
    """Right after each event's time, a little later, and after all has expired."""
    after = {t + d for t in times for d in (0, 1, 30)}
    return sorted(after | {times[-1] + SPAN + d for d in (-1, 0, 1, 2)})


def in_window(times: Sequence[int], values: Sequence[float], now: int, n: int) -> Sequence[float]:
    low, high = np.searchsorted(times, [now - n, now])
    return values[low:high]


def keeps(parameters: ExtremeParameters, answer: Estimate, window: Sequence[float]) -> None:
    if len(window) == 0:
        assert all(np.isnan(answer))
        return
    exact = OF[parameters.side](window)
    assert answer.lower <= exact <= answer.upper
    assert answer.lower <= answer.estimate <= answer.upper
    off = abs(Fraction(answer.estimate) - Fraction(exact))
    assert off <= Fraction(parameters.relative_error) * abs(Fraction(exact))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 0.1, 0.001])
@pytest.mark.parametrize("side", OF)
@pytest.mark.parametrize("name", TIMES)
def test_bounds_and_error_hold_at_every_moment(name: str, side: str, epsilon: float) -> None:
    """lower <= exact <= upper and |estimate - exact| <= promise * |exact|, for every n."""
    parameters = ExtremeParameters(side, SPAN, epsilon)
    assert parameters.relative_error <= epsilon
    rng = np.random.default_rng(1)
    times = TIMES[name](rng, SIZE).tolist()
    for value_name in SIGNED:
        values = SIGNED[value_name](rng, SIZE).tolist()
        queries = moments(times)[:: 7 if value_name != "uniform" else 1]
        asked = [0, len(queries)]
        result = run_extreme_batch(
            parameters, [None], Batch([0, SIZE], times, values, asked, queries, WINDOWS)
        )
        figures = np.stack([result.estimates, result.lowers, result.uppers], axis=-1).tolist()
        for now, row in zip(queries, figures, strict=True):
            for n, figure in zip(WINDOWS, row, strict=True):
                keeps(parameters, Estimate(*figure), in_window(times, values, now, n))


def around(value: float, steps: int) -> list[float]:
    """The doubles from `steps` below a value that is not negative to `steps` above, if any."""
    bits = int(np.float64(value).view(np.int64))
    near = range(max(0, bits - steps), min(bits + steps, 0x7FEFFFFFFFFFFFFF) + 1)
    return np.array(near, np.int64).view(np.float64).tolist()


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 0.25, 0.01, 1e-6])
@pytest.mark.parametrize("side", OF)
def test_the_ends_of_the_doubles_are_taken(side: str, epsilon: float) -> None:
    """Zero is zero, exactly; the smallest doubles, the largest and powers of two keep it too."""
    ends = [0.0, 0.1, 1.0, 2.0, 2.0**-1022, 1.7976931348623157e308]
    ends += [5e-324 * 2.0**i for i in range(53)]
    values = [near for end in ends for near in around(end, 2 if end else 70)]
    values += np.random.default_rng(5).uniform(0, 2.0**-1022, 500).tolist()
    values = [*sorted(-value for value in values), *sorted(values)]
    if side == "maximum":
        values.reverse()
    size = len(values)
    parameters = ExtremeParameters(side, size, epsilon)
    extreme = Extreme.create(parameters)
    extreme.insert(np.arange(size), values)
    extreme.check()
    assert Extreme.from_bytes(extreme.to_bytes()).to_bytes() == extreme.to_bytes()
    for now in range(size, 2 * size):
        extreme.advance(now)
        answer = extreme.query(size)
        keeps(parameters, answer, values[now - size :])
        if values[now - size] == 0:
            assert repr(answer) == repr(Estimate(0.0, 0.0, 0.0))
    for value in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(SynopsisError, match="must be finite"):
            Extreme.create(parameters).insert([5], [value])


@pytest.mark.parametrize("side", OF)
def test_ranks_that_no_double_has_are_refused(side: str) -> None:
    """With 8 ranks for each power of two, there are fewer doubles than ranks for the smallest."""
    known = {0, 8, 16, 20, 24, 26, 28, 30, *range(32, 64)}  # 0, 1, 2, 3, ... times 2^-1074
    parameters = ExtremeParameters(side, 10, 0.1)
    assert parameters.fraction_bits == 3
    extreme = Extreme.create(parameters)
    extreme.insert([5], [0.0])
    start = extreme.to_bytes()[:-1]
    read = {}
    for rank in range(64):
        folded = 2 * rank - (side == "minimum" and rank > 0)
        try:
            read[rank] = Extreme.from_bytes(sealed(start + bytes([folded]))).query(10).lower
        except SynopsisError:
            continue
    assert set(read) == known
    assert [read[rank] / 5e-324 for rank in sorted(known)[:16]] == [*range(16)]


@pytest.mark.parametrize("side", OF)
def test_what_approximation_buys(side: str) -> None:
    """Values that keep every event in an exact queue: a rough one has its ranks, and no more."""
    size = 50_000
    values = np.geomspace(1e6, 1.0, size) * (1 if side == "maximum" else -1)
    exact = Extreme.create(ExtremeParameters(side, size))
    exact.insert(np.arange(size), values)
    assert exact.kept() == size
    for epsilon in (0.5, 0.1, 0.01, 0.001):
        rough = Extreme.create(ExtremeParameters(side, size, epsilon))
        rough.insert(np.arange(size), values)
        rough.check()
        ranks = 2**rough.parameters.fraction_bits * (np.log2(1e6) + 1)
        assert rough.kept() <= min(size, ranks + 1)
        assert rough.parameters.fraction_bits <= np.log2(1 / epsilon)
        assert len(rough.to_bytes()) <= 40 + 5 * rough.kept()


def test_values_in_random_order_keep_few_events() -> None:
    """The harmonic number of the window's size is expected: about 17 of 10,000,000."""
    size = 10_000_000
    values = np.random.default_rng(3).normal(0, 1, size)
    extreme = Extreme.create(ExtremeParameters("maximum", size))
    extreme.insert(np.arange(size), values)
    assert extreme.kept() <= 45
    assert len(extreme.to_bytes()) <= 40 + 12 * 45
    assert extreme.query(size).estimate == values.max()


def test_groups_of_a_batch_do_not_touch_each_other() -> None:
    """A batch of many keys is what each would do alone, and queries leave no trace."""
    rng = np.random.default_rng(8)
    parameters = ExtremeParameters("minimum", SPAN, 0.1)
    columns = [(np.cumsum(rng.integers(0, 30, n)), rng.normal(0, 9, n)) for n in (0, 5, 70, 1, 30)]
    alone = []
    for times, values in columns:
        extreme = Extreme.create(parameters)
        extreme.insert(times, values)
        alone.append(extreme)
    starts = np.cumsum([0, *(len(times) for times, _ in columns)])
    every = [np.concatenate(column) for column in zip(*columns, strict=True)]
    now = [max(int(extreme.now), 0) for extreme in alone]
    result = run_extreme_batch(
        parameters, [None] * 5, Batch(starts, *every, range(6), now, [SPAN, 1], advances=now)
    )
    for i, extreme in enumerate(alone):
        assert np.array_equal(
            result.estimates[i], [extreme.query(n, now[i])[0] for n in (SPAN, 1)], equal_nan=True
        )
        extreme.advance(now[i])
        assert result.states[i] == extreme.to_bytes()
    other = ExtremeParameters("minimum", SPAN + 1, 0.1)
    with pytest.raises(SynopsisError, match=r"group 1: .*other parameters"):
        run_extreme_batch(
            other, [None, result.states[2]], Batch([0, 0, 0], [], [], [0, 0, 0], [], [])
        )


@pytest.mark.parametrize(
    ("side", "span", "epsilon"),
    [
        ("mean", 1, 0),
        ("minimum", 0, 0),
        ("minimum", 2**53 + 1, 0),
        ("minimum", 1, 0.6),
        ("maximum", 1, -0.1),
        ("maximum", 1, 1e-7),
        ("maximum", 1.5, 0),
        ("maximum", True, 0),
    ],
)
def test_parameters_that_make_no_sense_are_refused(side: str, span: int, epsilon: float) -> None:
    """A side, a span and an error that exist."""
    with pytest.raises(SynopsisError, match="must be"):
        ExtremeParameters(side, span, epsilon)


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the folder of real events is not there")
def test_flights_keep_the_promise() -> None:
    """The worst and the best delay of windows of an hour to a week."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "delay"]).slice(0, 400_000)
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    delays = table["delay"].to_numpy().astype(np.float64)
    day = 86_400_000
    queries = np.linspace(times[0] + 1, times[-1] + 2 * day, 60).astype(np.int64).tolist()
    spans = [60_000, 3_600_000, day, 7 * day]
    for side in OF:
        for epsilon in (0.0, 0.01):
            parameters = ExtremeParameters(side, 7 * day, epsilon)
            result = run_extreme_batch(
                parameters, [None], Batch([0, len(times)], times, delays, [0, 60], queries, spans)
            )
            figures = np.stack([result.estimates, result.lowers, result.uppers], axis=-1).tolist()
            for now, row in zip(queries, figures, strict=True):
                for n, figure in zip(spans, row, strict=True):
                    window = in_window(times, delays, now, n)
                    ends = [] if len(window) == 0 else [window.min(), window.max()]
                    keeps(parameters, Estimate(*figure), ends)
