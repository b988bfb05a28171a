"""Distinct items of one window.

Source: Gibbons, Tirthapura 2002, sections 4 and 5; see distinct_wave.py.

Contract: as of one state, in any tree of merges, over windows that may overlap: exact while there
are fewer distinct items than the capacity; else abs(estimate - exact) < epsilon exact and lower <=
exact <= upper with a confidence of 1 - delta. Merging is associative, commutative and idempotent to
the byte, and an empty window changes nothing. Space: that of a wave with all items at one time.
Cost: O(items log(items)), and the hashing of the items.

Why. The summary is a randomised wave whose items were all seen at one time, fed by rising item: of
each level of each instance it keeps the c largest items instead of the c newest, and an order of
items does as well as one of times. A level is complete if fewer than c of its items are kept, in
the state that a window is taken of, in the summary, and in a merge alike: what was left out of a
level, by time or by item, was left out for c others of it, of which c are kept after each merge.
So complete levels hold what they would hold had one wave seen all, and answers are a function of
those (and bounds, of how many items are kept, which are there for certain).

The body (see window_form.py) is a stored randomised wave with a span of 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat.synopses.core.envelope import damaged
from slidestat.synopses.distinct.distinct_wave import (
    DistinctEstimate,
    DistinctWave,
    Predicate,
    wave_of_items,
)
from slidestat.synopses.summaries.window_form import Body, WindowFigure, WindowSummary, must_agree


@dataclass(frozen=True)
class WindowDistinct(WindowSummary):
    """A window as a wave of items that were all seen at time 0."""

    data: bytes

    form: ClassVar[int] = 6
    kinds: ClassVar[tuple[int, ...]] = DistinctWave.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowDistinct":
        wave = DistinctWave.from_bytes(state)
        return cls(wave_of_items(wave.parameters, wave.kept_items(n, now)))

    def merge(self, *others: "WindowDistinct") -> "WindowDistinct":
        waves = [part._wave for part in (self, *others)]
        must_agree(waves[0].parameters, tuple(wave.parameters for wave in waves[1:]))
        items = np.concatenate([wave.kept_items(1) for wave in waves])
        return WindowDistinct(wave_of_items(waves[0].parameters, items))

    def answer(self, predicate: Predicate | None = None) -> DistinctEstimate:
        """Return how many distinct items there are, or for how many of them the predicate holds."""
        return self._wave.query(1, predicate=predicate)

    @property
    def _wave(self) -> DistinctWave:
        return DistinctWave.from_bytes(self.data)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("distinct", self.answer())]

    def body(self) -> bytes:
        return self.data

    @classmethod
    def from_body(cls, body: Body) -> "WindowDistinct":
        read = cls(body.rest())
        wave = read._wave
        if (wave.parameters.span, wave.now) != (1, 1):
            raise damaged()
        return read.merge()
