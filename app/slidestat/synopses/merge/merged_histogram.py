"""One exponential histogram of the union of several streams, made of their histograms or waves.

Source: merging exponential histograms by replaying their buckets, as in Papapetrou, Garofalakis,
Deligiannakis, "Sketch-based querying of distributed sliding-window data streams" (2012), section 5.
What is replayed, the bounds and their proof are our own.

Contract: with e = 1 / (2 l) the promise of one part and d merges on the way, one after another,
|estimate - exact| <= ((1 + e)^(d + 1) - 1) * exact, and lower <= exact <= upper, always, for any
n <= span: at most 2 e + e^2 for parts merged all at once, however many. So merge many at a time: a
chain of pairs is as deep as it is long. What a part's card says of values with more decimals than
are kept comes on top, once for each such part. Order never shows; grouping does, within that bound;
and a part that has nothing in the span (and no values with more decimals) changes nothing.
Space: that of a histogram of the union's units, times 2^d. Cost of a merge: O(bytes), and a sort.

Proof. Let t be where a window starts, C(t) what is exactly in it, and E(t) the estimate of a part:
a step function that falls with t, at the times of the part's edges (its items, of a wave), and
|E(t) - C(t)| <= e C(t) for all t in the span. Replay as many units at each of these times as E
falls by there: then E(t) itself is what is exactly in the window. E is a multiple of half a unit,
so units are halved. The estimates of all parts add up to E(t) with |E(t) - C(t)| <= h C(t), where h
is the largest error of a part; and the histogram of the replayed units, of the same l, answers E(t)
within e E(t) <= e (1 + h) C(t). So its error is h + e + h e = (1 + h) (1 + e) - 1, which gives the
promise, h being e for a part that is no merge. And if it answers that E(t) is in [a, b], C(t) is in
[a / (1 + h), b / (1 - h)], for h < 1, and a whole number of units.
Windows of the union start at its `now`, the latest of the parts', less the span at the earliest, so
what a part has lost by then is asked for by none.

The estimate of a wave is the middle of its bounds, within 1 / (2 c - 1): its merges have l = c - 1.

The body (kind 23; envelope and numbers: see wire.py) is, in this order:

    form                                  2 histogram (see bundle.py)
    d, from 1 on
    kind                                  1 of counts, 2 of sums
    decimals                              of the sums, else 0
    parts that had values with more decimals
    an exponential histogram of sums without decimals, in units of 2^-d

With d = 0 the bytes are those of the histogram or wave itself.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from slidestat.synopses.core import wire
from slidestat.synopses.core.envelope import Body, damaged, sealed, varint
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import (
    MAX_DECIMALS,
    CountParameters,
    Parameters,
    SumParameters,
)
from slidestat.synopses.core.rounding import down, up
from slidestat.synopses.exponential_histogram.canonical import LIVE_LIMIT
from slidestat.synopses.exponential_histogram.codec import COUNT, SUM, strays_of
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram
from slidestat.synopses.exponential_histogram.units import MAX_UNITS
from slidestat.synopses.merge.bundle import HISTOGRAM, MERGED, opened_form
from slidestat.synopses.waves.waves import CountWave, SumWave

MAX_DEPTH = 16
"""No more merges one after another: units are halved at each, and errors multiply."""

_STRAY = 1 + Fraction(1, 1 << 20)
"""By how many units the values of a part with more decimals are off, with units.py's rounding."""

_ROUNDING = Fraction(1, 1 << 48)

Source = ExponentialHistogram | CountWave | SumWave


class MergedHistogram:
    """A count or a sum over the union of streams; a window of n at `now` is [now - n, now).

    >>> from slidestat.synopses import CountParameters, ExponentialHistogram
    >>> from slidestat.synopses import MergedHistogram
    >>> sent = []
    >>> for times in ([1_000, 2_000, 59_000], [1_500, 58_000]):
    ...     visits = ExponentialHistogram.create(CountParameters(epsilon=0.1, span=60_000))
    ...     visits.insert(times)
    ...     sent.append(visits.to_bytes())
    >>> MergedHistogram.of(sent).query(10_000)
    Estimate(estimate=2.0, lower=2.0, upper=2.0)
    """

    def __init__(self, source: Source, parameters: Parameters, depth: int, strays: int) -> None:
        self._source = source
        self._parameters = parameters
        self._depth = depth
        self._strays = strays

    @classmethod
    def of(cls, states: Sequence[bytes]) -> "MergedHistogram":
        """Merge stored histograms, waves or merges, all at once; SynopsisError as for `merge`."""
        if not states:
            raise SynopsisError("there is nothing to merge")
        first, *others = [cls.from_bytes(state) for state in states]
        return first.merge(*others)

    @classmethod
    def from_bytes(cls, data: bytes) -> "MergedHistogram":
        """Read what `to_bytes` wrote, or a stored exponential histogram, count wave or sum wave.

        Raises SynopsisError for anything else. Cost: O(len(data)).
        """
        kind = data[3] if len(data) >= wire.BODY else MERGED
        if kind == MERGED:
            return cls._of_body(opened_form(HISTOGRAM, data))
        if kind in (*CountWave.kinds, *SumWave.kinds):
            wave = (
                CountWave.from_bytes(data) if kind in CountWave.kinds else SumWave.from_bytes(data)
            )
            if wave.parameters.per_level < 2:
                raise SynopsisError("a wave with an error of 100 % has nothing that can be merged")
            epsilon = 0.5 / (wave.parameters.per_level - 1)
            span = wave.parameters.span
            if kind in CountWave.kinds:
                return cls(wave, CountParameters(epsilon, span), 0, 0)
            return cls(wave, SumParameters(epsilon, span, 0), 0, 0)
        histogram = ExponentialHistogram.from_bytes(data)
        return cls(histogram, histogram.parameters, 0, strays_of(data))

    @classmethod
    def _of_body(cls, body: Body) -> "MergedHistogram":
        depth = body.number(1, MAX_DEPTH)
        kind, decimals, strays = (body.number() for _ in range(3))
        if not (0 <= decimals <= MAX_DECIMALS if kind == SUM else decimals == 0):
            raise damaged()
        if kind not in ExponentialHistogram.kinds or (kind == COUNT and strays > 0):
            raise damaged()
        stored = body.rest()
        inner = ExponentialHistogram.from_bytes(stored)
        made_with = inner.parameters
        if not isinstance(made_with, SumParameters) or made_with.decimals != 0:
            raise damaged()
        if strays_of(stored) or _inherited(made_with, depth) >= 1:
            raise damaged()
        parameters: Parameters = (
            SumParameters(made_with.epsilon, made_with.span, decimals)
            if kind == SUM
            else CountParameters(made_with.epsilon, made_with.span)
        )
        return cls(inner, parameters, depth, strays)

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        if self._depth == 0:
            return self._source.to_bytes()
        is_sum = isinstance(self._parameters, SumParameters)
        head = [HISTOGRAM, self._depth, SUM if is_sum else COUNT]
        head += [self._decimals, self._strays]
        body = b"".join(varint(number) for number in head)
        return sealed(MERGED, body + self._source.to_bytes())

    def merge(self, *others: "MergedHistogram") -> "MergedHistogram":
        """Return one histogram of all, at the latest of their times.

        Parts that have nothing in the span are left out; a single one that remains is returned as
        it is, moved on to that time. Raises SynopsisError for parts that answer different things,
        or differ in l (of waves: c - 1), span or decimals; where the error would come to 100 % or
        more than 16 merges lie one after another; and for a union of more than 2^(62 - d) units.
        Cost: O(bytes), and a sort.
        """
        parts = (self, *others)
        for part in parts:
            if part._parameters != self._parameters:
                raise SynopsisError(
                    f"histograms can be merged if made with the same, not {self._parameters} and "
                    f"{part._parameters}"
                )
        now = max(part.now for part in parts)
        oldest = now - self._parameters.span
        alive = [part for part in parts if part._is_alive(oldest)]
        if len(alive) <= 1:
            only = alive or [max(parts, key=lambda part: (part.now, part.to_bytes()))]
            return only[0]._moved_on(now)
        depth = 1 + max(part._depth for part in alive)
        if depth > MAX_DEPTH or _inherited(self._parameters, depth) >= 1:
            raise SynopsisError(
                f"{depth} merges one after another are too many for epsilon "
                f"{self._parameters.epsilon}: merge more parts at a time"
            )
        units: defaultdict[int, int] = defaultdict(int)
        for part in alive:
            later = 0
            for time, doubled in reversed(part._steps()):
                units[time] += (doubled - later) << (depth - part._depth - 1)
                later = doubled
        kept = sorted(time for time in units if time >= oldest)
        if sum(units[time] for time in kept) > LIVE_LIMIT:
            raise WindowTooLargeError(
                f"the union holds more than 2^{62 - depth} units, which is more than can be kept "
                f"after {depth} merges"
            )
        times: list[int] = []
        values: list[int] = []
        for time in kept:
            whole, rest = divmod(units[time], MAX_UNITS)
            times += [time] * (whole + 1)
            values += [*([MAX_UNITS] * whole), rest]
        inner = ExponentialHistogram.create(
            SumParameters(self._parameters.epsilon, self._parameters.span, 0)
        )
        inner.insert(times, values)
        inner.advance(now)
        strays = sum(part._strays for part in alive)
        return MergedHistogram(inner, self._parameters, depth, strays)

    @property
    def parameters(self) -> Parameters:
        """Return the parameters of the parts, as of an exponential histogram."""
        return self._parameters

    @property
    def depth(self) -> int:
        """The d of the promise: how many merges lie one after another; 0 of a single part."""
        return self._depth

    @property
    def relative_error(self) -> float:
        """The promise, (1 + e)^(d + 1) - 1; the rounding of a double (2^-52) comes on top."""
        return up(_inherited(self._parameters, self._depth + 1))

    @property
    def now(self) -> int:
        """The latest time of a part."""
        return self._source.now

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span; `now` is the merge's if None.

        A later `now` is a look ahead that changes nothing; an earlier one raises SynopsisError, and
        so do units that no streams can have come to. Cost: O(bytes).
        """
        found = self._source.query(n, now)
        if self._depth == 0:
            return found
        inherited = _inherited(self._parameters, self._depth)
        unit = Fraction(1, 1 << self._depth)
        least = Fraction(ceil(Fraction(found.lower) * unit / (1 + inherited)))
        most = Fraction(floor(Fraction(found.upper) * unit / (1 - inherited)))
        if least > most:  # no stream leaves that: between the two must be a whole number of units
            raise damaged()
        middle = Fraction(found.estimate) * unit
        if self._strays > 0:
            least = max(Fraction(0), (least - self._strays * _STRAY) * (1 - _ROUNDING))
            most = (most + self._strays * _STRAY) * (1 + _ROUNDING)
        estimate = min(max(middle, least), most)
        scale = 10**self._decimals
        return Estimate(float(estimate / scale), down(least / scale), up(most / scale))

    def check(self) -> None:
        """Raise SynopsisError unless the state keeps the invariants of what it is stored as."""
        self._source.check()

    @property
    def _decimals(self) -> int:
        return self._parameters.decimals if isinstance(self._parameters, SumParameters) else 0

    def _is_alive(self, oldest: int) -> bool:
        """Return whether the part may have anything from `oldest` on: units, or parts of one."""
        steps = self._steps()
        return self._strays > 0 or (bool(steps) and steps[-1][0] >= oldest)

    def _moved_on(self, now: int) -> "MergedHistogram":
        if now == self.now:
            return self
        again = MergedHistogram.from_bytes(self.to_bytes())
        again._source.advance(now)
        return again

    def _steps(self) -> list[tuple[int, int]]:
        """Return (time, twice the estimate of a window that starts there), old to new, in units.

        Windows that start later than the step before have that estimate, too.
        """
        if isinstance(self._source, ExponentialHistogram):
            newer = 0
            steps = []
            for size, time in reversed(self._source.buckets()):
                steps.append((time, 2 * newer + size + 1))
                newer += size
            return steps[::-1]
        total, outside = self._source.totals()
        steps = []
        for item in self._source.items():
            steps.append((item.time, 2 * total - item.before - outside))
            outside = item.through
        return steps


def _inherited(parameters: Parameters, depth: int) -> Fraction:
    """Return (1 + e)^depth - 1."""
    return (1 + Fraction(1, 2 * parameters.buckets_per_level)) ** depth - 1
