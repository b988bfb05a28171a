"""Frequent items by name, and counts of chosen items, over the union of a bundle's parts.

Contract: that of item_union.py, for texts: counts are added up by the texts' ids, of which one text
has the same in every part. A text is shown as the first part that lists it has it, which for texts
with one id (named_items.py) may differ between parts. Cost: as there, and the bytes of the texts.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.distinct.item_ids import item_ids
from slidestat.synopses.frequent.named_batch import (
    ItemParameters,
    NamedBatch,
    run_named_items_batch,
)
from slidestat.synopses.frequent.named_counts import counts_of
from slidestat.synopses.frequent.named_items import NamedItem, NamedItems
from slidestat.synopses.frequent_pairs.parameters import PairedParameters
from slidestat.synopses.merge.asked import Asked, ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.merge.item_union import check_share, united


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
