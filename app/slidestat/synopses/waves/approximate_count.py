"""ApproximateCount(n, epsilon) of StreamInsight: how many of the last n events were interesting.

Source: Meijer, "Taming the Event Stream: Fast Approximate Counting" (MSDN Magazine, February 2013):
the exponential histogram of Datar, Gionis, Indyk and Motwani 2002 over the last n events, each
interesting or not, with a whole number for an answer: all buckets, less half of the oldest one,
rounded up. The histogram's time is the number of events seen.

contract   lower <= exact <= upper; |estimate - exact| <= relative_error * exact <= epsilon * exact;
           deterministic; any window of at most n events
space      that of the histogram: at most (l + 1)(log2(N' / l + 1) + 1) buckets, N' the interesting
           events in the window
update     O(events + buckets) a batch
query      O(buckets)
order      that of arrival
merge      none

Why it holds, and why l is not the article's: docs/proofs.md.

The body (envelope: see wire.py): the histogram's bytes.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.envelope import body_of, damaged, sealed
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import MAX_SPAN, CountParameters, check_number, check_whole
from slidestat.synopses.core.stored import time_in_range
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram

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


class ApproximateCount:
    """A count of the interesting ones among the last events, each seen as a bit."""

    def __init__(
        self, parameters: ApproximateCountParameters, histogram: ExponentialHistogram
    ) -> None:
        self._parameters = parameters
        self._histogram = histogram

    @classmethod
    def create(cls, parameters: ApproximateCountParameters) -> "ApproximateCount":
        """Return a count that has seen nothing."""
        inner = CountParameters(0.5 / parameters.buckets_per_level, parameters.n)
        histogram = ExponentialHistogram.create(inner)
        histogram.advance(0)
        return cls(parameters, histogram)

    @classmethod
    def from_bytes(cls, data: bytes) -> "ApproximateCount":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        The parameters' epsilon is then the promised error, which may be below the one once asked
        for. Cost: O(len(data)).
        """
        histogram = ExponentialHistogram.from_bytes(body_of(data, APPROXIMATE_COUNT))
        inner = histogram.parameters
        if not isinstance(inner, CountParameters) or _error(inner.buckets_per_level) < _MIN_EPSILON:
            raise damaged()
        epsilon = _error(inner.buckets_per_level)
        made = cls(ApproximateCountParameters(inner.span, epsilon), histogram)
        if not made._fits():
            raise damaged()
        return made

    @property
    def parameters(self) -> ApproximateCountParameters:
        """Return the count's parameters."""
        return self._parameters

    @property
    def now(self) -> int:
        """The number of events seen."""
        return self._histogram.now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        return sealed(APPROXIMATE_COUNT, self._histogram.to_bytes())

    def insert(self, interesting: npt.ArrayLike) -> None:
        """Take in events, True or 1 for each interesting one, False or 0 for each other.

        Raises SynopsisError, and takes in nothing, for anything else. Cost: O(events + bytes).
        """
        bits = np.atleast_1d(np.asarray(interesting))
        if bits.size == 0:
            return
        if bits.ndim != 1 or bits.dtype.kind not in "biu" or not np.isin(bits, (0, 1)).all():
            raise SynopsisError("events must be one row of bits: interesting, or not")
        now = self._histogram.now
        end = time_in_range(now + len(bits))
        self._histogram.insert(now + np.flatnonzero(bits))
        self._histogram.advance(end)

    def advance(self, now: int) -> None:
        """Take in uninteresting events until `now` were seen; SynopsisError if it goes back."""
        self._histogram.advance(now)

    def query(self, n: int | None = None, now: int | None = None) -> Estimate:
        """Answer for the last `n` events of `now` seen; both are the count's own if None.

        A later `now` looks ahead as if nothing interesting came; an earlier one raises
        SynopsisError, as does an n that is not kept. Cost: O(bytes).
        """
        found = self._histogram.query(self._parameters.n if n is None else n, now)
        return found._replace(estimate=float(math.floor((found.lower + found.upper) / 2)))

    def buckets(self) -> list[tuple[int, int]]:
        """Return the live buckets, oldest to newest: (size, place of the newest event, from 0)."""
        return self._histogram.buckets()

    def check(self) -> None:
        """Raise SynopsisError unless the histogram's invariants hold, over places from 0 on."""
        self._histogram.check()
        if not self._fits():
            raise SynopsisError("the buckets hold more events than there are places")

    def _fits(self) -> bool:
        """Return whether each bucket has a place for each of its events."""
        last = -1
        for size, place in self.buckets():
            if place - last < size:
                return False
            last = place
        return self.now >= 0
