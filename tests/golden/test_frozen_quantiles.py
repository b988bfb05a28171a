"""Quantiles in bytes of format version 1, written once: read back forever, and written the same."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.synopses.levels.quantiles import QuantileParameters, Quantiles

FROZEN = Path(__file__).parent / "frozen" / "quantiles-1"
HOUR = 3_600_000
NOON = 1_700_000_000_000

# Arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(6_000, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)
PRICES = (STEPS * 7_919 % 100_003) / 100 - 300


def _fed(epsilon: float, span: int, events: int, times: np.ndarray = TIMES) -> Quantiles:
    summary = Quantiles.create(QuantileParameters(epsilon, span))
    summary.insert(times[:events], PRICES[:events])
    return summary


def _advanced(summary: Quantiles, now: int) -> Quantiles:
    summary.advance(now)
    return summary


STATES = {
    "empty": lambda: Quantiles.create(QuantileParameters(0.01, HOUR)),
    "five": lambda: _fed(0.01, HOUR, 5),
    "many": lambda: _fed(0.1, HOUR, 6_000),
    "coarse": lambda: _fed(0.5, HOUR, 6_000),
    "last-3000": lambda: _fed(0.3, 3_000, 6_000, STEPS),
    "partly-expired": lambda: _advanced(_fed(0.5, HOUR, 6_000), int(TIMES[-1]) + HOUR // 2),
    "expired": lambda: _advanced(_fed(0.5, HOUR, 6_000), NOON + 99 * HOUR),
    "before-1970": lambda: _fed(0.5, HOUR, 3_000, STEPS - 10**12),
}


def facts(summary: Quantiles) -> dict[str, object]:
    span = summary.parameters.span
    return {
        "now": summary.now,
        "epsilon": summary.parameters.epsilon,
        "span": span,
        "values": summary.stored_values(),
        "answers": {
            f"{quantile} of {n}": [None if np.isnan(x) else x for x in summary.query(n, quantile)]
            for n in (span // 10, span)
            for quantile in (0.1, 0.5, 0.99)
        },
    }


@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(name: str) -> None:
    """A state of version 1 is what it was: its time, its parameters, its answers."""
    summary = Quantiles.from_bytes((FROZEN / f"{name}.bin").read_bytes())
    summary.check()
    assert facts(summary) == json.loads((FROZEN / "facts.json").read_text())[name]


@pytest.mark.parametrize("name", STATES)
def test_the_same_events_write_the_same_bytes(name: str) -> None:
    """While version 1 is what is written, equal events give the bytes that they gave then."""
    assert STATES[name]().to_bytes() == (FROZEN / f"{name}.bin").read_bytes()
