"""What laws of synopses of values share: how each is made, and values of any sign."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.stored import StoredSynopsis
from slidestat.synopses.extremes.extreme import Extreme, ExtremeParameters
from slidestat.synopses.moments.spread import Spread, SpreadParameters
from slidestat.synopses.sampling.sample import SampleParameters, SlidingSample

SPAN = 500

Values = npt.NDArray[np.float64]

MAKERS: dict[str, Callable[[], StoredSynopsis]] = {
    "minimum": lambda: Extreme.create(ExtremeParameters("minimum", SPAN)),
    "maximum": lambda: Extreme.create(ExtremeParameters("maximum", SPAN)),
    "rough minimum": lambda: Extreme.create(ExtremeParameters("minimum", SPAN, 0.01)),
    "rough maximum": lambda: Extreme.create(ExtremeParameters("maximum", SPAN, 0.5)),
    "rough spread": lambda: Spread.create(SpreadParameters(0.5, SPAN, 2)),
    "sample": lambda: SlidingSample.create(SampleParameters(5, SPAN, 2**40 + 1)),
    "sample of one": lambda: SlidingSample.create(SampleParameters(1, SPAN, 3)),
    "draws": lambda: SlidingSample.create(SampleParameters(3, SPAN, 2, replacement=True)),
    "spread": lambda: Spread.create(SpreadParameters(0.1, SPAN, 2)),
}

SIGNED: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "constant": lambda rng, size: np.full(size, 0.1),  # noqa: ARG005
    "zeros of both signs": lambda rng, size: rng.choice([0.0, -0.0], size),
    "uniform": lambda rng, size: np.round(rng.uniform(-100, 100, size), 2),
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**9).astype(np.float64),
    "any doubles": lambda rng, size: rng.normal(0, 1, size) * rng.lognormal(0, 4, size),
    "sorted": lambda rng, size: np.sort(np.round(rng.normal(0, 50, size), 2)),
    "reversed": lambda rng, size: -np.sort(np.round(rng.normal(0, 50, size), 2)),
    "far from zero": lambda rng, size: 1e9 + rng.integers(0, 3, size) / 100,
    "far below zero": lambda rng, size: -1e9 - rng.integers(0, 3, size) / 100,
    "two values": lambda rng, size: np.where(rng.random(size) < 0.01, 1e6, -1.0),
    "old ones weigh most": lambda rng, size: np.round(  # noqa: ARG005
        1e9 * 0.97 ** np.arange(size), 2
    ),
    "new ones weigh most": lambda rng, size: np.round(  # noqa: ARG005
        -0.01 * 1.02 ** np.arange(size), 2
    ),
    "steps": lambda rng, size: np.repeat(  # noqa: ARG005
        np.round(1.7 ** np.arange(size // 60 + 1), 2), 60
    )[:size],
    "parts of a unit": lambda rng, size: rng.uniform(-0.02, 0.02, size),
}


def fed(
    name: str, times: Sequence[int], values: Sequence[float], cuts: Sequence[int] = ()
) -> StoredSynopsis:
    """The synopsis `name` after the events, taken in batches that end at `cuts`."""
    synopsis = MAKERS[name]()
    edges = [0, *sorted(cuts), len(times)]
    for start, end in pairwise(edges):
        synopsis.insert(times[start:end], values[start:end])
    return synopsis
