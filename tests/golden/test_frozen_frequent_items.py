"""Frequent items in bytes of format version 1, written once: read back and written forever."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.synopses.levels.frequent_items import FrequentItems, FrequentParameters

FROZEN = Path(__file__).parent / "frozen" / "frequent-items-1"
HOUR = 3_600_000
NOON = 1_700_000_000_000

# Arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(6_000, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)
PAGES = np.where(STEPS % 4 == 0, STEPS * 7_919, (STEPS * 7_919 % 100_003 % 13 // 5 - 1) * 2**60)


def _fed(epsilon: float, span: int, events: int, times: np.ndarray = TIMES) -> FrequentItems:
    summary = FrequentItems.create(FrequentParameters(epsilon, span))
    summary.insert(times[:events], PAGES[:events])
    return summary


def _advanced(summary: FrequentItems, now: int) -> FrequentItems:
    summary.advance(now)
    return summary


STATES = {
    "empty": lambda: FrequentItems.create(FrequentParameters(0.01, HOUR)),
    "five": lambda: _fed(0.01, HOUR, 5),
    "many": lambda: _fed(0.1, HOUR, 6_000),
    "coarse": lambda: _fed(0.5, HOUR, 6_000),
    "last-3000": lambda: _fed(0.3, 3_000, 6_000, STEPS),
    "partly-expired": lambda: _advanced(_fed(0.5, HOUR, 6_000), int(TIMES[-1]) + HOUR // 2),
    "expired": lambda: _advanced(_fed(0.5, HOUR, 6_000), NOON + 99 * HOUR),
    "before-1970": lambda: _fed(0.5, HOUR, 3_000, STEPS - 10**12),
}


def facts(summary: FrequentItems) -> dict[str, object]:
    span = summary.parameters.span
    return {
        "now": summary.now,
        "epsilon": summary.parameters.epsilon,
        "span": span,
        "items": summary.stored_items(),
        "answers": {
            str(n): [
                list(known)
                for known in sorted(summary.frequent(n, max(0.2, summary.parameters.epsilon)))
            ]
            for n in (span // 10, span)
        },
    }


@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(name: str) -> None:
    """A state of version 1 is what it was: its time, its parameters, its answers."""
    summary = FrequentItems.from_bytes((FROZEN / f"{name}.bin").read_bytes())
    summary.check()
    assert facts(summary) == json.loads((FROZEN / "facts.json").read_text())[name]


@pytest.mark.parametrize("name", STATES)
def test_the_same_events_write_the_same_bytes(name: str) -> None:
    """While version 1 is what is written, equal events give the bytes that they gave then."""
    assert STATES[name]().to_bytes() == (FROZEN / f"{name}.bin").read_bytes()
