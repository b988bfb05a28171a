"""How often each item came, of one key over any window: frequent items in a few kilobytes.

Source: Misra and Gries, "Finding repeated elements" (1982); Lee and Ting, "A simpler and more
efficient deterministic scheme for finding frequent items over sliding windows" (2006); for any
window at once, Arasu and Manku (2004), section 6.

Contract: that of frequent_items.py. With m events in the window [now - n, now), for every item,
seen or not, lower <= its count <= upper and upper - lower < epsilon m, or 0; the estimate is in the
middle. A list for a share s >= epsilon misses no item with at least s m events, and has none with
less than (s - 2 epsilon) m. Up to 10/epsilon events counts are exact. Proofs: layout.py, marks.py.
Space: O(1/epsilon log(epsilon m)) entries of three bytes or so, and 8 bytes for each item held.
Cost: an event O(1) amortised; a query O(entries). Order: times must not fall. Merge: bounds of
separate streams add up (merge/items.py).

>>> from slidestat.synopses import PairedItems, PairedParameters
>>> pages = PairedItems.create(PairedParameters(epsilon=0.01, span=60_000))
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
>>> pages.query(60_000, 9)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, split
from slidestat.synopses.core.envelope import damaged, refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.frequent.frequent_items import (
    FrequentBatch,
    FrequentItem,
    ItemSummary,
    part_of,
)
from slidestat.synopses.frequent_pairs.decoding import read_numbers, read_parameters
from slidestat.synopses.frequent_pairs.layout import NOW, PAIRED, STATE_SIZE
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


__all__ = ["FrequentItem", "PairedItems", "PairedParameters"]


class PairedItems(ItemSummary[PairedParameters]):
    """A synopsis of the items of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (PAIRED,)

    is_checked_when_read = True
    run_batch = staticmethod(run_paired_items_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[PairedParameters, int]:
        parameters, state, _ = _start_of(data)
        return parameters, int(state[NOW])

    def stored_entries(self) -> int:
        """Return how many different items the state holds."""
        return _start_of(self._data)[2]

    def check(self) -> None:
        """Raise SynopsisError unless the state is one that is written: what reading checks."""
        if self._moved(np.empty(0, np.int64), self._no_values(), None) != self._data:
            raise damaged()


def _start_of(data: bytes) -> tuple[PairedParameters, Integers, int]:
    """Return the parameters and numbers of a state, and how many items it holds."""
    array = np.frombuffer(bytearray(data), np.uint8)
    error_code, number, epsilon, at = read_parameters(array, 0, len(array), PAIRED)
    if error_code != error_codes.OK:
        raise refused(data, error_code, int(number), PAIRED)
    try:
        parameters = PairedParameters(float(epsilon), int(number))
    except SynopsisError:
        raise damaged() from None
    state = np.empty(STATE_SIZE, np.int64)
    held, at = read_numbers(array, at, len(array), state)
    if at < 0:
        raise damaged()
    return parameters, state, int(held)
