"""Quantiles by value, their unions and summaries of windows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from slidestat.synopses import (
    Bundle,
    ValueQuantileParameters,
    ValueQuantiles,
    WindowValueQuantiles,
    merge_summaries,
    read_summary,
    take_summary,
    union_value_quantiles,
    union_value_ranks,
)
from tests.golden.golden import HOUR, NOON, Golden, steps

STEPS, TIMES = steps(6_000)
PRICES = (STEPS * 7_919 % 100_003) / 100 + 0.25
SIGNED = PRICES - 300
FAR_APART = np.where(STEPS % 2 == 0, 1.0, -1.0) * 2.0 ** (STEPS * 37 % 83 - 35.0)
FEW = np.array([-2.5, -0.0, 0.0, 1.0, 1e-12])[STEPS * 7_919 % 5]

QUANTILES = (0.0, 0.01, 0.5, 0.9, 0.999, 1.0)
VALUES = (-300.0, 0.0, 1.0, 99.5, 500.25, 1e300)


def _state(
    relative_error: float,
    epsilon: float,
    span: int,
    times: np.ndarray,
    values: np.ndarray,
    to: int | None = None,
) -> bytes:
    summary = ValueQuantiles.create(ValueQuantileParameters(relative_error, epsilon, span))
    for part in np.array_split(np.arange(len(times)), 3):
        summary.insert(times[part], values[part])
    if to is not None:
        summary.advance(to)
    return summary.to_bytes()


def _parts(parties: int) -> dict[str, bytes]:
    """What parties sent who saw the events by turns."""
    return {
        f"partition-{party}": _state(0.02, 0.1, HOUR, TIMES[party::parties], SIGNED[party::parties])
        for party in range(parties)
    }


def _hours() -> bytes:
    """Three windows in a row, each taken of the state as it was at its end, and merged."""
    summaries = []
    for hour in range(1, 4):
        before = np.searchsorted(TIMES, NOON + hour * HOUR // 2)
        data = _state(0.02, 0.1, HOUR, TIMES[:before], SIGNED[:before])
        summaries.append(take_summary(data, HOUR // 2, NOON + hour * HOUR // 2))
    return merge_summaries(summaries)


STATES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: _state(0.01, 0.1, HOUR, TIMES[:0], PRICES[:0]),
    "five": lambda: _state(0.01, 0.1, HOUR, TIMES[:5], PRICES[:5]),
    "many": lambda: _state(0.01, 0.1, HOUR, TIMES, PRICES),
    "signed": lambda: _state(0.01, 0.1, HOUR, TIMES, SIGNED),
    "far-apart": lambda: _state(0.1, 0.02, HOUR, TIMES, FAR_APART),
    "few-values": lambda: _state(0.01, 0.1, HOUR, TIMES, FEW),
    "coarse": lambda: _state(0.5, 0.5, HOUR, TIMES, SIGNED),
    "fine": lambda: _state(0.001, 0.01, HOUR, TIMES[:2_000], PRICES[:2_000]),
    "one-time": lambda: _state(0.01, 0.1, HOUR, TIMES[:1].repeat(900), PRICES[:900]),
    "last-3000": lambda: _state(0.05, 0.2, 3_000, STEPS, PRICES),
    "partly-expired": lambda: _state(0.05, 0.2, HOUR, TIMES, PRICES, int(TIMES[-1]) + HOUR // 2),
    "expired": lambda: _state(0.05, 0.2, HOUR, TIMES, PRICES, NOON + 99 * HOUR),
    "before-1970": lambda: _state(0.05, 0.2, HOUR, STEPS[:3_000] - 10**12, PRICES[:3_000]),
}
BUNDLES: dict[str, Callable[[], bytes]] = {
    "bundle-of-one": lambda: Bundle.of(_parts(1)).to_bytes(),
    "bundle-of-three": lambda: Bundle.of(_parts(3)).to_bytes(),
}
SUMMARIES: dict[str, Callable[[], bytes]] = {
    "window-empty": lambda: take_summary(STATES["empty"](), HOUR, NOON),
    "window": lambda: take_summary(STATES["many"](), HOUR),
    "window-merged": _hours,
}
EVERY = {**STATES, **BUNDLES, **SUMMARIES}


def facts(name: str, data: bytes) -> dict[str, object]:
    """What frozen bytes answer."""
    if name in STATES:
        summary = ValueQuantiles.from_bytes(data)
        summary.check()
        span = summary.parameters.span
        return {
            "made with": [summary.parameters.bins_per_octave, summary.parameters.epsilon, span],
            "now": summary.now,
            "quantiles": [
                repr(tuple(summary.query(n, p))) for n in (1, span // 10, span) for p in QUANTILES
            ],
            "ranks": [repr([tuple(side) for side in summary.rank(span, v)]) for v in VALUES],
        }
    if name in BUNDLES:
        bundle = Bundle.from_bytes(data)
        asked = [bundle], [bundle.now], [1, HOUR // 10, HOUR]
        union = union_value_quantiles(*asked, QUANTILES)
        return {
            "parts": [[part.party, part.now] for part in bundle.parts],
            "quantiles": [
                repr(part.tolist()) for part in (union.estimates, union.lowers, union.uppers)
            ],
            "ranks": repr(union_value_ranks(*asked, VALUES).tolist()),
        }
    window = read_summary(data)
    assert isinstance(window, WindowValueQuantiles)
    return {
        "quantiles": [repr(tuple(window.quantile(p))) for p in QUANTILES],
        "ranks": [repr([tuple(side) for side in window.rank(v)]) for v in VALUES],
    }


GOLDEN = [
    Golden(f"value-quantiles-1/{name}", partial(facts, name), make) for name, make in EVERY.items()
]
