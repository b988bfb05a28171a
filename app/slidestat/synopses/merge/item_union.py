"""Frequent items over the union of a bundle's parts.

Source: Arasu and Manku 2004, lemma 4.1 (counts of disjoint parts of a window add up), for parts of
several streams.

Contract: as of one part (frequent_items.py), with m the events of the union: for every item, seen
or not, lower <= its count <= upper, and upper - lower < epsilon m or 0; the estimate is in the
middle. A list for a share s >= epsilon misses no item with s m events or more, and has none with
less than (s - 2 epsilon) m. Cost: one batch over all parts, and O(items * log).

Proof. Each count is a sum of the parts' counts, so bounds add up: of an item that a part does not
list, they are 0 and that part's bound for such items. The widths add up to less than
sum epsilon m_i = epsilon m. Of an item that no part lists, the upper bound is the sum of those
bounds, and less than epsilon m: it does not have a share of epsilon.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.frequent.frequent_answer import PARTS
from slidestat.synopses.frequent.frequent_batch import FrequentBatch, run_frequent_batch
from slidestat.synopses.frequent.frequent_items import FrequentItems
from slidestat.synopses.frequent.named_batch import NamedBatch
from slidestat.synopses.frequent_pairs.paired_batch import run_paired_items_batch
from slidestat.synopses.frequent_pairs.paired_items import PairedItems
from slidestat.synopses.frequent_pairs.parameters import PairedParameters
from slidestat.synopses.merge.asked import Asked, ask
from slidestat.synopses.merge.bundle import Bundle


@dataclass(frozen=True)
class UnionItems:
    """The items that may have the share in the union of one bundle's windows, rising by item.

    items, lowers, uppers: int64, alike. unlisted: what an item that no part lists may have at most.
    events_low and events_high bound the events of the window.
    """

    items: Integers
    lowers: Integers
    uppers: Integers
    unlisted: int
    events_low: int
    events_high: int


def union_items(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, share: float
) -> list[list[UnionItems]]:
    """Return, for each bundle and span, the items that may have `share` of [time - span, time).

    times: int64[B]; spans: int64[K], 1 to the span kept. share: from epsilon, or 0 for all items
    that are known, to 1, taken to the millionth. Raises SynopsisError as `ask` does, and for a
    share below epsilon that is not 0, for items would be missed.
    """
    asked: Asked[FrequentParameters | PairedParameters] = ask(
        PairedParameters, (*FrequentItems.kinds, *PairedItems.kinds), bundles, times, spans
    )
    check_share(share, asked.parameters.epsilon)
    made_with, states = asked.parameters, asked.states
    if isinstance(made_with, PairedParameters):
        parts = run_paired_items_batch(made_with, states, asked.batch(), 0)
    else:
        parts = run_frequent_batch(made_with, states, asked.batch(), 0)
    return [
        [united(parts, range(first, last), k, share) for k in range(len(asked.spans))]
        for first, last in zip(asked.starts[:-1].tolist(), asked.starts[1:].tolist(), strict=True)
    ]


def check_share(share: float, epsilon: float) -> None:
    """Raise SynopsisError for a share at which items would be missed, or that is none."""
    if not (share == 0 or epsilon <= share <= 1):
        raise SynopsisError(f"a share must be 0, or from epsilon, {epsilon}, to 1, not {share!r}")


def united(
    batch: FrequentBatch | NamedBatch, parts: range, k: int, share: float, instead: int = 0
) -> UnionItems:
    """Add up what `parts` know of window k: counts of items that are numbers, or ids of texts.

    Where no item has the share and counts are exact, the `instead` most frequent ones are listed.
    """
    spans = batch.unlisted.shape[1]
    slices = [
        slice(batch.ends[part * spans + k], batch.ends[part * spans + k + 1]) for part in parts
    ]
    mine = slice(parts.start, parts.stop)
    unlisted = int(batch.unlisted[mine, k].sum())
    fewest = int(batch.events_low[mine, k].sum())
    most = int(batch.events_high[mine, k].sum())
    known = np.concatenate([batch.items[at] for at in slices])
    items, which = np.unique(known, return_inverse=True)
    lowers = np.zeros(len(items), np.int64)
    uppers = np.full(len(items), unlisted, np.int64)
    np.add.at(lowers, which, np.concatenate([batch.lowers[at] for at in slices]))
    # of a part that lists it, an item has its own upper bound in place of that for all others
    more = [
        batch.uppers[at] - batch.unlisted[part, k] for part, at in zip(parts, slices, strict=True)
    ]
    np.add.at(uppers, which, np.concatenate(more))
    # whole numbers of any length: 10^6 times the events of a window need not fit in 64 bits
    least = -(-round(share * PARTS) * fewest // PARTS)
    listed = uppers >= least
    are_exact = not unlisted and bool((lowers == uppers).all())
    if are_exact and not listed.any():
        listed[np.argsort(-lowers, kind="stable")[:instead]] = True
    return UnionItems(items[listed], lowers[listed], uppers[listed], unlisted, fewest, most)
