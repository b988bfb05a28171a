"""Quantiles by value of one window.

Contract: as of a state (value_quantiles/sketch.py), of all windows together, in any tree of merges:
both errors stay. Merging is associative and commutative to the byte. Space: three numbers for each
bin that may have an event. Cost: O(bins).
Proof: as in value_quantiles.py; bounds on counts of separate windows add up.

The body (see form.py) has the bins an octave, epsilon in millionths, the least number of
events and by how much the most is above it; how many bins there are, and of each, by rising number:
the number zigzag coded, or by how much it is above the one before, less 1; what it adds to the
least number of events up to a bin; by how much what it adds to the most is above that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat.synopses.core import wire
from slidestat.synopses.core.batch import windows
from slidestat.synopses.core.envelope import damaged, varint
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.quantile_parts import parts_of
from slidestat.synopses.merge.value_quantiles import bins_of, ranks_of, united
from slidestat.synopses.summaries.form import Body, WindowFigure, WindowSummary, must_agree
from slidestat.synopses.value_quantiles.batch import cuts_of, figures_of
from slidestat.synopses.value_quantiles.bounds import PARTS
from slidestat.synopses.value_quantiles.known import Known, known_of
from slidestat.synopses.value_quantiles.mapping import mapping_of, most_bins
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.synopses.value_quantiles.sketch import Rank, ValueQuantiles, rank_of

_MOST_EVENTS = 1 << 41


@dataclass(frozen=True, eq=False)
class WindowValueQuantiles(WindowSummary):
    """The summary of a window's events, bin by bin; `known` is of one window."""

    per_octave: int
    epsilon_parts: int
    known: Known

    form: ClassVar[int] = 7
    kinds: ClassVar[tuple[int, ...]] = ValueQuantiles.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowValueQuantiles":
        summary = ValueQuantiles.from_bytes(state)
        parameters = summary.parameters
        at = summary.now if now is None else now
        known = known_of(parameters, state, at, windows([n], parameters.span))
        return cls._kept(parameters.bins_per_octave, parameters.epsilon_parts, known)

    @classmethod
    def _kept(cls, per_octave: int, epsilon: int, known: Known) -> "WindowValueQuantiles":
        kept = np.flatnonzero(known.counts[1, 0])
        return cls(
            per_octave, epsilon, Known(known.bins[kept], known.counts[:, :, kept], known.totals)
        )

    def merge(self, *others: "WindowValueQuantiles") -> "WindowValueQuantiles":
        parts = (self, *others)
        made_with = self.per_octave, self.epsilon_parts
        must_agree(made_with, tuple((other.per_octave, other.epsilon_parts) for other in others))
        if sum(int(part.known.counts[1].sum()) for part in parts) > _MOST_EVENTS:
            raise WindowTooLargeError("the windows hold more than 2^41 events together")
        return self._kept(*made_with, united([part.known for part in parts]))

    def quantile(self, quantile: float) -> Estimate:
        """Return a quantile, from 0 to 1 of at most six decimals; NaN for no events."""
        found = bins_of(self.known, 0, parts_of(quantile))
        return Estimate(*map(float, figures_of(found, mapping_of(self.per_octave))[:, 0]))

    def rank(self, value: float) -> Rank:
        """Return how many events are at most `value`, how many more, and the shares of both."""
        cuts = cuts_of(value, mapping_of(self.per_octave))
        return rank_of(ranks_of(self.known, 0, cuts)[:, :, 0])

    def figures(self, quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("quantile", self.quantile(p), quantile=p) for p in quantiles]

    def body(self) -> bytes:
        bins = self.known.bins.tolist()
        lows, highs = self.known.counts[:, 0].tolist()
        least, most = self.known.totals[:, 0].tolist()
        numbers = [self.per_octave, self.epsilon_parts, least, most - least, len(bins)]
        before = None
        for place, low, high in zip(bins, lows, highs, strict=True):
            numbers.append(int(wire.zigzag(place)) if before is None else place - before - 1)
            numbers += [low, high - low]
            before = place
        return b"".join(map(varint, numbers))

    @classmethod
    def from_body(cls, body: Body) -> "WindowValueQuantiles":
        per_octave = body.number(1, 1_000)
        epsilon = body.number(1, PARTS)
        if ValueQuantileParameters.of_bytes(per_octave, epsilon, 1) is None:
            raise damaged()
        least = body.number(most=_MOST_EVENTS)
        most = least + body.number(most=_MOST_EVENTS)
        highest = most_bins(per_octave) | 7
        count = body.number(most=2 * highest + 1)
        rows = []
        place = 0
        for i in range(count):
            step = body.number(most=4 * highest)
            place = int(wire.unzigzag(step)) if i == 0 else place + 1 + step
            low = body.number(most=_MOST_EVENTS)
            rows.append((place, low, low + body.number(most=_MOST_EVENTS)))
        found = np.array(rows, np.int64).reshape(-1, 3).T
        bins, counts = found[0], found[1:, np.newaxis]
        if len(bins) and not (-highest <= bins[0] and bins[-1] <= highest):
            raise damaged()
        if int(counts[1].sum()) > _MOST_EVENTS or not counts[1].all():
            raise damaged()
        return cls(per_octave, epsilon, Known(bins, counts, np.array([[least], [most]], np.int64)))
