"""A uniform random sample of any window n <= N, for questions that nobody foresaw.

Source: priority sampling, Babcock, Datar, Motwani 2002 ("Sampling from a moving window over
streaming data"), section 4: each event draws a random priority, and the sample is what has the
largest ones among the window's events. Promises: moments/README.md. That holds for any
window, as far as Philox is random; it is the priorities of the events that are random, so samples
of overlapping windows share events. Without replacement, the i-th newest event is kept with
probability min(1, k / i), independently of the others (a record of ranks): at most t more than the
mean but for a probability of exp(-t^2 / (2 (mean + t / 3))).

For windows of the last n events, give the event's number as its time. Seeds are parameters, so
replays draw the same; where samples of several keys are to be independent, give each its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import NO_QUERIES, Batch, row_of, split, window_length
from slidestat.synopses.core.envelope import decoded
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.parameters import MAX_SEED, MAX_SPAN, check_whole, is_from
from slidestat.synopses.core.stored import StoredSynopsis, moving
from slidestat.synopses.sampling import kernel


@dataclass(frozen=True)
class SampleParameters:
    """A sample of windows of up to `span`.

    size: events in the sample (draws, with replacement), 1 to 2^16. span: longest window kept, 1
    to 2^53, in the unit of the event times. seed: 0 to 2^63 - 1. Raises SynopsisError for anything
    else.
    """

    size: int
    span: int
    seed: int
    replacement: bool = False

    def __post_init__(self) -> None:
        check_whole("size", self.size, 1, kernel.MAX_SIZE)
        check_whole("span", self.span, 1, MAX_SPAN)
        check_whole("seed", self.seed, 0, MAX_SEED)
        if not isinstance(self.replacement, bool):
            raise SynopsisError(f"replacement must be True or False, not {self.replacement!r}")


@dataclass(frozen=True)
class Sample:
    """A sample of events drawn from a window.

    indices: int64, the events' numbers in the stream, from 0. times: int64. values: float64, bit
    for bit. whole: whether these are all events of the window.
    """

    indices: Integers
    times: Integers
    values: Floats
    whole: bool

    def share(self, marked: npt.ArrayLike, delta: float = 0.05) -> Estimate:
        """Estimate which share of the window's events a question holds for.

        marked: for each event of the sample, whether it does. The estimate is exact for a whole
        window; else lower <= exact <= upper fails with a probability of at most `delta`, for a
        question not chosen by looking at the sample: Hoeffding's bound, which holds with and
        without replacement. NaN for an empty window. Raises SynopsisError for marks of another
        number, or a delta not between 0 and 1.
        """
        marks = row_of("marks", marked)
        if marks.size > 0 and not (marks.dtype.kind in "biu" and np.isin(marks, (0, 1)).all()):
            raise SynopsisError("marks must be True or False, or 1 or 0")
        if marks.shape != self.times.shape or not is_from(0, 1, delta) or delta in (0, 1):
            raise SynopsisError(f"{len(self.times)} marks and a delta between 0 and 1 are needed")
        if len(marks) == 0:
            return Estimate(float("nan"), float("nan"), float("nan"))
        estimate = float(np.count_nonzero(marks) / len(marks))
        reach = 0.0 if self.whole else sqrt(log(2 / delta) / (2 * len(marks)))
        return Estimate(estimate, max(0.0, estimate - reach), min(1.0, estimate + reach))


def run_sample_batch(
    parameters: SampleParameters, states: Sequence[bytes | None], batch: Batch
) -> list[bytes]:
    """Feed many samples at once, one a group (key), and return their new states.

    The values are float64; queries are not answered here. Cost: O(bytes in + bytes out), and a
    priority for each event (k with replacement).
    """
    bits = batch.doubles().view(np.int64)
    kind = kernel.WITH_REPLACEMENT if parameters.replacement else kernel.WITHOUT_REPLACEMENT
    head = np.array([kind, parameters.size, parameters.span, parameters.seed], np.int64)
    given = (head,), states, batch.columns, bits
    out, ends = drive(kernel.run, *given, kinds=SlidingSample.kinds)
    return split(out, ends)


class SlidingSample(StoredSynopsis[SampleParameters]):
    """A random sample of one stream's events, over any window up to the span.

    >>> from slidestat.synopses import SampleParameters, SlidingSample
    >>> baskets = SlidingSample.create(SampleParameters(size=3, span=60_000, seed=1))
    >>> baskets.insert([1_000, 2_000, 50_000], [9.5, 20.0, 12.0])
    >>> baskets.sample(60_000).values.tolist()
    [9.5, 20.0, 12.0]
    """

    kinds: ClassVar[tuple[int, ...]] = (kernel.WITH_REPLACEMENT, kernel.WITHOUT_REPLACEMENT)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[SampleParameters, int]:
        head, state, _ = _read(data)
        kind, size, span, seed = head.tolist()
        parameters = SampleParameters(size, span, seed, kind == kernel.WITH_REPLACEMENT)
        return parameters, int(state[kernel.NOW])

    def sample(self, n: int, now: int | None = None) -> Sample:
        """Return the sample of the window [now - n, now), 1 <= n <= span; `now` as in `Stored`.

        Without replacement, old to new; with, one event for each draw (none for an empty window).
        Cost: O(bytes), and what the header says of a query.
        """
        start = self._at(now) - window_length(n, self._parameters.span)
        head, _, kept = _read(self._data)
        indices, times, bits = kept[:, kernel.chosen(head, kept, start)]
        whole = not self._parameters.replacement and len(bits) < self._parameters.size
        return Sample(indices, times, bits.view(np.float64), whole)

    def kept(self) -> int:
        """Return how many events are kept."""
        return int(_read(self._data)[2].shape[1])

    def check(self) -> None:
        """Raise SynopsisError unless each kept event may still be in a sample, the newest first.

        Cost: O(bytes), and a priority for each (k with replacement).
        """
        head, state, kept = _read(self._data)
        again = kernel.sweep(head, state.copy(), kept, NO_QUERIES, NO_QUERIES, 0, 0)
        if not np.array_equal(again, kept):
            raise SynopsisError("the state keeps events that no sample can have")
        if kept.shape[1] > 0 and kept[kernel.INDEX, -1] != state[kernel.EVENTS] - 1:
            raise SynopsisError("the state has lost its newest event")

    def _moved(self, times: Integers, values: Floats, to: Integers | None) -> bytes:
        return run_sample_batch(self._parameters, [self._data], moving(times, values, to))[0]


def _read(data: bytes) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and the kept events."""
    head, state = np.empty(kernel.HEAD_SIZE, np.int64), np.empty(kernel.STATE_SIZE, np.int64)
    (kept,) = decoded(kernel.read, data, SlidingSample.kinds, head, state)
    return head, state, kept
