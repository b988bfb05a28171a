"""The promise of value histograms and tables of counters, for each cell, against exact counts."""

from collections.abc import Sequence
from fractions import Fraction
from math import log2

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    BatchResult,
    CounterTable,
    CounterTableParameters,
    SynopsisError,
    ValueHistogram,
    ValueHistogramParameters,
    run_counter_table_batch,
    run_value_histogram_batch,
)
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.value_histogram.value_histogram import at_least, below
from tests.oracles import ExactWindow, canonical_buckets
from tests.synopses.celled import EDGES, ITEMS, SPAN, VALUES
from tests.synopses.streams import TIMES

SIZE = 400
WINDOWS = [1, 2, 7, 50, 200, 333, 500]


def keep(promise: Fraction, exact: int, estimate: float, lower: float, upper: float) -> None:
    assert lower <= exact <= upper
    assert abs(Fraction(float(estimate)) - exact) <= promise * exact


def figures_of(result: BatchResult) -> tuple[Floats, Floats, Floats]:
    return result.estimates, result.lowers, result.uppers


def bin_of(value: float, edges: Sequence[float]) -> int:
    return sum(edge <= value for edge in edges)


def moments(times: Sequence[int], step: int) -> list[int]:
    after = sorted({t + d for t in times for d in (0, 1, 30)})
    return [*after[::step], times[-1] + SPAN, times[-1] + SPAN + 1]


@pytest.mark.parametrize("epsilon", [1, 0.25, 0.05])
@pytest.mark.parametrize("value_name", VALUES)
def test_each_bin_and_each_threshold_keep_the_promise(value_name: str, epsilon: float) -> None:
    """At many moments, for every n tried: each bin, all from an edge on, and all below it."""
    parameters = ValueHistogramParameters(epsilon, SPAN, EDGES)
    promise = Fraction(parameters.relative_error)
    for i, name in enumerate(TIMES):
        rng = np.random.default_rng(i)
        times = TIMES[name](rng, SIZE).tolist()
        values = VALUES[value_name](rng, SIZE).tolist()
        bins = [
            ExactWindow(times, [int(bin_of(value, EDGES) == j) for value in values])
            for j in range(6)
        ]
        queries = moments(times, 13 if i else 2)
        asked = [0, len(queries)]
        result = run_value_histogram_batch(
            parameters, [None], Batch([0, SIZE], times, values, asked, queries, WINDOWS)
        )
        assert result.estimates.shape == (len(queries), len(WINDOWS), 6)
        above = [[at_least(parameters, e, f) for f in figures_of(result)] for e in EDGES]
        under = [[below(parameters, e, f) for f in figures_of(result)] for e in EDGES]
        for q, now in enumerate(queries):
            for k, n in enumerate(WINDOWS):
                exact = [int(one.sum(now - n, now)) for one in bins]
                for j in range(6):
                    keep(promise, exact[j], *(f[q, k, j] for f in figures_of(result)))
                for j in range(5):
                    keep(promise, sum(exact[j + 1 :]), *(f[q, k] for f in above[j]))
                    keep(promise, sum(exact[: j + 1]), *(f[q, k] for f in under[j]))


@pytest.mark.parametrize("epsilon", [1, 0.25, 0.05])
@pytest.mark.parametrize("item_name", ITEMS)
def test_each_item_keeps_the_promise(item_name: str, epsilon: float) -> None:
    """At many moments, for every n tried: who came is listed, who did not is not."""
    parameters = CounterTableParameters(epsilon, SPAN, SIZE)
    promise = Fraction(parameters.relative_error)
    for i, name in enumerate(TIMES):
        rng = np.random.default_rng(i)
        times = TIMES[name](rng, SIZE)
        items = ITEMS[item_name](rng, SIZE).astype(np.int64)
        queries = moments(times.tolist(), 29 if i else 4)
        result = run_counter_table_batch(
            parameters, [None], Batch([0, SIZE], times, items, [0, len(queries)], queries, WINDOWS)
        )
        for place in range(len(queries) * len(WINDOWS)):
            now, n = queries[place // len(WINDOWS)], WINDOWS[place % len(WINDOWS)]
            inside = items[(times >= now - n) & (times < now)]
            came, counts = np.unique(inside, return_counts=True)
            at, to = result.ends[place : place + 2]
            assert result.ids[at:to].tolist() == came.tolist()
            for j, exact in zip(range(at, to), counts.tolist(), strict=True):
                keep(
                    promise,
                    exact,
                    *(f[j] for f in (result.estimates, result.lowers, result.uppers)),
                )


@pytest.mark.parametrize("name", TIMES)
def test_buckets_of_a_cell_are_those_of_the_procedure(name: str) -> None:
    """Estimates and bounds of each item are those of the l-canonical buckets since its last gap."""
    times = TIMES[name](np.random.default_rng(3), 300)
    items = np.random.default_rng(4).zipf(1.5, 300) % 5
    table = CounterTable.create(CounterTableParameters(0.2, SPAN, 5))
    table.insert(times, items)
    for n in (1, 10, 300, SPAN):
        expected = {}
        for item in range(5):
            mine = times[items == item]
            gaps = np.flatnonzero(np.diff(mine) >= SPAN)
            mine = mine[gaps[-1] + 1 if len(gaps) else 0 :].tolist()
            buckets = canonical_buckets(mine, [1] * len(mine), 3)
            inside = [size for size, time in buckets if time >= table.now - n]
            if inside:
                newer = sum(inside[1:])
                expected[item] = (newer + (inside[0] + 1) / 2, newer + 1, newer + inside[0])
        assert table.query(n) == expected


def test_the_capacity_is_kept_at_every_moment_wherever_batches_end() -> None:
    """More live items than the capacity are refused, as many are not: against a literal count."""
    rng = np.random.default_rng(5)
    seen = {True: 0, False: 0}
    for _ in range(300):
        size = int(rng.integers(5, 60))
        times = np.cumsum(rng.choice([0, 1, 5, 30], size))
        items = rng.integers(0, 30, size)
        span = int(rng.integers(1, 40))
        parameters = CounterTableParameters(0.5, span, int(rng.integers(2, 12)))
        most = max(
            len(np.unique(items[: i + 1][times[: i + 1] > times[i] - span])) for i in range(size)
        )
        refused = []
        for cuts in ([], sorted(rng.integers(0, size, 3).tolist()), list(range(size))):
            table = CounterTable.create(parameters)
            try:
                for start, end in zip([0, *cuts], [*cuts, size], strict=True):
                    table.insert(times[start:end], items[start:end])
                refused.append(False)
            except WindowTooLargeError:
                refused.append(True)
        assert refused == [most > parameters.capacity] * 3
        seen[refused[0]] += 1
    assert min(seen.values()) > 30


@pytest.mark.parametrize("epsilon", [0.5, 0.01])
def test_space_of_each_item_stays_within_the_theorem(epsilon: float) -> None:
    """Each item has at most (l + 1)(log2(N'/l + 1) + 1) buckets; the bytes follow."""
    rng = np.random.default_rng(6)
    parameters = CounterTableParameters(epsilon, 400_000, 1_000)
    per_level = round(0.5 / parameters.relative_error)
    table = CounterTable.create(parameters)
    for start in range(0, 2_000_000, 200_000):
        table.insert(np.arange(start, start + 200_000), rng.zipf(1.5, 200_000) % 100)
        table.check()
        most = 0.0
        for count in table.query(400_000).values():
            most += (per_level + 1) * (log2(count.upper / per_level + 1) + 1)
        assert len(table.to_bytes()) <= 60 + 4 * most


def test_few_events_are_few_bytes() -> None:
    """Five events of a key take less than 100 bytes, edges of a dozen bins included."""
    edges = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
    histogram = ValueHistogram.create(ValueHistogramParameters(0.01, 3_600_000, edges))
    noon = 1_700_000_000_000
    histogram.insert(noon + np.arange(5) * 600_000, [0.001, 0.07, 0.3, 3, 99])
    assert len(histogram.to_bytes()) < 100
    table = CounterTable.create(CounterTableParameters(0.01, 3_600_000, 1_000))
    table.insert(noon + np.arange(5) * 600_000, np.arange(5) * 1_000)
    assert len(table.to_bytes()) < 100


def test_items_that_expired_leave_nothing() -> None:
    """A million items that came once are gone when the span is over."""
    table = CounterTable.create(CounterTableParameters(0.1, 1_000, 1_000))
    empty = len(table.to_bytes())
    for start in range(0, 1_000_000, 100_000):
        table.insert(np.arange(start, start + 100_000), np.arange(start, start + 100_000))
        assert len(table.to_bytes()) <= empty + 12_000
    table.advance(table.now + 1_000)
    assert len(table.to_bytes()) <= empty + 8


def test_groups_of_a_batch_do_not_touch_each_other() -> None:
    """A batch of many keys is what each would do alone, and queries leave no trace."""
    rng = np.random.default_rng(8)
    parameters = ValueHistogramParameters(0.1, SPAN, EDGES)
    sizes = (0, 5, 400, 1, 30)
    columns = [(np.cumsum(rng.integers(0, 9, n)), rng.normal(0, 9, n)) for n in sizes]
    alone = []
    for times, values in columns:
        histogram = ValueHistogram.create(parameters)
        histogram.insert(times, values)
        alone.append(histogram)
    starts = np.cumsum([0, *sizes])
    every = [np.concatenate(part) for part in zip(*columns, strict=True)]
    now = [max(histogram.now, 0) for histogram in alone]
    result = run_value_histogram_batch(
        parameters, [None] * 5, Batch(starts, *every, range(6), now, [SPAN, 9])
    )
    for i, histogram in enumerate(alone):
        assert result.states[i] == histogram.to_bytes()
        for k, n in enumerate((SPAN, 9)):
            mine = np.array(histogram.query(n, now[i]))
            assert np.array_equal(mine.T, [figures[i, k] for figures in figures_of(result)])
    other = ValueHistogramParameters(0.1, SPAN, (*EDGES, 50.0))
    with pytest.raises(SynopsisError, match=r"group 1: .*other parameters"):
        run_value_histogram_batch(
            other, [None, result.states[2]], Batch([0, 0, 0], [], [], [0, 0, 0], [], [])
        )


def test_bad_parameters_values_and_questions_are_refused_by_name() -> None:
    """Edges that do not rise or are no numbers, capacities, thresholds that are no edges."""
    for edges in (
        (),
        (1.0, 1.0),
        (2.0, 1.0),
        (float("nan"),),
        (float("inf"),),
        tuple(range(1_001)),
    ):
        with pytest.raises(SynopsisError, match="edges"):
            ValueHistogramParameters(0.1, 9, edges)
    with pytest.raises(SynopsisError, match="edges must be numbers"):
        ValueHistogramParameters(0.1, 9, ("low", "high"))  # type: ignore[arg-type]
    for bad in (
        (0, 9, 5),
        (0.1, 0, 5),
        (0.1, 9, 0),
        (0.1, 9, 1.5),
        (0.1, 9, True),
        (0.1, 9, 2**40),
    ):
        with pytest.raises(SynopsisError, match="must be"):
            CounterTableParameters(*bad)
    histogram = ValueHistogram.create(ValueHistogramParameters(0.1, 9, [1, 2]))  # type: ignore[arg-type]
    for value in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(SynopsisError, match=f"value {value} cannot be taken: .* finite"):
            histogram.insert([1, 2], [0.0, value])
    with pytest.raises(SynopsisError, match="not an edge"):
        histogram.at_least(1.5, 9)
    for n in (0, 10, -1):
        with pytest.raises(SynopsisError, match="from 1 to 9"):
            histogram.query(n)
    histogram.insert([5], [1.0])
    with pytest.raises(SynopsisError, match="earlier"):
        histogram.query(9, now=3)
    table = CounterTable.create(CounterTableParameters(0.1, 9, 5))
    with pytest.raises(SynopsisError, match="whole numbers"):
        table.insert([1], [0.5])
    with pytest.raises(SynopsisError, match="an item is needed"):
        table.insert([1, 2], [5])
