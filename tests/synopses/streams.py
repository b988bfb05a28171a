"""Named streams for the laws: times that people's events have, and times made to hurt."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


def _from_gaps(gaps: npt.ArrayLike) -> Times:
    return np.cumsum(np.asarray(gaps, np.int64)).astype(np.int64)


def _bursty(rng: np.random.Generator, size: int) -> Times:
    gaps = np.where(rng.random(size) < 0.02, rng.integers(100, 900, size), 0)
    return _from_gaps(gaps)


def _merge_points(rng: np.random.Generator, size: int) -> Times:  # noqa: ARG001
    # One event a tick, but a pause after each total 2^i - 1 times 1, 2, 3, 5: there all levels have
    # their fewest buckets, and the oldest bucket weighs most against the newer ones.
    totals = {m * (2**i - 1) for m in (1, 2, 3, 5) for i in range(1, 14)}
    return _from_gaps([40 if i in totals else 1 for i in range(size)])


TIMES: dict[str, Callable[[np.random.Generator, int], Times]] = {
    "one a tick": lambda rng, size: np.arange(size, dtype=np.int64),  # noqa: ARG005
    "uniform": lambda rng, size: _from_gaps(rng.integers(0, 4, size)),
    "zipf gaps": lambda rng, size: _from_gaps(np.minimum(rng.zipf(1.6, size), 5_000)),
    "bursty": _bursty,
    "all ties": lambda rng, size: np.full(size, 77, np.int64),  # noqa: ARG005
    "sparse": lambda rng, size: _from_gaps(rng.integers(200, 5_000, size)),
    "before the epoch": lambda rng, size: _from_gaps(rng.integers(0, 4, size)) - 10**6,
    "merge points": _merge_points,
}

VALUES: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "ones": lambda rng, size: np.ones(size),  # noqa: ARG005
    "a tenth": lambda rng, size: np.full(size, 0.1),  # noqa: ARG005
    "prices": lambda rng, size: np.round(rng.uniform(0, 100, size), 2),
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**9).astype(np.float64),
    "mostly nothing": lambda rng, size: np.where(rng.random(size) < 0.05, 3.25, 0.0),
    "any doubles": lambda rng, size: rng.lognormal(0, 4, size),
    "far below a unit": lambda rng, size: rng.uniform(0, 1e-5, size),
    "thirds": lambda rng, size: rng.integers(0, 9, size) / 3,
    "once in a while huge": lambda rng, size: np.where(rng.random(size) < 0.01, 8e12, 0.001),
}
