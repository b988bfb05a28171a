"""Entries of the synopses that are told what came: bins, items, and how many different ones.

Those with a chance of a miss are asked with a delta at which no law meets one, or only for what is
sure; how often they miss is the law of files of their own.
"""

from fractions import Fraction
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.synopses import (
    Batch,
    BitmapsParameters,
    CounterTable,
    CounterTableParameters,
    CountParameters,
    DistinctBitmaps,
    DistinctParameters,
    DistinctWave,
    LpNorm,
    LpNormParameters,
    ValueHistogram,
    ValueHistogramParameters,
    run_bitmaps_batch,
    run_counter_table_batch,
    run_distinct_batch,
    run_lp_norm_batch,
    run_value_histogram_batch,
)
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from slidestat.synopses.lean_distinct.sketch import LeanDistinct, run_lean_distinct_batch
from tests.synopses.celled import EDGES
from tests.synopses.entry import (
    Columns,
    Entry,
    Exact,
    Figures,
    Question,
    Window,
    buckets,
    cents,
    count,
    is_exact,
    queries_of_none,
    query,
    share_of_it,
)


def _items(units: Integers) -> Columns:
    return (units,)


def _counts(units: Integers) -> npt.NDArray[np.int64]:
    return np.unique(units, return_counts=True)[1]


def _different(window: Window) -> int:
    return len(_counts(window.units))


def _histogram(epsilon: float, edges: tuple[float, ...] = EDGES) -> Entry:
    def states(parameters, states, starts, times, values, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_value_histogram_batch(
            parameters, states, Batch(starts, times, values, *asked, advances)
        ).states

    def most(events: int, _: int) -> float:
        return 60 + 9 * len(edges) + 10 * (len(edges) + 1) * buckets(per_level, events)

    per_level = round(0.5 / CountParameters(epsilon, 1).relative_error)
    edge = edges[len(edges) // 2]
    return Entry(
        lambda span: ValueHistogram.create(ValueHistogramParameters(epsilon, span, edges)),
        cents,
        [
            Question(
                lambda s, n, now: s.query(n, now)[0],
                lambda window: int(np.count_nonzero(window.units / 100 < edges[0])),
                share_of_it,
            ),
            Question(
                # its own edges: those of damaged bytes may be others
                lambda s, n, now: s.at_least(s.parameters.edges[len(edges) // 2], n, now),
                lambda window: int(np.count_nonzero(window.units / 100 >= edge)),
                share_of_it,
            ),
        ],
        most,
        states,
    )


def _table(epsilon: float) -> Entry:
    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_counter_table_batch(
            parameters, states, Batch(starts, times, items, *asked, advances)
        ).states

    def of(item: int) -> Question:
        return Question(
            lambda s, n, now: s.query(n, now).get(item, (0.0, 0.0, 0.0)),
            lambda window: int(np.count_nonzero(window.units == item)),
            share_of_it,
        )

    def listed(synopsis: CounterTable, n: int, now: int) -> Figures:
        items = float(len(synopsis.query(n, now)))
        return items, items, items

    return Entry(
        lambda span: CounterTable.create(CounterTableParameters(epsilon, span, 10**6)),
        _items,
        [of(0), of(10), Question(listed, _different, is_exact)],
        lambda events, _: 60 + 37 * events,  # one item each; test_cells_error.py has them repeat
        states,
    )


def _states_of_norms(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
    asked = queries_of_none(len(states))
    return run_lp_norm_batch(
        parameters, states, Batch(starts, times, items, *asked, advances)
    ).states


def _most_of_norms(parameters: LpNormParameters, events: int) -> float:
    ratio = parameters.p * log2(max(2, events)) / log2(1 + parameters.beta)
    rows = 32 + parameters.rows if parameters.p > 1 else 1
    return 100 + min(events, 2 * (2 * ratio + 3) + 32) * (30 + 6 * rows)


def _total(epsilon: float) -> Entry:
    def kept(parameters: Any, estimate: Exact, exact: Exact, _: Window) -> bool:
        return abs(estimate - exact) <= Fraction(parameters.epsilon) * exact

    return Entry(
        lambda span: LpNorm.create(LpNormParameters(1, epsilon, 0.5, span)),
        _items,
        [Question(query, count, kept)],
        lambda events, _: _most_of_norms(LpNormParameters(1, epsilon, 0.5, 1), events),
        _states_of_norms,
    )


def _norm(epsilon: float) -> Entry:
    def squares(window: Window) -> int:
        return int((_counts(window.units) ** 2).sum())

    def kept(_: Any, estimate: Exact, exact: Exact, __: Window) -> bool:
        share = Fraction(epsilon)
        return (1 - share) ** 2 * exact <= estimate <= (1 + share) ** 2 * exact

    chosen = {"p": 2, "epsilon": epsilon, "delta": 1e-6, "seed": 2**61 + 7}
    return Entry(
        lambda span: LpNorm.create(LpNormParameters(span=span, **chosen)),
        _items,
        [Question(query, squares, kept, lambda norm: Fraction(norm) ** 2)],
        lambda events, _: _most_of_norms(LpNormParameters(span=1, **chosen), events),
        _states_of_norms,
    )


def _distinct(epsilon: float, delta: float) -> Entry:
    chosen = DistinctParameters(epsilon, delta, 1, 2**63 - 1)
    sure = delta < 0.001

    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_distinct_batch(
            parameters, states, Batch(starts, times, items, *asked, advances)
        ).states

    def figure(x: float) -> float:
        return x if sure else min(x, chosen.capacity)

    def ask(synopsis: DistinctWave, n: int, now: int) -> Figures:
        answer = synopsis.query(n, now)
        return figure(answer.estimate), figure(answer.lower), figure(answer.upper)

    def kept(_: Any, estimate: Exact, exact: Exact, __: Window) -> bool:
        return abs(estimate - exact) < Fraction(epsilon) * exact if exact > 0 else estimate == 0

    def most(events: int, _: int) -> float:
        items = chosen.capacity * chosen.instances * (9 + log2(events))
        return 60 + (16 + chosen.instances) * min(events, items)

    return Entry(
        lambda span: DistinctWave.create(DistinctParameters(epsilon, delta, span, 2**63 - 1)),
        _items,
        [Question(ask, lambda window: figure(_different(window)), kept)],
        most,
        states,
    )


def _bitmaps(bitmaps: int) -> Entry:
    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_bitmaps_batch(
            parameters, states, Batch(starts, times, items, *asked, advances)
        ).states

    def kept(_: Any, estimate: Exact, exact: Exact, __: Window) -> bool:
        return (estimate == 0) == (exact == 0)  # no error is promised

    return Entry(
        lambda span: DistinctBitmaps.create(BitmapsParameters(bitmaps, 1e-9, span, 2**40 + 1)),
        _items,
        [Question(query, _different, kept)],
        lambda events, _: 60 + 16 * min(events, bitmaps * (9 + log2(events))),
        states,
    )


def _lean(epsilon: float) -> Entry:
    chosen = LeanDistinctParameters(epsilon, 1e-6, 1, 2**63 - 1)

    def states(parameters, states, starts, times, items, advances):  # type: ignore[no-untyped-def]
        asked = queries_of_none(len(states))
        return run_lean_distinct_batch(
            parameters, states, Batch(starts, times, items, *asked, advances)
        ).states

    def kept(_: Any, estimate: Exact, exact: Exact, __: Window) -> bool:
        return abs(estimate - exact) <= Fraction(epsilon) * exact

    def most(events: int, _: int) -> float:
        bits = chosen.bitmaps * (9 + log2(events))
        return 60 + 20 * min(events, chosen.exact) + 10 * min(events, bits)

    return Entry(
        lambda span: LeanDistinct.create(LeanDistinctParameters(epsilon, 1e-6, span, 2**63 - 1)),
        _items,
        [Question(query, _different, kept)],
        most,
        states,
    )


ENTRIES: dict[str, Entry] = {
    "value histogram, 1": _histogram(1.0, (0.0,)),
    "value histogram, 0.01": _histogram(0.01, (1 / 3, 2.0)),
    "value histogram, 0.1": _histogram(0.1),
    "counter table, 0.5": _table(0.5),
    "counter table, 0.1": _table(0.1),
    "norm of order 1, 0.2": _total(0.2),
    "norm of order 2, 0.9": _norm(0.9),
    "distinct wave of five": _distinct(0.5, 1e-6),
    "distinct wave": _distinct(0.5, 0.5),
    "bitmaps": _bitmaps(16),
    "lean distinct": _lean(0.5),
}
