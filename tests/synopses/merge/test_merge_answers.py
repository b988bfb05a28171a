"""Answers over a union keep the promise of one party, for 1 to 64 of them, however split."""

from collections import Counter
from fractions import Fraction
from math import inf, isnan, isqrt
from typing import Any

import numpy as np
import pytest

from slidestat.synopses import (
    Bundle,
    SampleParameters,
    SlidingSample,
    Spread,
    SpreadParameters,
    ValueHistogramParameters,
    party_seed,
    union_ages,
    union_averages,
    union_distinct,
    union_distinct_where,
    union_extremes,
    union_items,
    union_named_items,
    union_quantiles,
    union_sample,
    union_spreads,
    union_totals,
    union_value_histograms,
)
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.merge.spreads import pooled
from slidestat.synopses.moments.spread import large_spread
from tests.synopses.parties import (
    FAMILIES,
    NUMBERS,
    SPAN,
    SPLITS,
    Split,
    bundle,
    drawn,
    party_name,
    synopsis,
    taken,
    texts,
)

SIZE = 1_500
SPANS = [1, 2, 5, 17, 60, 144, 333, 500, 777, 998, 999, 1_000]


def asked(name: str, split_name: str, value_name: str, parties: int) -> list[tuple[Split, Bundle]]:
    """The stream and what was sent, at three moments."""
    split = taken(name, drawn(split_name, value_name, parties, SIZE, parties))
    sent = []
    for until in (40, 900, SIZE):
        seen = Split(split.times[:until], split.values[:until], split.whose[:until], parties)
        sent.append((seen, bundle(name, split, until)))
    return sent


def cases(*names: str) -> list[tuple[str, str, str, int]]:
    """Each family with each way to split, each number and each kind of values, not all with all.

    Families differ in which split has which number: all together have each pair. One party is no
    split at all: it comes once.
    """
    found = []
    alone, *numbers = NUMBERS
    for name in names:
        values, place = FAMILIES[name].values, list(FAMILIES).index(name)
        found.append((name, "evenly", values[place % len(values)], alone))
        for i, split in enumerate(SPLITS):
            parties = numbers[(i + place) % len(numbers)]
            found.append((name, split, values[i % len(values)], parties))
    return found


def moments(sent: list[tuple[Split, Bundle]]) -> list[tuple[Split, Bundle, int]]:
    """Ask at the latest time that a party came to, and further on, where all are behind."""
    return [(seen, it, it.now + later) for seen, it in sent for later in (0, 7, 400, 5_000)]


@pytest.mark.parametrize(
    ("name", "split", "values", "parties"),
    cases(
        "count",
        "coarse count",
        "sum",
        "count wave",
        "sum wave",
        "coarsest count wave",
        "coarsest sum wave",
    ),
)
def test_totals_add_up(name: str, split: str, values: str, parties: int) -> None:
    """lower <= exact <= upper, and the relative error is that of one party."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        answers = union_totals([it], [now], SPANS)
        promise = Fraction(it.parameters.relative_error)  # type: ignore[attr-defined]
        rounding = parties * Fraction(1, 1 << 52) if name == "sum" else Fraction(0)
        for k, n in enumerate(SPANS):
            window = seen.window(now - n, now).tolist()
            whole = len(window) if "count" in name else sum(Fraction(repr(x)) for x in window)
            exact = Fraction(whole)
            low, high = answers.lowers[0, k], answers.uppers[0, k]
            assert Fraction(low) <= exact <= Fraction(high)
            assert low <= answers.estimates[0, k] <= high
            off = abs(Fraction(answers.estimates[0, k]) - exact)
            assert off <= (promise + rounding) * exact


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("ages", "coarsest ages"))
def test_ages(name: str, split: str, values: str, parties: int) -> None:
    """Of each of the union's events, from the last to one that never was: within bounds, and the
    promise of one party while it is in the span.
    """
    for seen, it, now in moments(asked(name, split, values, parties)):
        numbers = [1, 2, 3, 10, 50, 123, *range(200, len(seen.times) + 2, 97), 10**12]
        numbers = [*dict.fromkeys([*numbers, len(seen.times)])]
        answers = union_ages([it], [now], numbers)
        promise = Fraction(it.parameters.relative_error)  # type: ignore[attr-defined]
        for k, number in enumerate(numbers):
            estimate, low, high = (
                float(figures[0, k])
                for figures in (answers.estimates, answers.lowers, answers.uppers)
            )
            assert low <= estimate <= high
            if number > len(seen.times):
                assert low <= estimate == high == inf
                continue
            exact = now - int(seen.times[-number])
            assert low <= exact <= high
            if exact <= SPAN:
                assert abs(Fraction(estimate) - exact) <= promise * exact


def test_ages_of_one_party_are_its_own() -> None:
    """A bundle of one answers as the wave does, of all of its events; times that are equal between
    parties are so many events, and parties without one say nothing.
    """
    split = drawn("evenly", "constant", 1, 700, 3)
    wave = synopsis("ages", split, 0)
    numbers = [*range(1, 703)]
    answers = union_ages([bundle("ages", split)], [wave.now + 5], numbers)
    for k, number in enumerate(numbers):
        found = answers.estimates[0, k], answers.lowers[0, k], answers.uppers[0, k]
        assert found == tuple(wave.query(number, wave.now + 5))
    empty = FAMILIES["ages"].create(0).to_bytes()
    three = Bundle.of({"a": wave.to_bytes(), "b": empty, "c": wave.to_bytes()})
    twice = union_ages([three], [wave.now + 5], [number * 2 for number in numbers])
    assert np.array_equal(twice.estimates, answers.estimates)
    nothing = union_ages([Bundle.of({"b": empty})], [9], [1, 10**12])
    assert np.all(np.isinf(nothing.lowers))
    with pytest.raises(SynopsisError, match="number of an event"):
        union_ages([three], [wave.now], [0])
    with pytest.raises(SynopsisError, match="earlier"):
        wave.ages(wave.now - 1)


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("average"))
def test_averages(name: str, split: str, values: str, parties: int) -> None:
    """The mean of the union, within bounds and the promise; NaN for an empty window."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        answers = union_averages([it], [now], SPANS)
        promise = it.parameters.relative_error * (1 + 2**-48)  # type: ignore[attr-defined]
        for k, n in enumerate(SPANS):
            window = seen.window(now - n, now)
            estimate = answers.estimates[0, k]
            if len(window) == 0:
                assert isnan(estimate)
                assert isnan(answers.lowers[0, k])
                assert isnan(answers.uppers[0, k])
                continue
            exact = Fraction(int(window.sum())) / len(window)
            assert Fraction(answers.lowers[0, k]) <= exact <= Fraction(answers.uppers[0, k])
            assert abs(Fraction(estimate) - exact) <= Fraction(promise) * exact


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("minimum", "rough maximum"))
def test_extremes(name: str, split: str, values: str, parties: int) -> None:
    """The extreme of the union, exact or within the promise; NaN for an empty window."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        answers = union_extremes([it], [now], SPANS)
        promise = it.parameters.relative_error  # type: ignore[attr-defined]
        for k, n in enumerate(SPANS):
            window = seen.window(now - n, now)
            estimate = answers.estimates[0, k]
            if len(window) == 0:
                assert isnan(estimate)
                continue
            exact = window.min() if name == "minimum" else window.max()
            assert answers.lowers[0, k] <= exact <= answers.uppers[0, k]
            assert abs(estimate - exact) <= promise * abs(exact)


def root_between(square: Fraction) -> tuple[Fraction, Fraction]:
    """Two numbers, 10^-30 of it apart at most, with the root of `square` between them."""
    scale = 10**40
    low = Fraction(isqrt(int(square * scale * scale)), scale)
    return low, low + Fraction(1, scale)


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("spread", "coarse spread"))
def test_mean_variance_and_deviation(name: str, split: str, values: str, parties: int) -> None:
    """All three keep the promise of one party, in exact arithmetic; NaN for an empty window."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        answers = union_spreads([it], [now], SPANS)
        made_with = it.parameters
        assert isinstance(made_with, SpreadParameters)
        for k, n in enumerate(SPANS):
            window = [Fraction(repr(x)) for x in seen.window(now - n, now).tolist()]
            if not window:
                assert isnan(answers.mean.estimates[0, k])
                assert isnan(answers.variance.lowers[0, k])
                continue
            mean = sum(window, Fraction(0)) / len(window)
            variance = sum((x - mean) ** 2 for x in window) / len(window)
            low, high = root_between(variance)
            for of, least, most in (
                (answers.mean, mean, mean),
                (answers.variance, variance, variance),
                (answers.deviation, low, high),
            ):
                assert Fraction(of.lowers[0, k]) <= most
                assert least <= Fraction(of.uppers[0, k])
            off = abs(Fraction(answers.variance.estimates[0, k]) - variance)
            assert off <= Fraction(made_with.relative_error) * variance
            off = abs(Fraction(answers.mean.estimates[0, k]) - mean)
            promise = Fraction(made_with.mean_error_in_deviations)
            assert off <= promise * high + Fraction(1, 1 << 50) * abs(mean)
            estimate = Fraction(answers.deviation.estimates[0, k])
            promise = Fraction(made_with.relative_error_of_deviation)
            assert low * (1 - promise) <= estimate <= high * (1 + promise)


@pytest.mark.parametrize(
    ("name", "split", "values", "parties"), cases("quantiles", "coarse quantiles")
)
def test_quantiles(name: str, split: str, values: str, parties: int) -> None:
    """Bounds hold; ranks are as near as said, which is within epsilon m for the union's m."""
    quantiles = [0, 0.1, 0.5, 0.73, 0.99, 1]
    for seen, it, now in moments(asked(name, split, values, parties)):
        answers = union_quantiles([it], [now], SPANS, quantiles)
        promise = it.parameters.rank_error  # type: ignore[attr-defined]
        for k, n in enumerate(SPANS):
            window = np.sort(seen.window(now - n, now))
            for j, p in enumerate(quantiles):
                estimate, error = answers.estimates[0, k, j], answers.rank_errors[0, k, j]
                if len(window) == 0:
                    assert isnan(estimate)
                    continue
                rank = max(1, -(-round(p * 10**6) * len(window) // 10**6))
                exact = window[rank - 1]
                assert answers.lowers[0, k, j] <= exact <= answers.uppers[0, k, j]
                for value, most in (
                    (estimate, error),
                    (answers.lowers[0, k, j], 2 * promise * len(window)),
                    (answers.uppers[0, k, j], 2 * promise * len(window)),
                ):
                    first = int(np.searchsorted(window, value)) + 1
                    last = int(np.searchsorted(window, value, "right"))
                    assert max(first - rank, rank - last, 0) <= most
                assert error <= promise * len(window)


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("items", "items in pairs"))
def test_frequent_items(name: str, split: str, values: str, parties: int) -> None:
    """Each count is within its bounds, these are near, and no item with the share is missed."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        everything = union_items([it], [now], SPANS, 0)[0]
        frequent = union_items([it], [now], SPANS, 0.3)[0]
        for n, known, listed in zip(SPANS, everything, frequent, strict=True):
            window = seen.window(now - n, now)
            counts = Counter(window.astype(np.int64).tolist())
            assert known.events_low <= len(window) <= known.events_high
            assert known.unlisted <= 0.1 * len(window)
            bounds = zip(known.items, known.lowers, known.uppers, strict=True)
            for item, lower, upper in bounds:
                assert lower <= counts[int(item)] <= upper
                assert upper - lower < 0.1 * len(window) or upper == lower
            assert all(counts[x] <= known.unlisted for x in set(counts) - set(known.items.tolist()))
            of_share = {item for item, count in counts.items() if count >= 0.3 * len(window)}
            assert of_share <= set(listed.items.tolist())
            assert all(counts[int(item)] >= 0.1 * len(window) for item in listed.items)


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("named items"))
def test_frequent_items_by_name(name: str, split: str, values: str, parties: int) -> None:
    """Each count is within its bounds, under its text, and no text with the share is missed."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        everything = union_named_items([it], [now], SPANS, 0)[0]
        frequent = union_named_items([it], [now], SPANS, 0.3)[0]
        for n, known, listed in zip(SPANS, everything, frequent, strict=True):
            window = seen.window(now - n, now)
            counts = Counter(text if len(text) < 256 else "long" for text in texts(window))
            assert known.events_low <= len(window) <= known.events_high
            assert known.unlisted <= 0.1 * len(window)
            shown = {item.text if len(item.text) < 200 else "long" for item in known.items}
            assert len(shown) == len(known.items)
            for item in known.items:
                text = item.text if len(item.text) < 200 else "long"
                assert item.lower <= counts[text] <= item.upper
                assert item.upper - item.lower < 0.1 * len(window) or item.upper == item.lower
            assert all(counts[text] <= known.unlisted for text in set(counts) - shown)
            estimates = [item.estimate for item in listed.items]
            assert estimates == sorted(estimates, reverse=True)
            of_share = {text for text, count in counts.items() if count >= 0.3 * len(window)}
            assert of_share <= {t.text if len(t.text) < 200 else "long" for t in listed.items}


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("bins"))
def test_counts_between_edges(name: str, split: str, values: str, parties: int) -> None:
    """Each bin's count is within its bounds, and the relative error is that of one party."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        made_with = it.parameters
        assert isinstance(made_with, ValueHistogramParameters)
        answers = union_value_histograms([it], [now], SPANS)
        edges = [-np.inf, *made_with.edges, np.inf]
        for k, n in enumerate(SPANS):
            exact = np.histogram(seen.window(now - n, now), edges)[0]
            assert np.all(answers.lowers[0, k] <= exact)
            assert np.all(exact <= answers.uppers[0, k])
            off = np.abs(answers.estimates[0, k] - exact)
            assert np.all(off <= made_with.relative_error * exact)


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("distinct"))
def test_distinct_items(name: str, split: str, values: str, parties: int) -> None:
    """The answer is, to the last digit, that of one synopsis fed with all streams in order of time:
    what many parties saw counts once. So it is for a predicate that is thought of later.
    """
    for seen, it, now in moments(asked(name, split, values, parties)):
        whole = synopsis(name, Split(seen.times, seen.values, np.zeros_like(seen.whose), 1), 0)
        answers = union_distinct([it], [now], SPANS)
        for k, n in enumerate(SPANS):
            alone = whole.query(n, now)
            assert answers.estimates[0, k] == alone.estimate
            assert (answers.lowers[0, k], answers.uppers[0, k]) == (alone.lower, alone.upper)
            if alone.exact:
                assert alone.estimate == len(np.unique(seen.window(now - n, now)))
            assert union_distinct_where(it, [n, 1], now, odd) == [
                whole.query(n, now, odd),
                whole.query(1, now, odd),
            ]


def odd(items: Any) -> Any:
    return items % 2 == 1


@pytest.mark.parametrize(("name", "split", "values", "parties"), cases("sample", "draws"))
def test_samples_are_of_the_window(name: str, split: str, values: str, parties: int) -> None:
    """Each event of a sample is one of its party's window, once; a small window is whole."""
    for seen, it, now in moments(asked(name, split, values, parties)):
        for n in SPANS:
            found = union_sample(it, n, now)
            size = int(((seen.times >= now - n) & (seen.times < now)).sum())
            most = 5 if name == "sample" else 3
            expected = min(size, most) if name == "sample" else most * (size > 0)
            assert len(found.parties) == len(found.sample.times) == expected
            rows = list(zip(found.parties, found.sample.indices.tolist(), strict=True))
            assert name == "draws" or len(set(rows)) == expected
            assert found.sample.whole == (name == "sample" and size < 5) or size == 5
            for i, (party, index) in enumerate(rows):
                mine = seen.whose == int(party.rsplit("-")[-1])
                assert seen.times[mine][index] == found.sample.times[i] >= now - n
                assert seen.values[mine][index] == found.sample.values[i]


@pytest.mark.parametrize("replacement", [False, True])
def test_each_event_of_the_union_is_as_likely(replacement: bool) -> None:
    """Of parties with 5, 20 and 75 events: each event's and each party's share of 2,000 samples.

    Seeds are fixed; each of the 103 counts is within 4.5 standard deviations of its mean, which
    would fail by chance once in a thousand times.
    """
    sizes, k, trials = (5, 20, 75), 5, 2_000
    seen: Counter[tuple[str, int]] = Counter()
    for seed in range(trials):
        sent = {}
        for party, size in enumerate(sizes):
            name = party_name(party)
            parameters = SampleParameters(k, SPAN, party_seed(seed, name), replacement)
            sample = SlidingSample.create(parameters)
            sample.insert(np.arange(size), np.arange(size) / 2)
            sent[name] = sample.to_bytes()
        found = union_sample(Bundle.of(sent), SPAN, 75)
        seen.update(zip(found.parties, found.sample.indices.tolist(), strict=True))
    total = sum(sizes)
    fewer = 1.0 if replacement else (total - k) / (total - 1)
    for party, size in enumerate(sizes):
        name = party_name(party)
        groups = [(sum(seen[name, i] for i in range(size)), size)]
        groups += [(seen[name, i], 1) for i in range(size)]
        for count, of in groups:
            share = of / total
            spread = (trials * k * share * (1 - share) * fewer) ** 0.5
            assert abs(count - trials * k * share) <= 4.5 * spread


def test_many_bundles_at_once_are_answered_as_one_by_one() -> None:
    """What stands beside a bundle in a call does not show in its answer."""
    for name, ask in (
        ("sum", union_totals),
        ("average", union_averages),
        ("rough maximum", union_extremes),
    ):
        every = [it for _, it in asked(name, "skewed", "prices", 7)]
        times = [it.now + 3 for it in every]
        together = ask(every, times, SPANS)
        for i, it in enumerate(every):
            alone = ask([it], [times[i]], SPANS)
            np.testing.assert_array_equal(together.estimates[i], alone.estimates[0])
            np.testing.assert_array_equal(together.lowers[i], alone.lowers[0])
            np.testing.assert_array_equal(together.uppers[i], alone.uppers[0])
    every = [it for _, it in asked("spread", "skewed", "signed", 7)]
    times = [it.now + 3 for it in every]
    together = union_spreads(every, times, SPANS).variance
    for i, it in enumerate(every):
        alone = union_spreads([it], [times[i]], SPANS).variance
        np.testing.assert_array_equal(together.estimates[i], alone.estimates[0])


@pytest.mark.parametrize("decimals", [0, 2])
def test_whole_numbers_of_any_length_tell_the_same(decimals: int) -> None:
    """`large_spread` answers for unions of any size as `union_spreads` does for most, also where
    windows cut buckets.
    """
    rng = np.random.default_rng(decimals)
    parts = {}
    for party in range(5):
        spread = Spread.create(SpreadParameters(0.2, SPAN, decimals))
        spread.insert(np.sort(rng.integers(0, 3 * SPAN, 4_000)), rng.normal(party, 50, 4_000))
        parts[f"p{party}"] = spread.to_bytes()
    it = Bundle.of(parts)
    told = union_spreads([it], [it.now], SPANS)
    for k, n in enumerate(SPANS):
        found = large_spread([part.data for part in it.parts], [it.now - n] * len(it.parts))
        several = (told.mean, told.variance, told.deviation)
        for row, of in zip(found, several, strict=True):
            known = [column[0, k] for column in (of.estimates, of.lowers, of.uppers)]
            assert row.tolist() == pytest.approx(known, rel=1e-14, nan_ok=True)


def test_a_union_of_spreads_of_any_size_is_answered() -> None:
    """Each part may have 2^60 units of magnitudes, and sixteen of them are within their bounds."""
    sent, exact = {}, []
    for party in range(16):
        value = 2**40 - party * 2**36
        spread = Spread.create(SpreadParameters(0.5, 2**21, 0))
        spread.insert(np.arange(2**19), np.full(2**19, float(value)))
        sent[f"p{party:02}"] = spread.to_bytes()
        exact.append(value)
    it = Bundle.of(sent)
    mean = Fraction(sum(exact), 16)
    variance = sum((value - mean) ** 2 for value in exact) / 16
    answers = union_spreads([it, Bundle.of({"p00": sent["p00"]})], [it.now] * 2, [2**21, 1_000])
    for of, truth in ((answers.mean, mean), (answers.variance, variance)):
        assert of.lowers[0, 0] <= truth <= of.uppers[0, 0]
        assert of.estimates[0, 0] == pytest.approx(float(truth))
    # One that is not too large beside it has what it has alone.
    assert answers.mean.estimates[1].tolist() == [2.0**40, 2.0**40]
    assert answers.variance.uppers[1].tolist() == [0, 0]
    with pytest.raises(WindowTooLargeError, match="2\\^60 units"):
        pooled(SpreadParameters(0.5, 2**21, 0), list(sent.values()), it.now, 2**21)
