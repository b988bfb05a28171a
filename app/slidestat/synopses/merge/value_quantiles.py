"""Quantiles by value, and ranks of values, over the union of a bundle's parts.

Contract: as of one part (value_quantiles/sketch.py), with m the events of the union: both errors
stay. Cost: O(bytes), and of a window O(bins).
Proof: bins of parts with equal parameters are the same bins. Of each part, L <= N <= U for the
events beyond a bin's edge, and (U - L) / (U + L) is at most d; so it is for the sums of L, N and U
over the parts, and for those of all events with d^2 (bounds.py). Nothing else is used there.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import windows
from slidestat.synopses.core.quantile_parts import parts_of
from slidestat.synopses.merge.asked import UnionAnswers, ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.value_quantiles.batch import cuts_of, figures_of
from slidestat.synopses.value_quantiles.bounds import answer
from slidestat.synopses.value_quantiles.known import Known, known_of
from slidestat.synopses.value_quantiles.mapping import NOT_FINITE, mapping_of
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.synopses.value_quantiles.sketch import ValueQuantiles


def united(parts: Sequence[Known]) -> Known:
    """Return what is known of the events of all parts together, over the same windows."""
    bins = np.unique(np.concatenate([part.bins for part in parts]))
    totals = np.sum([part.totals for part in parts], axis=0)
    counts = np.zeros((2, totals.shape[1], len(bins)), np.int64)
    for part in parts:
        counts[:, :, np.searchsorted(bins, part.bins)] += part.counts
    return Known(bins, counts, totals)


def union_value_quantiles(
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
    quantiles: npt.ArrayLike,
) -> UnionAnswers:
    """Answer for the windows [time - span, time): float64[bundles, spans, quantiles].

    times: int64[B]; spans: int64[K], 1 to the span kept; quantiles: numbers from 0 to 1, of at most
    six decimals. NaN for no events. Raises SynopsisError as `ask` does.
    """
    parameters, windows_of = _known(bundles, times, spans)
    parts = parts_of(quantiles)
    found = np.array([[bins_of(*window, parts) for window in row] for row in windows_of])
    found = np.moveaxis(found.reshape(len(bundles), -1, 3, len(parts)), 2, 0)
    return UnionAnswers(*figures_of(found, mapping_of(parameters.bins_per_octave)))


def union_value_ranks(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, values: npt.ArrayLike
) -> Floats:
    """Return float64[4, 3, bundles, spans, values]: ranks as `run_value_quantile_batch` has them.

    times, spans and errors raised: as of `union_value_quantiles`; SynopsisError for a NaN, too.
    """
    parameters, windows_of = _known(bundles, times, spans)
    cuts = cuts_of(values, mapping_of(parameters.bins_per_octave))
    ranks = np.array([[ranks_of(*window, cuts) for window in row] for row in windows_of])
    return np.moveaxis(ranks.reshape(len(bundles), -1, 4, 3, cuts.shape[1]), (2, 3), (0, 1))


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
    places, _ = _answered(known, window, parts, np.empty((2, 0), np.int64))
    if not len(known.bins):
        return np.full(places.shape, NOT_FINITE)
    return np.where(places < 0, NOT_FINITE, known.bins[np.maximum(places, 0)])


def ranks_of(known: Known, window: int, cuts: Integers) -> Floats:
    """Return float64[4, 3, cuts]: ranks of the values between these bins (`cuts_of`)."""
    return _answered(known, window, np.empty(0, np.int64), np.searchsorted(known.bins, cuts))[1]


def _answered(
    known: Known, window: int, parts: Integers, cuts: Integers
) -> tuple[Integers, Floats]:
    lows, highs = np.cumsum(known.counts[:, window], axis=1)
    least, most = known.totals[:, window].tolist()
    places = np.empty((3, len(parts)), np.int64)
    ranks = np.empty((4, 3, cuts.shape[1]), np.float64)
    answer(lows, highs, least, most, parts, cuts, places, ranks)
    return places, ranks
