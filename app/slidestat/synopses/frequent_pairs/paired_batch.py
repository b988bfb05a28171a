"""All keys of a batch in one call: frequent items in pairs, items and events in, lists out.

`PairedItems` is the same for a single key.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.batch import integers, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import keyed_batch
from slidestat.synopses.frequent.frequent_answer import PARTS
from slidestat.synopses.frequent.frequent_batch import FrequentBatch
from slidestat.synopses.frequent_pairs.parameters import PairedParameters
from slidestat.synopses.frequent_pairs.run import run_pairs


def run_paired_items_batch(
    parameters: PairedParameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    items: npt.ArrayLike,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    share: float,
    advances: npt.ArrayLike | None = None,
) -> FrequentBatch:
    """Feed and ask many summaries of frequent items in pairs at once, one a group (key).

    All is as of `run_frequent_batch`, but for the cost: O(bytes in + events + bytes out) amortised;
    of a query and window O(entries + items listed * log). Raises SynopsisError.
    """
    if not (0 <= share <= 1):
        raise SynopsisError(f"a share must be a number from 0 to 1, not {share!r}")
    column = integers("items", items)
    batch = keyed_batch(
        parameters.span,
        states,
        starts,
        times,
        np.empty(len(column)),
        query_starts,
        query_times,
        spans,
        advances,
    )
    ran = run_pairs(parameters, batch, column, round(share * PARTS), 0)
    return FrequentBatch(split(ran.out, ran.offsets), ran.ends, *ran.lists, *ran.facts)
