"""Quantiles by value, and ranks of values, over the union of a bundle's parts.

Proof that both errors of one part stay: bins of parts with equal parameters are the same bins. Each
part has L <= N <= U for the events beyond a bin's edge, and (U - L) / (U + L) is at most d; so it
is for the sums of L, N and U over the parts, and for those of all events with d^2 (bounds.py).
Nothing else is used there. Cost: O(bytes), and of a window O(bins).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import wire
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import parts_of, windows
from slidestat.synopses.core.envelope import Body, damaged, varint
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.core.stored import time_in_range
from slidestat.synopses.merge.bundle import Bundle, UnionAnswers, ask
from slidestat.synopses.merge.summary import WindowFigure, WindowSummary, must_agree
from slidestat.synopses.value_quantiles import bands
from slidestat.synopses.value_quantiles.batch import cuts_of, figures_of
from slidestat.synopses.value_quantiles.bounds import answer_by_bands
from slidestat.synopses.value_quantiles.mapping import mapping_of, most_bins
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.synopses.value_quantiles.sketch import Known, Rank, ValueQuantiles, known_of, rank_of


def united(parts: Sequence[Known]) -> Known:
    """Return what is known of the events of all parts together, over the same windows."""
    ids = np.unique(np.concatenate([part.bands for part in parts]))
    totals = np.sum([part.totals for part in parts], axis=0)
    counts = np.zeros((2, totals.shape[1], len(ids), bands.WIDTH), np.int64)
    for part in parts:
        counts[:, :, np.searchsorted(ids, part.bands)] += part.counts
    return Known(ids, counts, totals)


def union_value_quantiles(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, quantiles: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time): float64[bundles, spans, quantiles].

    times: int64[B]; spans: int64[K], 1 to the span kept; quantiles: numbers from 0 to 1, of at most
    six decimals. NaN for no events. Raises SynopsisError as `ask` does.
    """
    parameters, windows_of = _known(bundles, times, spans)
    parts = parts_of(quantiles)
    found = np.array([[bins_of(*window, parts) for window in row] for row in windows_of], np.int64)
    shape = len(bundles), len(windows_of[0]), 3, len(parts)
    found = np.moveaxis(found.reshape(shape), 2, 0)
    return UnionAnswers(*figures_of(found, mapping_of(parameters.bins_per_octave)))


def union_value_ranks(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, values: npt.ArrayLike
) -> Floats:
    """Return float64[4, 3, bundles, spans, values]: ranks as `run_value_quantile_batch` has them.

    times, spans and errors raised: as of `union_value_quantiles`; SynopsisError for a NaN, too.
    """
    parameters, windows_of = _known(bundles, times, spans)
    cuts = cuts_of(values, mapping_of(parameters.bins_per_octave))
    ranks = np.array([[ranks_of(*window, cuts) for window in row] for row in windows_of], float)
    shape = len(bundles), len(windows_of[0]), 4, 3, cuts.shape[1]
    return np.moveaxis(ranks.reshape(shape), (2, 3), (0, 1))


def _known(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> tuple[ValueQuantileParameters, list[list[tuple[Known, int]]]]:
    """Return what is known of each bundle's union, with the place of each of the windows."""
    asked = ask(ValueQuantileParameters, ValueQuantiles.kinds, bundles, times, spans)
    lengths = windows(asked.spans, asked.parameters.span)
    rows = []
    for first, last in pairwise(asked.starts.tolist()):
        known = united(
            [
                known_of(asked.parameters, asked.states[part], int(asked.times[part]), lengths)
                for part in range(first, last)
            ]
        )
        rows.append([(known, window) for window in range(len(lengths))])
    return asked.parameters, rows


def bins_of(known: Known, window: int, parts: Integers) -> Integers:
    """Return the bins of (estimate, lower, upper) of each quantile, int64[3, parts]."""
    return _answered(known, window, parts, np.empty((2, 0), np.int64))[0]


def ranks_of(known: Known, window: int, cuts: Integers) -> Floats:
    """Return float64[4, 3, cuts]: ranks of the values between these bins (`cuts_of`)."""
    return _answered(known, window, np.empty(0, np.int64), cuts)[1]


def _answered(
    known: Known, window: int, parts: Integers, cuts: Integers
) -> tuple[Integers, Floats]:
    size = len(known.bands)
    table = np.zeros((bands.ROWS, size), np.int64)
    table[bands.ID] = known.bands
    table[bands.START] = 2 * np.arange(size)
    table[bands.END] = table[bands.START] + 2
    # A band has what surely is in the window in a cell, and what may be in an older one.
    low, high = known.counts[:, window].cumsum(axis=-1)
    cells = np.zeros((size, 2, bands.COLUMNS), np.int64)
    cells[:, 0, : bands.WIDTH] = high - low
    cells[:, 1, : bands.WIDTH] = low
    cells[:, 1, bands.ONE_TIME] = 1
    lows, highs = np.cumsum(low[:, -1]), np.cumsum(high[:, -1])
    row = np.empty((2, bands.WIDTH), np.int64)
    found = np.empty((3, len(parts)), np.int64)
    ranks = np.empty((4, 3, cuts.shape[1]), np.float64)
    answer_by_bands(
        *(table, cells.reshape(-1, bands.COLUMNS), 0, lows, highs),
        *(*known.totals[:, window].tolist(), parts, cuts, row, found, ranks),
    )
    return found, ranks


# Quantiles by value of one window.
#
# As of a state, in any tree of merges: bounds on counts of separate windows add up. Space: three
# numbers for each bin that may have an event.
#
# The body (see summary.py) has the bins an octave, epsilon in millionths, the least number of
# events and by how much the most is above it; how many bins there are, and of each, by rising
# number: the number zigzag coded, or by how much it is above the one before, less 1; what it adds
# to the least number of events up to a bin; by how much what it adds to the most is above that.

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
        at = summary.now if now is None else time_in_range(now)
        known = known_of(parameters, state, at, windows([n], parameters.span))
        return cls._kept(parameters.bins_per_octave, parameters.epsilon_parts, known)

    @classmethod
    def _kept(cls, per_octave: int, epsilon: int, known: Known) -> "WindowValueQuantiles":
        kept = np.flatnonzero(known.counts[1, 0].any(axis=1))
        return cls(
            per_octave, epsilon, Known(known.bands[kept], known.counts[:, :, kept], known.totals)
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
        counts = self.known.counts[:, 0].reshape(2, -1)
        bins = np.add.outer(self.known.bands << bands.SHIFT, np.arange(bands.WIDTH)).reshape(-1)
        rows = np.stack((bins, *counts))[:, counts[1] > 0].T.tolist()
        least, most = self.known.totals[:, 0].tolist()
        numbers = [self.per_octave, self.epsilon_parts, least, most - least, len(rows)]
        before = None
        for place, low, high in rows:
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
        bins, lows, highs = np.array(rows, np.int64).reshape(-1, 3).T
        if len(bins) and not (-highest <= bins[0] and bins[-1] <= highest):
            raise damaged()
        if int(highs.sum()) > _MOST_EVENTS or not highs.all():
            raise damaged()
        ids, at = np.unique(bins >> bands.SHIFT, return_inverse=True)
        counts = np.zeros((2, 1, len(ids), bands.WIDTH), np.int64)
        counts[:, 0, at, bins & (bands.WIDTH - 1)] = lows, highs
        return cls(per_octave, epsilon, Known(ids, counts, np.array([[least], [most]], np.int64)))
