"""ApproximateCount(n, epsilon) of StreamInsight: how many of the last n events were interesting.

Source: Meijer, "Taming the Event Stream: Fast Approximate Counting" (MSDN Magazine, February 2013):
the exponential histogram of Datar, Gionis, Indyk and Motwani 2002 over the last n events, each
interesting or not, with a whole number for an answer: all buckets, less half of the oldest one,
rounded up. The histogram's time is the number of events seen. Promises: README.md. Why, and
why l is not the article's: docs/proofs.md.

The body (envelope: see wire.py): the histogram's bytes.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.batch import Batch, BatchResult, row_of
from slidestat.synopses.core.envelope import body_of, damaged, sealed
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import MAX_SPAN, CountParameters, check_number, check_whole
from slidestat.synopses.core.stored import Stored, time_in_range
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram, run_batch

APPROXIMATE_COUNT = 7
_MIN_EPSILON = 1e-5


def _error(per_level: int) -> float:
    return max(1 / (per_level + 2), 1 / (2 * per_level))


@dataclass(frozen=True)
class ApproximateCountParameters:
    """A count of the interesting ones among up to the last `n` events.

    n: longest window kept, 1 to 2^53 events. epsilon: largest relative error wanted, 10^-5 to 1.
    Raises SynopsisError for anything else.
    """

    n: int
    epsilon: float

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, _MIN_EPSILON, 1)
        check_whole("n", self.n, 1, MAX_SPAN)

    @property
    def buckets_per_level(self) -> int:
        """The least l with 1 / (l + 2) and 1 / (2 l) at most epsilon, compared as doubles."""
        per_level = max(1, int(1 / self.epsilon) - 3)
        while _error(per_level) > self.epsilon:
            per_level += 1
        return per_level

    @property
    def relative_error(self) -> float:
        """The promise: the larger of 1 / (l + 2) and 1 / (2 l), for counts below 2^52."""
        return _error(self.buckets_per_level)


class ApproximateCount(Stored[ApproximateCountParameters]):
    """A count of interesting ones among the last events, seen as bits; `now` is how many came."""

    @classmethod
    def create(cls, parameters: ApproximateCountParameters) -> Self:
        """Return a count that has seen nothing."""
        made = super().create(parameters)
        made.advance(0)
        return made

    @classmethod
    def _opened(cls, data: bytes) -> tuple[ApproximateCountParameters, int]:
        histogram = _histogram_of(data)
        inner = histogram.parameters
        error = _error(inner.buckets_per_level)
        if not (isinstance(inner, CountParameters) and _fits(histogram) and error >= _MIN_EPSILON):
            raise damaged()
        return ApproximateCountParameters(inner.span, error), histogram.now

    def insert(self, interesting: npt.ArrayLike) -> None:
        """Take in events, True or 1 for each interesting one, False or 0 for each other.

        Raises SynopsisError, and takes in nothing, for anything else. Cost: O(events + bytes).
        """
        bits = np.atleast_1d(row_of("events", interesting))
        if bits.size == 0:
            return
        if bits.ndim != 1 or bits.dtype.kind not in "biu" or not np.isin(bits, (0, 1)).all():
            raise SynopsisError("events must be one row of bits: interesting, or not")
        now = self._now
        end = time_in_range(now + len(bits))
        self._insert(now + np.flatnonzero(bits), None)
        self.advance(end)

    def query(self, n: int | None = None, now: int | None = None) -> Estimate:
        """Answer for the last `n` events of `now` seen; both are the count's own if None.

        A later `now` looks ahead as if nothing interesting came; an earlier one raises
        SynopsisError, as does an n that is not kept. Cost: O(bytes).
        """
        asked = self._question(self._parameters.n if n is None else n, now)
        found = self._run(asked).only()
        return found._replace(estimate=float(math.floor((found.lower + found.upper) / 2)))

    def buckets(self) -> list[tuple[int, int]]:
        """Return the live buckets, oldest to newest: (size, place of the newest event, from 0)."""
        return _histogram_of(self._data).buckets()

    def check(self) -> None:
        """Raise SynopsisError unless the histogram's invariants hold, over places from 0 on."""
        histogram = _histogram_of(self._data)
        histogram.check()
        if not _fits(histogram):
            raise SynopsisError("the buckets hold more events than there are places")

    def _run(self, batch: Batch) -> BatchResult:
        inner = CountParameters(0.5 / self._parameters.buckets_per_level, self._parameters.n)
        state = body_of(self._data, APPROXIMATE_COUNT) if self._data else None
        found = run_batch(inner, [state], batch)
        return replace(found, states=[sealed(APPROXIMATE_COUNT, found.states[0])])


def _histogram_of(data: bytes) -> ExponentialHistogram:
    return ExponentialHistogram.from_bytes(body_of(data, APPROXIMATE_COUNT))


def _fits(histogram: ExponentialHistogram) -> bool:
    """Return whether each bucket has a place for each of its events."""
    buckets = [(0, -1), *histogram.buckets()]
    rooms = (place - last - size for (_, last), (size, place) in pairwise(buckets))
    return histogram.now >= 0 and min(rooms, default=0) >= 0
