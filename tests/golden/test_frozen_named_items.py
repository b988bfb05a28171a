"""Named items in bytes of format version 1, of both kinds: read forever, written the same."""

import json
from pathlib import Path

import numpy as np
import pytest

from slidestat.synopses import FrequentParameters, NamedItems, PairedParameters

FROZEN = Path(__file__).parent / "frozen"
# In blocks, as topologies had them up to 0.1.0, and in pairs.
KINDS: dict[str, type[FrequentParameters | PairedParameters]] = {
    "named-items-1": FrequentParameters,
    "named-items-2": PairedParameters,
}
EACH = pytest.mark.parametrize("folder", KINDS)
HOUR = 3_600_000
NOON = 1_700_000_000_000

# Arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(6_000, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)
NAMES = ["", "/", "/about", "Zürich", "東京", "\N{CAT FACE}", "\ud800", "long " * 60]
PATHS = [
    NAMES[page] if page < len(NAMES) else f"/page/{page}"
    for page in (STEPS * STEPS % 1_009 % 17).tolist()
]

# epsilon, span, how many events, moved on to.
STATES: dict[str, tuple[float, int, int, int | None]] = {
    "empty": (0.01, HOUR, 0, None),
    "five": (0.01, HOUR, 5, None),
    "many": (0.1, HOUR, 6_000, None),
    "coarse": (0.5, HOUR, 6_000, None),
    "partly-expired": (0.5, HOUR, 6_000, int(TIMES[-1]) + HOUR // 2),
    "expired": (0.5, HOUR, 6_000, NOON + 99 * HOUR),
}


def state(folder: str, name: str) -> NamedItems:
    """The summary that was frozen."""
    epsilon, span, events, to = STATES[name]
    summary = NamedItems.create(KINDS[folder](epsilon, span))
    summary.insert(TIMES[:events], PATHS[:events])
    if to is not None:
        summary.advance(to)
    return summary


def facts(summary: NamedItems) -> dict[str, object]:
    """What a state says of itself."""
    parameters = summary.parameters
    share = max(0.05, parameters.epsilon)
    return {
        "now": summary.now,
        "epsilon": parameters.epsilon,
        "span": parameters.span,
        "texts": summary.stored_texts(),
        "answers": {
            str(n): [list(item) for item in summary.query(n, share)]
            for n in (parameters.span // 10, parameters.span)
        },
    }


@EACH
@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(folder: str, name: str) -> None:
    """A state of version 1 is what it was: its time, its parameters, its texts, its answers."""
    summary = NamedItems.from_bytes((FROZEN / folder / f"{name}.bin").read_bytes())
    assert facts(summary) == json.loads((FROZEN / folder / "facts.json").read_text())[name]


@EACH
@pytest.mark.parametrize("name", STATES)
def test_the_same_events_write_the_same_bytes(folder: str, name: str) -> None:
    """While version 1 is what is written, equal events give the bytes that they gave then."""
    assert state(folder, name).to_bytes() == (FROZEN / folder / f"{name}.bin").read_bytes()
