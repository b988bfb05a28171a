"""Any function of the events of a window, kept as buckets that carry a sketch each.

Source: Datar, Gionis, Indyk, Motwani 2002, section 5 (properties P1-P5, invariants 5.1 and 5.2),
with the rule for merging of Braverman and Ostrovsky 2007 ("Smooth histograms"). What follows is for
intervals of a stream, AB being A and, right after it, B. A function f qualifies if

    P1, P3:  f(A) >= 0 and f(AB) >= f(A) + f(B);
    P2:      f of an interval that is not 0 lies between 1 and some F;
    P4:      f(AB)^(1/r) <= f(A)^(1/r) + f(B)^(1/r), for an r >= 1, its order;
    P5:      a sketch of a fixed number of whole numbers tells f, and that of AB is the sum of those
             of A and B.

P4 here is the paper's with C_f = 2^(r-1) (two numbers' mean to the r is at most the mean of their
r-th powers), but says more: the paper's error C_f^2 / k + C_f - 1 is never below C_f - 1, while
here it goes to 0. Sums are of order 1, sums of p-th powers of an item's total of order p.

Rule. From new to old, neighbours are merged into A while, B being all that is newer,

    f(AB) <= (1 + beta) f(B)                                                               (5.1)

and AB has a weight of at most 2^28. By P3, f(A) <= beta f(B) <= beta f(BC) for all later events C:
the invariant 5.1, for good. A window cuts at most one bucket A, and what of A is in the window,
with what is newer, W, has f(BC) <= f(W) <= f(ABC) <= (1 + beta^(1/r))^r f(BC). So both are bounds,
and with L and U their r-th roots, 2 L U / (L + U) is off by at most beta^(1/r) / (2 + beta^(1/r))
of f(W)^(1/r).

Space. Right after merging, each two neighbours fail (5.1), which is invariant 5.2, or have together
more than 2^28, as eight pairs at most: so there are at most 2 log_(1 + beta)(F) + 19 buckets, by
P2; twice that and 32 until neighbours are merged again, which is after as many new buckets as there
were then, 32 at least: a schedule of the events alone, so that batches do not show.

A bucket of one event keeps the event itself, an item and a weight, not its sketch: a key with few
events stays small, and a window of nothing else is known exactly.

If sketches give f only roughly, (5.1) and the width of the bounds hold as roughly; that f(BC) <=
f(W) <= f(ABC) holds always. See lp_norm.py for what that means.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.kernels.compile import kernel

LEAST_STEP = 32
"""Neighbours are merged after so many new buckets at least."""

MAX_WEIGHT = 1 << 30
"""The weights of the live buckets come to at most this, those of events included that have expired
in a bucket which has one in the span: their sketch cannot be separated, and must not overflow."""

MAX_MERGED = MAX_WEIGHT >> 2
"""No bucket of several events has a weight above this. So where a window of a span holds at most
half of MAX_WEIGHT, what is older in its first bucket does not go beyond MAX_WEIGHT."""

MAX_PER_WEIGHT = 1 << 32
"""No number of a sketch is more than this, of either sign, for each unit of weight."""

Marks = npt.NDArray[np.bool_]


class Function(ABC):
    """A qualifying function: its constants, its sketches, and their estimates.

    Sketches are int64, and no number in one is more than 2^32 times the weight of its events.
    """

    order: float
    """The r of P4."""

    width: int
    """How many numbers a sketch has."""

    @abstractmethod
    def sketches(self, items: Integers, weights: Integers) -> Integers:
        """Return the sketches of single events, int64[events, width]."""

    @abstractmethod
    def sizes(self, sketches: Integers) -> Floats:
        """Return f, or what is taken for it where buckets are merged, for each of the sketches."""


@dataclass
class Buckets:
    """The state: buckets from old to new.

    newest, first: times of their newest and oldest event. items: of buckets of one event, 0 of
    others. weights: of all their events. single: which have one event. sketches: of the others, in
    their order. left: new buckets until neighbours are merged. now: the last event's time + 1, or
    the time advanced to.
    """

    width: int
    newest: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    first: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    items: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    single: Marks = field(default_factory=lambda: np.empty(0, np.bool_))
    sketches: Integers = field(init=False)
    left: int = LEAST_STEP
    now: int = TIME_MIN

    def __post_init__(self) -> None:
        self.sketches = np.empty((0, self.width), np.int64)

    def drop_before(self, oldest: int) -> None:
        """Drop the buckets of which no event has a time from `oldest` on."""
        gone = int(np.searchsorted(self.newest, oldest))
        if gone > 0:
            merged = gone - int(np.count_nonzero(self.single[:gone]))
            for name in ("newest", "first", "items", "weights", "single"):
                setattr(self, name, getattr(self, name)[gone:])
            self.sketches = self.sketches[merged:]

    def rows(self, function: Function, start: int = 0) -> Integers:
        """Return the sketches of the buckets from number `start` on. Cost: O(buckets * width)."""
        single = self.single[start:]
        rows = np.empty((len(single), self.width), np.int64)
        merged = int(np.count_nonzero(~single))
        rows[~single] = self.sketches[len(self.sketches) - merged :]
        rows[single] = function.sketches(self.items[start:][single], self.weights[start:][single])
        return rows


@kernel
def _starts(sizes: Floats, weights: Integers, beta: float) -> Integers:
    """Return the first of each group to be merged, newest first; sizes[i] is f of 0..i."""
    starts = np.empty(len(sizes), np.int64)
    groups = 0
    i = 0
    while i < len(sizes):
        starts[groups] = i
        groups += 1
        limit = (1.0 + beta) * sizes[i - 1] if i > 0 else -1.0
        weight = weights[i]
        i += 1
        while i < len(sizes) and sizes[i] <= limit and weight + weights[i] <= MAX_MERGED:
            weight += weights[i]
            i += 1
    return starts[:groups]


def _merge(function: Function, beta: float, buckets: Buckets) -> None:
    """Merge neighbours as the rule says. Cost: O(buckets * width)."""
    count = len(buckets.newest)
    rows = buckets.rows(function)[::-1]
    sums = np.cumsum(rows, axis=0)
    starts = _starts(function.sizes(sums), buckets.weights[::-1], beta)
    lasts = np.append(starts[1:], count) - 1
    alone = starts == lasts
    merged = np.add.reduceat(rows, starts, axis=0)
    single = buckets.single[::-1][starts] & alone
    buckets.items = np.where(single, buckets.items[::-1][starts], 0)[::-1]
    buckets.weights = np.add.reduceat(buckets.weights[::-1], starts)[::-1]
    buckets.newest = buckets.newest[::-1][starts][::-1]
    buckets.first = buckets.first[::-1][lasts][::-1]
    buckets.sketches = merged[~single][::-1]
    buckets.single = single[::-1]


def absorb(
    function: Function,
    beta: float,
    span: int,
    buckets: Buckets,
    times: Integers,
    items: Integers,
    weights: Integers,
) -> None:
    """Take in events with weights of 1 or more, whose times have been checked.

    Raises WindowTooLargeError if at any event the weights of the live buckets come to more than
    2^30: those in the span, and those older ones that share a bucket with the oldest of them. Where
    batches end does not show in that. The buckets are then of no use. Cost: O(events), and
    O(buckets * width) each time neighbours are merged.
    """
    at = 0
    while at < len(times):
        stop = min(at + buckets.left, len(times))
        chunk = slice(at, stop)
        live = np.concatenate([buckets.weights, weights[chunk]])
        newest = np.concatenate([buckets.newest, times[chunk]])
        sums = np.concatenate([[0], np.cumsum(live)])
        gone = np.searchsorted(newest, times[chunk] + 1 - span)
        ends = np.arange(len(live) - (stop - at), len(live)) + 1
        if np.any(sums[ends] - sums[gone] > MAX_WEIGHT):
            raise WindowTooLargeError(
                "the weights in the span, with older ones in one bucket with them, come to more "
                "than 2^30, which is more than can be kept"
            )
        buckets.newest = newest
        buckets.weights = live
        buckets.first = np.concatenate([buckets.first, times[chunk]])
        buckets.items = np.concatenate([buckets.items, items[chunk]])
        buckets.single = np.concatenate([buckets.single, np.ones(stop - at, np.bool_)])
        buckets.left -= stop - at
        buckets.now = max(buckets.now, int(times[stop - 1]) + 1)
        if buckets.left == 0:
            buckets.drop_before(buckets.now - span)
            _merge(function, beta, buckets)
            buckets.left = max(LEAST_STEP, len(buckets.newest))
        at = stop
    buckets.drop_before(buckets.now - span)


@dataclass(frozen=True)
class Window:
    """The knowledge of a window: sketches of what is surely in it, and of what may be.

    Or, where only buckets of one event are in it, those events, and both sketches None.
    """

    inner: Integers | None
    outer: Integers | None
    items: Integers
    weights: Integers


def look(function: Function, buckets: Buckets, start: int) -> Window:
    """Return what is known of the events with time >= `start`. Cost: O(buckets * width)."""
    low = int(np.searchsorted(buckets.newest, start))
    items, weights = buckets.items[low:], buckets.weights[low:]
    if bool(np.all(buckets.single[low:])):
        return Window(None, None, items, weights)
    rows = buckets.rows(function, low)
    outer = rows.sum(axis=0)
    inner = outer - rows[0] if buckets.first[low] < start else outer
    return Window(inner, outer, items, weights)
