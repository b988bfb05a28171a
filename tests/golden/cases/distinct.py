"""Randomised waves and Flajolet-Martin bitmaps."""

from collections.abc import Callable

import numpy as np

from slidestat.synopses.distinct.flajolet_martin import BitmapsParameters, DistinctBitmaps
from slidestat.synopses.distinct.parameters import DistinctParameters
from slidestat.synopses.distinct.wave import DistinctWave, insert_bits
from tests.golden.golden import HOUR, NOON, of_synopses, steps

STEPS, TIMES = steps(1_200)


def _fed(items: np.ndarray, delta: float = 0.5, times: np.ndarray = TIMES) -> DistinctWave:
    wave = DistinctWave.create(DistinctParameters(0.5, delta, HOUR, 2**62 + 12_345))
    wave.insert(times[: len(items)], items)
    return wave


def _bits() -> DistinctWave:
    wave = DistinctWave.create(DistinctParameters(0.5, 0.5, 500, 3))
    insert_bits(wave, STEPS * 7_919 % 10 < 4)
    return wave


def _expired() -> DistinctWave:
    wave = _fed(STEPS)
    wave.advance(NOON + 99 * HOUR)
    return wave


def _bitmaps(count: int) -> DistinctBitmaps:
    synopsis = DistinctBitmaps.create(BitmapsParameters(64, 0.01, HOUR, 2**62 + 12_345))
    synopsis.insert(TIMES[:count], STEPS[:count] * STEPS[:count] * 7_919)
    return synopsis


STATES: dict[str, Callable[[], DistinctWave | DistinctBitmaps]] = {
    "randomised-wave-1/empty": lambda: _fed(STEPS[:0]),
    "randomised-wave-1/five": lambda: _fed(STEPS[:5] * 3_000_000_000 - 2**62),
    "randomised-wave-1/many": lambda: _fed(STEPS * STEPS * 7_919),
    "randomised-wave-1/five-instances": lambda: _fed(STEPS * 7_919 % 1_000 - 500, 1e-6),
    "randomised-wave-1/ties": lambda: _fed(STEPS % 300, 0.5, NOON + STEPS // 400),
    "randomised-wave-1/bits": _bits,
    "randomised-wave-1/expired": _expired,
    "flajolet-martin-1/empty": lambda: _bitmaps(0),
    "flajolet-martin-1/five": lambda: _bitmaps(5),
    "flajolet-martin-1/many": lambda: _bitmaps(1_200),
}


def facts(synopsis: DistinctWave | DistinctBitmaps) -> dict[str, object]:
    answers: dict[str, list[float]] = {}
    for n in (1, synopsis.parameters.span // 10, synopsis.parameters.span):
        answer = list(synopsis.query(n))
        if isinstance(synopsis, DistinctWave):
            answer += synopsis.query(n, predicate=lambda ids: ids % 3 == 0)
            answer += [int(synopsis.retained(n).items.sum() % 1_000_003)]
        else:  # logarithms of another machine may differ in a last place
            answer = [round(figure, 6) for figure in answer]
        answers[str(n)] = answer
    return {"now": synopsis.now, "made with": repr(synopsis.parameters), "answers": answers}


GOLDEN = of_synopses(STATES, facts)
