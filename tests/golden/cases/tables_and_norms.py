"""Histograms of values, counter tables and L_p norms."""

from collections.abc import Callable

import numpy as np

from slidestat.synopses import (
    CounterTable,
    CounterTableParameters,
    Estimate,
    LpNorm,
    LpNormParameters,
    ValueHistogram,
    ValueHistogramParameters,
)
from tests.golden.golden import HOUR, NOON, of_synopses, steps

STEPS, TIMES = steps(3_000)
VALUES = (STEPS * 7_919 % 100_003 - 50_000) / 100
ITEMS = STEPS * STEPS % 997
HASHES = ITEMS * 0x1F3D5B79 * 0x1A2B3C4D  # far apart, of both signs

Synopsis = ValueHistogram | CounterTable | LpNorm


def _fed(synopsis: Synopsis, times: np.ndarray, what: np.ndarray) -> Synopsis:
    synopsis.insert(times, what[: len(times)])
    return synopsis


def _advanced(synopsis: Synopsis, now: int) -> Synopsis:
    synopsis.advance(now)
    return synopsis


def _histogram(epsilon: float, *edges: float) -> ValueHistogram:
    return ValueHistogram.create(ValueHistogramParameters(epsilon, HOUR, edges))


def _table(epsilon: float) -> CounterTable:
    return CounterTable.create(CounterTableParameters(epsilon, HOUR, 5_000))


def _norm(p: float) -> LpNorm:
    return LpNorm.create(LpNormParameters(p, 0.8, 0.2, HOUR, 2**40 + 9))


STATES: dict[str, Callable[[], Synopsis]] = {
    "value-histogram-1/empty": lambda: _histogram(0.1, 0.0),
    "value-histogram-1/five": lambda: _fed(
        _histogram(0.01, -100, 0, 99.5), NOON + STEPS[:5] * 1_000, VALUES
    ),
    "value-histogram-1/many": lambda: _fed(_histogram(0.1, -100, 0, 0.01, 250), TIMES, VALUES),
    "value-histogram-1/thirds": lambda: _fed(_histogram(0.3, -1 / 3, 2 / 3), TIMES, VALUES),
    "value-histogram-1/ties": lambda: _fed(_histogram(0.1, 0.0), NOON + STEPS // 700, VALUES),
    "value-histogram-1/before-1970": lambda: _fed(_histogram(0.1, 0.0), STEPS - 10**12, VALUES),
    "value-histogram-1/expired": lambda: _advanced(
        _fed(_histogram(0.1, 0.0), TIMES, VALUES), NOON + 99 * HOUR
    ),
    "counter-table-1/empty": lambda: _table(0.1),
    "counter-table-1/five": lambda: _fed(_table(0.01), NOON + STEPS[:5] * 1_000, ITEMS),
    "counter-table-1/many": lambda: _fed(_table(0.1), TIMES, ITEMS),
    "counter-table-1/hashes": lambda: _fed(_table(0.5), TIMES, HASHES),
    "counter-table-1/ties": lambda: _fed(_table(0.1), NOON + STEPS // 700, ITEMS % 3),
    "counter-table-1/expired": lambda: _advanced(_fed(_table(0.1), TIMES, ITEMS), NOON + 99 * HOUR),
    "lp-norm-1/empty": lambda: _norm(2),
    "lp-norm-1/five": lambda: _fed(_norm(1.5), NOON + STEPS[:5] * 1_000, HASHES),
    "lp-norm-1/sum": lambda: _fed(_norm(1), TIMES, ITEMS),
    "lp-norm-1/order-1.5": lambda: _fed(_norm(1.5), TIMES, ITEMS),
    "lp-norm-1/order-2": lambda: _fed(_norm(2), TIMES, HASHES),
    "lp-norm-1/expired": lambda: _advanced(_fed(_norm(2), TIMES, ITEMS), NOON + 99 * HOUR),
}


def facts(synopsis: Synopsis) -> dict[str, object]:
    answers = {}
    for n in (1, HOUR // 10, HOUR):
        found = synopsis.query(n)
        if isinstance(found, Estimate):
            found = [found]
        listed = dict(enumerate(found)) if isinstance(found, list) else found
        answers[str(n)] = [[key, *map(repr, of)] for key, of in list(listed.items())[:20]]
    return {"now": synopsis.now, "made with": repr(synopsis.parameters), "answers": answers}


GOLDEN = of_synopses(STATES, facts)
