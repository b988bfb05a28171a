"""What laws of the framework's synopses share: how each is made and fed."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slidestat.synopses import (
    CounterTable,
    CounterTableParameters,
    LpNorm,
    LpNormParameters,
    ValueHistogram,
    ValueHistogramParameters,
)

SPAN = 500
EDGES = (-1.5, 0.0, 0.1, 2.0, 40.0)

Framed = ValueHistogram | CounterTable | LpNorm

MAKERS: dict[str, Callable[[], Framed]] = {
    "histogram": lambda: ValueHistogram.create(ValueHistogramParameters(0.1, SPAN, EDGES)),
    "rough histogram": lambda: ValueHistogram.create(ValueHistogramParameters(1, SPAN, (0.0,))),
    "fine histogram": lambda: ValueHistogram.create(
        ValueHistogramParameters(0.01, SPAN, (1 / 3, 2.0))
    ),
    "table": lambda: CounterTable.create(CounterTableParameters(0.1, SPAN, 10_000)),
    "rough table": lambda: CounterTable.create(CounterTableParameters(0.5, SPAN, 10_000)),
    "norm of order 1": lambda: LpNorm.create(LpNormParameters(1, 0.2, 0.5, SPAN)),
    "norm of order 1.5": lambda: LpNorm.create(LpNormParameters(1.5, 0.9, 0.2, SPAN, 2**61 + 7)),
    "norm of order 2": lambda: LpNorm.create(LpNormParameters(2, 0.9, 0.3, SPAN, 5)),
}

VALUES: dict[str, Callable[[np.random.Generator, int], npt.NDArray[np.float64]]] = {
    "constant": lambda rng, size: np.full(size, 0.1),  # noqa: ARG005
    "on the edges": lambda rng, size: rng.choice([*EDGES, -0.0], size),
    "normal": lambda rng, size: rng.normal(0, 2, size),
    "heavy": lambda rng, size: rng.pareto(0.7, size),
    "sorted": lambda rng, size: np.sort(rng.normal(0, 20, size)),
    "reversed": lambda rng, size: -np.sort(rng.normal(0, 20, size)),
    "one bin after the other": lambda rng, size: np.arange(size) // 50 % 5 * 10.0 - 2,  # noqa: ARG005
}

ITEMS: dict[str, Callable[[np.random.Generator, int], npt.NDArray[np.int64]]] = {
    "constant": lambda rng, size: np.full(size, 9),  # noqa: ARG005
    "zipf": lambda rng, size: rng.zipf(1.4, size) % 1_000,
    "all different": lambda rng, size: np.arange(size) * 7_919 % 100_003,  # noqa: ARG005
    "hashes": lambda rng, size: rng.choice(
        np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 40), size
    ),
    "farthest apart": lambda rng, size: rng.choice(
        [-(2**63), 2**63 - 1, 0, -1, 2**60, -(2**60)], size
    ),
    "one item after the other": lambda rng, size: np.arange(size) // 50,  # noqa: ARG005
}


def column(name: str, rng: np.random.Generator, size: int, of: int) -> npt.NDArray[np.generic]:
    """Values or items, as the synopsis `name` takes them, of the distribution number `of`."""
    if "histogram" not in name:
        return list(ITEMS.values())[of % len(ITEMS)](rng, size).astype(np.int64)
    return list(VALUES.values())[of % len(VALUES)](rng, size)


def fed(name: str, times: Sequence[int], what: npt.ArrayLike, cuts: Sequence[int] = ()) -> Framed:
    """The synopsis `name` after the events, taken in batches that end at `cuts`."""
    synopsis = MAKERS[name]()
    for start, end in pairwise([0, *sorted(cuts), len(times)]):
        synopsis.insert(times[start:end], np.asarray(what)[start:end])
    return synopsis
