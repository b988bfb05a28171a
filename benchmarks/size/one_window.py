"""Bytes of structures for one window of last events, beside those for windows of any length.

    python -m benchmarks.size.one_window        # ten seconds

Quantiles by rank and frequent items, of prices, doubles and items, after one and a half windows.
Counted, the same on every machine. Writes results/one_window.json, which
docs/choose-a-statistic.md tells (`make figures`); a test counts those of up to 100,000 events
again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.command import typed
from slidestat.synopses import (
    FixedFrequentParameters,
    FixedQuantileParameters,
    FixedRandomFrequentParameters,
    FrequentItems,
    FrequentParameters,
    QuantileParameters,
    Quantiles,
    RandomFrequentItems,
    RandomFrequentParameters,
)

RESULTS = RESULTS_FOLDER / "one_window.json"
SIZES = (
    (0.1, 1_000),
    (0.1, 10_000),
    (0.1, 100_000),
    (0.1, 1_000_000),
    (0.01, 10_000),
    (0.01, 100_000),
    (0.01, 1_000_000),
)
_SEED, _ITEMS, _DELTA = 4, 20_000, 0.01

Drawn = npt.NDArray[Any]


class Structure(NamedTuple):
    """What is kept of a stream: the values drawn, and a new synopsis for windows of any length, or
    for one alone, with an epsilon and a span.
    """

    draw: Callable[[np.random.Generator, int], Drawn]
    create: Callable[[float, int, bool], Any]


def _prices(rng: np.random.Generator, events: int) -> Drawn:
    return np.round(rng.lognormal(4.6, 0.2, events), 2)


def _doubles(rng: np.random.Generator, events: int) -> Drawn:
    return rng.lognormal(4.6, 0.2, events)


def _items(rng: np.random.Generator, events: int) -> Drawn:
    shares = np.cumsum(1 / np.arange(1, _ITEMS + 1))
    drawn: Drawn = np.searchsorted(shares, rng.random(events) * shares[-1])
    return drawn


def _quantiles(epsilon: float, span: int, is_fixed: bool) -> Quantiles:
    made = FixedQuantileParameters if is_fixed else QuantileParameters
    return Quantiles.create(made(epsilon, span))


def _frequent(epsilon: float, span: int, is_fixed: bool) -> FrequentItems:
    made = FixedFrequentParameters if is_fixed else FrequentParameters
    return FrequentItems.create(made(epsilon, span))


def _random_frequent(epsilon: float, span: int, is_fixed: bool) -> RandomFrequentItems:
    made = FixedRandomFrequentParameters if is_fixed else RandomFrequentParameters
    return RandomFrequentItems.create(made(epsilon, span, _DELTA, _SEED))


STRUCTURES = {
    "prices": Structure(_prices, _quantiles),
    "doubles": Structure(_doubles, _quantiles),
    "items": Structure(_items, _frequent),
    "items, random": Structure(_items, _random_frequent),
}


def bytes_of(structure: Structure, epsilon: float, events: int) -> tuple[int, int]:
    """Return the bytes after one and a half windows of so many last events, for windows of any
    length and for this one.
    """
    fed = events + events // 2
    values = structure.draw(np.random.default_rng(_SEED), fed)
    sizes = []
    for is_fixed in (False, True):
        synopsis = structure.create(epsilon, events, is_fixed)
        synopsis.insert(np.arange(fed), values)
        sizes.append(len(synopsis.to_bytes()))
    return sizes[0], sizes[1]


def main() -> None:
    """Count, write and print."""
    rows = []
    for epsilon, events in SIZES:
        sizes = {name: bytes_of(one, epsilon, events) for name, one in STRUCTURES.items()}
        rows.append({"epsilon": epsilon, "events": events, "bytes": sizes})
        print(f"{epsilon}, {events:,}: {sizes}", flush=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    typed(__doc__)
    main()
