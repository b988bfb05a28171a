"""All keys of a batch in one call: frequent items in pairs, items and events in, lists out.

`PairedItems` is the same for a single key.
"""

from collections.abc import Sequence

from slidestat.synopses.core.batch import Batch, split
from slidestat.synopses.frequent.frequent_batch import FrequentBatch, part_of
from slidestat.synopses.frequent_pairs.parameters import PairedParameters
from slidestat.synopses.frequent_pairs.run import run_pairs


def run_paired_items_batch(
    parameters: PairedParameters, states: Sequence[bytes | None], batch: Batch, share: float
) -> FrequentBatch:
    """Feed and ask many summaries of frequent items in pairs at once, one a group (key).

    All is as of `run_frequent_batch`, but for the cost: O(bytes in + events + bytes out) amortised;
    of a query and window O(entries + items listed * log). Raises SynopsisError.
    """
    ran = run_pairs(parameters, states, batch, batch.items(), part_of(share), 0)
    return FrequentBatch(split(ran.out, ran.offsets), ran.ends, *ran.lists, *ran.facts)
