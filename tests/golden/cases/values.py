"""Extremes, spreads and samples of values."""

from collections.abc import Callable

import numpy as np

from slidestat.synopses.core.stored import StoredSynopsis
from slidestat.synopses.extremes.extreme import Extreme, ExtremeParameters
from slidestat.synopses.moments.spread import Spread, SpreadParameters
from slidestat.synopses.sampling.sample import SampleParameters, SlidingSample
from tests.golden.golden import HOUR, NOON, of_synopses, steps

STEPS, TIMES = steps(3_000)
VALUES = (STEPS * 7_919 % 100_003 - 50_000) / 100


def _fed(
    synopsis: StoredSynopsis, times: np.ndarray = TIMES, values: np.ndarray = VALUES
) -> StoredSynopsis:
    synopsis.insert(times, values[: len(times)])
    return synopsis


def _advanced(synopsis: StoredSynopsis, now: int) -> StoredSynopsis:
    synopsis.advance(now)
    return synopsis


def _extreme(side: str, epsilon: float) -> Extreme:
    return Extreme.create(ExtremeParameters(side, HOUR, epsilon))


def _spread(epsilon: float, decimals: int) -> Spread:
    return Spread.create(SpreadParameters(epsilon, HOUR, decimals))


def _sample(size: int, replacement: bool) -> SlidingSample:
    return SlidingSample.create(SampleParameters(size, HOUR, 2**62 + 12_345, replacement))


STATES: dict[str, Callable[[], StoredSynopsis]] = {
    "extreme-1/minimum": lambda: _fed(_extreme("minimum", 0)),
    "extreme-1/maximum-empty": lambda: _extreme("maximum", 0),
    "extreme-1/maximum-rising": lambda: _fed(_extreme("maximum", 0), STEPS - 10**12, -(VALUES**2)),
    "extreme-1/rough-minimum": lambda: _fed(_extreme("minimum", 0.01)),
    "extreme-1/rough-maximum-falling": lambda: _fed(_extreme("maximum", 0.1), TIMES, 1e6 - STEPS),
    "extreme-1/rough-maximum-expired": lambda: _advanced(
        _fed(_extreme("maximum", 0.5)), NOON + 99 * HOUR
    ),
    "extreme-1/rough-minimum-of-nothing": lambda: _fed(
        _extreme("minimum", 0.1), NOON + STEPS[:60] * 1_000, 5e-324 * (STEPS[:60] // 2) ** 3
    ),
    "spread-1/empty": lambda: _spread(0.1, 3),
    "spread-1/five": lambda: _fed(_spread(0.01, 2), NOON + STEPS[:5] * 1_000),
    "spread-1/ties": lambda: _fed(_spread(0.1, 2), NOON + STEPS // 700),
    "spread-1/many": lambda: _fed(_spread(0.1, 2)),
    "spread-1/coarse": lambda: _fed(_spread(0.5, 2)),
    "spread-1/parts": lambda: _fed(_spread(0.2, 3), TIMES, VALUES / 3),
    "spread-1/large": lambda: _fed(_spread(0.2, 0), TIMES, VALUES * 1e8 + 5e11),
    "spread-1/expired": lambda: _advanced(_fed(_spread(0.2, 2)), NOON + 99 * HOUR),
    "sample-1/empty": lambda: _sample(5, False),
    "sample-1/three": lambda: _fed(_sample(5, False), NOON + STEPS[:3] * 1_000),
    "sample-1/many": lambda: _fed(_sample(5, False)),
    "sample-1/draws": lambda: _fed(_sample(3, True)),
}


def facts(synopsis: StoredSynopsis) -> dict[str, object]:
    answers: dict[str, object] = {}
    for n in (1, HOUR // 10, HOUR):
        if isinstance(synopsis, Extreme):
            answers[str(n)] = [repr(figure) for figure in synopsis.query(n)]
        elif isinstance(synopsis, Spread):
            three = (synopsis.mean(n), synopsis.variance(n), synopsis.deviation(n))
            answers[str(n)] = [repr(figure) for answer in three for figure in answer]
        elif isinstance(synopsis, SlidingSample):
            found = synopsis.sample(n)
            answers[str(n)] = [found.indices.tolist(), found.values.tolist(), found.whole]
    return {"now": synopsis.now, "made with": repr(synopsis.parameters), "answers": answers}


GOLDEN = of_synopses(STATES, facts)
