"""What `kernels.py` measures: the batch function of each synopsis, and two peers.

An insert takes the states of all keys, where each key's events start, and their times and values;
it returns the new states, as bytes, and asks nothing.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from slidestat.synopses import (
    Batch,
    BitmapsParameters,
    CounterTableParameters,
    CountParameters,
    DistinctParameters,
    ExtremeParameters,
    FrequentParameters,
    LeanDistinctParameters,
    LpNormParameters,
    PairedParameters,
    QuantileParameters,
    SampleParameters,
    SpreadParameters,
    SumParameters,
    ValueHistogramParameters,
    ValueQuantileParameters,
    WaveParameters,
    run_batch,
    run_bitmaps_batch,
    run_counter_table_batch,
    run_distinct_batch,
    run_extreme_batch,
    run_frequent_batch,
    run_lean_distinct_batch,
    run_lp_norm_batch,
    run_paired_items_batch,
    run_quantile_batch,
    run_sample_batch,
    run_spread_batch,
    run_value_histogram_batch,
    run_value_quantile_batch,
    run_wave_batch,
)
from slidestat.synopses.core.arrays import Floats, Integers

States = Sequence[bytes | None]
Insert = Callable[[States, Integers, Integers, Floats], Sequence[bytes]]

SPAN_MS = 3_600_000
KLL_K = 200
EDGES = (1, 2, 5, 10, 20, 30, 40, 50, 75, 90, 99)
DELTA = 0.01
CAPACITY = 100_000

_none = np.empty(0, np.int64)


def _no_queries(states: States) -> Integers:
    return np.zeros(len(states) + 1, np.int64)


def _hundredths(values: Floats) -> Integers:
    return np.rint(values * 100).astype(np.int64)


def count(epsilon: float) -> Insert:
    """Exponential histogram of counts."""
    chosen = CountParameters(epsilon, SPAN_MS)

    def insert(states: States, starts: Integers, times: Integers, _: Floats) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_batch(chosen, states, Batch(starts, times, None, asked, _none, _none)).states

    return insert


def total(epsilon: float) -> Insert:
    """Exponential histogram of sums."""
    chosen = SumParameters(epsilon, SPAN_MS, decimals=2)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_batch(chosen, states, Batch(starts, times, values, asked, _none, _none)).states

    return insert


def wave(kind: str, epsilon: float) -> Insert:
    """Wave of counts, of sums (of whole numbers) or of positions."""
    chosen = WaveParameters(epsilon, SPAN_MS)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        whole = _hundredths(values) if kind == "sum" else None
        asked = _no_queries(states)
        return run_wave_batch(
            kind, chosen, states, Batch(starts, times, whole, asked, _none, _none)
        ).states

    return insert


def extreme(side: str, epsilon: float = 0.0) -> Insert:
    """Minimum or maximum."""
    chosen = ExtremeParameters(side, SPAN_MS, epsilon)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_extreme_batch(
            chosen, states, Batch(starts, times, values, asked, _none, _none)
        ).states

    return insert


def spread(epsilon: float) -> Insert:
    """Mean, variance and standard deviation."""
    chosen = SpreadParameters(epsilon, SPAN_MS, decimals=2)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_spread_batch(
            chosen, states, Batch(starts, times, values, asked, _none, _none)
        ).states

    return insert


def sample(size: int) -> Insert:
    """Random sample without replacement."""
    chosen = SampleParameters(size, SPAN_MS, seed=1)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        return run_sample_batch(chosen, states, Batch(starts, times, values))

    return insert


def value_quantiles(relative_error: float, epsilon: float) -> Insert:
    """Quantiles by value."""
    chosen = ValueQuantileParameters(relative_error, epsilon, SPAN_MS)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_value_quantile_batch(
            chosen, states, Batch(starts, times, values, asked, _none, _none)
        ).states

    return insert


def quantiles(epsilon: float) -> Insert:
    """Quantiles by rank."""
    chosen = QuantileParameters(epsilon, SPAN_MS)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_quantile_batch(
            chosen, states, Batch(starts, times, values, asked, _none, _none), []
        ).states

    return insert


def frequent(epsilon: float) -> Insert:
    """Frequent items in pairs; the item of an event is its value, rounded."""
    chosen = PairedParameters(epsilon, SPAN_MS)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = values.astype(np.int64), _no_queries(states)
        return run_paired_items_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none), 0
        ).states

    return insert


def frequent_in_blocks(epsilon: float) -> Insert:
    """Frequent items in blocks; items as of `frequent`."""
    chosen = FrequentParameters(epsilon, SPAN_MS)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = values.astype(np.int64), _no_queries(states)
        return run_frequent_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none), 0
        ).states

    return insert


def value_histogram(epsilon: float) -> Insert:
    """Counts of events in twelve bins of values."""
    chosen = ValueHistogramParameters(epsilon, SPAN_MS, EDGES)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        asked = _no_queries(states)
        return run_value_histogram_batch(
            chosen, states, Batch(starts, times, values, asked, _none, _none)
        ).states

    return insert


def counter_table(epsilon: float) -> Insert:
    """A count for each item; the item of an event is its value, rounded."""
    chosen = CounterTableParameters(epsilon, SPAN_MS, CAPACITY)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = values.astype(np.int64), _no_queries(states)
        return run_counter_table_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none)
        ).states

    return insert


def distinct(epsilon: float) -> Insert:
    """Distinct items, with a confidence of 99 %; the item of an event is its value, times 100."""
    chosen = DistinctParameters(epsilon, DELTA, SPAN_MS, seed=1)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = _hundredths(values), _no_queries(states)
        return run_distinct_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none)
        ).states

    return insert


def lean_distinct(epsilon: float) -> Insert:
    """Distinct items in little room, with a confidence of 99 %; items as of `distinct`."""
    chosen = LeanDistinctParameters(epsilon, DELTA, SPAN_MS, seed=1)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = _hundredths(values), _no_queries(states)
        return run_lean_distinct_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none)
        ).states

    return insert


def bitmaps(number: int) -> Insert:
    """Distinct items, roughly, by bitmaps; items as of `distinct`."""
    chosen = BitmapsParameters(number, DELTA, SPAN_MS, seed=1)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = _hundredths(values), _no_queries(states)
        return run_bitmaps_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none)
        ).states

    return insert


def norm(p: float, epsilon: float) -> Insert:
    """L_p norm of how often each item came; items as of `counter_table`."""
    chosen = LpNormParameters(p, epsilon, DELTA, SPAN_MS, seed=1)

    def insert(
        states: States, starts: Integers, times: Integers, values: Floats
    ) -> Sequence[bytes]:
        items, asked = values.astype(np.int64), _no_queries(states)
        return run_lp_norm_batch(
            chosen, states, Batch(starts, times, items, asked, _none, _none)
        ).states

    return insert


WHOLE_SET: dict[str, Insert] = {
    "count, 0.01": count(0.01),
    "sum, 0.01": total(0.01),
    "minimum": extreme("minimum"),
    "maximum": extreme("maximum"),
    "mean, variance, deviation, 0.1": spread(0.1),
    "sample of 10": sample(10),
    "quantiles by value, 0.01 and 0.1": value_quantiles(0.01, 0.1),
    "frequent items, 0.05": frequent(0.05),
}
"""Statistics that one key may well have all at once, at errors that people choose."""

OF_ITEMS: dict[str, Insert] = {
    "value histogram, 12 bins, 0.01": value_histogram(0.01),
    "counter table, 0.01": counter_table(0.01),
    "distinct, 0.05": distinct(0.05),
    "distinct, 0.1": distinct(0.1),
    "lean distinct, 0.05": lean_distinct(0.05),
}
"""What counts by value and by item: each alone."""

OF_MANY_KEYS: dict[str, Insert] = {
    **WHOLE_SET,
    **OF_ITEMS,
    "maximum, 0.01": extreme("maximum", 0.01),
    "sample of 100": sample(100),
    "quantiles by rank, 0.05": quantiles(0.05),
    "count wave, 0.01": wave("count", 0.01),
    "sum wave, 0.01": wave("sum", 0.01),
    "position wave, 0.01": wave("position", 0.01),
}


def kll(batches: Sequence[Floats]) -> int:
    """Feed DataSketches' KLL of doubles, which has no window; return its stored bytes."""
    datasketches: Any = import_module("datasketches")  # neither peer has types
    sketch = datasketches.kll_doubles_sketch(KLL_K)
    for batch in batches:
        sketch.update(batch)
    return len(sketch.serialize())


def adwin(values: Sequence[float]) -> int:
    """Feed river's ADWIN, an exponential histogram that cuts its window itself; no bytes."""
    drift: Any = import_module("river.drift")
    detector = drift.ADWIN()
    for value in values:
        detector.update(value)
    return 0
