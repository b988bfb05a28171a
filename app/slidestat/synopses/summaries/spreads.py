"""Mean, variance and standard deviation of one window.

Contract: in any tree of merges the promises of one state (spread.py) hold for all windows as one:
lower <= exact <= upper; |estimate - exact| <= epsilon * exact of the variance, and as much as there
of the standard deviation and of the mean. Merging is associative and commutative to the byte, and
an empty window changes nothing. Space: at most 150 bytes. Cost: O(bytes).

Proof: spreads.py. What it needs of a window are the exact moments of the buckets that are whole in
it, and those of what the window cuts; both add up.

The body (see form.py) is the pooled window of spreads.py: a stored spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from slidestat.synopses.core.envelope import damaged
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.merge.spreads import POOLED_NOW, POOLED_SPAN, pooled
from slidestat.synopses.moments.spread import Spread
from slidestat.synopses.summaries.form import Body, WindowFigure, WindowSummary, must_agree


@dataclass(frozen=True)
class WindowSpread(WindowSummary):
    """A window as a spread of its own, which is asked for its whole length."""

    data: bytes

    form: ClassVar[int] = 3
    kinds: ClassVar[tuple[int, ...]] = Spread.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowSpread":
        spread = Spread.from_bytes(state)
        at = spread.now if now is None else now
        spread.mean(n, at)  # which refuses a window that cannot be
        return cls(pooled(spread.parameters, [spread.to_bytes()], at, n))

    def merge(self, *others: "WindowSpread") -> "WindowSpread":
        parts = [part._spread for part in (self, *others)]
        must_agree(parts[0].parameters, tuple(part.parameters for part in parts[1:]))
        states = [part.to_bytes() for part in parts]
        return WindowSpread(pooled(parts[0].parameters, states, POOLED_NOW, POOLED_SPAN))

    def mean(self) -> Estimate:
        """Return the mean; NaN for no events."""
        return self._spread.mean(POOLED_SPAN, POOLED_NOW)

    def variance(self) -> Estimate:
        """Return the population variance; NaN for no events."""
        return self._spread.variance(POOLED_SPAN, POOLED_NOW)

    def deviation(self) -> Estimate:
        """Return the population standard deviation; NaN for no events."""
        return self._spread.deviation(POOLED_SPAN, POOLED_NOW)

    @property
    def _spread(self) -> Spread:
        return Spread.from_bytes(self.data)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [
            WindowFigure("mean", self.mean()),
            WindowFigure("variance", self.variance()),
            WindowFigure("deviation", self.deviation()),
        ]

    def body(self) -> bytes:
        return self.data

    @classmethod
    def from_body(cls, body: Body) -> "WindowSpread":
        read = cls(body.rest())
        spread = read._spread
        if spread.parameters.span != POOLED_NOW or spread.now > POOLED_NOW:
            raise damaged()
        spread.check()
        return read.merge()
