"""Distinct items of one window, in little room.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.5; see lean_distinct/sketch.py.

Contract: as of one state, in any tree of merges, over windows that may overlap: exact below
`parameters.exact` distinct items; else abs(estimate - exact) <= epsilon exact and lower <= exact <=
upper with a confidence of 1 - delta. Merging is associative, commutative and idempotent to the
byte, and an empty window changes nothing. Space and cost: those of a state whose items all came at
one time.

Why. The summary is a state whose items were all seen at one time. A bit is set if an item of the
window sets it, and c = `exact` items are kept, or all if there are fewer: the newest, of a window
of a state; the largest that its parts keep, of a merge, which do not depend on how parts are
grouped. A merge sets the bits that are set in any part. So the bits are those of all items, and
fewer than c items are kept only if no part has left one out. Answers are a function of these two.

The body (see window_form.py) is a stored state of lean distinct items with a span of 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from slidestat.synopses.core.envelope import damaged
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.lean_distinct.sketch import LeanDistinct, merge_lean_distinct
from slidestat.synopses.summaries.window_form import Body, WindowFigure, WindowSummary, must_agree


@dataclass(frozen=True)
class WindowLeanDistinct(WindowSummary):
    """A window as a state of lean distinct items that were all seen at time 0."""

    data: bytes

    form: ClassVar[int] = 8
    kinds: ClassVar[tuple[int, ...]] = LeanDistinct.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowLeanDistinct":
        return cls(LeanDistinct.from_bytes(state).window(n, now))

    def merge(self, *others: "WindowLeanDistinct") -> "WindowLeanDistinct":
        made_with, *rest = (LeanDistinct.from_bytes(it.data).parameters for it in (self, *others))
        must_agree(made_with, tuple(rest))
        return WindowLeanDistinct(merge_lean_distinct([it.data for it in (self, *others)]))

    def answer(self) -> Estimate:
        """Return how many distinct items there are."""
        return LeanDistinct.from_bytes(self.data).query(1)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("distinct", self.answer())]

    def body(self) -> bytes:
        return self.data

    @classmethod
    def from_body(cls, body: Body) -> "WindowLeanDistinct":
        read = cls(body.rest())
        state = LeanDistinct.from_bytes(read.data)
        if (state.parameters.span, state.now) != (1, 1):
            raise damaged()
        return read
