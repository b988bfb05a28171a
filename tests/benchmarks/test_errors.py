"""The errors beside the promises: every statistic has a row, and a figure that is wrong is seen."""

import json
from collections.abc import Sequence
from math import inf, sqrt

import numpy as np
import pytest

from benchmarks.accuracy.errors import (
    EVENTS,
    Row,
    bounds_hold,
    rows,
    share_of_promise,
    skewed,
    untied,
)
from benchmarks.accuracy.recounted import RESULTS, STATISTICS, Window
from slidestat.declare.kinds import KINDS
from slidestat.schemas.emission import Figure

# 1 comes four times, 2 twice, 7 and 10 once.
WINDOW = Window(np.array([1, 1, 1, 1, 2, 2, 7, 10], np.int64), np.arange(2_000) + 7)


@pytest.fixture(scope="module")
def measured() -> Sequence[Row]:
    return list(rows(EVENTS))


def test_the_readme_tells_of_this_code(measured: Sequence[Row]) -> None:
    """All rows come again; `python -m benchmarks.accuracy.errors` writes them anew."""
    told = [Row(**row) for row in json.loads(RESULTS.read_text())["errors"]]
    assert [row.statistic for row in told] == [row.statistic for row in measured]
    for row, now in zip(told, measured, strict=True):
        assert now[1:] == pytest.approx(row[1:], rel=1e-9), row


def test_no_two_values_are_alike() -> None:
    """Ties flatter quantiles."""
    cents = untied(20_000).cents
    assert len(np.unique(cents)) == len(cents)
    assert np.median(cents) == pytest.approx(1e8, rel=0.05)


def test_every_statistic_is_measured(measured: Sequence[Row]) -> None:
    """No kind of statistic is left out of the plot of errors."""
    assert {statistic.kind for statistic in STATISTICS} == set(KINDS)
    assert {row.statistic for row in measured} == set(KINDS)


def test_promises_that_chance_has_no_part_in_are_kept(measured: Sequence[Row]) -> None:
    """Of those with a confidence of 1 each figure keeps its promise and its bounds."""
    for row in measured:
        if row.confidence == 1:
            assert row.kept == 1, row
            assert 0 <= row.median <= row.most <= 1, row


def test_items_are_skewed_whole_numbers() -> None:
    """The item that comes most often is 1, and has about a tenth of the events."""
    cents = skewed(20_000).cents
    assert not np.any(cents % 100)
    assert np.bincount(cents // 100).argmax() == 1
    assert 0.08 < np.mean(cents == 100) < 0.11


EXACT = [
    Figure("count", 8, 0, 0, 60_000),
    Figure("rate", 8 / 60, 0, 0, 60_000),
    Figure("sum", 25, 0, 0, 60_000),
    Figure("mean", 25 / 8, 0, 0, 60_000),
    Figure("variance", 161 / 8 - (25 / 8) ** 2, 0, 0, 60_000),
    Figure("minimum", 1, 0, 0, 60_000),
    Figure("maximum", 10, 0, 0, 60_000),
    Figure("quantile", 2, 0, 0, 60_000, quantile=0.75),
    Figure("top", 4, 0, 0, 60_000, item="1"),
    Figure("distinct", 4, 0, 0, 60_000),
    Figure("histogram", 6, 0, 0, 60_000, below=7.0),
    Figure("above", 2, 0, 0, 60_000, at_least=7.0),
    Figure("norm", sqrt(16 + 4 + 1 + 1), 0, 0, 60_000),
    Figure("net_sum", 25, 0, 0, 60_000),
    Figure("sum_histogram", 8, 0, 0, 60_000, below=7.0),
    Figure("mean_histogram", 8 / 6, 0, 0, 60_000, below=7.0),
    Figure("items", 4, 0, 0, 60_000, item="1"),
    Figure("age_of_last", 1_006, 0, 0),
    Figure("landmark_count", 8, 0, 0),
    Figure("landmark_sum", 25, 0, 0),
]


def with_bounds(figure: Figure, lower: float, upper: float, error: float) -> Figure:
    promise = {"share_error": error} if figure.quantile is not None else {"absolute_error": error}
    return Figure(
        figure.statistic,
        figure.estimate,
        lower,
        upper,
        figure.window_ms,
        quantile=figure.quantile,
        item=figure.item,
        at_least=figure.at_least,
        below=figure.below,
        **promise,
    )


@pytest.mark.parametrize("figure", EXACT, ids=lambda figure: figure.statistic)
def test_an_exact_figure_has_no_error(figure: Figure) -> None:
    """What is exact, or the double next to it, is within its bounds and far within a promise."""
    estimate = figure.estimate or 0.0
    near = (np.nextafter(estimate, -inf), np.nextafter(estimate, inf))
    right = with_bounds(figure, float(near[0]), float(near[1]), 1e-9)
    assert bounds_hold(right, WINDOW)
    assert share_of_promise(right, WINDOW) < 1e-6


@pytest.mark.parametrize("figure", EXACT, ids=lambda figure: figure.statistic)
def test_a_figure_that_is_wrong_is_seen(figure: Figure) -> None:
    """Bounds beside the exact figure do not hold; an estimate too far off breaks its promise, and
    one that promises no error at all breaks it by any.
    """
    estimate = figure.estimate or 0.0
    assert not bounds_hold(with_bounds(figure, estimate * 1.01, 99.0, 0), WINDOW)
    assert not bounds_hold(with_bounds(figure, 0.0, estimate * 0.99, 0), WINDOW)
    assert not bounds_hold(Figure(figure.statistic, None, None, None, 60_000), WINDOW)
    far = Figure(
        **{
            **{name: getattr(figure, name) for name in figure.__struct_fields__},
            "estimate": estimate + 6.0,
        }
    )
    error = 0.2 if figure.quantile is not None else 5.0
    assert share_of_promise(with_bounds(far, 0, 0, error), WINDOW) > 1
    assert share_of_promise(far, WINDOW) == inf


def test_an_error_is_by_all_that_is_promised() -> None:
    """The relative, the absolute, the share and the deviation part add up to what is allowed."""
    allowed = 0.5 * 8 + 1 + 0.125 * 8 + 2 * sqrt(161 / 8 - (25 / 8) ** 2)
    figure = Figure(
        "count",
        8 + allowed / 2,
        0,
        99,
        60_000,
        relative_error=0.5,
        absolute_error=1,
        share_error=0.125,
        deviation_error=2,
    )
    assert share_of_promise(figure, WINDOW) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(("estimate", "share"), [(500, 0), (505, 0.04), (560.7, 0.54), (620, 2)])
def test_a_quantile_by_value_uses_both_of_its_errors_alike(estimate: float, share: float) -> None:
    """The value may be off by 2 % from one whose rank is off by up to 100."""
    window = Window(np.arange(1, 1_001), np.arange(1))
    figure = Figure(
        "quantile",
        estimate,
        0,
        1_000,
        60_000,
        quantile=0.5,
        relative_error=0.02,
        share_error=0.1,
    )
    found = share_of_promise(figure, window)
    assert found > 1 if share > 1 else found == pytest.approx(share, abs=0.02)
