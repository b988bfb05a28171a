"""Deterministic waves."""

from collections.abc import Callable
from typing import Any

from slidestat.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.parameters import AverageParameters, WaveParameters
from slidestat.synopses.waves.waves import CountWave, PositionWave, SumWave
from tests.golden.golden import HOUR, NOON, of_synopses, steps

STEPS, TIMES = steps(5_000)
CENTS = STEPS * 7_919 % 100_003
TENTH, FINE = WaveParameters(0.1, HOUR), WaveParameters(0.01, HOUR)


def _fed(made: Any, *columns: Any, to: int | None = None) -> Any:
    made.insert(*columns)
    if to is not None:
        made.advance(to)
    return made


STATES: dict[str, Callable[[], Any]] = {
    "count-empty": lambda: CountWave.create(TENTH),
    "count-five": lambda: _fed(CountWave.create(FINE), NOON + STEPS[:5] * 1_000),
    "count-ties": lambda: _fed(CountWave.create(FINE), NOON + STEPS // 700),
    "count-many": lambda: _fed(CountWave.create(FINE), TIMES),
    "count-expired": lambda: _fed(CountWave.create(TENTH), TIMES, to=NOON + 99 * HOUR),
    "count-before-1970": lambda: _fed(CountWave.create(TENTH), STEPS - 10**12),
    "sum-empty": lambda: SumWave.create(TENTH),
    "sum-many": lambda: _fed(SumWave.create(TENTH), TIMES, CENTS),
    "sum-beyond-2-to-the-62": lambda: _fed(
        SumWave.create(WaveParameters(0.1, 100)), STEPS, 2**53 - STEPS
    ),
    "position-empty": lambda: PositionWave.create(TENTH),
    "position-many": lambda: _fed(PositionWave.create(TENTH), TIMES),
    "position-ties": lambda: _fed(PositionWave.create(TENTH), NOON + STEPS // 9),
    "average-many": lambda: _fed(AverageWave.create(AverageParameters(0.1, HOUR)), TIMES, CENTS),
    "approximate-count": lambda: _fed(
        ApproximateCount.create(ApproximateCountParameters(3_000, 0.05)), CENTS % 3 == 0
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


GOLDEN = of_synopses(STATES, facts, "wave-1")
