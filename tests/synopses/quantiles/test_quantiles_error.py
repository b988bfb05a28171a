"""The promise of quantiles: bounds hold and ranks are right, for every window, at every moment."""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.quantiles.quantiles import (
    QuantileBatch,
    QuantileParameters,
    Quantiles,
    run_quantile_batch,
)
from tests.synopses.streams import TIMES, VALUES

QUANTILES = [0.0, 0.001, 0.07, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]


def _organ_pipe(rng: np.random.Generator, size: int) -> Floats:  # noqa: ARG001
    return np.minimum(np.arange(size) % 701, 701 - np.arange(size) % 701).astype(np.float64)


STREAMS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    **VALUES,
    "normal": lambda rng, size: rng.normal(0, 1, size),
    "sorted": lambda rng, size: np.arange(size) * 0.5,  # noqa: ARG005
    "reversed": lambda rng, size: -np.arange(size) * 0.5,  # noqa: ARG005
    "two values": lambda rng, size: rng.integers(0, 2, size) - 0.5,
    "organ pipe": _organ_pipe,
    # A new extreme at each step: what straddles the window's start is always outside the rest.
    "zoom in": lambda rng, size: (-1.0) ** np.arange(size) / (1 + np.arange(size)),  # noqa: ARG005
    "zoom out": lambda rng, size: (-1.0) ** np.arange(size) * np.arange(size),  # noqa: ARG005
    # Values that fall within each block of 64 and rise over the blocks.
    "saw": lambda rng, size: (np.arange(size) // 64 * 64 - np.arange(size) % 64) * 1.0,  # noqa: ARG005
}


def check(
    result: QuantileBatch,
    promise: float,
    times: Integers,
    values: Floats,
    queries: Integers,
    spans: list[int],
) -> float:
    """Compare each answer with the sorted window; return the largest share of the promise used."""
    used = 0.0
    for i, query in enumerate(queries.tolist()):
        for k, span in enumerate(spans):
            first, last = np.searchsorted(times, [query - span, query])
            window = np.sort(values[first:last])
            events = len(window)
            figures = (result.estimates, result.lowers, result.uppers, result.rank_errors)
            answers = zip(QUANTILES, *(part[i, k].tolist() for part in figures), strict=True)
            for quantile, estimate, lower, upper, error in answers:
                if events == 0:
                    assert np.isnan([estimate, lower, upper, error]).all()
                    continue
                rank = max(1, -(-round(quantile * 10**6) * events // 10**6))
                assert lower <= window[rank - 1] <= upper
                assert lower <= estimate <= upper
                assert off(window, estimate, rank) <= error <= promise * events
                assert off(window, lower, rank) <= 2 * promise * events
                assert off(window, upper, rank) <= 2 * promise * events
                used = max(used, error / (promise * events))
    return used


def off(window: Floats, value: float, rank: int) -> int:
    """How far the ranks of `value` in the sorted window are from `rank`.

    A value that is not in the window lies between two ranks: the nearer one is meant.
    """
    first = int(np.searchsorted(window, value, "left")) + 1
    last = int(np.searchsorted(window, value, "right"))
    return max(0, min(first, last + 1) - rank, rank - last)


def answers(
    parameters: QuantileParameters,
    times: Integers,
    values: Floats,
    queries: Integers,
    spans: list[int],
) -> QuantileBatch:
    return run_quantile_batch(
        parameters,
        [None],
        Batch([0, len(times)], times, values, [0, len(queries)], queries, spans),
        QUANTILES,
    )


@pytest.mark.parametrize("time_name", TIMES)
def test_bounds_hold_and_ranks_keep_the_promise(time_name: str) -> None:
    """Every named stream of values at these times, four errors, long and short spans: no slack."""
    rng = np.random.default_rng(11)
    for value_name in STREAMS:
        size = 3_000
        times, values = TIMES[time_name](rng, size), STREAMS[value_name](rng, size)
        for epsilon, span in ((0.5, 40), (0.5, 10**6), (0.2, 700), (0.05, 2_000)):
            parameters = QuantileParameters(epsilon, span)
            queries = np.unique(np.append(times[36::293] + 1, times[-1] + span // 2))
            spans = sorted({1, span // 5 + 1, span - 1, span})
            result = answers(parameters, times, values, queries, spans)
            check(result, parameters.rank_error, times, values, queries, spans)


def _normal(size: int) -> tuple[Integers, Floats]:
    return np.arange(size), np.random.default_rng(12).normal(0, 1, size)


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("size", [1, 33, 4_096, 10_000])
def test_fixed_size_windows(epsilon: float, size: int) -> None:
    """The last N events, N being all that is kept: events by number, their numbers as times."""
    times, values = _normal(3 * size + 50)
    parameters = QuantileParameters(epsilon, size)
    queries = np.unique(np.linspace(1, len(times), 40).astype(np.int64))
    result = answers(parameters, times, values, queries, [size])
    check(result, parameters.rank_error, times, values, queries, [size])


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
def test_n_of_n_windows(epsilon: float) -> None:
    """The last n events, for any n <= N, of one state: every length near the edges."""
    times, values = _normal(20_000)
    spans = sorted({1, 2, 3, 31, 32, 33, 500, 4_095, 4_096, 4_097, 9_999, 10_000})
    parameters = QuantileParameters(epsilon, 10_000)
    queries = np.array([1, 10, 100, 4_096, 4_100, 9_001, 16_384, 16_385, 19_999, 20_000])
    result = answers(parameters, times, values, queries, spans)
    assert check(result, parameters.rank_error, times, values, queries, spans) <= 1


@pytest.mark.parametrize("epsilon", [0.5, 0.1])
def test_variable_size_windows(epsilon: float) -> None:
    """A window that an adversary lets grow by an event, or lose its oldest, at each step."""
    rng = np.random.default_rng(13)
    times, values = _normal(4_000)
    parameters = QuantileParameters(epsilon, 4_000)
    summary = Quantiles.create(parameters)
    first = last = 0
    for step in range(160):
        grow = int(rng.integers(0, 60)) if step % 40 < 25 else 0
        summary.insert(times[last : last + grow], values[last : last + grow])
        last += grow
        first = min(last, first + int(rng.integers(0, 30 if step % 40 < 25 else 120)))
        if first < last:
            window = np.sort(values[first:last])
            for quantile in (0.0, 0.5, 0.99):
                rank = max(1, -(-round(quantile * 10**6) * len(window) // 10**6))
                answer = summary.query(last - first, quantile, now=last)
                assert answer.lower <= window[rank - 1] <= answer.upper
                assert off(window, answer.estimate, rank) <= parameters.rank_error * len(window)


@pytest.mark.parametrize("epsilon", [0.5, 0.25])
def test_every_moment_and_every_window(epsilon: float) -> None:
    """Event by event, all windows of a small span: where blocks end and phases change as well."""
    size = 420
    times = np.arange(size)
    values = (times * 7_919 % 1_009).astype(np.float64)
    parameters = QuantileParameters(epsilon, 300)
    spans = list(range(1, 301, 7))
    queries = np.arange(1, size + 200, 3)
    result = answers(parameters, times, values, queries, spans)
    check(result, parameters.rank_error, times, values, queries, spans)


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 400)),
        st.one_of(st.integers(-3, 3).map(float), st.floats(-1e300, 1e300)),
    ),
    max_size=300,
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(EVENTS, st.sampled_from([0.5, 0.3, 0.1]), st.lists(st.integers(1, 500), max_size=4))
def test_any_events(events: list[tuple[int, float]], epsilon: float, spans: list[int]) -> None:
    """Whatever the events are."""
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    values = np.array([value for _, value in events], np.float64)
    parameters = QuantileParameters(epsilon, 500)
    spans = [*spans, 500]
    queries = np.unique(np.concatenate([times[::17] + 1, times[-1:] + 100]))
    result = answers(parameters, times, values, queries, spans)
    check(result, parameters.rank_error, times, values, queries, spans)


def test_few_events_are_answered_exactly() -> None:
    """Up to 10 / epsilon events or so there is no error at all."""
    for epsilon in (0.5, 0.1, 0.01):
        rng = np.random.default_rng(1)
        size = int(1 / epsilon)
        summary = Quantiles.create(QuantileParameters(epsilon, 10**6))
        values = rng.normal(0, 1, size)
        summary.insert(np.arange(size) * 1_000, values)
        for quantile in QUANTILES:
            exact = np.sort(values)[max(1, -(-round(quantile * 10**6) * size // 10**6)) - 1]
            assert summary.query(10**6, quantile) == (exact, exact, exact, 0.0)


DATA = Path(__file__).parents[4] / "shared" / "data"
FLIGHTS = DATA / "flights-2001-h1.parquet"
WEB = DATA / "nasa_http_19950801.tsv.gz"


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the folder of real events is not there")
@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_flights_keep_the_promise(epsilon: float) -> None:
    """Miles and delays of half a year of flights, hours to weeks."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "distance", "delay"])
    times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
    day = 86_400_000
    spans = [3_600_000, day, 7 * day]
    queries = np.linspace(times[0] + 1, times[-1] + 2 * day, 12).astype(np.int64)
    for column in ("distance", "delay"):
        values = table[column].to_numpy().astype(np.float64)
        parameters = QuantileParameters(epsilon, 7 * day)
        result = answers(parameters, times, values, queries, spans)
        check(result, parameters.rank_error, times, values, queries, spans)


@pytest.mark.skipif(not WEB.exists(), reason="the folder of real events is not there")
def test_web_replies_keep_the_promise() -> None:
    """Bytes of the replies of a web server, seconds to a day."""
    with gzip.open(WEB, "rt", encoding="latin-1", newline="") as file:
        rows = sorted(
            (int(row["time"]), int(row["bytes"] or 0))
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        )
    times = np.array([time for time, _ in rows], np.int64)
    values = np.array([size for _, size in rows], np.float64)
    spans = [1, 60, 3_600, 86_400]
    queries = np.linspace(times[0], times[-1] + 9_000, 40).astype(np.int64)
    parameters = QuantileParameters(0.02, 86_400)
    result = answers(parameters, times, values, queries, spans)
    check(result, parameters.rank_error, times, values, queries, spans)
