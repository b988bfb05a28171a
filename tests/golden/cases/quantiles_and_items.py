"""Quantiles by rank and frequent items, deterministic and randomised."""

from functools import partial
from typing import Any

import numpy as np

from tests.golden.golden import HOUR, NOON, of_synopses, steps
from tests.synopses.leveled import SUBJECTS, fed

FOLDERS = {
    "quantiles": "quantiles-1",
    "items": "frequent-items-1",
    "items in pairs": "paired-items-1",
    "random quantiles": "random-quantiles-1",
    "random items": "random-frequent-items-1",
}

STEPS, TIMES = steps(6_000)
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


def state(kind: str, name: str) -> Any:
    """A summary of some events, moved on to a time."""
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


GOLDEN = [
    golden
    for kind, folder in FOLDERS.items()
    for golden in of_synopses(
        {name: partial(state, kind, name) for name in STATES}, partial(facts, kind), folder
    )
]
