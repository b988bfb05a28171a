"""How often each item came, of one key over any window: the frequent ones, and none missed.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004): their
deterministic sketch of counts for fixed-size, variable-size and n-of-N windows, as one set of
blocks; Misra and Gries, "Finding repeated elements" (1982), for a block. What it promises and
costs: blocks/README.md. Why: docs/proofs.md.

Made with `FixedFrequentParameters`, it has O(1/epsilon log^2(1/epsilon)) items and the fresh ones
(one_window.py).

>>> from slidestat.synopses import FrequentItems, FrequentParameters
>>> pages = FrequentItems.create(FrequentParameters(epsilon=0.01, span=60_000))
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
>>> pages.query(60_000, 9)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from slidestat.synopses.blocks.memory import FREQUENT
from slidestat.synopses.blocks.parameters import (
    FixedFrequentParameters,
    FrequentParameters,
    SummaryParameters,
)
from slidestat.synopses.blocks.run import run_blocks
from slidestat.synopses.blocks.summary import BlockSummary
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import PARTS, is_from
from slidestat.synopses.core.stored import StoredItems


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
    if not is_from(0, 1, share):
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

    Raises SynopsisError also for items that are not 64-bit whole numbers, and for windows of more
    than 2^40 events. Cost: O(bytes in + events * log(1/epsilon) + bytes out), and of a query and
    window O(items listed * log). Source: Arasu and Manku 2004.
    """
    parts = np.array([part_of(share), 0], np.int64)
    result = run_blocks(parameters, states, batch, batch.items(), parts)
    return FrequentBatch(result.states, result.ends, *result.lists, *result.facts)


P = TypeVar("P", bound=SummaryParameters)


class FrequentItem(NamedTuple):
    """`lower <= count of item <= upper`; the estimate is in the middle."""

    item: int
    estimate: float
    lower: float
    upper: float


class ItemSummary(StoredItems[P]):
    """A synopsis of how often the items of one stream came."""

    def frequent(self, n: int, share: float, now: int | None = None) -> list[FrequentItem]:
        """Return the items that may have `share` of the window [now - n, now), most frequent first.

        1 <= n <= span; `now` as in `Stored`. The share is taken to the millionth; one below epsilon
        raises SynopsisError, for items would be missed.
        """
        epsilon = self._parameters.epsilon
        if not is_from(epsilon, 1, share):
            raise SynopsisError(f"a share must be from epsilon, {epsilon}, to 1, not {share!r}")
        return self._counts(n, share, now)[0]

    def query(self, n: int, item: int, now: int | None = None) -> Estimate:
        """Return the count of `item` in the window [now - n, now); n and now as for `frequent`.

        Raises SynopsisError for what is no whole number: no item is equal to it.
        """
        try:
            item = index(item)
        except TypeError:
            raise SynopsisError(f"an item must be a whole number, not {item!r}") from None
        counts, unlisted = self._counts(n, 0, now)
        for known in counts:
            if known.item == item:
                return Estimate(known.estimate, known.lower, known.upper)
        return Estimate(unlisted / 2, 0.0, float(unlisted))

    def _counts(self, n: int, share: float, now: int | None) -> tuple[list[FrequentItem], int]:
        result = self.listed(n, share, now)
        columns = (result.items.tolist(), result.lowers.tolist(), result.uppers.tolist())
        counts = [
            FrequentItem(item, (lower + upper) / 2, float(lower), float(upper))
            for item, lower, upper in zip(*columns, strict=True)
        ]
        counts.sort(key=lambda count: -count.estimate)
        return counts, int(result.unlisted[0, 0])

    def listed(self, n: int, share: float, now: int | None = None) -> FrequentBatch:
        """Return the items that may have `share`, 0 to 1, of a window, as a batch lists them."""
        return self._run(self._question(n, now), share)

    def _run(self, batch: Batch, share: float = 0) -> FrequentBatch:
        lists: FrequentBatch = type(self).run_batch(self._parameters, [self._data], batch, share)
        return lists


class FrequentItems(BlockSummary[FrequentParameters], ItemSummary[FrequentParameters]):
    """A synopsis of the items of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (FREQUENT,)
    run_batch = staticmethod(run_frequent_batch)
    made_with = FrequentParameters, FixedFrequentParameters
