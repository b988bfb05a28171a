"""Quantiles by rank and frequent items of one window of last events."""

from functools import partial
from typing import Any

import numpy as np

from slidestat.synopses import (
    FixedFrequentParameters,
    FixedQuantileParameters,
    FixedRandomFrequentParameters,
    FixedRandomQuantileParameters,
    FrequentItems,
    Quantiles,
    RandomFrequentItems,
    RandomQuantiles,
)
from tests.golden.cases.quantiles_and_items import PAGES, PRICES, STEPS
from tests.golden.golden import of_synopses
from tests.synopses.leveled import DELTA, SEED, fed

# Made with an epsilon, of so many last events, and fed so many.
STATES = {
    "empty": (0.01, 1_000, 0),
    "five": (0.01, 1_000, 5),
    "full": (0.1, 1_000, 1_000),
    "many": (0.1, 1_000, 6_000),
    "coarse": (0.5, 3_000, 6_000),
}


def quantiles(name: str) -> Quantiles:
    """Quantiles of prices, in a state of that name."""
    epsilon, span, events = STATES[name]
    summary = Quantiles.create(FixedQuantileParameters(epsilon, span))
    return fed(summary, STEPS[:events], PRICES[:events])


def random_quantiles(name: str) -> RandomQuantiles:
    """The same by random thinning."""
    epsilon, span, events = STATES[name]
    parameters = FixedRandomQuantileParameters(epsilon, span, DELTA, SEED)
    return fed(RandomQuantiles.create(parameters), STEPS[:events], PRICES[:events])


def items(name: str) -> FrequentItems:
    """Frequent items of pages, in a state of that name."""
    epsilon, span, events = STATES[name]
    summary = FrequentItems.create(FixedFrequentParameters(epsilon, span))
    return fed(summary, STEPS[:events], PAGES[:events])


def random_items(name: str) -> RandomFrequentItems:
    """The same by random sampling."""
    epsilon, span, events = STATES[name]
    parameters = FixedRandomFrequentParameters(epsilon, span, DELTA, SEED)
    return fed(RandomFrequentItems.create(parameters), STEPS[:events], PAGES[:events])


def facts_of_quantiles(summary: Any) -> dict[str, object]:
    """What a state says of itself, and three quantiles of its window."""
    found = {
        str(quantile): [
            None if np.isnan(x) else x for x in summary.query(summary.parameters.span, quantile)
        ]
        for quantile in (0.1, 0.5, 0.99)
    }
    return {"now": summary.now, "made with": repr(summary.parameters), "quantiles": found}


def facts_of_items(summary: Any) -> dict[str, object]:
    """What a state says of itself, and the items of a fifth of its window at least."""
    share = max(0.2, summary.parameters.epsilon)
    listed = sorted(summary.frequent(summary.parameters.span, share))
    return {
        "now": summary.now,
        "made with": repr(summary.parameters),
        "items": [list(known) for known in listed],
    }


GOLDEN = [
    golden
    for folder, make, facts in (
        ("fixed-quantiles-1", quantiles, facts_of_quantiles),
        ("fixed-random-quantiles-1", random_quantiles, facts_of_quantiles),
        ("fixed-frequent-items-1", items, facts_of_items),
        ("fixed-random-frequent-items-1", random_items, facts_of_items),
    )
    for golden in of_synopses({name: partial(make, name) for name in STATES}, facts, folder)
]
