"""All keys of a batch in one call: summaries of frequent items and events in, lists out.

`FrequentItems` is the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.blocks.run import run_blocks
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.frequent.frequent_answer import PARTS


@dataclass(frozen=True)
class FrequentBatch:
    """The result of a batch: the new state of each group, and a list for each query and span.

    The list of query q and span k is items[at:to] with lowers[at:to] and uppers[at:to], rising by
    item, where at, to = ends[q * spans + k], ends[q * spans + k + 1]. unlisted[q, k] is what any
    other item's count may be at most; events_low and events_high bound the window's events.
    """

    states: list[bytes]
    ends: Integers
    items: Integers
    lowers: Integers
    uppers: Integers
    unlisted: Integers
    events_low: Integers
    events_high: Integers


def part_of(share: float) -> int:
    """Return a share, 0 to 1, in whole millionths; raises SynopsisError for any other number."""
    if not (0 <= share <= 1):
        raise SynopsisError(f"a share must be a number from 0 to 1, not {share!r}")
    return round(share * PARTS)


def run_frequent_batch(
    parameters: FrequentParameters, states: Sequence[bytes | None], batch: Batch, share: float
) -> FrequentBatch:
    """Feed and ask many summaries of frequent items at once, one a group (key).

    The values are items, int64. share: each list has all items that may have at least this share of
    the window's events, 0 to 1, taken to the millionth, and none that is short of it by
    2 epsilon of them or more. With a share of at least epsilon, no item that has it is missing;
    with less, one that is not listed has at most `unlisted`.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries before a state's time, for items that are not 64-bit
    whole numbers, and for windows of more than 2^40 events. Cost: O(bytes in + events *
    log(1/epsilon) + bytes out), and of a query and window O(items listed * log). Source: Arasu and
    Manku 2004.
    """
    parts = np.array([part_of(share), 0], np.int64)
    result = run_blocks(parameters, states, batch, batch.items(), parts)
    return FrequentBatch(result.states, result.ends, *result.lists, *result.facts)
