"""Mean, variance and standard deviation of values of any sign, over any window n <= N.

Source: Babcock, Datar, Motwani, O'Callaghan 2003 ("Maintaining variance and k-medians over data
stream windows": buckets whose squared deviations are combined), with the bound of Zhang and Guan
2007 in mind (1 / epsilon instead of its square). The rule for combining and its proof are our own.
Promises and costs: README.md. Values are taken in units of 10^-decimals.

Two neighbours are combined into A only where the events B newer than both give |A| <= |B| / k and
F(A and B) <= (1 + 1 / k) F(B), F being the sum of squared deviations from the mean. Why that is
enough: docs/proofs.md.

The moments of one window are 64-bit numbers, and so are those of a union that is not too large
(merge/spreads.py). Larger ones are added up here, in whole numbers of any length, with the same
formulas and promises. So are those of a window that ended before now (past/past.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import nextafter, sqrt
from typing import ClassVar, NamedTuple, Self

import numpy as np

from slidestat.synopses.core import envelope
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.parameters import (
    MAX_DECIMALS,
    MAX_SPAN,
    MIN_EPSILON,
    check_number,
    check_whole,
)
from slidestat.synopses.core.rounding import up
from slidestat.synopses.core.stored import StoredSynopsis
from slidestat.synopses.moments import codec, kernel, moments

_ROUNDING = 2.0**-46
"""Outward, as that of kernel.py, in units and as a share."""


@dataclass
class _Moments:
    """The number of values, in units, their sum and the sum of their squares."""

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, buckets: Integers) -> Self:
        """Return those of all events of buckets of one state, whose sums are 64-bit numbers."""
        column = buckets.sum(axis=1).tolist()
        squares = (column[moments.HIGH] << 40) + column[moments.LOW]
        return cls(column[moments.COUNT], column[moments.ABOVE] - column[moments.BELOW], squares)

    def __add__(self, other: "_Moments") -> "_Moments":
        return _Moments(
            self.count + other.count, self.total + other.total, self.squares + other.squares
        )

    @property
    def mean(self) -> Fraction:
        return Fraction(self.total, self.count)

    @property
    def squared(self) -> float:
        """The sum of squared deviations from the mean, nearest double."""
        return float(self.squares - self.total * self.mean)


def large_spread(states: Sequence[bytes], starts: Sequence[int]) -> Floats:
    """Return float64[statistic, 3], estimate, lower and upper, of the events of all `states` from
    their `starts` on; NaN where there are none. Raises SynopsisError for bytes that are no state.

    Cost: O(buckets), about 5 microseconds each.
    """
    newer, cut = _Moments(), _Moments()
    inexact = decimals = 0
    for data, start in zip(states, starts, strict=True):
        head, state, buckets = decoded(data)
        decimals = int(head[codec.DECIMALS])
        buckets = buckets[:, : int(state[codec.KEPT])]
        live = buckets[:, buckets[codec.NEWEST] >= start]
        is_cut = live[codec.FIRST] < start
        newer += _Moments.of(live[:, ~is_cut])
        cut += _Moments.of(live[:, is_cut])
        if live.size:
            inexact |= int(state[codec.INEXACT])
    found: Floats = np.full((kernel.STATISTICS, 3), np.nan)
    if newer.count:
        kernel.put_spread(_told(newer, cut), decimals, inexact, found)
    return found


def spreads_between(data: bytes, windows: Sequence[tuple[int, int]]) -> Floats:
    """Return float64[windows, statistic, 3], the same of the events of one state in each window
    [start, end), any in its span: NaN where there is certainly none (past/past.py).

    Cost: O(bytes), and some tens of microseconds a window.
    """
    head, state, buckets = decoded(data)
    buckets = buckets[:, : int(state[codec.KEPT])]
    found: Floats = np.full((len(windows), kernel.STATISTICS, 3), np.nan)
    for place, (start, end) in enumerate(windows):
        is_there = (buckets[codec.NEWEST] >= start) & (buckets[codec.FIRST] < end)
        is_older, is_newer = buckets[codec.FIRST] < start, buckets[codec.NEWEST] >= end
        whole = _Moments.of(buckets[:, is_there & ~is_older & ~is_newer])
        cut = _Moments.of(buckets[:, is_there & (is_older | is_newer)])
        # At least this many events of the cut buckets are outside.
        outside = np.count_nonzero(is_there & is_older) + np.count_nonzero(is_there & is_newer)
        if whole.count:
            told = _told(whole, cut)
        elif cut.count > outside:
            center, reach = float(cut.mean), sqrt(cut.squared * ((cut.count - 1) / cut.count))
            reach += (abs(center) + reach) * _ROUNDING + _ROUNDING
            told = 0.0, cut.squared / 2, center, reach
        else:
            continue
        kernel.put_spread(told, int(head[codec.DECIMALS]), int(state[codec.INEXACT]), found[place])
        if cut.count:
            numbers = found[place]
            numbers[:, 0] = numbers[:, 1] + (numbers[:, 2] - numbers[:, 1]) / 2
    return found


def _told(newer: _Moments, cut: _Moments) -> tuple[float, float, float, float]:
    if not cut.count:
        return kernel.spread_of_all(newer.squared, float(newer.count), float(newer.mean))
    return kernel.spread_of_cut(
        float(newer.count),
        float(cut.count),
        newer.squared,
        (newer + cut).squared,
        float(cut.mean - newer.mean),
        cut.squared,
        float(newer.mean),
    )


def decoded(data: bytes) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; return what it was made with, its numbers, and its buckets."""
    head, state = np.empty(codec.HEAD_SIZE, np.int64), np.empty(codec.STATE_SIZE, np.int64)
    empty = np.empty((codec.BUCKET_ROWS, 0), np.int64)
    (buckets,) = envelope.decoded(codec.read, data, (codec.SPREAD,), head, state, empty)
    return head, state, buckets


_FOR_ROUNDING = 1 + Fraction(1, 1 << 40)


def _off(parts: int) -> Fraction:
    """Return (b^3 - 1) / (b^3 + 1) for b = 1 + 1 / parts, rounding included."""
    widest = Fraction(parts + 1, parts) ** 3 * _FOR_ROUNDING
    return (widest - 1) / (widest + 1)


@lru_cache
def _parts(epsilon: float) -> int:
    # Kept, as each batch asks for it: the search takes half a millisecond.
    low, high = codec.MIN_PARTS, codec.MAX_PARTS
    allowed = Fraction(epsilon)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _off(middle) <= allowed else (middle + 1, high)
    return low


@dataclass(frozen=True)
class SpreadParameters:
    """Mean, variance and standard deviation of values over windows of up to `span`.

    epsilon: largest relative error of the variance wanted, 10^-6 to 1/2. span: longest window
    kept, 1 to 2^53, in the unit of the event times. decimals: of the values that are kept, 0 to 9.
    Raises SynopsisError for anything else.
    """

    epsilon: float
    span: int
    decimals: int = 3

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, MIN_EPSILON, 0.5)
        check_whole("span", self.span, 1, MAX_SPAN)
        check_whole("decimals", self.decimals, 0, MAX_DECIMALS)

    @property
    def parts(self) -> int:
        """The k of the proof: the least whose error is at most epsilon."""
        return _parts(self.epsilon)

    @property
    def relative_error(self) -> float:
        """The promise for the variance, at most epsilon."""
        return up(_off(self.parts))

    @property
    def relative_error_of_deviation(self) -> float:
        """The promise for the standard deviation, about half of that."""
        error = self.relative_error
        return nextafter(error / (1 + sqrt(1 - error * error)) * (1 + 2.0**-50), 1)

    @property
    def mean_error_in_deviations(self) -> float:
        """The promise for the mean, as a share of the window's standard deviation."""
        k = self.parts
        return nextafter(sqrt(1 + 0.5 / k) / k * (1 + 2.0**-38), 1)


class SpreadResult(NamedTuple):
    """The result of a batch: the new state of each group, and the answers, as in `BatchResult`.

    The states of all are the same ones; `events` are how many values the windows have.
    """

    states: list[bytes]
    mean: BatchResult
    variance: BatchResult
    deviation: BatchResult
    events: BatchResult


def run_spread_batch(
    parameters: SpreadParameters, states: Sequence[bytes | None], batch: Batch
) -> SpreadResult:
    """Feed and ask many synopses at once, one a group (key); the values are float64.

    Raises SynopsisError also for values that are not finite or more than 2^40 units, and for
    windows whose magnitudes sum to more than 2^60 units. Cost: O(bytes in + events + queries *
    buckets + bytes out), amortised.
    """
    columns, values = batch.within(parameters.span), batch.doubles()
    head = np.empty(codec.HEAD_SIZE, np.int64)
    head[codec.PARTS] = parameters.parts
    head[codec.SPAN] = parameters.span
    head[codec.DECIMALS] = parameters.decimals
    answers: Floats = np.empty((kernel.STATISTICS + 1, 3, *batch.shape), np.float64)
    given = (head,), states, columns, values, answers
    out, ends = drive(kernel.run, *given, kinds=(codec.SPREAD,), values=values)
    new = split(out, ends)
    of = [BatchResult(new, *answer) for answer in answers]
    return SpreadResult(
        new, of[kernel.MEAN], of[kernel.VARIANCE], of[kernel.DEVIATION], of[kernel.SIZE]
    )


class Spread(StoredSynopsis[SpreadParameters]):
    """Mean, variance and standard deviation of one stream, over any window up to the span.

    >>> from slidestat.synopses import Spread, SpreadParameters
    >>> delays = Spread.create(SpreadParameters(epsilon=0.1, span=60_000))
    >>> delays.insert([1_000, 2_000, 50_000], [-4.0, 2.0, 8.0])
    >>> delays.mean(60_000).estimate, delays.variance(60_000).estimate
    (2.0, 24.0)
    """

    kinds: ClassVar[tuple[int, ...]] = (codec.SPREAD,)

    run_batch = staticmethod(run_spread_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[SpreadParameters, int]:
        head, state, _ = decoded(data)
        epsilon = max(MIN_EPSILON, up(_off(int(head[codec.PARTS]))))
        parameters = SpreadParameters(epsilon, int(head[codec.SPAN]), int(head[codec.DECIMALS]))
        return parameters, int(state[codec.NOW])

    def mean(self, n: int, now: int | None = None) -> Estimate:
        """Estimate the mean of the window [now - n, now), 1 <= n <= span, `now` as in `Stored`.

        NaN, three times, for an empty window. Cost: O(bytes).
        """
        return self._ask(kernel.MEAN, n, now)

    def variance(self, n: int, now: int | None = None) -> Estimate:
        """Estimate the mean squared deviation from the mean (population variance) of a window."""
        return self._ask(kernel.VARIANCE, n, now)

    def deviation(self, n: int, now: int | None = None) -> Estimate:
        """Estimate the standard deviation of a window, the root of the variance."""
        return self._ask(kernel.DEVIATION, n, now)

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Estimate the variance of a window, the main figure of the synopsis."""
        return self.variance(n, now)

    def buckets(self) -> list[tuple[int, int, int]]:
        """Return the live buckets, oldest to newest: events, times of the oldest and the newest."""
        _, state, buckets = decoded(self._data)
        rows = buckets[[moments.COUNT, codec.FIRST, codec.NEWEST], : int(state[codec.KEPT])]
        return list(zip(*rows.tolist(), strict=True))

    def check(self) -> None:
        """Raise SynopsisError unless each bucket of several times keeps its size and rule (2).

        Cost: O(buckets).
        """
        head, state, buckets = decoded(self._data)
        parts = int(head[codec.PARTS])
        most = (1 + 1 / parts) ** 2 * (1 + 2.0**-40)
        sums = np.zeros((moments.ROWS, 1), np.int64)
        for i in range(int(state[codec.KEPT]) - 1, -1, -1):
            newer, before = int(sums[moments.COUNT, 0]), moments.squared_deviations(sums, 0)
            moments.add(sums, 0, buckets, i)
            if buckets[codec.FIRST, i] == buckets[codec.NEWEST, i]:
                continue
            if int(buckets[moments.COUNT, i]) * parts > newer:
                raise SynopsisError(
                    f"{buckets[moments.COUNT, i]} events are too many behind {newer}"
                )
            if moments.squared_deviations(sums, 0) > most * before:
                raise SynopsisError(f"bucket {i} deviates too much from the events after it")

    def _ask(self, statistic: int, n: int, now: int | None) -> Estimate:
        result = self._run(self._question(n, now))
        of: BatchResult = (result.mean, result.variance, result.deviation)[statistic]
        return of.only()
