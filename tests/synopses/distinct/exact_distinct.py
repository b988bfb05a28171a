"""What laws of randomised waves share: named streams of items, and what is exact."""

from collections.abc import Callable, Sequence
from functools import partial
from math import exp, lgamma, log, log1p

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.flajolet_martin import (
    BitmapsParameters,
    DistinctBitmaps,
    merge_bitmaps,
    run_bitmaps_batch,
)
from slidestat.synopses.distinct.parameters import DistinctParameters
from slidestat.synopses.distinct.wave import DistinctWave, merge_distinct
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from slidestat.synopses.lean_distinct.sketch import (
    LeanDistinct,
    merge_lean_distinct,
    run_lean_distinct_batch,
)

SPAN = 500
PARAMETERS = {
    "one instance": DistinctParameters(0.5, 0.5, SPAN, 11),  # 32 items a level
    "five instances": DistinctParameters(0.5, 1e-6, SPAN, 2**63 - 1),  # 153 items a level
}
LEAN = LeanDistinctParameters(0.3, 0.1, SPAN, 2**62 + 5)  # 22 bitmaps, 14 items that are kept
Synopsis = DistinctWave | DistinctBitmaps | LeanDistinct

SYNOPSES: dict[str, Callable[[], Synopsis]] = {
    **{name: partial(DistinctWave.create, made_with) for name, made_with in PARAMETERS.items()},
    "bitmaps": partial(DistinctBitmaps.create, BitmapsParameters(16, 0.1, SPAN, 2**40 + 1)),
    "lean": partial(LeanDistinct.create, LEAN),
}
_MERGES = {18: merge_bitmaps, 19: merge_distinct, 30: merge_lean_distinct}


def merge(states: Sequence[bytes]) -> bytes:
    """The union of states of one kind."""
    return _MERGES[states[0][3]](states)


def run(synopsis: Synopsis, states: Sequence[bytes | None], batch: Batch) -> BatchResult:
    """The batch function of the synopsis, with its parameters."""
    if isinstance(synopsis, DistinctBitmaps):
        return run_bitmaps_batch(synopsis.parameters, states, batch)
    if isinstance(synopsis, LeanDistinct):
        return run_lean_distinct_batch(synopsis.parameters, states, batch)
    return run_distinct_batch(synopsis.parameters, states, batch)


def _whole(rng: np.random.Generator, size: int) -> Integers:
    return rng.integers(-(2**63), 2**63 - 1, size, endpoint=True)


ITEMS: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "all new": lambda rng, size: np.arange(size, dtype=np.int64),  # noqa: ARG005
    "hashes": _whole,
    "one item": lambda rng, size: np.full(size, -(2**63), np.int64),  # noqa: ARG005
    "few": lambda rng, size: rng.integers(-3, 4, size),
    "uniform": lambda rng, size: rng.integers(0, max(size // 2, 1), size),
    "zipf": lambda rng, size: rng.zipf(1.2, size) % 2**40,
    "in turns": lambda rng, size: np.arange(size) % 150,  # noqa: ARG005
    "multiples of 2^40": lambda rng, size: rng.permutation(size) << 40,
    "powers of two": lambda rng, size: np.left_shift(1, rng.integers(0, 64, size)),
    "there and back": lambda rng, size: np.abs(np.arange(size) - size // 2),  # noqa: ARG005
}


def exact(times: Integers, items: Integers, start: int, end: int) -> int:
    """The number of distinct items in [start, end)."""
    return len(np.unique(items[(times >= start) & (times < end)]))


def not_beyond(failed: int, tries: int, delta: float, significance: float = 0.001) -> bool:
    """Whether `failed` of `tries` are no evidence against a chance of at most delta of each."""
    fewer = 0.0  # the chance of fewer than `failed`, by logarithms: the numbers are too large
    for k in range(failed):
        ways = lgamma(tries + 1) - lgamma(k + 1) - lgamma(tries - k + 1)
        fewer += exp(ways + k * log(delta) + (tries - k) * log1p(-delta))
    return 1 - fewer >= significance
