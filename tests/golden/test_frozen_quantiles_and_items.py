"""Quantiles and frequent items in bytes of format version 1: read forever, written the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.laws.leveled import SUBJECTS, fed

FROZEN = Path(__file__).parent / "frozen"
FOLDERS = {
    "quantiles": FROZEN / "quantiles-1",
    "items": FROZEN / "frequent-items-1",
    "items in pairs": FROZEN / "paired-items-1",
    "random quantiles": FROZEN / "random-quantiles-1",
    "random items": FROZEN / "random-frequent-items-1",
}
HOUR = 3_600_000
NOON = 1_700_000_000_000

# Arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(6_000, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)
PRICES = (STEPS * 7_919 % 100_003) / 100 - 300
THIRDS = STEPS * 7_919 % 100_003 / 3
PAGES = STEPS * STEPS % 1_009 % 17 - 3
HASHES = PAGES * 0x1234567_89ABCDEF

# Made with, how many events, at which times, with numbers of the second sort, moved on to.
STATES: dict[str, tuple[float, int, int, Any, bool, int | None]] = {
    "empty": (0.01, HOUR, 0, TIMES, False, None),
    "five": (0.01, HOUR, 5, TIMES, False, None),
    "many": (0.1, HOUR, 6_000, TIMES, False, None),
    "coarse": (0.5, HOUR, 6_000, TIMES, False, None),
    "long-numbers": (0.5, HOUR, 6_000, TIMES, True, None),
    "last-3000": (0.3, 3_000, 6_000, STEPS, False, None),
    "partly-expired": (0.5, HOUR, 6_000, TIMES, False, int(TIMES[-1]) + HOUR // 2),
    "expired": (0.5, HOUR, 6_000, TIMES, False, NOON + 99 * HOUR),
    "before-1970": (0.5, HOUR, 3_000, STEPS - 10**12, False, None),
}
EACH = pytest.mark.parametrize("kind", SUBJECTS)


def state(kind: str, name: str) -> Any:
    """The summary that was frozen."""
    epsilon, span, events, times, is_long, to = STATES[name]
    if SUBJECTS[kind].kind in (13, 21):
        payload = THIRDS if is_long else PRICES
    else:
        payload = HASHES if is_long else PAGES
    summary = fed(SUBJECTS[kind].create(epsilon, span), times[:events], payload[:events])
    if to is not None:
        summary.advance(to)
    return summary


def facts(kind: str, summary: Any) -> dict[str, object]:
    """What a state says of itself."""
    span = summary.parameters.span
    answers: dict[str, object] = {}
    for n in (span // 10, span):
        if SUBJECTS[kind].kind in (13, 21):
            for quantile in (0.1, 0.5, 0.99):
                figures = summary.query(n, quantile)
                answers[f"{quantile} of {n}"] = [None if np.isnan(x) else x for x in figures]
        else:
            listed = sorted(summary.frequent(n, max(0.2, summary.parameters.epsilon)))
            answers[str(n)] = [list(known) for known in listed]
    return {
        "now": summary.now,
        "epsilon": summary.parameters.epsilon,
        "span": span,
        "entries": summary.stored_entries(),
        "answers": answers,
    }


@EACH
@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(kind: str, name: str) -> None:
    """A state of version 1 is what it was: its time, its parameters, its answers."""
    data = (FOLDERS[kind] / f"{name}.bin").read_bytes()
    summary = SUBJECTS[kind].summary.from_bytes(data)
    summary.check()
    assert facts(kind, summary) == json.loads((FOLDERS[kind] / "facts.json").read_text())[name]


@EACH
@pytest.mark.parametrize("name", STATES)
def test_the_same_events_write_the_same_bytes(kind: str, name: str) -> None:
    """While version 1 is what is written, equal events give the bytes that they gave then."""
    assert state(kind, name).to_bytes() == (FOLDERS[kind] / f"{name}.bin").read_bytes()
