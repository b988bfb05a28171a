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

Frequent items by name, and counts of chosen items, over the union of a bundle's parts.

Contract: the same for texts: counts are added up by the texts' ids, of which one text
has the same in every part. A text is shown as the first part that lists it has it, which for texts
with one id (named_items.py) may differ between parts. Cost: as there, and the bytes of the texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.frequent.answer import PARTS
from slidestat.synopses.frequent.frequent_items import (
    FrequentBatch,
    FrequentItems,
    run_frequent_batch,
)
from slidestat.synopses.frequent.named_batch import (
    ItemParameters,
    NamedBatch,
    counts_of,
    run_named_items_batch,
)
from slidestat.synopses.frequent.named_items import NamedItem, NamedItems
from slidestat.synopses.frequent_pairs.paired_items import PairedItems, run_paired_items_batch
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


class UnionNamedItems(NamedTuple):
    """The texts that may have the share in the union of one bundle's windows, most frequent first.

    unlisted: what a text that no part lists may have at most; events_low and events_high bound the
    events of the window.
    """

    items: list[NamedItem]
    unlisted: int
    events_low: int
    events_high: int


def union_named_items(
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
    share: float,
    instead: int = 0,
) -> list[list[UnionNamedItems]]:
    """Return, for each bundle and span, the texts that may have `share` of [time - span, time).

    times, spans, share and what is raised: as of `union_items`; instead: as of
    `run_named_items_batch`.
    """
    asked: Asked[ItemParameters] = ask(PairedParameters, NamedItems.kinds, bundles, times, spans)
    check_share(share, asked.parameters.epsilon)
    parts = _all_listed(asked)
    ids, first = np.unique(parts.items, return_index=True)
    name_of = {item: parts.names[at] for item, at in zip(ids.tolist(), first.tolist(), strict=True)}
    lists = []
    for start, end in zip(asked.starts[:-1].tolist(), asked.starts[1:].tolist(), strict=True):
        windows = []
        for k in range(len(asked.spans)):
            found = united(parts, range(start, end), k, share, instead)
            bounds = zip(
                found.items.tolist(), found.lowers.tolist(), found.uppers.tolist(), strict=True
            )
            items = [
                NamedItem(name_of[item], (low + high) / 2, float(low), float(high))
                for item, low, high in bounds
            ]
            items.sort(key=lambda item: (-item.estimate, item.text))
            windows.append(
                UnionNamedItems(items, found.unlisted, found.events_low, found.events_high)
            )
        lists.append(windows)
    return lists


def union_item_counts(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, texts: Sequence[str]
) -> Floats:
    """Return float64[3, bundles, spans, texts]: estimates, lowers and uppers of how often each text
    came in [time - span, time).

    times, spans and what is raised: as of `union_items`. Cost: as there.
    """
    asked: Asked[ItemParameters] = ask(PairedParameters, NamedItems.kinds, bundles, times, spans)
    parts = _all_listed(asked)
    ids = item_ids(texts)
    counts = np.empty((3, len(bundles), len(asked.spans), len(ids)))
    for bundle, (start, end) in enumerate(pairwise(asked.starts.tolist())):
        for k in range(len(asked.spans)):
            found = united(parts, range(start, end), k, 0)
            counts[:, bundle, k] = counts_of(
                ids, found.items, found.lowers, found.uppers, found.unlisted
            )
    return counts


def _all_listed(asked: Asked[ItemParameters]) -> NamedBatch:
    """Return all items that each part lists in each window."""
    return run_named_items_batch(asked.parameters, asked.states, asked.batch(), (), 0)
