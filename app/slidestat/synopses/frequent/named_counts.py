"""How often chosen items came, whether a summary lists them or not.

Source: Arasu and Manku 2004, lemma 4.1; frequent_pairs/layout.py. A listed item has its own
bounds, any other one 0 and what an item that is not listed may have at most. So upper - lower is
below epsilon m for every item, m being the window's events, and the estimate is in the middle.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.distinct.item_ids import item_ids
from slidestat.synopses.frequent.named_batch import ItemParameters, run_named_items_batch


def run_item_counts(
    parameters: ItemParameters,
    states: Sequence[bytes | None],
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    texts: Sequence[str],
) -> tuple[list[bytes], Floats]:
    """Return the states, and float64[3, queries, spans, texts]: estimates, lowers and uppers.

    states, query_starts, query_times, spans, and what is raised: as of `run_named_items_batch`,
    which this costs. Two texts with one id count as one (named_items.py).
    """
    starts = np.zeros(len(states) + 1, np.int64)
    asked = Batch(starts, (), (), query_starts, query_times, spans)
    batch = run_named_items_batch(parameters, states, asked, (), 0)
    ids = item_ids(texts)
    queries, windows = batch.unlisted.shape
    counts = np.empty((3, queries, windows, len(ids)))
    for query in range(queries):
        for window in range(windows):
            place = query * windows + window
            listed = slice(batch.ends[place], batch.ends[place + 1])
            counts[:, query, window] = counts_of(
                ids,
                batch.items[listed],
                batch.lowers[listed],
                batch.uppers[listed],
                int(batch.unlisted[query, window]),
            )
    return batch.states, counts


def counts_of(
    ids: Integers, items: Integers, lowers: Integers, uppers: Integers, unlisted: int
) -> Floats:
    """Return float64[3, ids]: estimates, lowers and uppers of `ids`, of which some are listed."""
    counts = np.zeros((3, len(ids)))
    counts[2] = unlisted
    order = np.argsort(items)
    places = np.searchsorted(items[order], ids)
    for i, place in enumerate(places.tolist()):
        if place < len(order) and items[order[place]] == ids[i]:
            counts[1:, i] = lowers[order[place]], uppers[order[place]]
    counts[0] = (counts[1] + counts[2]) / 2
    return counts
