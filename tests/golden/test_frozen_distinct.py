"""Bytes of format version 1, written once: they are read back forever, and written the same."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slidestat.synopses.distinct.distinct_parameters import DistinctParameters, plan
from slidestat.synopses.distinct.distinct_wave import DistinctWave
from slidestat.synopses.distinct.flajolet_martin import BitmapsParameters, DistinctBitmaps
from slidestat.synopses.distinct.union_counting import insert_bits

FROZEN = Path(__file__).parent / "frozen"
HOUR = 3_600_000
NOON = 1_700_000_000_000

# What each file was made of, in arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(1_200, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)


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


@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(name: str) -> None:
    """A state of version 1 is what it was: its time, its parameters, its answers."""
    path = FROZEN / f"{name}.bin"
    synopsis = type(STATES[name]()).from_bytes(path.read_bytes())
    synopsis.check()
    assert facts(synopsis) == json.loads((path.parent / "facts.json").read_text())[path.stem]


@pytest.mark.parametrize("name", STATES)
def test_the_same_events_write_the_same_bytes(name: str) -> None:
    """While version 1 is what is written, equal events give the bytes that they gave then."""
    assert STATES[name]().to_bytes() == (FROZEN / f"{name}.bin").read_bytes()


def test_capacities_are_what_they_were() -> None:
    """Instances and capacity are not stored, so those of an epsilon and delta never change."""
    assert plan(0.05, 0.01) == (1, 8_636)
    assert plan(0.01, 0.0001) == (1, 656_497)
    assert plan(0.1, 1e-6) == (5, 2_741)
    assert plan(0.005, 1e-9) == (7, 1_191_214)
    assert plan(0.5, 0.5) == (1, 32)
