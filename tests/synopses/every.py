"""Every synopsis, as the laws see it: how it is made and fed, its exact oracle, its promise.

entry.py says what an entry is made of; those of bins and items are in entries_of_items.py. A new
synopsis is one more entry of `EVERY`; tests/synopses/test_every_synopsis.py does the rest.
"""

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf, log, log2
from typing import Any

import numpy as np

from slidestat.synopses import (
    ApproximateCount,
    ApproximateCountParameters,
    AverageParameters,
    AverageWave,
    Batch,
    CountParameters,
    CountWave,
    ExponentialHistogram,
    Extreme,
    ExtremeParameters,
    FrequentItems,
    FrequentParameters,
    NamedItems,
    PairedItems,
    PairedParameters,
    PositionWave,
    QuantileParameters,
    Quantiles,
    RandomFrequentItems,
    RandomFrequentParameters,
    RandomQuantileParameters,
    RandomQuantiles,
    SampleParameters,
    SlidingSample,
    Spread,
    SpreadParameters,
    SumParameters,
    SumWave,
    ValueQuantileParameters,
    ValueQuantiles,
    WaveParameters,
    run_batch,
    run_extreme_batch,
    run_frequent_batch,
    run_named_items_batch,
    run_paired_items_batch,
    run_quantile_batch,
    run_random_frequent_batch,
    run_sample_batch,
    run_spread_batch,
    run_value_quantile_batch,
    run_wave_batch,
)
from tests.synopses.entries_of_items import ENTRIES
from tests.synopses.entry import (
    Entry,
    Exact,
    Figures,
    Question,
    Window,
    buckets,
    cents,
    count,
    decimal,
    is_exact,
    none,
    one_in,
    queries_of_none,
    query,
    relative,
    share_of_it,
    share_of_sum,
    size_in_cents,
    sizes,
    total,
)

# Exponential histograms.


def _counted(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_batch(parameters, states, Batch(starts, times, None, *asked, advances)).states

    per_level = CountParameters(epsilon, 1).buckets_per_level
    return Entry(
        lambda span: ExponentialHistogram.create(CountParameters(epsilon, span)),
        none,
        [Question(query, count, share_of_it)],
        lambda events, _: 50 + 10 * min(events, buckets(per_level, events)),
        states,
    )


def _summed(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_batch(parameters, states, Batch(starts, times, values, *asked, advances)).states

    per_level = SumParameters(epsilon, 1).buckets_per_level
    return Entry(
        lambda span: ExponentialHistogram.create(SumParameters(epsilon, span, 2)),
        size_in_cents,
        [Question(query, lambda window: Fraction(total(window), 100), share_of_sum)],
        lambda _, units: 60 + 10 * buckets(per_level, units),
        states,
    )


# Waves.


def _wave(wave: Any, epsilon: float) -> Entry:
    summed = wave is SumWave

    def states(parameters, states, starts, times, *rest):  # type: ignore[no-untyped-def]
        *values, advances = rest
        asked = queries_of_none(len(states))
        column = values[0] if summed else None
        return run_wave_batch(
            wave.kind, parameters, states, Batch(starts, times, column, *asked, advances)
        ).states

    def most(events: int, units: int) -> float:
        c = WaveParameters(epsilon, 1).per_level
        levels = max(0, ceil(log2(max(1, units if summed else events) / c)))
        return 60 + 20 * min(events, c * (levels + 1) + 1)

    return Entry(
        lambda span: wave.create(WaveParameters(epsilon, span)),
        sizes if summed else none,
        [Question(query, total if summed else count, share_of_it)],
        most,
        states,
    )


def _age(window: Window) -> Exact:
    exists = window.n <= len(window.seen)
    return window.now - int(window.seen[-window.n]) if exists else inf


def _aged(parameters: Any, estimate: Exact, exact: Exact, window: Window) -> bool:
    return exact > parameters.span or share_of_it(parameters, estimate, exact, window)


def _positions(epsilon: float) -> Entry:
    def most(events: int, _: int) -> float:
        c = WaveParameters(epsilon, 1).per_level
        return 80 + 27 * min(events, c * (max(0, ceil(log2(10**7 / c))) + 1) + 2)

    counted = _wave(PositionWave, epsilon)
    ages = Question(query, _age, _aged)
    return Entry(counted.create, none, [ages], most, counted.batch, any_number=True)


def _mean(window: Window) -> Fraction | None:
    return Fraction(total(window), len(window.units)) if len(window.units) else None


def _averaged(epsilon: float) -> Entry:
    def kept(parameters: Any, estimate: Exact, exact: Exact, _: Window) -> bool:
        share = one_in(parameters) + Fraction(1, 2**51)
        return abs(estimate - exact) <= share * exact

    def most(events: int, units: int) -> float:
        c = AverageParameters(epsilon, 1).waves.per_level
        levels = 2 + log2(max(1, events) / c + 1) + log2(units / c + 1)
        return 100 + 20 * min(2 * events, c * (levels + 2) + 2)

    return Entry(
        lambda span: AverageWave.create(AverageParameters(epsilon, span)),
        sizes,
        [Question(query, _mean, kept)],
        most,
    )


def _approximately_counted(epsilon: float) -> Entry:
    per_level = ApproximateCountParameters(1, epsilon).buckets_per_level
    return Entry(
        lambda span: ApproximateCount.create(ApproximateCountParameters(span, epsilon)),
        lambda units: (units & 1,),
        [Question(query, lambda window: int((window.units & 1).sum()), share_of_it)],
        lambda events, _: 80 + 10 * min(events, buckets(per_level, events)),
        places=True,
    )


# Values.


def _extreme(side: str, epsilon: float) -> Entry:
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_extreme_batch(
            parameters, states, Batch(starts, times, values, *asked, advances)
        ).states

    def exact(window: Window) -> float | None:
        units = window.units
        if len(units) == 0:
            return None
        return float((units.min() if side == "minimum" else units.max()) / 100)

    def most(events: int, _: int) -> float:
        if epsilon == 0:
            return 50 + 18 * events
        ranks = 2 ** ExtremeParameters(side, 1, epsilon).fraction_bits * 2 * 41
        return 50 + 18 * min(events, ranks)

    return Entry(
        lambda span: Extreme.create(ExtremeParameters(side, span, epsilon)),
        cents,
        [Question(query, exact, relative)],
        most,
        states,
    )


def _variance(window: Window) -> Fraction | None:
    units = window.units.tolist()
    if not units:
        return None
    squares = sum(unit * unit for unit in units)
    return (Fraction(squares, len(units)) - Fraction(sum(units), len(units)) ** 2) / 10_000


def _signed_mean(window: Window) -> Fraction | None:
    units = window.units.tolist()
    return Fraction(sum(units), 100 * len(units)) if units else None


def _mean_kept(parameters: Any, estimate: Exact, exact: Exact, window: Window) -> bool:
    off = abs(estimate - exact) - abs(exact) * Fraction(1, 2**50)
    variance = _variance(window)
    share = Fraction(parameters.mean_error_in_deviations)
    return off <= 0 or (variance is not None and off**2 <= share**2 * variance)


def _deviation_kept(parameters: Any, estimate: Exact, exact: Exact, _: Window) -> bool:
    share = Fraction(parameters.relative_error_of_deviation)  # estimate and exact are squares
    return (1 - share) ** 2 * exact <= estimate <= (1 + share) ** 2 * exact


def _spread(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_spread_batch(
            parameters, states, Batch(starts, times, values, *asked, advances)
        ).states

    def most(events: int, units: int) -> float:
        steps = log2(1 + 1 / SpreadParameters(epsilon, 1).parts)
        buckets = 2 * log2(max(2, events) ** 2 * max(2, units) ** 2 / 2) / steps + 5
        return 60 + 40 * min(events, max(2 * buckets, buckets + 32))

    return Entry(
        lambda span: Spread.create(SpreadParameters(epsilon, span, 2)),
        cents,
        [
            Question(lambda s, n, now: s.mean(n, now), _signed_mean, _mean_kept),
            Question(lambda s, n, now: s.variance(n, now), _variance, relative),
            Question(
                lambda s, n, now: s.deviation(n, now),
                _variance,
                _deviation_kept,
                lambda root: Fraction(root) ** 2,
            ),
        ],
        most,
        states,
    )


def _sample(size: int, replacement: bool) -> Entry:
    # what is particular, that it is random, is the law of test_sample_chance.py
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        return run_sample_batch(parameters, states, Batch(starts, times, values, advances=advances))

    def ask(synopsis: SlidingSample, n: int, now: int) -> Figures:
        drawn = float(len(synopsis.sample(n, now).indices))
        return drawn, drawn, drawn

    def exact(window: Window) -> int:
        drawn = len(window.units)
        return size * (drawn > 0) if replacement else min(size, drawn)

    def most(events: int, _: int) -> float:
        mean = size * (1 + log(max(1.0, events / size)))  # H_n - H_k <= log(n / k)
        t = 14 + (28 * mean) ** 0.5  # more than that has a chance below 10^-6: sample.py
        return 60 + 20 * min(events, mean + t)

    return Entry(
        lambda span: SlidingSample.create(SampleParameters(size, span, 2**40 + 1, replacement)),
        cents,
        [Question(ask, exact, is_exact)],
        most,
        states,
    )


# Quantiles and frequent items.


def _rank(p: float) -> Question:
    def ask(synopsis: Quantiles, n: int, now: int) -> Figures:
        return synopsis.query(n, p, now)[:3]

    def asked(window: Window) -> int:
        return max(1, ceil(decimal(p) * len(window.units)))

    def exact(window: Window) -> float | None:
        if len(window.units) == 0:
            return None
        return float(np.sort(window.units)[asked(window) - 1] / 100)

    def kept(parameters: Any, estimate: Exact, _: Exact, window: Window) -> bool:
        values = np.sort(window.units / 100)
        least = int(np.searchsorted(values, float(estimate), "left")) + 1
        most = int(np.searchsorted(values, float(estimate), "right"))
        rank = asked(window)
        off = max(least - rank, rank - most, 0)
        return off <= Fraction(parameters.rank_error) * len(values)

    return Question(ask, exact, kept)


def _quantiles(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_quantile_batch(
            parameters, states, Batch(starts, times, values, *asked, advances), []
        ).states

    return Entry(
        lambda span: Quantiles.create(QuantileParameters(epsilon, span)),
        cents,
        [_rank(0.5), _rank(0.99)],
        lambda events, _: 100 + 27 * min(events, 2_000 / epsilon),
        states,
    )


def _by_value(p: float) -> Question:
    asked = decimal(p)

    def exact(window: Window) -> float | None:
        if len(window.units) == 0:
            return None
        rank = max(1, ceil(asked * len(window.units)))
        return float(np.sort(window.units)[rank - 1] / 100)

    def kept(parameters: Any, estimate: Exact, _: Exact, window: Window) -> bool:
        values = np.sort(window.units / 100)
        share = decimal(parameters.epsilon) * min(asked, 1 - asked)
        first = max(1, ceil((asked - share) * len(values)))
        last = min(len(values), floor((asked + share) * len(values)) + 1)
        nearest = min(max(estimate, Fraction(values[first - 1])), Fraction(values[last - 1]))
        return abs(estimate - nearest) <= Fraction(parameters.value_error) * abs(nearest)

    return Question(lambda s, n, now: s.query(n, p, now), exact, kept)


def _share_up_to(value: float) -> Question:
    def exact(window: Window) -> float | None:
        events = len(window.units)
        # As a double has it, which bounds allow for.
        return float((window.units / 100 <= value).sum() / events) if events else None

    def ask(synopsis: ValueQuantiles, n: int, now: int) -> Figures:
        return synopsis.rank(n, value, now).share_at_most

    return Question(ask, exact, lambda *_: True)


def _value_quantiles(relative_error: float, epsilon: float) -> Entry:
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_value_quantile_batch(
            parameters, states, Batch(starts, times, values, *asked, advances)
        ).states

    def most(events: int, _: int) -> float:
        cells = 64 + 30 / epsilon * (1 + log(1 + 2 * epsilon * events))
        bands = 2 + 20 * ValueQuantileParameters(relative_error, epsilon, 1).bins_per_octave
        return 70 + 16 * min(events, bands * cells)

    return Entry(
        lambda span: ValueQuantiles.create(ValueQuantileParameters(relative_error, epsilon, span)),
        cents,
        [_by_value(0.01), _by_value(0.5), _by_value(0.99), _share_up_to(0.0), _share_up_to(3.25)],
        most,
        states,
    )


def _frequent(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_frequent_batch(
            parameters, states, Batch(starts, times, items, *asked, advances), 0
        ).states

    def of(item: int) -> Question:
        return Question(
            lambda s, n, now: s.query(n, item, now),
            lambda window: int(np.count_nonzero(window.units == item)),
            lambda parameters, estimate, exact, window: (
                2 * abs(estimate - exact) <= Fraction(parameters.relative_width) * len(window.units)
            ),
        )

    return Entry(
        lambda span: FrequentItems.create(FrequentParameters(epsilon, span)),
        lambda units: (units,),
        [of(0), of(1), of(10**15)],
        lambda events, _: 100 + 36 * min(events, 2_000 / epsilon),
        states,
    )


EVERY: dict[str, Entry] = {
    "count, 0.5": _counted(0.5),
    "count, 0.1": _counted(0.1),
    "count, 0.01": _counted(0.01),
    "sum, 0.5": _summed(0.5),
    "sum, 0.1": _summed(0.1),
    "count wave, 1": _wave(CountWave, 1.0),
    "count wave, 0.1": _wave(CountWave, 0.1),
    "sum wave, 1/3": _wave(SumWave, 1 / 3),
    "sum wave, 0.1": _wave(SumWave, 0.1),
    "position wave, 0.3": _positions(0.3),
    "average wave, 0.2": _averaged(0.2),
    "approximate count, 0.2": _approximately_counted(0.2),
    "minimum": _extreme("minimum", 0.0),
    "maximum": _extreme("maximum", 0.0),
    "minimum, 0.01": _extreme("minimum", 0.01),
    "maximum, 0.5": _extreme("maximum", 0.5),
    "spread, 0.5": _spread(0.5),
    "spread, 0.1": _spread(0.1),
    "sample of 5": _sample(5, replacement=False),
    "3 draws": _sample(3, replacement=True),
    "quantiles, 0.5": _quantiles(0.5),
    "quantiles, 0.1": _quantiles(0.1),
    "quantiles by value, 0.5": _value_quantiles(0.5, 0.5),
    "quantiles by value, 0.01": _value_quantiles(0.01, 0.1),
    "frequent items, 0.5": _frequent(0.5),
    "frequent items, 0.1": _frequent(0.1),
    **ENTRIES,
}


# Quantiles and frequent items by chance, one that a run of all laws does not meet; named items.

_RARELY, _SEED = 1e-9, 2**40 + 1


def _random_quantiles(epsilon: float) -> Entry:
    alike = _quantiles(epsilon)
    return Entry(
        lambda span: RandomQuantiles.create(
            RandomQuantileParameters(epsilon, span, _RARELY, _SEED)
        ),
        alike.columns,
        alike.questions,
        lambda events, _: 110 + 27 * min(events, 4_000 / epsilon),
        alike.batch,
    )


def _random_frequent(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = ([0] * (len(states) + 1), [], [])
        return run_random_frequent_batch(
            parameters, states, Batch(starts, times, items, *asked, advances), 0
        ).states

    def of(item: int) -> Question:
        return Question(
            lambda s, n, now: s.query(n, item, now),
            lambda window: int(np.count_nonzero(window.units == item)),
            lambda parameters, estimate, exact, window: (
                2 * abs(estimate - exact) <= Fraction(parameters.epsilon) * len(window.units)
            ),
        )

    def most(events: int, _: int) -> float:
        reach = RandomFrequentParameters(epsilon, 1, _RARELY, _SEED).reach
        levels = max(0, ceil(log2(max(1, events) / reach)))
        return 110 + 36 * min(events, levels * (reach + 4) / 2 + reach + 2)

    return Entry(
        lambda span: RandomFrequentItems.create(
            RandomFrequentParameters(epsilon, span, _RARELY, _SEED)
        ),
        lambda units: (units,),
        [of(0), of(1), of(10**15)],
        most,
        states,
    )


def _named(epsilon: float) -> Entry:
    alike = _frequent(epsilon)

    def states(parameters, states, starts, times, texts, advances):  # type: ignore[no-untyped-def]
        different, codes = np.unique(texts, return_inverse=True)
        asked = ([0] * (len(states) + 1), [], [])
        return run_named_items_batch(
            parameters, states, Batch(starts, times, codes, *asked, advances), different.tolist(), 0
        ).states

    def of(question: Question, text: str) -> Question:
        def ask(synopsis: NamedItems, n: int, now: int) -> Figures:
            state, none = [synopsis.to_bytes()], [0, 0]
            result = run_named_items_batch(
                synopsis.parameters, state, Batch(none, [], [], [0, 1], [now], [n]), [], 0
            )
            bounds = zip(result.lowers.tolist(), result.uppers.tolist(), strict=True)
            known = dict(zip(result.names, bounds, strict=True))
            lower, upper = known.get(text, (0, int(result.unlisted[0, 0])))
            return (lower + upper) / 2, lower, upper

        return Question(ask, question.exact, question.kept)

    names = ("0", "1", str(10**15))
    return Entry(
        lambda span: NamedItems.create(PairedParameters(epsilon, span)),
        lambda units: (units.astype(str),),
        [of(question, name) for question, name in zip(alike.questions, names, strict=True)],
        lambda events, _: 120 + 50 * min(events, 2_000 / epsilon),
        states,
    )


def _paired(epsilon: float) -> Entry:
    alike = _frequent(epsilon)

    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_paired_items_batch(
            parameters, states, Batch(starts, times, items, *asked, advances), 0
        ).states

    return replace(
        alike,
        create=lambda span: PairedItems.create(PairedParameters(epsilon, span)),
        batch=states,
    )


EVERY |= {
    "random quantiles, 0.5": _random_quantiles(0.5),
    "random quantiles, 0.1": _random_quantiles(0.1),
    "random items, 0.5": _random_frequent(0.5),
    "random items, 0.1": _random_frequent(0.1),
    "items in pairs, 0.5": _paired(0.5),
    "items in pairs, 0.1": _paired(0.1),
    "named items, 0.5": _named(0.5),
    "named items, 0.1": _named(0.1),
}
