"""The minimum or the maximum of one window.

Contract: lower <= exact <= upper in any tree of merges, exact if the states are, with the relative
error of the states otherwise; windows may overlap. Merging is associative, commutative and
idempotent to the byte. Space: at most 35 bytes. Cost: a comparison.

Proof: as in extremes.py; the exact extreme of all is that of one, and minima (maxima) of estimates
and bounds keep their order.

The body (see form.py) has the side, 0 minimum, 1 maximum, then 0 for an empty window, or 1
and lower, estimate and upper as doubles, 8 bytes each, little-endian.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from slidestat.synopses.core.envelope import damaged, varint
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.extremes.extreme import Extreme
from slidestat.synopses.summaries.form import (
    Body,
    SummaryAnswer,
    WindowFigure,
    WindowSummary,
    must_agree,
)

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
        side = varint(_SIDES.index(self.side))
        if self.found is None:
            return side + varint(0)
        return (
            side
            + varint(1)
            + struct.pack(_THREE, self.found.lower, self.found.estimate, self.found.upper)
        )

    @classmethod
    def from_body(cls, body: Body) -> "WindowExtreme":
        side = _SIDES[body.number(most=1)]
        if body.number(most=1) == 0:
            return cls(side, None)
        lower, estimate, upper = struct.unpack(_THREE, body.taken(struct.calcsize(_THREE)))
        if not (-math.inf < lower <= estimate <= upper < math.inf):
            raise damaged()
        return cls(side, Estimate(estimate, lower, upper))
