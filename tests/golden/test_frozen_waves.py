"""Bytes of format version 1, written once: they are read back forever, and written the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slidestat.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.count_wave import CountWave
from slidestat.synopses.waves.position_wave import PositionWave
from slidestat.synopses.waves.sum_wave import SumWave
from slidestat.synopses.waves.wave_parameters import AverageParameters, WaveParameters

FROZEN = Path(__file__).parent / "frozen" / "wave-1"
HOUR = 3_600_000
NOON = 1_700_000_000_000

# What each file was made of, in arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(5_000, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)
CENTS = STEPS * 7_919 % 100_003
TENTH, FINE = WaveParameters(0.1, HOUR), WaveParameters(0.01, HOUR)


def _fed(made: Any, *columns: Any, to: int | None = None) -> Any:
    made.insert(*columns)
    if to is not None:
        made.advance(to)
    return made


STATES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "count-empty": (CountWave, lambda: CountWave.create(TENTH)),
    "count-five": (CountWave, lambda: _fed(CountWave.create(FINE), NOON + STEPS[:5] * 1_000)),
    "count-ties": (CountWave, lambda: _fed(CountWave.create(FINE), NOON + STEPS // 700)),
    "count-many": (CountWave, lambda: _fed(CountWave.create(FINE), TIMES)),
    "count-expired": (
        CountWave,
        lambda: _fed(CountWave.create(TENTH), TIMES, to=NOON + 99 * HOUR),
    ),
    "count-before-1970": (CountWave, lambda: _fed(CountWave.create(TENTH), STEPS - 10**12)),
    "sum-empty": (SumWave, lambda: SumWave.create(TENTH)),
    "sum-many": (SumWave, lambda: _fed(SumWave.create(TENTH), TIMES, CENTS)),
    "sum-beyond-2-to-the-62": (
        SumWave,
        lambda: _fed(SumWave.create(WaveParameters(0.1, 100)), STEPS, 2**53 - STEPS),
    ),
    "position-empty": (PositionWave, lambda: PositionWave.create(TENTH)),
    "position-many": (PositionWave, lambda: _fed(PositionWave.create(TENTH), TIMES)),
    "position-ties": (PositionWave, lambda: _fed(PositionWave.create(TENTH), NOON + STEPS // 9)),
    "average-many": (
        AverageWave,
        lambda: _fed(AverageWave.create(AverageParameters(0.1, HOUR)), TIMES, CENTS),
    ),
    "approximate-count": (
        ApproximateCount,
        lambda: _fed(
            ApproximateCount.create(ApproximateCountParameters(3_000, 0.05)), CENTS % 3 == 0
        ),
    ),
}


def facts(state: Any) -> dict[str, Any]:
    if isinstance(state, ApproximateCount):
        asks = [1, 100, state.parameters.n]
    elif isinstance(state, PositionWave):
        asks = [1, 10, 1_000]
    else:
        asks = [1, state.parameters.span // 10, state.parameters.span]
    return {
        "now": state.now,
        "relative error": state.parameters.relative_error,
        "answers": {str(ask): [repr(figure) for figure in state.query(ask)] for ask in asks},
    }


@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(name: str) -> None:
    """A state of version 1 is what it was: its time, its promise, its answers."""
    kind, _ = STATES[name]
    state = kind.from_bytes((FROZEN / f"{name}.bin").read_bytes())
    state.check()
    assert facts(state) == json.loads((FROZEN / "facts.json").read_text())[name]


@pytest.mark.parametrize("name", STATES)
def test_the_same_events_write_the_same_bytes(name: str) -> None:
    """While version 1 is what is written, equal events give the bytes that they gave then."""
    _, make = STATES[name]
    assert make().to_bytes() == (FROZEN / f"{name}.bin").read_bytes()
