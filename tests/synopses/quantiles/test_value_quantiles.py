"""Quantiles by value: the promise at its bound, on values and times made to reach it; the size."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest

from slidestat.synopses import (
    Batch,
    Bundle,
    Rank,
    ValueQuantileParameters,
    ValueQuantiles,
    merge_summaries,
    read_summary,
    run_value_quantile_batch,
    take_summary,
    union_value_quantiles,
    union_value_ranks,
)
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.value_quantiles.batch import figures_of
from slidestat.synopses.value_quantiles.mapping import (
    NOT_FINITE,
    mapping_of,
    most_bins,
    outlines,
)
from slidestat.synopses.value_quantiles.sketch import rank_of
from tests.synopses.streams import TIMES

QUANTILES = (0.0, 0.0001, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 0.999, 1.0)
HOUR = 3_600_000


def lognormal(rng: np.random.Generator, size: int) -> Floats:
    return np.round(rng.lognormal(4.6, 1.0, size), 3)


VALUES = {
    "lognormal": lognormal,
    "both signs": lambda rng, size: rng.normal(0, 1_000, size),
    "far apart": lambda rng, size: (
        rng.choice([-1.0, 1.0], size) * 10.0 ** rng.uniform(-8, 14, size)
    ),
    "few values": lambda rng, size: rng.integers(-2, 3, size).astype(np.float64),
    # A band's lowest bin is full, its highest nearly empty, and nothing is above.
    "a lonely tail": lambda rng, size: np.where(rng.random(size) < 0.003, 1.06, 1.0),
    "two lonely tails": lambda rng, size: rng.choice([1.0, 1.03, 1.15], size, p=[0.01, 0.98, 0.01]),
    # The slow ones come all at once: a window's start cuts them from all others.
    "a burst of slow ones": lambda rng, size: np.where(
        np.arange(size) % 1_000 < 15, rng.uniform(500, 900, size), rng.uniform(10, 20, size)
    ),
    "rising": lambda rng, size: 1.0 + np.arange(size) / 100,  # noqa: ARG005
    "falling": lambda rng, size: size / 100 - np.arange(size) / 100,  # noqa: ARG005
    "edges of bins": lambda rng, size: 2.0 ** (rng.integers(-70, 70, size) / 35),
}


def check(
    parameters: ValueQuantileParameters,
    figures: tuple[float, float, float],
    p: float,
    window: Floats,
) -> None:
    """Bounds hold, and the estimate is as near as promised; `window` is sorted. No slack."""
    estimate, lower, upper = figures
    if not len(window):
        assert np.isnan(figures).all()
        return
    exact = window[max(1, ceil(Fraction(repr(p)) * len(window))) - 1]
    assert lower <= exact <= upper
    assert lower <= estimate <= upper
    share = Fraction(repr(parameters.epsilon)) * min(Fraction(repr(p)), 1 - Fraction(repr(p)))
    first = max(1, ceil((Fraction(repr(p)) - share) * len(window)))
    last = min(len(window), floor((Fraction(repr(p)) + share) * len(window)) + 1)
    nearest = min(max(estimate, window[first - 1]), window[last - 1])
    off = abs(Fraction(float(estimate)) - Fraction(float(nearest)))
    assert off <= Fraction(parameters.value_error) * Fraction(abs(float(nearest)))


@pytest.mark.parametrize("time_name", TIMES)
def test_the_promise_holds_of_any_values(time_name: str) -> None:
    """Named values at these times, three pairs of errors, short and long windows, many moments."""
    rng = np.random.default_rng(3)
    for draw in VALUES.values():
        size = 6_000
        times, values = TIMES[time_name](rng, size), draw(rng, size)
        for a, epsilon, span in ((0.01, 0.1, 10**6), (0.1, 0.5, 3_000), (0.03, 0.02, 900)):
            parameters = ValueQuantileParameters(a, epsilon, span)
            moments = np.unique(np.append(times[40::487] + 1, times[-1] + span // 2))
            spans = sorted({1, span // 50 + 1, span // 5 + 1, span})[::-1]
            batch = Batch([0, size], times, values, [0, len(moments)], moments, spans)
            result = run_value_quantile_batch(parameters, [None], batch, QUANTILES)
            for i, now in enumerate(moments.tolist()):
                for k, n in enumerate(spans):
                    first, last = np.searchsorted(times, [now - n, now])
                    window = np.sort(values[first:last])
                    for j, p in enumerate(QUANTILES):
                        figures = tuple(
                            float(part[i, k, j])
                            for part in (result.estimates, result.lowers, result.uppers)
                        )
                        check(parameters, figures, p, window)


def test_the_promise_is_reached() -> None:
    """A window that cuts a cell whose events are all outside, or all inside, comes near epsilon."""
    parameters = ValueQuantileParameters(0.01, 0.1, 10**6)
    used = 0.0
    size = 40_000
    values = np.where(np.arange(size) % 100 == 0, 5.0, 1.0)
    times = np.arange(size)
    slow = ValueQuantiles.create(parameters)
    slow.insert(times, values)
    for n in range(3_000, 4_200, 7):
        exact = Fraction(int((values[-n:] > 3).sum()), n)
        found = Fraction(slow.rank(n, 3.0).share_more_than.estimate)
        used = max(used, float(abs(exact / found - 1)))
    assert 0.03 < used <= 0.1


ASKED = (0.0, 1.0, -1.0, 1e300, -np.inf, np.inf, 2.0**-40, -(2.0**-40), 2.0**50, -(2.0**50), 1.03)


def check_rank(
    parameters: ValueQuantileParameters, rank: Rank, value: float, window: Floats
) -> None:
    """Bounds hold, and the estimates are as near as promised; `window` is sorted. No slack: a share
    of the window is rounded once, as any share of two whole numbers is.
    """
    up_to, size = int(np.searchsorted(window, value, "right")), len(window)
    assert rank.at_most.lower <= up_to <= rank.at_most.upper
    assert rank.more_than.lower <= size - up_to <= rank.more_than.upper
    assert rank.share_at_most.lower <= up_to / size <= rank.share_at_most.upper
    assert rank.share_more_than.lower <= (size - up_to) / size <= rank.share_more_than.upper
    for figure in rank:
        assert figure.lower <= figure.estimate <= figure.upper
    fewer = rank.at_most.estimate <= rank.more_than.estimate
    near = parameters.rank_value_error * min(abs(value), 1e300) + (2.0**-30 if value else 0)
    first = int(np.searchsorted(window, value - near, "left"))
    last = int(np.searchsorted(window, value + near, "right"))
    numbers = (first, last) if fewer else (size - last, size - first)
    epsilon = Fraction(repr(parameters.epsilon))
    for of, figure in ((1, rank[0 if fewer else 1]), (size, rank[2 if fewer else 3])):
        estimate = Fraction(figure.estimate)
        slack = estimate * Fraction(2.0**-52) if of > 1 else 0  # The division that makes a share.
        nearest = min(max(estimate, Fraction(numbers[0], of)), Fraction(numbers[1], of))
        assert abs(estimate - nearest) <= epsilon * estimate + slack


@pytest.mark.parametrize("draw", VALUES.values(), ids=VALUES)
def test_ranks_are_within_bounds_and_errors(draw) -> None:  # type: ignore[no-untyped-def]
    """Of values that came and others, of states, of unions and of summaries of windows."""
    rng = np.random.default_rng(4)
    times, values = np.cumsum(rng.integers(0, 4, 9_000)), draw(rng, 9_000)
    asked = [*rng.choice(values, 20).tolist(), *ASKED]
    for a, epsilon in ((0.01, 0.1), (0.2, 0.5), (0.05, 0.01)):
        parameters = ValueQuantileParameters(a, epsilon, 10**5)
        summary = ValueQuantiles.create(parameters)
        summary.insert(times, values)
        parts = [ValueQuantiles.create(parameters) for _ in range(3)]
        for i, part in enumerate(parts):
            part.insert(times[i::3], values[i::3])
        bundle = Bundle.of({str(i): part.to_bytes() for i, part in enumerate(parts)})
        now, spans = int(times[-1]) + 1, [1, 50, 3_000, 10**5]
        union = union_value_ranks([bundle], [now], spans, asked)
        for k, n in enumerate(spans):
            window = np.sort(values[times >= now - n])
            taken = take_summary(summary.to_bytes(), n, now)
            for j, value in enumerate(asked):
                rank = summary.rank(n, value)
                check_rank(parameters, rank, value, window)
                check_rank(parameters, rank_of(union[:, :, 0, k, j]), value, window)
                assert read_summary(taken).rank(value) == rank


def test_a_rank_at_the_edge_of_a_bin_is_exact_of_few_events() -> None:
    """At most zero is not at most a millionth; at most 1 is not at most a little more."""
    summary = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, HOUR))
    for value, up_to in ((-1.0, 1), (-0.5, 1), (0.0, 3), (0.9, 3), (np.nextafter(1.0, 0), 3)):
        if summary.now < 0:
            summary.insert([1, 2, 3, 4], [-1.0, 0.0, -0.0, 1.0])
        assert summary.rank(HOUR, value).at_most == (up_to, up_to, up_to)
    assert summary.rank(HOUR, 1.0).at_most.upper == 4
    empty = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, HOUR)).rank(HOUR, 1.0)
    assert empty.at_most == empty.more_than == (0.0, 0.0, 0.0)
    assert np.isnan(empty.share_at_most).all()
    with pytest.raises(SynopsisError, match="of a number"):
        summary.rank(HOUR, np.nan)


def test_few_events_are_exact_but_for_the_bin() -> None:
    rng = np.random.default_rng(5)
    values = lognormal(rng, 60)
    summary = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, HOUR))
    summary.insert(np.arange(60) * 1_000, values)
    for p in QUANTILES:
        exact = np.sort(values)[max(1, ceil(Fraction(repr(p)) * 60)) - 1]
        estimate, lower, upper = summary.query(HOUR, p)
        assert abs(estimate / exact - 1) <= 0.01
        assert upper / lower <= 1.0203


def test_a_union_keeps_both_errors() -> None:
    """Five parties with streams of their own, and one that had nothing."""
    parameters = ValueQuantileParameters(0.01, 0.1, 20_000)
    rng = np.random.default_rng(6)
    sent = {}
    parts = [(np.sort(rng.integers(0, 40_000, 5_000)), lognormal(rng, 5_000) * i) for i in range(5)]
    parts.append((np.empty(0, np.int64), np.empty(0)))
    for party, (times, values) in enumerate(parts):
        summary = ValueQuantiles.create(parameters)
        summary.insert(times, values)
        sent[f"party {party}"] = summary.to_bytes()
    bundle = Bundle.of(sent)
    times = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
    spans = [20_000, 1, 700]
    union = union_value_quantiles([bundle], [40_000], spans, QUANTILES)
    for k, n in enumerate(spans):
        window = np.sort(values[times >= 40_000 - n])
        for j, p in enumerate(QUANTILES):
            figures = (union.estimates[0, k, j], union.lowers[0, k, j], union.uppers[0, k, j])
            check(parameters, figures, p, window)


def test_summaries_of_windows_keep_both_errors() -> None:
    """Eight windows of one stream, merged in any order and grouping: the same bytes."""
    parameters = ValueQuantileParameters(0.01, 0.1, 5_000)
    rng = np.random.default_rng(7)
    times, values = np.sort(rng.integers(0, 40_000, 30_000)), VALUES["both signs"](rng, 30_000)
    summary = ValueQuantiles.create(parameters)
    taken = []
    for end in range(5_000, 40_001, 5_000):
        part = (times >= end - 5_000) & (times < end)
        summary.insert(times[part], values[part])
        taken.append(take_summary(summary.to_bytes(), 5_000, end))
    merged = merge_summaries(taken)
    grouped = merge_summaries([merge_summaries(taken[5:]), *reversed(taken[:5])])
    assert merged == grouped
    for p in QUANTILES:
        check(parameters, read_summary(merged).quantile(p), p, np.sort(values))


@pytest.mark.parametrize(("events", "most"), [(5, 150), (10_000, 12_000), (900_000, 40_000)])
@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_a_state_is_small(events: int, most: int, sigma: float) -> None:
    """Log-normal values evenly over an hour and a half, of which an hour is kept."""
    rng = np.random.default_rng(1)
    size = events * 3 // 2
    times = 1_700_000_000_000 + np.sort(rng.integers(0, HOUR * 3 // 2, size))
    summary = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, HOUR))
    summary.insert(times, np.round(rng.lognormal(4.6, sigma, size), 3))
    summary.check()
    assert len(summary.to_bytes()) <= most


def test_values_that_have_no_bin_are_refused() -> None:
    summary = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, HOUR))
    before = summary.to_bytes()
    for value, words in ((np.nan, "finite"), (np.inf, "finite"), (2.0**50, "magnitude")):
        for sign in (1, -1):
            with pytest.raises(SynopsisError, match=words):
                summary.insert([1, 2], [0.5, sign * value])
    assert summary.to_bytes() == before
    summary.insert([1, 2, 3], [np.nextafter(2.0**50, 0), -0.0, -5e-324])
    assert summary.query(HOUR, 1.0).upper == 2.0**50
    assert summary.query(HOUR, 0.5) == (0.0, 0.0, 0.0)
    assert summary.query(HOUR, 0.0) == (0.0, -(2.0**-30), 0.0)


def test_what_was_made_with_any_errors_is_read_back() -> None:
    """The least error, the largest, and all between that have other bins."""
    errors = [0.001, 0.5, *(1 / np.arange(2.0, 1_000.0, 7.0))]
    for i, relative_error in enumerate(errors):
        parameters = ValueQuantileParameters(relative_error, errors[-i], HOUR)
        summary = ValueQuantiles.create(parameters)
        summary.insert([1, 2], [-3.0, 250.0])
        data = summary.to_bytes()
        again = ValueQuantiles.from_bytes(data)
        assert again.to_bytes() == data
        assert again.parameters.bins_per_octave == parameters.bins_per_octave
        assert again.parameters.epsilon_parts == parameters.epsilon_parts
        assert read_summary(take_summary(data, HOUR)).quantile(1.0) == again.query(HOUR, 1.0)


@pytest.mark.parametrize("wrong", [0, 0.0009, 0.51, -1, np.nan, "1", True])
def test_errors_that_cannot_be_kept_are_refused(wrong: float) -> None:
    for errors in ((wrong, 0.1), (0.1, wrong)):
        with pytest.raises(SynopsisError, match="must be"):
            ValueQuantileParameters(*errors, HOUR)


@pytest.mark.parametrize("quantile", [0.9999996, 4e-7, 0.1234564, 1 / 3])
def test_a_quantile_of_more_than_six_decimals_is_refused(quantile: float) -> None:
    """Kernels take millionths: bounds of the nearest one would not be those of what was asked."""
    synopsis = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, HOUR))
    with pytest.raises(SynopsisError, match="at most six decimals"):
        synopsis.query(HOUR, quantile)


@pytest.mark.parametrize("bins_per_octave", [1, 7, 70, 699])
def test_figures_are_outlines_of_bins(bins_per_octave: int) -> None:
    """For each bin there is, also the outermost ones; NaN for none."""
    mapping = mapping_of(bins_per_octave)
    most = most_bins(bins_per_octave)
    bins = np.arange(-most, most + 1)
    figures = figures_of(np.stack([np.append(bins, NOT_FINITE)] * 3), mapping)
    assert np.array_equal(figures[:, :-1], np.stack(outlines(bins, mapping)))
    assert np.isnan(figures[:, -1]).all()
