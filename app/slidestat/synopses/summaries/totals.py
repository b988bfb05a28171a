"""The count or the sum of one window.

Contract: lower <= exact <= upper in any tree of merges; |estimate - exact| keeps the relative error
of the states it was taken of, and is at most the stated error. The three figures are whole numbers
of units (the estimate of half units), so that they add up exactly: merging is associative and
commutative to the byte, and an empty window changes nothing. Space: at most 70 bytes. Cost: a sum.

Why. As in totals.py: estimates, lowers and uppers of separate windows add up. The bounds of a state
are doubles, rounded outwards; what they stand for is whole (of counts, and of sums while all values
were decimals), so they are rounded inwards again to whole units; those of a sum with other values
are rounded outwards.

The body (see form.py) has decimals (of sums: + 1, of counts 0), then lower, upper - lower,
2 estimate - 2 lower, each in units of 10^-decimals, as two numbers: over 2^62, and the rest of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import ClassVar

from slidestat.synopses.core.envelope import damaged, varint
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.parameters import MAX_DECIMALS, SumParameters
from slidestat.synopses.core.rounding import down, up
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram
from slidestat.synopses.merge.families import (
    kind_of,
)
from slidestat.synopses.merge.merged_histogram import strays_of
from slidestat.synopses.merge.totals import TOTALS
from slidestat.synopses.summaries.form import (
    Body,
    SummaryAnswer,
    WindowFigure,
    WindowSummary,
    large,
    must_agree,
)
from slidestat.synopses.waves.waves import CountWave, SumWave

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
            wave = (
                CountWave.from_bytes(state)
                if kind in CountWave.kinds
                else SumWave.from_bytes(state)
            )
            found = wave.query(n, now)
        else:
            histogram = ExponentialHistogram.from_bytes(state)
            if isinstance(histogram.parameters, SumParameters):
                decimals = histogram.parameters.decimals
                is_exact = not strays_of(state)
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
