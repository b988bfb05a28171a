"""Windows that ended some time ago: what a state knows of two windows, one less the other.

Let a state be asked at T. The window of length n that ended d ago, [T - d - n, T - d), is what is
in the window of d + n and not in that of d, both of which end at T. Contract: lower <= exact <=
upper, always, for every n and d with n + d up to the span kept; the estimate of a count, a sum or a
cut spread is the middle of its bounds, and so within half their width of what is exact. No event
that came after T - d changes what is exact: events are taken in by rising time. How each of them
follows from two windows that end at T: docs/proofs.md.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.batch import parts_of
from slidestat.synopses.core.rounding import rounded_sum
from slidestat.synopses.frequent.named_items import NamedBatch
from slidestat.synopses.merge.value_quantiles import bins_of
from slidestat.synopses.moments.spread import spreads_between
from slidestat.synopses.value_quantiles.batch import figures_of
from slidestat.synopses.value_quantiles.mapping import mapping_of
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.synopses.value_quantiles.sketch import Known, known_of


def past_totals(totals: Floats) -> Floats:
    """Return float64[3, Q, W, ...], estimates, lowers and uppers of counts, or of sums of what is
    not negative, from float64[3, Q, W + 1, ...]: those over the longer windows, and at last over
    what came since.

    Bounds are rounded outwards where a double cannot hold them.
    """
    longer, since = totals[:, :, :-1], totals[:, :, -1:]
    lowers = np.maximum(rounded_sum(longer[1], -since[2], -np.inf), 0.0)
    uppers = np.maximum(rounded_sum(longer[2], -since[1], np.inf), lowers)
    return np.stack((lowers + (uppers - lowers) / 2, lowers, uppers))


def past_value_quantiles(
    parameters: ValueQuantileParameters,
    state: bytes,
    now: int,
    windows: Sequence[int],
    ago: int,
    quantiles: npt.ArrayLike,
) -> Floats:
    """Return float64[3, windows, quantiles]: those by value of a stored state, over the windows
    that ended `ago` before `now`; NaN where there is certainly no event.

    Raises SynopsisError as `known_of`. Cost: O(bytes).
    """
    parts = parts_of(quantiles)
    spans = np.array([*(window + ago for window in windows), ago], np.int64)
    known = known_of(parameters, state, now, spans)
    (low, high), totals = known.counts, known.totals
    past = Known(
        known.bands,
        np.stack((np.maximum(low[:-1] - high[-1], 0), high[:-1] - low[-1])),
        np.stack((np.maximum(totals[0, :-1] - totals[1, -1], 0), totals[1, :-1] - totals[0, -1])),
    )
    found = np.array([bins_of(past, place, parts) for place in range(len(windows))], np.int64)
    found = np.moveaxis(found.reshape(len(windows), 3, len(parts)), 0, 1)
    return figures_of(found, mapping_of(parameters.bins_per_octave))


def past_spreads(state: bytes, now: int, windows: Sequence[int], ago: int) -> Floats:
    """Return float64[statistic, 3, windows], `large_spread` of windows that ended `ago` earlier."""
    end = now - ago
    found = spreads_between(state, [(end - window, end) for window in windows])
    return np.moveaxis(found, 0, -1)


class PastItem(NamedTuple):
    """An item, and bounds on how often it came."""

    name: str
    lower: int
    upper: int


class PastList(NamedTuple):
    """The items that may have come in a window, and how many events it has at least."""

    items: list[PastItem]
    events_low: int


def past_items(batch: NamedBatch, query: int, window: int, since: int) -> PastList:
    """Return the items of a past window, from the lists of a query over the longer window, at place
    `window` among its spans, and over what came after, at place `since`. Both have all items that
    are held: they are lists for a share of 0.
    """
    after = batch.listed(query, since)
    bounds = {item: (low, high) for item, _, low, high in after}
    other = 0, int(batch.unlisted[query, since])
    items = []
    for item, name, low, high in batch.listed(query, window):
        low_since, high_since = bounds.get(item, other)
        if high > low_since:
            items.append(PastItem(name, max(low - high_since, 0), high - low_since))
    events = int(batch.events_low[query, window]) - int(batch.events_high[query, since])
    return PastList(items, max(events, 0))
