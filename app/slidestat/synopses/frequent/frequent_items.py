"""How often each item came, of one key over any window: the frequent ones, and none missed.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004): their
deterministic sketch of counts for fixed-size, variable-size and n-of-N windows, as one set of
blocks; Misra and Gries, "Finding repeated elements" (1982), for a block.

Contract: with m events in the window [now - n, now), n <= N, for every item, seen or not,
lower <= its count <= upper and upper - lower < epsilon m; the estimate, in the middle, is off by
less than half of that. A list for a share s >= epsilon misses no item with at least s m events, and
has none with less than (s - 2 epsilon) m. Up to 2^(levels + 2) events, about 10/epsilon, counts
are exact. Proofs: blocks.py, frequent_layout.py, frequent_answer.py.
Made with `FixedFrequentParameters`, it is for the window of the last `span` events alone, each with
a number of its own, in O(1/epsilon log^2(1/epsilon)) items and the fresh ones (one_window.py); of
windows of n < span events, bounds lie less than epsilon min(span, events so far) apart then.
Items are 64-bit numbers. A state then is flat and bounded by the theorem, whatever items are
called; names are the caller's: a number that they already have, or a 64-bit hash of them.
Space: O(1/epsilon log^2(1/epsilon) log(epsilon m)) items; few events or few items, few bytes.
Cost: an event O(log(1/epsilon)) amortised; a query O(items listed * log).
Order: times must not fall. Merge: merge/item_union.py; bounds of separate streams add up. (Blocks
are numbered by one stream's events.)

>>> from slidestat.synopses import FrequentItems, FrequentParameters
>>> pages = FrequentItems.create(FrequentParameters(epsilon=0.01, span=60_000))
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
>>> pages.query(60_000, 9)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from typing import ClassVar

from slidestat.synopses.blocks.memory import FIXED_FREQUENT, FREQUENT
from slidestat.synopses.blocks.parameters import FixedFrequentParameters, FrequentParameters
from slidestat.synopses.blocks.summary import BlockSummary
from slidestat.synopses.core.batch import NO_QUERIES
from slidestat.synopses.core.stored import asking
from slidestat.synopses.frequent.frequent_batch import FrequentBatch, run_frequent_batch
from slidestat.synopses.frequent.item_summary import FrequentItem, ItemSummary

__all__ = ["FrequentItem", "FrequentItems", "FrequentParameters"]


class FrequentItems(BlockSummary[FrequentParameters], ItemSummary[FrequentParameters]):
    """A synopsis of the items of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (FREQUENT,)
    kind: ClassVar[int] = FREQUENT
    fixed_kind: ClassVar[int] = FIXED_FREQUENT
    shares: ClassVar[int] = 1

    def _epsilon(self) -> float:
        return self._parameters.epsilon

    def _asked(self, n: int, share: float, at: int) -> FrequentBatch:
        batch = asking(NO_QUERIES, at, n)
        return run_frequent_batch(self.parameters, [self._data], batch, share)

    @classmethod
    def _made_with(
        cls,
        shares: list[float],
        span: int,
        seed: int,  # noqa: ARG003
        *,
        fixed: bool,
    ) -> FrequentParameters:
        return (FixedFrequentParameters if fixed else FrequentParameters)(shares[0], span)
