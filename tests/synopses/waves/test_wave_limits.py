"""Where waves end: of a window, of time, of totals, of what is taken at all."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.waves.parameters import WaveParameters
from slidestat.synopses.waves.waves import CountWave, PositionWave, SumWave, run_wave_batch

HUGE = 2**53  # the most of one value
P = WaveParameters(0.1, 100)
NEVER = Estimate(float("inf"), float("inf"), float("inf"))


def test_a_window_has_its_start_and_not_its_end() -> None:
    """[now - n, now): exactly n old is inside, n + 1 old is not, and `now` is not there yet.

    now - n - 1   now - n   ...   now - 1   now
        out         in              in      out
    """
    now, n = 1_000, 60
    for time, inside in [(now - n - 1, 0), (now - n, 1), (now - 1, 1), (now, 0)]:
        for kind, values in (("count", None), ("sum", [1])):
            result = run_wave_batch(
                kind, P, [None], Batch([0, 1], [time], values, [0, 1], [now], [n])
            )
            assert result.estimates[0, 0] == result.lowers[0, 0] == result.uppers[0, 0] == inside


def test_an_age_is_of_an_event_before_now() -> None:
    """The last event before a moment, not one at it; its age is at least 1; none is never."""
    result = run_wave_batch(
        "position", P, [None], Batch([0, 2], [10, 20], None, [0, 4], [10, 11, 20, 21], [1, 2, 3])
    )
    inf = np.inf
    assert result.estimates.tolist() == [[inf] * 3, [1, inf, inf], [10, inf, inf], [1, 11, inf]]
    assert result.lowers.tolist() == result.uppers.tolist() == result.estimates.tolist()


def test_an_age_beyond_the_span_is_bounded_from_below() -> None:
    """What has expired is older than the newest that expired, and all else is said by infinity."""
    wave = PositionWave.create(P)
    wave.insert([0, 10, 20, 20])
    wave.advance(121)
    assert wave.query(1) == Estimate(float("inf"), 101.0, float("inf"))
    assert wave.query(9) == Estimate(float("inf"), 101.0, float("inf"))
    wave.insert([150])
    assert wave.query(1) == Estimate(1.0, 1.0, 1.0)
    assert wave.query(2, now=160) == Estimate(float("inf"), 140.0, float("inf"))
    assert PositionWave.create(P).query(1, now=0) == NEVER


@pytest.mark.parametrize("kind", ["count", "sum", "position"])
def test_nothing_in_is_nothing_out(kind: str) -> None:
    """No state and no events make an empty state; an empty batch changes no state."""
    none: list[int] | None = [] if kind == "sum" else None
    result = run_wave_batch(
        kind, P, [None, None], Batch([0, 0, 0], [], none, [0, 1, 1], [7], [1, 100])
    )
    nothing = np.inf if kind == "position" else 0.0
    assert result.estimates.tolist() == result.uppers.tolist() == [[nothing, nothing]]
    again = run_wave_batch(kind, P, result.states, Batch([0, 0, 0], [], none, [0, 0, 0], [], []))
    assert again.states == result.states
    assert again.estimates.shape == (0, 0)
    assert run_wave_batch(kind, P, [], Batch([0], [], none, [0], [], [])).states == []


def test_values_of_nothing_move_time_and_nothing_else() -> None:
    """A zero is no item; it makes time pass, and old items with it."""
    wave = SumWave.create(P)
    wave.insert([0, 50], [7, 0])
    assert (len(wave.items()), wave.now, wave.query(100).estimate) == (1, 51, 7.0)
    wave.insert([100], [0])
    assert (wave.items(), wave.now, wave.query(100)) == ([], 101, Estimate(0.0, 0.0, 0.0))


@pytest.mark.parametrize("values", [[1, -1], [1, HUGE + 1], [1, 2**62], [0.5, 1.0], [1], [[1, 2]]])
def test_values_that_cannot_be_summed_are_refused(values: npt.ArrayLike) -> None:
    """Negative, more than 2^53, not whole, or too few: refused, and nothing is taken."""
    wave = SumWave.create(P)
    with pytest.raises(SynopsisError, match=r"cannot be summed|whole numbers|for each time"):
        wave.insert([1, 2], values)
    assert wave.to_bytes() == SumWave.create(P).to_bytes()


@pytest.mark.parametrize(
    ("epsilon", "span"),
    [(0, 1), (-0.1, 1), (1.1, 1), (float("nan"), 1), (1e-7, 1), (0.1, 0), (0.1, 2**53 + 1)],
)
def test_parameters_that_make_no_sense_are_refused(epsilon: float, span: int) -> None:
    """No wave is made with them."""
    with pytest.raises(SynopsisError, match="must be"):
        WaveParameters(epsilon, span)


def test_the_promised_error_is_never_above_epsilon() -> None:
    """c is the least with 1 / (2 c - 1) <= epsilon, also for such an epsilon itself."""
    for epsilon in [1.0, 0.7, 0.5, 1 / 3, 0.3, 0.1, 0.07, 0.01, 0.001, 1e-6]:
        parameters = WaveParameters(epsilon, 1)
        assert parameters.relative_error <= epsilon
        c = parameters.per_level
        assert c == 1 or 1 / (2 * c - 3) > epsilon
    for c in [*range(1, 10_000), 500_000]:
        assert WaveParameters(1 / (2 * c - 1), 1).per_level == c


def test_a_state_of_other_parameters_is_refused() -> None:
    """A count is no sum, and a state keeps its error and its span."""
    count, total = CountWave.create(P).to_bytes(), SumWave.create(P).to_bytes()
    with pytest.raises(SynopsisError, match="kind 4, not of kind 3"):
        run_wave_batch("count", P, [total], Batch([0, 0], [], None, [0, 0], [], []))
    for other in (WaveParameters(0.2, 100), WaveParameters(0.1, 101)):
        with pytest.raises(SynopsisError, match="another epsilon"):
            run_wave_batch("count", other, [count], Batch([0, 0], [], None, [0, 0], [], []))
    with pytest.raises(SynopsisError, match=r"group 1: .*damaged"):
        run_wave_batch("sum", P, [None, total[:-1]], Batch([0, 0, 0], [], [], [0, 0, 0], [], []))
    with pytest.raises(SynopsisError, match="a wave is one of count, sum, position"):
        run_wave_batch("median", P, [], Batch([0], [], None, [0], [], []))


@pytest.mark.parametrize(
    ("starts", "times", "values", "queries"),
    [
        ([0], [], None, [0, 0]),
        ([0, 2], [1], None, [0, 0]),
        ([1, 1], [1], None, [0, 0]),
        ([0, 1], [1.5], None, [0, 0]),
        ([0, 1], [[1]], None, [0, 0]),
        ([0, 1], [1], [1], [0, 0]),
        ([0, 1], [1], None, [0, 1]),
    ],
)
def test_columns_that_do_not_fit_each_other_are_refused(
    starts: list[int], times: npt.ArrayLike, values: list[int] | None, queries: list[int]
) -> None:
    """Lengths, kinds and slices are looked at before any compiled code is."""
    with pytest.raises(SynopsisError):
        run_wave_batch("count", P, [None], Batch(starts, times, values, queries, [], [1]))
    with pytest.raises(SynopsisError):
        run_wave_batch("sum", P, [None], Batch([0, 1], [1], None, [0, 0], [], [1]))
    with pytest.raises(SynopsisError, match="advances"):
        run_wave_batch("count", P, [None], Batch([0, 0], [], None, [0, 0], [], [], [5, 6]))


@pytest.mark.parametrize("per_level", [1, 5, 500])
def test_windows_of_nearly_2_to_the_62_keep_the_bound(per_level: int) -> None:
    """511 values of 2^53: nothing wraps, and each window keeps bounds and error."""
    parameters = WaveParameters(1 / (2 * per_level - 1), 1_000)
    times = np.arange(511)
    windows = [1, 2, 3, 10, 100, 510, 511, 1_000]
    queries = np.arange(1, 512)
    result = run_wave_batch(
        "sum",
        parameters,
        [None],
        Batch([0, 511], times, np.full(511, HUGE), [0, 511], queries, windows),
    )
    share = Fraction(1, 2 * per_level - 1) + Fraction(1, 2**52)
    for q, now in enumerate(queries.tolist()):
        for k, n in enumerate(windows):
            total = min(n, now) * HUGE
            assert int(result.lowers[q, k]) <= total <= int(result.uppers[q, k])
            assert abs(Fraction(result.estimates[q, k]) - total) <= total * share
    SumWave.from_bytes(result.states[0]).check()


@pytest.mark.parametrize("per_level", [1, 5, 50])
def test_totals_far_beyond_2_to_the_62_are_lowered_and_nothing_shows(per_level: int) -> None:
    """A long life: the total passes 2^62 many times; items and bounds are as of the true total."""
    parameters = WaveParameters(1 / (2 * per_level - 1), 300)
    rng = np.random.default_rng(8)
    times = np.cumsum(rng.integers(0, 3, 4_000))
    values = HUGE - rng.integers(0, 2**40, 4_000)
    whole, parts = SumWave.create(parameters), SumWave.create(parameters)
    whole.insert(times, values)
    behind = 0
    for start in range(0, 4_000, 100):
        batch = slice(start, start + 100)
        parts.insert(times[batch], values[batch])
        parts.check()
        true = sum(values[: start + 100].tolist())
        behind = true - parts.totals()[0]
        assert behind % 2**61 == 0
        ends = {true - behind, *(item.through for item in parts.items())}
        sums = np.cumsum(values[: start + 100].astype(object)) - behind
        assert ends <= set(sums.tolist())
        for n in (1, 99, 300):
            seen = times[: start + 100] >= parts.now - n
            exact = sum(values[: start + 100][seen].tolist())
            estimate, lower, upper = parts.query(n)
            assert lower <= exact <= upper
            error = Fraction(1, 2 * per_level - 1) + Fraction(1, 2**52)
            assert abs(Fraction(estimate) - exact) <= exact * error
    assert behind > 2**64
    assert parts.to_bytes() == whole.to_bytes()


def test_a_window_of_more_than_2_to_the_62_is_refused() -> None:
    """Before anything wraps there is an error, and the state is as it was before."""
    wave = SumWave.create(WaveParameters(0.1, 1_000))
    times = np.arange(511)
    wave.insert(times, np.full(511, HUGE))
    before = wave.to_bytes()
    for more in (1, 511):
        with pytest.raises(WindowTooLargeError, match=r"more than 2\^62 units"):
            wave.insert(times[:more] + 511, np.full(more, HUGE))
        assert wave.to_bytes() == before
    wave.insert(times + 2_000, np.full(511, HUGE))
    assert wave.query(1_000).lower > 2**61


def test_what_has_expired_does_not_count_towards_the_limit() -> None:
    """Many small items before a nearly full window: all of it expires at once, in one batch."""
    parameters = WaveParameters(0.001, 1_000)
    times = np.concatenate([np.zeros(1_000, np.int64), np.arange(1, 511), np.arange(2_000, 2_005)])
    values = np.concatenate([np.ones(1_000, np.int64), np.full(515, HUGE)])
    whole, parts = SumWave.create(parameters), SumWave.create(parameters)
    whole.insert(times, values)
    for start in range(0, len(times), 5):
        parts.insert(times[start : start + 5], values[start : start + 5])
    assert whole.query(1_000) == Estimate(5.0 * HUGE, 5.0 * HUGE, 5.0 * HUGE)
    assert whole.to_bytes() == parts.to_bytes()
