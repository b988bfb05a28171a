"""The minimum or the maximum over the union of a bundle's parts.

Contract: as of one part (extreme.py): lower <= exact <= upper, and the relative error stays; NaN
for an empty window. Cost: that of one batch over all parts.

Proof. The exact extreme of the union is that of one part. An estimate is the middle of the exact
one's rank, and middles, least and largest values of ranks do not fall as ranks rise: so the extreme
of the estimates is the estimate of the part that has the extreme, and so are lower and upper.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.envelope import damaged, varint
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.extremes.extreme import Extreme, ExtremeParameters, run_extreme_batch
from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.merge.summary import (
    Body,
    SummaryAnswer,
    WindowFigure,
    WindowSummary,
    must_agree,
)


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
    return UnionAnswers(
        extreme.reduceat(parts.estimates, first, axis=0),
        extreme.reduceat(parts.lowers, first, axis=0),
        extreme.reduceat(parts.uppers, first, axis=0),
    )


# The minimum or the maximum of one window.
#
# Contract: lower <= exact <= upper in any tree of merges, exact if the states are, with the
# relative error of the states otherwise; windows may overlap. Merging is associative, commutative
# and idempotent to the byte. Space: at most 35 bytes. Cost: a comparison.
#
# Proof: as above; the exact extreme of all is that of one, and minima (maxima) of
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
