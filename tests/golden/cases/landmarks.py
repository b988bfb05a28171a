"""Landmark totals."""

import numpy as np

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.exponential_histogram.landmark import LandmarkParameters, run_landmark_batch
from tests.golden.golden import Golden

VALUES = [*np.round(np.arange(1_000) ** 1.7, 2).tolist(), 1 / 3]


def _prices() -> bytes:
    starts, times = [0, len(VALUES)], list(range(len(VALUES)))
    made = run_landmark_batch(
        LandmarkParameters(2), [None], Batch(starts, times, VALUES, [0, 0], [])
    )
    return made.states[0]


def facts(data: bytes) -> dict[str, object]:
    """The totals."""
    found = run_landmark_batch(LandmarkParameters(2), [data], Batch([0, 0], [], [], [0, 1], [0]))
    sums = found.sums.estimates, found.sums.lowers, found.sums.uppers
    return {"count": found.counts.tolist(), "sum": [repr(figure.tolist()) for figure in sums]}


GOLDEN = [Golden("landmark-1/prices", facts, _prices)]
