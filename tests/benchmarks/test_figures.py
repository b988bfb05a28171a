"""The benchmarks' check of figures: it lets what is right pass, and nothing else."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.harness.exact import Exact, variance
from benchmarks.harness.figures import Figure, violation_of
from benchmarks.harness.workload import KeyDistribution, draw

CENTS = np.array([100, 250, 250, 400, 1_000], np.int64)


@dataclass
class _Case:
    statistic: str
    exact: float
    quantile: float | None = None

    def figure(self, estimate: float, lower: float, upper: float) -> Figure:
        share = 0.0 if self.quantile is None else 0.2
        relative = 0.1 if self.quantile is None else 0.0
        return Figure(
            self.statistic,
            1_000,
            estimate,
            lower,
            upper,
            quantile=self.quantile,
            relative_error=relative,
            share_error=share,
        )


DEVIATION = float(variance(CENTS)) ** 0.5
CASES = [
    _Case("minimum", 1.0),
    _Case("maximum", 10.0),
    _Case("deviation", DEVIATION),
    _Case("quantile", 2.5, 0.5),
    _Case("quantile", 2.5, 0.6),
    _Case("quantile", 10.0, 0.9),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.statistic}-{c.quantile}")
def test_right_figures_pass(case: _Case) -> None:
    """A figure whose bounds hold and whose error is within the promise has no violation."""
    near = (np.nextafter(case.exact, 0), np.nextafter(case.exact, 100))
    assert violation_of(case.figure(case.exact, *near), CENTS) == ""


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.statistic}-{c.quantile}")
def test_bounds_that_do_not_hold_are_violations(case: _Case) -> None:
    """A lower bound above the exact figure is a violation, and so is an upper one below it."""
    above, below = case.exact * (1 + 1e-9), case.exact * (1 - 1e-9)
    assert "bounds" in violation_of(case.figure(case.exact, above, 100.0), CENTS)
    assert "bounds" in violation_of(case.figure(case.exact, 0.0, below), CENTS)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.statistic}-{c.quantile}")
def test_estimates_beyond_the_promise_are_violations(case: _Case) -> None:
    """An estimate that is further off than promised is a violation, though the bounds be wide."""
    assert violation_of(case.figure(case.exact * 0.3, 0.0, 100.0), CENTS) != ""


@pytest.mark.parametrize("statistic", ["deviation", "minimum", "maximum"])
def test_only_an_empty_window_has_no_figure(statistic: str) -> None:
    """Figures of no events are null, and only those."""
    nothing = Figure(statistic, 1_000, None, None, None)
    assert violation_of(nothing, CENTS[:0]) == ""
    assert violation_of(nothing, CENTS) != ""
    assert violation_of(_Case(statistic, 1.0).figure(1.0, 1.0, 1.0), CENTS[:0]) != ""


def test_variance_is_exact() -> None:
    """The variance of 1, 2.5, 2.5, 4 and 10 is 9.9: (9 + 2.25 + 2.25 + 0 + 36) / 5."""
    assert variance(CENTS) == Fraction(99, 10)


def test_windows_are_searched_exactly() -> None:
    """Counts, sums and values of any window are those of a scan through the events."""
    workload = draw(2_000, 7, KeyDistribution.ZIPF_STEEP, 2)
    exact = Exact(workload)
    rng = np.random.default_rng(1)
    first, last = int(workload.times[0]), int(workload.times[-1])
    for _ in range(200):
        start, end = sorted(rng.integers(first - 100, last + 100, 2).tolist())
        key = int(rng.integers(7))
        inside = (workload.keys == key) & (start <= workload.times) & (workload.times < end)
        count, total = exact.of(np.array([key]), np.array([start]), np.array([end]))
        values = exact.cents(key, start, end)
        assert (count[0], total[0]) == (inside.sum(), workload.cents[inside].sum())
        assert np.array_equal(values, np.sort(workload.cents[inside]))
