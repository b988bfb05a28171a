"""Lean distinct items."""

from collections.abc import Callable

import numpy as np

from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from slidestat.synopses.lean_distinct.sketch import LeanDistinct
from tests.golden.golden import HOUR, NOON, of_synopses, steps

STEPS, TIMES = steps(1_200)


def _fed(items: np.ndarray, times: np.ndarray = TIMES, epsilon: float = 0.3) -> LeanDistinct:
    made_with = LeanDistinctParameters(epsilon, 0.01, HOUR, 2**62 + 12_345)
    synopsis = LeanDistinct.create(made_with)
    synopsis.insert(times[: len(items)], items)
    return synopsis


def _expired() -> LeanDistinct:
    synopsis = _fed(STEPS)
    synopsis.advance(NOON + 99 * HOUR)
    return synopsis


STATES: dict[str, Callable[[], LeanDistinct]] = {
    "lean-distinct-1/empty": lambda: _fed(STEPS[:0]),
    "lean-distinct-1/five": lambda: _fed(STEPS[:5] * 3_000_000_000 - 2**62),
    "lean-distinct-1/many": lambda: _fed(STEPS * STEPS * 7_919),
    "lean-distinct-1/fine": lambda: _fed(STEPS * STEPS * 7_919, epsilon=0.05),
    "lean-distinct-1/ties": lambda: _fed(STEPS % 300, NOON + STEPS // 400),
    "lean-distinct-1/expired": _expired,
}


def facts(synopsis: LeanDistinct) -> dict[str, object]:
    spans = (1, synopsis.parameters.span // 10, synopsis.parameters.span)
    # logarithms of another machine may differ in a last place
    answers = {str(n): [round(figure, 6) for figure in synopsis.query(n)] for n in spans}
    return {"now": synopsis.now, "made with": repr(synopsis.parameters), "answers": answers}


GOLDEN = of_synopses(STATES, facts)
