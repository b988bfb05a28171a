"""Counts, sums, averages, extremes and ages over the union of a bundle's parts.

Source: Gibbons and Tirthapura 2002, section 3.4 (scenario 1: the sum of the parties' answers) and
section 5 (Nth most recent 1). Promises: README.md. Proofs: docs/proofs.md. Cost: that of
one batch over all parts; of ages, O(items log(items)).
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil, floor, inf
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import kernel
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import BatchResult
from slidestat.synopses.core.envelope import Body, damaged, large, varint
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import MAX_DECIMALS, CountParameters, SumParameters
from slidestat.synopses.core.rounding import down, up
from slidestat.synopses.exponential_histogram import codec
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram, run_batch
from slidestat.synopses.extremes.extreme import Extreme, ExtremeParameters, run_extreme_batch
from slidestat.synopses.merge.bundle import Asked, Bundle, MadeWith, UnionAnswers, ask, kind_of
from slidestat.synopses.merge.summary import SummaryAnswer, WindowFigure, WindowSummary, must_agree
from slidestat.synopses.value_histogram.counter_table import (
    CounterTable,
    CounterTableParameters,
    HashedCountParameters,
    counters_of,
    run_counter_table_batch,
)
from slidestat.synopses.value_histogram.value_histogram import (
    ValueHistogram,
    ValueHistogramParameters,
    run_value_histogram_batch,
)
from slidestat.synopses.waves.average_wave import AverageWave, averages, halves_of
from slidestat.synopses.waves.codec import COUNT, SUM
from slidestat.synopses.waves.parameters import AverageParameters, WaveParameters
from slidestat.synopses.waves.waves import (
    CountWave,
    PositionWave,
    SumWave,
    require_numbers,
    run_wave_batch,
)

TOTALS = (*ExponentialHistogram.kinds, *CountWave.kinds, *SumWave.kinds)


@kernel
def _added(figures: Floats, starts: Integers, towards: float) -> Floats:
    """Return the sums over each bundle's parts: float64[B, K] of figures[P, K].

    Each step is rounded towards `towards`, an infinity, or to nearest if that is 0: what a rounded
    sum leaves out is found exactly (Knuth's two-sum), and its sign says whether to step on.
    """
    sums = np.zeros((len(starts) - 1, figures.shape[1]), np.float64)
    for bundle in range(len(starts) - 1):
        for k in range(figures.shape[1]):
            total = 0.0
            for part in range(starts[bundle], starts[bundle + 1]):
                figure = figures[part, k]
                rounded = total + figure
                of_total = rounded - figure
                left = (total - of_total) + (figure - (rounded - of_total))
                if (left > 0.0 and towards > 0.0) or (left < 0.0 and towards < 0.0):
                    rounded = float(np.nextafter(rounded, towards))
                total = rounded
            sums[bundle, k] = total
    return sums


def _union(starts: Integers, parts: BatchResult) -> UnionAnswers:
    return UnionAnswers(*map(_added, parts.figures, [starts] * 3, (0.0, -math.inf, math.inf)))


def _histograms(
    asked: Asked[CountParameters] | Asked[SumParameters], values: list[float] | None
) -> UnionAnswers:
    parts = run_batch(asked.parameters, asked.states, asked.batch(values))
    return _union(asked.starts, parts)


def _waves(
    asked: Asked[MadeWith], kind: str, parameters: WaveParameters, states: list[bytes]
) -> BatchResult:
    none: list[int] | None = [] if kind == "sum" else None
    return run_wave_batch(kind, parameters, states, asked.batch(none))


def union_totals(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of counts or sums.

    Parts are exponential histograms or waves. times: int64[B]; spans: int64[K], 1 to the span kept.
    Raises SynopsisError as `ask` does. Cost: O(bytes + parts * spans * log).
    """
    kind = bundles[0].kind if bundles else 0
    if kind in (COUNT, SUM):
        waves = ask(WaveParameters, TOTALS, bundles, times, spans)
        name = "count" if kind == COUNT else "sum"
        return _union(waves.starts, _waves(waves, name, waves.parameters, waves.states))
    if kind == codec.SUM:
        return _histograms(ask(SumParameters, TOTALS, bundles, times, spans), [])
    return _histograms(ask(CountParameters, TOTALS, bundles, times, spans), None)


def union_averages(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the mean of each bundle's window, as `union_totals`; NaN for an empty window.

    Parts are sliding averages. Cost: that of two batches of waves.
    """
    asked = ask(AverageParameters, AverageWave.kinds, bundles, times, spans)
    halves = [halves_of(state) for state in asked.states]
    waves = asked.parameters.waves
    counts = _union(asked.starts, _waves(asked, "count", waves, [count for count, _ in halves]))
    sums = _union(asked.starts, _waves(asked, "sum", waves, [total for _, total in halves]))
    return UnionAnswers(*averages(sums.figures, counts.figures))


def union_value_histograms(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for each bin of the windows [time - span, time): float64[bundles, spans, bins].

    times: int64[B]; spans: int64[K], 1 to the span kept. Raises SynopsisError as `ask` does.
    """
    asked = ask(ValueHistogramParameters, ValueHistogram.kinds, bundles, times, spans)
    parts = run_value_histogram_batch(asked.parameters, asked.states, asked.batch())
    first = asked.starts[:-1]
    return UnionAnswers(*(np.add.reduceat(figure, first, axis=0) for figure in parts.figures))


def union_hashed_counts(
    parameters: HashedCountParameters,
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
    asked: Integers,
) -> Floats:
    """Return the counters of `HashedCounts` for the items `asked`, over each bundle's union:
    float64[3, bundles, spans, rows * items + 1], for `item_counts`.

    All parts have the hash functions of `parameters`, so their counters are of the same items; as
    those of value histograms they add up. Raises SynopsisError as `ask` does, and for tables of
    other parameters.
    """
    question = ask(CounterTableParameters, CounterTable.kinds, bundles, times, spans)
    batch = question.batch(()) if len(asked) else question.batch(()).asking_for(())
    found = run_counter_table_batch(parameters.table, question.states, batch)
    shape = len(question.states), len(question.spans)
    counters = counters_of(parameters, found, shape, asked)
    return np.add.reduceat(counters, question.starts[:-1], axis=1)


# The count or the sum of one window.
#
# Promises: README.md. The three figures are whole numbers of units (the estimate of half
# units), so that they add up exactly. The bounds of a state are doubles, rounded outwards; what
# they stand for is whole (of counts, and of sums while all values were decimals), so they are
# rounded inwards again to whole units; those of a sum with other values are rounded outwards.
#
# The body (see summary.py) has decimals (of sums: + 1, of counts 0), then lower, upper - lower,
# 2 estimate - 2 lower, each in units of 10^-decimals, as two numbers: over 2^62, and the rest.

_MOST = 1 << 120


@dataclass(frozen=True)
class WindowTotals(WindowSummary):
    """The units in a window: least and most, and twice the estimate. decimals: None of counts."""

    decimals: int | None
    lower: int
    upper: int
    doubled: int

    form: ClassVar[int] = 1
    kinds: ClassVar[tuple[int, ...]] = TOTALS

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowTotals":
        kind = kind_of(state)
        decimals: int | None = 0 if kind in SumWave.kinds else None
        is_exact = True
        if kind in (*CountWave.kinds, *SumWave.kinds):
            family = CountWave if kind in CountWave.kinds else SumWave
            found = family.from_bytes(state).query(n, now)
        else:
            histogram = ExponentialHistogram.from_bytes(state)
            if isinstance(histogram.parameters, SumParameters):
                decimals = histogram.parameters.decimals
                is_exact = histogram.is_exact
            found = histogram.query(n, now)
        scale = 10 ** (decimals or 0)
        lower, upper = Fraction(found.lower) * scale, Fraction(found.upper) * scale
        least = ceil(lower) if is_exact else floor(lower)
        most = floor(upper) if is_exact else ceil(upper)
        doubled = round(2 * Fraction(found.estimate) * scale)
        return cls(decimals, least, most, min(max(doubled, 2 * least), 2 * most))

    def merge(self, *others: "WindowTotals") -> "WindowTotals":
        parts = (self, *others)
        must_agree(self._what, tuple(other._what for other in others))
        upper = sum(part.upper for part in parts)
        if upper > _MOST:
            raise WindowTooLargeError("the windows hold more than 2^120 units together")
        lower = sum(part.lower for part in parts)
        return WindowTotals(self.decimals, lower, upper, sum(part.doubled for part in parts))

    def answer(self) -> SummaryAnswer:
        """Return the count, or the sum, with the error it then has."""
        scale = 10 ** (self.decimals or 0)
        most_off = max(self.doubled - 2 * self.lower, 2 * self.upper - self.doubled)
        return SummaryAnswer(
            float(Fraction(self.doubled, 2 * scale)),
            down(Fraction(self.lower, scale)),
            up(Fraction(self.upper, scale)),
            up(Fraction(most_off, 2 * scale)),
        )

    @property
    def _what(self) -> str:
        return "counts" if self.decimals is None else f"sums with {self.decimals} decimals"

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("total", self.answer())]

    def body(self) -> bytes:
        head = 0 if self.decimals is None else self.decimals + 1
        numbers = (self.lower, self.upper - self.lower, self.doubled - 2 * self.lower)
        return varint(head) + b"".join(large(number) for number in numbers)

    @classmethod
    def from_body(cls, body: Body) -> "WindowTotals":
        head = body.number(most=MAX_DECIMALS + 1)
        lower, wide, above = body.large(), body.large(), body.large()
        if above > 2 * wide or lower + wide > _MOST:
            raise damaged()
        return cls(head - 1 if head else None, lower, lower + wide, 2 * lower + above)


def union_extremes(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of minima or of maxima.

    times: int64[B]; spans: int64[K], 1 to the span kept. Raises SynopsisError as `ask` does.
    """
    asked = ask(ExtremeParameters, Extreme.kinds, bundles, times, spans)
    parts = run_extreme_batch(asked.parameters, asked.states, asked.batch())
    extreme = np.fmax if asked.parameters.side == "maximum" else np.fmin
    first = asked.starts[:-1]
    return UnionAnswers(*(extreme.reduceat(figure, first, axis=0) for figure in parts.figures))


# The minimum or the maximum of one window.
#
# Promises: README.md. The exact extreme of all is that of one, and minima (maxima) of
# estimates and bounds keep their order.
#
# The body (see summary.py) has the side, 0 minimum, 1 maximum, then 0 for an empty window, or 1 and
# lower, estimate and upper as doubles, 8 bytes each, little-endian.

_SIDES = ("minimum", "maximum")
_THREE = "<3d"


@dataclass(frozen=True)
class WindowExtreme(WindowSummary):
    """The figures of the extreme on one side; None for a window without events."""

    side: str
    found: Estimate | None

    form: ClassVar[int] = 2
    kinds: ClassVar[tuple[int, ...]] = Extreme.kinds
    are_values: ClassVar[bool] = True

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowExtreme":
        extreme = Extreme.from_bytes(state)
        found = extreme.query(n, now)
        return cls(extreme.parameters.side, None if math.isnan(found.lower) else found)

    def merge(self, *others: "WindowExtreme") -> "WindowExtreme":
        must_agree(self.side, tuple(other.side for other in others))
        found = [part.found for part in (self, *others) if part.found is not None]
        if not found:
            return self
        best = max if self.side == "maximum" else min
        return WindowExtreme(self.side, Estimate(*map(best, zip(*found, strict=True))))

    def answer(self) -> SummaryAnswer:
        """Return the extreme, with the error it then has."""
        if self.found is None:
            return SummaryAnswer(math.nan, math.nan, math.nan, math.nan)
        estimate, lower, upper = self.found
        off = max(estimate - lower, upper - estimate)
        return SummaryAnswer(*self.found, math.nextafter(off, math.inf) if off else 0.0)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("extreme", self.answer())]

    def body(self) -> bytes:
        head = varint(_SIDES.index(self.side)) + varint(self.found is not None)
        if self.found is None:
            return head
        estimate, lower, upper = self.found
        return head + struct.pack(_THREE, lower, estimate, upper)

    @classmethod
    def from_body(cls, body: Body) -> "WindowExtreme":
        side = _SIDES[body.number(most=1)]
        if body.number(most=1) == 0:
            return cls(side, None)
        lower, estimate, upper = struct.unpack(_THREE, body.taken(struct.calcsize(_THREE)))
        if not (-math.inf < lower <= estimate <= upper < math.inf):
            raise damaged()
        return cls(side, Estimate(estimate, lower, upper))


def union_ages(
    bundles: Sequence[Bundle], times: npt.ArrayLike, numbers: npt.ArrayLike
) -> UnionAnswers:
    """Answer how long before its time the most recent events of each bundle were:
    float64[bundles, numbers].

    times: int64[B]; numbers: int64[K], which events, 1 being the last, up to 2^61 - 1. Raises
    SynopsisError as `ask` does, and for other numbers.
    """
    asked = ask(WaveParameters, PositionWave.kinds, bundles, times, numbers)
    require_numbers(asked.spans)
    found = np.empty((3, len(bundles), len(asked.spans)))
    for bundle, (first, last) in enumerate(pairwise(asked.starts.tolist())):
        parts = [
            PositionWave.from_bytes(state).ages(time)
            for state, time in zip(
                asked.states[first:last], asked.times[first:last].tolist(), strict=True
            )
        ]
        counts = np.concatenate([counts for counts, _ in parts])
        answers = np.concatenate([answers for _, answers in parts], axis=1)
        for figure in range(3):
            found[figure, bundle] = _smallest(counts, answers[figure], asked.spans.tolist())
    return UnionAnswers(*found)


def _smallest(counts: Integers, ages: Floats, numbers: Sequence[int]) -> list[float]:
    """Return the nth smallest age for each n, `counts` events having each; infinity for none."""
    order = np.argsort(ages, kind="stable")
    # Whole numbers of any length: that of all events of all parts need not fit in 64 bits.
    upto = list(accumulate(counts[order].tolist()))
    rising = [*ages[order].tolist(), inf]
    return [rising[bisect_left(upto, number)] for number in numbers]
