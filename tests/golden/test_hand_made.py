"""Merges and summaries that can be worked by hand, and capacities that never change."""

import numpy as np

from slidestat.synopses import (
    Bundle,
    CountParameters,
    ExponentialHistogram,
    QuantileParameters,
    Quantiles,
    WindowQuantiles,
    WindowTotals,
    merge_summaries,
    read_summary,
    take_summary,
    union_quantiles,
    union_totals,
)
from slidestat.synopses.distinct.parameters import plan
from tests.golden.golden import HOUR, steps

STEPS, TIMES = steps(20)
VALUES = (STEPS * 7_919 % 100_003) / 100


def _quantiles(times: np.ndarray, values: np.ndarray) -> bytes:
    summary = Quantiles.create(QuantileParameters(0.3, HOUR))
    summary.insert(times, values)
    return summary.to_bytes()


def test_two_hand_made_streams() -> None:
    """Small enough to follow: l = 1, four and three events.

    With l = 1 the first has buckets of 2, 1 and 1 events (edges at 2, 3, 4), so its estimate of a
    window from 2 on is 3.5; the second has 2 and 1 (edges at 6, 7): 2.5.
    """
    sent = []
    for times in ([1, 2, 3, 4], [5, 6, 7]):
        histogram = ExponentialHistogram.create(CountParameters(0.5, 100))
        histogram.insert(times)
        sent.append(histogram.to_bytes())
    assert ExponentialHistogram.from_bytes(sent[0]).buckets() == [(2, 2), (1, 3), (1, 4)]
    assert ExponentialHistogram.from_bytes(sent[1]).buckets() == [(2, 6), (1, 7)]
    together = Bundle.of({"a": sent[0], "b": sent[1]})
    assert union_totals([together], [8], [100]).estimates[0, 0] == 3.5 + 2.5


def test_quantiles_of_two_exact_parts_are_those_of_all_their_values() -> None:
    """While parts are exact, so is their union: nearest-rank quantiles of all values together."""
    parts = {
        name: _quantiles(TIMES[at], VALUES[at])
        for name, at in (("a", slice(9)), ("b", slice(9, 20)))
    }
    together = Bundle.of(parts)
    found = union_quantiles([together], [together.now], [HOUR], [0, 0.25, 0.5, 1])
    ordered = np.sort(VALUES[:20])
    expected = [ordered[0], ordered[4], ordered[9], ordered[19]]
    assert found.estimates[0, 0].tolist() == expected
    assert found.rank_errors[0, 0].tolist() == [0, 0, 0, 0]


def test_two_hand_made_windows() -> None:
    """Few enough events to be exact: a day's figures are those of all its events."""
    count, values = (
        ExponentialHistogram.create(CountParameters(0.1, 10)),
        Quantiles.create(QuantileParameters(0.5, 10)),
    )
    count.insert([1, 2, 3])
    values.insert([1, 2, 3], [4.0, 8.0, 6.0])
    first = take_summary(count.to_bytes(), 2), take_summary(values.to_bytes(), 10, 10)
    count.insert([13, 14])
    values.insert([13, 14], [5.0, 5.0])
    second = take_summary(count.to_bytes(), 10, 20), take_summary(values.to_bytes(), 10, 20)
    counted, ranked = (
        read_summary(merge_summaries(pair)) for pair in zip(first, second, strict=True)
    )
    assert isinstance(counted, WindowTotals)
    assert isinstance(ranked, WindowQuantiles)
    assert counted.answer() == (4, 4, 4, 0)
    assert [ranked.quantile(p) for p in (0, 0.5, 1)] == [(4, 4, 4, 0), (5, 5, 5, 0), (8, 8, 8, 0)]


def test_capacities_are_what_they_were() -> None:
    """Instances and capacity are not stored, so those of an epsilon and delta never change."""
    assert plan(0.05, 0.01) == (1, 8_636)
    assert plan(0.01, 0.0001) == (1, 656_497)
    assert plan(0.1, 1e-6) == (5, 2_741)
    assert plan(0.005, 1e-9) == (7, 1_191_214)
    assert plan(0.5, 0.5) == (1, 32)
