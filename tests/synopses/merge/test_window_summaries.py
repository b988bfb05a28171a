"""Summaries of windows: bounds that hold in any tree of merges, and the errors that are stated."""

from collections import Counter
from fractions import Fraction
from math import ceil, isnan

import numpy as np
import pytest

from slidestat.synopses import (
    Bundle,
    FrequentItems,
    FrequentParameters,
    QuantileParameters,
    Quantiles,
    WindowDistinct,
    WindowExtreme,
    WindowItems,
    WindowLeanDistinct,
    WindowQuantiles,
    WindowSpread,
    WindowTotals,
    merge_summaries,
    read_summary,
    take_summary,
    union_quantiles,
)
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.merge.items import MOST_ITEMS
from slidestat.synopses.merge.quantiles import MOST_VALUES
from tests.synopses.summarised import FAMILIES, GROUPINGS, SPAN, Cut, Values, cut

STREAMS = ("prices", "zipf", "mostly nothing", "any doubles")
SHARES = (0.0, 0.01, 0.3, 0.5, 0.9, 1.0)


def cases(*names: str) -> list[tuple[str, str, str]]:
    """Each family with each stream and each way to merge, not all with all.

    Families differ in which stream is merged how: all together have each pair.
    """
    hows = list(GROUPINGS)
    return [
        (name, stream, hows[(i + list(FAMILIES).index(name)) % len(hows)])
        for name in names
        for i, stream in enumerate(STREAMS)
    ]


def merged(name: str, stream: str, how: str, size: int = 3_000) -> tuple[Cut, bytes]:
    """A stream in windows, and the summary of all of them."""
    cuts = cut(name, stream, size, len(stream))
    return cuts, GROUPINGS[how](cuts.summaries, np.random.default_rng(5))


def exact_sum(values: Values) -> Fraction:
    return sum((Fraction(value) for value in values.tolist()), Fraction(0))


@pytest.mark.parametrize(
    ("name", "stream", "how"),
    cases("count", "sum", "sum of any doubles", "count wave", "coarsest count wave", "sum wave"),
)
def test_totals(name: str, stream: str, how: str) -> None:
    """lower <= exact <= upper; the stated error holds, and so does the promise of one state."""
    cuts, data = merged(name, stream, how)
    promise = Fraction(FAMILIES[name].create().parameters.relative_error)
    windows = [*zip(cuts.windows, cuts.summaries, strict=True), (cuts.values, data)]
    for window, summary in windows:
        read = read_summary(summary)
        assert isinstance(read, WindowTotals)
        found = read.answer()
        exact = Fraction(len(window))
        if name == "sum":
            exact = Fraction(round(sum(np.rint(window * 100).astype(np.int64).tolist())), 100)
        elif "sum" in name:
            exact = exact_sum(window)
        more = len(cuts.windows) * Fraction(1, 100) if name == "sum of any doubles" else 0
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)
        assert found.lower <= found.estimate <= found.upper
        off = abs(Fraction(found.estimate) - exact)
        rounding = (exact + 1) / 2**51 if "sum" in name else 0
        assert off <= Fraction(found.error) + rounding
        assert off <= promise * exact + more + rounding


@pytest.mark.parametrize(("name", "stream", "how"), cases("minimum", "rough maximum"))
def test_extremes(name: str, stream: str, how: str) -> None:
    """The extreme of all windows, exact or within the promise; NaN for no events."""
    cuts, data = merged(name, stream, how)
    promise = FAMILIES[name].create().parameters.relative_error
    for window, summary in [*zip(cuts.windows, cuts.summaries, strict=True), (cuts.values, data)]:
        read = read_summary(summary)
        assert isinstance(read, WindowExtreme)
        found = read.answer()
        if len(window) == 0:
            assert all(map(isnan, found))
            continue
        exact = float(window.min() if name == "minimum" else window.max())
        assert found.lower <= exact <= found.upper
        assert abs(found.estimate - exact) <= min(found.error, promise * abs(exact))


@pytest.mark.parametrize(("name", "stream", "how"), cases("spread"))
def test_spreads(name: str, stream: str, how: str) -> None:
    """Mean, variance and deviation keep the promise of one state, however windows are grouped."""
    cuts, data = merged(name, stream, how)
    parameters = FAMILIES[name].create().parameters
    for window, summary in [*zip(cuts.windows, cuts.summaries, strict=True), (cuts.values, data)]:
        read = read_summary(summary)
        assert isinstance(read, WindowSpread)
        mean, variance, deviation = read.mean(), read.variance(), read.deviation()
        if len(window) == 0:
            assert all(map(isnan, (*mean, *variance, *deviation)))
            continue
        units = np.rint(window * 100).astype(np.int64).tolist()
        middle = Fraction(sum(units), len(units))
        spread = Fraction(sum(unit * unit for unit in units), len(units)) - middle**2
        middle, spread = middle / 100, spread / 10_000
        assert Fraction(mean.lower) <= middle <= Fraction(mean.upper)
        assert Fraction(variance.lower) <= spread <= Fraction(variance.upper)
        assert Fraction(deviation.lower) ** 2 <= spread <= Fraction(deviation.upper) ** 2
        off = abs(Fraction(variance.estimate) - spread)
        assert off <= Fraction(parameters.relative_error) * spread
        off = abs(Fraction(mean.estimate) - middle) - abs(middle) / 2**50
        share = Fraction(parameters.mean_error_in_deviations)
        assert off <= 0 or off**2 <= share**2 * spread
        share = Fraction(parameters.relative_error_of_deviation)
        assert (1 - share) ** 2 * spread <= Fraction(deviation.estimate) ** 2
        assert Fraction(deviation.estimate) ** 2 <= (1 + share) ** 2 * spread


def judge_quantiles(summary: bytes, values: Values, ranks_off: float) -> None:
    """Bounds hold, and no rank of an estimate is more off than is stated, nor than `ranks_off`."""
    read = read_summary(summary)
    assert isinstance(read, WindowQuantiles)
    ordered = np.sort(values)
    assert read.events_low <= len(values) <= read.events_high
    for p, found in zip(SHARES, read.quantiles(SHARES), strict=True):
        if len(values) == 0:
            assert read.events_low == 0
            continue
        rank = max(1, ceil(Fraction(repr(p)) * len(values)))
        assert found.lower <= ordered[rank - 1] <= found.upper
        assert found.lower <= found.estimate <= found.upper
        first = int(np.searchsorted(ordered, found.estimate, "left")) + 1
        last = int(np.searchsorted(ordered, found.estimate, "right"))
        assert max(first - rank, rank - last, 0) <= found.rank_error <= ranks_off


@pytest.mark.parametrize(("name", "stream", "how"), cases("quantiles"))
def test_quantiles(name: str, stream: str, how: str) -> None:
    """The stated rank error holds; with few values it is at most epsilon m."""
    cuts, data = merged(name, stream, how)
    epsilon = FAMILIES[name].create().parameters.rank_error
    for window, summary in zip(cuts.windows, cuts.summaries, strict=True):
        judge_quantiles(summary, window, epsilon * len(window))
    judge_quantiles(data, cuts.values, epsilon * len(cuts.values))


def many_quantiles(epsilon: float) -> tuple[list[Values], list[bytes]]:
    """Windows whose values are all different, enough of them for several compressions."""
    rng = np.random.default_rng(2)
    windows, summaries = [], []
    for hour in range(16):
        summary = Quantiles.create(QuantileParameters(epsilon, SPAN))
        values = rng.normal(100 * np.sin(hour), 30, 600 if hour % 3 else 2_500)
        values[: 100 * (hour % 2)] = 50.0  # some are heavy
        summary.insert(np.sort(rng.integers(0, SPAN, len(values))), values)
        windows.append(values)
        summaries.append(take_summary(summary.to_bytes(), SPAN, SPAN))
    return windows, summaries


@pytest.mark.parametrize("epsilon", [0.001, 0.01])
def test_what_compressions_cost_is_stated_and_bounded(epsilon: float) -> None:
    """All at once: m / (2,048 - 4) + 1 ranks more for the one compression; a chain: each time."""
    windows, summaries = many_quantiles(epsilon)
    values = np.concatenate(windows)
    room = 4 * 9 * MOST_VALUES + 8 * MOST_VALUES + 100
    once = len(values) / (MOST_VALUES - 4) + 1
    rng = np.random.default_rng(3)
    taken = max(len(window) for window in windows) / (MOST_VALUES - 4) + 1
    promise = epsilon * len(values) + len(windows) * taken * (epsilon < 0.01)
    together = GROUPINGS["at once"](summaries, rng)
    judge_quantiles(together, values, promise + once)
    assert together == merge_summaries(summaries)
    for how in ("a chain", "any tree"):
        data = GROUPINGS[how](summaries, rng)
        judge_quantiles(data, values, promise + (len(windows) - 1) * once)
        assert len(data) <= room
    read = read_summary(together)
    assert isinstance(read, WindowQuantiles)
    assert len(read.values) <= MOST_VALUES
    assert {read.quantile(0.0).estimate, read.quantile(1.0).estimate} == {
        values.min(),
        values.max(),
    }


def test_quantiles_are_those_of_a_union() -> None:
    """While nothing is left out, bounds are no wider than those of the parts side by side."""
    rng = np.random.default_rng(4)
    sent = {}
    for party in "abc":
        summary = Quantiles.create(QuantileParameters(0.2, SPAN))
        size = int(rng.integers(50, 900))
        summary.insert(np.sort(rng.integers(0, SPAN, size)), rng.integers(0, 300, size))
        sent[party] = summary.to_bytes()
    for n in (30, 200, SPAN):
        bundle = Bundle.of(sent)
        union = union_quantiles([bundle], [SPAN], [n], SHARES)
        read = read_summary(
            merge_summaries([take_summary(data, n, SPAN) for data in sent.values()])
        )
        assert isinstance(read, WindowQuantiles)
        found = np.array(read.quantiles(SHARES)).T
        assert np.all(found[1] >= union.lowers[0, 0])
        assert np.all(found[2] <= union.uppers[0, 0])
        assert np.all(found[3] <= union.rank_errors[0, 0])


@pytest.mark.parametrize(("name", "stream", "how"), cases("items", "items in pairs", "named items"))
def test_items(name: str, stream: str, how: str) -> None:
    """Counts of all items, listed or not, lie within bounds that are epsilon m apart at most."""
    cuts, data = merged(name, stream, how)
    width = Fraction(FAMILIES[name].create().parameters.relative_width)
    for window, summary in [*zip(cuts.windows, cuts.summaries, strict=True), (cuts.values, data)]:
        judge_items(summary, window, width)


def judge_items(summary: bytes, window: Values, width: Fraction) -> None:
    read = read_summary(summary)
    assert isinstance(read, WindowItems)
    exact = Counter(window.tolist())
    assert read.events_low <= len(window) <= read.events_high
    listed = {one.item if one.text is None else one.text: one for one in read.items()}
    assert len(listed) <= MOST_ITEMS
    for item, one in listed.items():
        assert one.lower <= exact[item] <= one.upper
        assert one.upper - one.lower <= width * len(window)
        assert 2 * one.estimate == one.lower + one.upper
    others = [count for item, count in exact.items() if item not in listed]
    assert max(others, default=0) <= read.unlisted <= width * len(window)
    often = {one.text or one.item for one in read.items(0.3)}
    assert {item for item, count in exact.items() if count >= 0.3 * len(window)} <= often


@pytest.mark.parametrize("how", GROUPINGS)
def test_items_left_out_cost_a_share_that_no_tree_adds_to(how: str) -> None:
    """However merges are grouped: 1 / (2,048 + 1) of all events, besides epsilon, and no more."""
    rng = np.random.default_rng(6)
    windows, summaries = [], []
    for hour in range(20):
        summary = FrequentItems.create(FrequentParameters(0.001, SPAN))
        # thousands of items that come once or twice, beside some that come often
        items = np.concatenate([rng.integers(0, 4_000, 900), rng.zipf(1.5, 300) + 10**6])
        items = rng.permutation(items) + (hour % 4) * 500
        summary.insert(np.sort(rng.integers(0, SPAN, len(items))), items)
        windows.append(items)
        summaries.append(take_summary(summary.to_bytes(), SPAN, SPAN))
    values = np.concatenate(windows)
    data = GROUPINGS[how](summaries, rng)
    assert len(set(values.tolist())) > 2 * MOST_ITEMS
    width = Fraction(0.001) + Fraction(1, MOST_ITEMS + 1)
    judge_items(data, values, width)


@pytest.mark.parametrize(("name", "stream", "how"), cases("distinct"))
def test_distinct(name: str, stream: str, how: str) -> None:
    """Exact while few; else within bounds and promise, at a confidence of 1 - 10^-6 each."""
    cuts, data = merged(name, stream, how)
    parameters = FAMILIES[name].create().parameters
    for window, summary in [*zip(cuts.windows, cuts.summaries, strict=True), (cuts.values, data)]:
        read = read_summary(summary)
        assert isinstance(read, WindowDistinct)
        exact = len(set(window.tolist()))
        found = read.answer()
        assert found.lower <= exact <= found.upper
        assert abs(found.estimate - exact) <= parameters.epsilon * exact
        assert found.exact == (exact < parameters.capacity)
        assert not found.exact or found.estimate == exact
        even = read.answer(lambda items: items % 2 == 0)
        assert even.lower <= len({item for item in window.tolist() if item % 2 == 0}) <= even.upper


@pytest.mark.parametrize(("name", "stream", "how"), cases("lean distinct"))
def test_lean_distinct(name: str, stream: str, how: str) -> None:
    """As the state answers for its window; of all windows exact while few, else within bounds and
    promise, at a confidence of 1 - 10^-6.
    """
    cuts, data = merged(name, stream, how)
    parameters = FAMILIES[name].create().parameters
    for window, summary in [*zip(cuts.windows, cuts.summaries, strict=True), (cuts.values, data)]:
        read = read_summary(summary)
        assert isinstance(read, WindowLeanDistinct)
        exact = len(set(window.tolist()))
        found = read.answer()
        assert found.lower <= exact <= found.upper
        assert abs(found.estimate - exact) <= parameters.epsilon * exact
        assert exact >= parameters.exact or found.lower == found.upper


@pytest.mark.parametrize("items", [1, 13, 14, 15, 2_000])
def test_a_window_of_lean_distinct_items_answers_as_its_state(items: int) -> None:
    """To the last digit, of any window and look ahead; and a window is a window of itself."""
    rng = np.random.default_rng(items)
    synopsis = FAMILIES["lean distinct"].create()
    times = np.sort(rng.integers(0, 3 * SPAN, 3_000))
    synopsis.insert(times, rng.integers(0, items, 3_000))
    for n in (1, 2, 5, 17, 100, SPAN - 1, SPAN):
        for now in (synopsis.now, synopsis.now + 7, synopsis.now + SPAN):
            read = read_summary(take_summary(synopsis.to_bytes(), n, now))
            assert isinstance(read, WindowLeanDistinct)
            assert read.answer() == synopsis.query(n, now)
            assert take_summary(read.data, 1) == read.to_bytes()


@pytest.mark.parametrize("percent", range(1, 101))
def test_an_item_with_just_the_share_is_listed(percent: int) -> None:
    """A share is taken to the millionth: 7 of 100 events have 0.07 of them, 6 have not."""
    items = FrequentItems.create(FrequentParameters(0.01, SPAN))
    items.insert(np.arange(100), np.repeat([7, 1], [percent, 100 - percent]))
    read = read_summary(take_summary(items.to_bytes(), SPAN))
    assert isinstance(read, WindowItems)
    assert 7 in [one.item for one in read.items(percent / 100)]
    if percent < 100:
        assert 7 not in [one.item for one in read.items((percent + 1) / 100)]


def test_a_share_or_a_quantile_that_is_none_is_refused() -> None:
    """What cannot be asked for is named."""
    items = read_summary(cut("items", "zipf", 50, 1).summaries[0])
    quantiles = read_summary(cut("quantiles", "zipf", 50, 1).summaries[0])
    assert isinstance(items, WindowItems)
    assert isinstance(quantiles, WindowQuantiles)
    with pytest.raises(SynopsisError, match="from 0 to 1"):
        items.items(1.5)
    with pytest.raises(SynopsisError, match="from 0 to 1"):
        quantiles.quantile(-0.1)
