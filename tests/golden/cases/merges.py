"""Bundles of parties."""

from collections.abc import Callable

import numpy as np

from slidestat.synopses import (
    Bundle,
    CountParameters,
    ExponentialHistogram,
    PositionWave,
    QuantileParameters,
    Quantiles,
    SumParameters,
    WaveParameters,
    union_ages,
    union_totals,
)
from tests.golden.golden import HOUR, of_synopses, steps

STEPS, TIMES = steps(3_000)
VALUES = (STEPS * 7_919 % 100_003) / 100


def _parts(make: Callable[[np.ndarray, np.ndarray], bytes], parties: int) -> dict[str, bytes]:
    """What parties sent who saw the events by turns."""
    return {
        f"partition-{party}": make(TIMES[party::parties], VALUES[party::parties])
        for party in range(parties)
    }


def _count(times: np.ndarray, _: np.ndarray) -> bytes:
    histogram = ExponentialHistogram.create(CountParameters(0.1, HOUR))
    histogram.insert(times)
    return histogram.to_bytes()


def _sum(times: np.ndarray, values: np.ndarray) -> bytes:
    histogram = ExponentialHistogram.create(SumParameters(0.05, HOUR, 2))
    histogram.insert(times, values)
    return histogram.to_bytes()


def _quantiles(times: np.ndarray, values: np.ndarray) -> bytes:
    summary = Quantiles.create(QuantileParameters(0.3, HOUR))
    summary.insert(times, values)
    return summary.to_bytes()


def _ages(times: np.ndarray, _: np.ndarray) -> bytes:
    wave = PositionWave.create(WaveParameters(0.1, HOUR))
    wave.insert(times)
    return wave.to_bytes()


STATES: dict[str, Callable[[], Bundle]] = {
    "bundle-empty": lambda: Bundle.of({}),
    "bundle-counts": lambda: Bundle.of(_parts(_count, 3)),
    "bundle-sums": lambda: Bundle.of(_parts(_sum, 2)),
    "bundle-names": lambda: Bundle.of(
        {"Zürich/\N{BLACK STAR}": _count(TIMES, VALUES), " ": _count(TIMES[:5], VALUES)}
    ),
    "bundle-ages": lambda: Bundle.of(_parts(_ages, 3)),
}


def facts(state: Bundle) -> dict[str, object]:
    found: dict[str, object] = {"made with": repr(state.parameters)}
    found["parts"] = [[part.party, part.now] for part in state.parts]
    if state.parts:
        union = union_ages if isinstance(state.parameters, WaveParameters) else union_totals
        over = union([state], [state.now], [1, HOUR // 10, HOUR])
        found["answers"] = [repr(x) for x in (over.estimates.tolist(), over.lowers.tolist())]
    return found


GOLDEN = of_synopses(STATES, facts, "merge-1")
