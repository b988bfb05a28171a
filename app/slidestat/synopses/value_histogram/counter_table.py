"""How often each item came, over any window n <= N: a table with a windowed counter for each.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.1 (hash tables): an exponential histogram
stands where a counter would (cells.py). Items are 64-bit numbers, their own or hashes of names; the
table is kept by item, so that no two share a counter unless their hashes are equal.

Contract, always: of each item, and of each sum over items, lower <= exact <= upper and
|estimate - exact| <= exact / (2 l), l = ceil(1 / (2 epsilon)); an item that is not listed did not
come. From 2^52 on, the rounding of a double (2^-52) comes on top. Items leave when their last event
is `span` old. Space: a counter for each live item, of at most (l + 1)(log2(N' / l + 1) + 1) buckets
for its N' events, never more than their distinct times; a few bytes for one event.

What is bounded: the live items, by `capacity`. No table of exact membership can do with less than
the items there are; one with more than the capacity at any moment is refused, whole, by
WindowTooLargeError, wherever batches end. Where items have no bound, `FrequentItems` keeps those
that matter.

Update: O(buckets of the items touched + items + events log) a batch; query O(items log). Order:
times must not fall. Windows of the last n events: number the events and give the numbers as times.
Merge: a part of a bundle for `union_hashed_counts` (merge/totals.py) alone; counts of separate
streams add up by item, and the relative error stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import wire
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import NO_QUERIES, Batch, integers
from slidestat.synopses.core.envelope import damaged, numbers, opened, varint
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import (
    MAX_BUCKETS_PER_LEVEL,
    MAX_SPAN,
    CountParameters,
    check_whole,
)
from slidestat.synopses.core.stored import Stored
from slidestat.synopses.value_histogram.cells import check_cells
from slidestat.synopses.value_histogram.cells_batch import CellsBatch, Settings, inspect, run_cells

COUNTER_TABLE = 17
MAX_CAPACITY = 1_000_000


@dataclass(frozen=True)
class CounterTableParameters:
    """Counts of items over windows of up to `span`.

    epsilon: largest relative error of a count wanted, 10^-6 to 1. span: longest window kept, 1 to
    2^53, in the unit of the event times. capacity: how many items may be live at once, 1 to 10^6.
    Raises SynopsisError for anything else.
    """

    epsilon: float
    span: int
    capacity: int

    def __post_init__(self) -> None:
        CountParameters(self.epsilon, self.span)
        check_whole("capacity", self.capacity, 1, MAX_CAPACITY)

    @property
    def relative_error(self) -> float:
        """The promise, at most epsilon, for each item and each sum over items."""
        return CountParameters(self.epsilon, self.span).relative_error

    @property
    def settings(self) -> Settings:
        """The same, as kernels and bytes have it."""
        per_level = CountParameters(self.epsilon, self.span).buckets_per_level
        head = [COUNTER_TABLE, self.span, per_level, 0, self.capacity]
        stored = bytearray().join(map(varint, (self.span, per_level, self.capacity)))
        return Settings(np.array(head, np.int64), np.frombuffer(stored, np.uint8))


def run_counter_table_batch(
    parameters: CounterTableParameters, states: Sequence[bytes | None], batch: Batch
) -> CellsBatch:
    """Feed and ask many tables at once, one a group (key); the values are items, int64.

    The answers are lists of items with their counts: `CellsBatch` describes their layout. However
    the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state of these parameters,
    for times or queries before a state's time, and for more live items than the capacity.
    """
    return run_cells(parameters.settings, states, batch, batch.items())


class CounterTable(Stored[CounterTableParameters]):
    """Counts of one stream's items, over any window up to the span.

    >>> from slidestat.synopses import CounterTable, CounterTableParameters
    >>> pages = CounterTable.create(CounterTableParameters(0.01, span=60_000, capacity=1_000))
    >>> pages.insert([1_000, 2_000, 50_000], [7, 9, 7])
    >>> pages.query(60_000)
    {7: Estimate(estimate=2.0, lower=2.0, upper=2.0), 9: Estimate(estimate=1.0, lower=1.0, \
upper=1.0)}
    """

    kinds: ClassVar[tuple[int, ...]] = (COUNTER_TABLE,)

    run_batch = staticmethod(run_counter_table_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[CounterTableParameters, int]:
        (span, per_level, capacity), _ = numbers(opened(data, COUNTER_TABLE), wire.BODY, 3)
        sound = 1 <= span <= MAX_SPAN and 1 <= per_level <= MAX_BUCKETS_PER_LEVEL
        if not sound or not (1 <= capacity <= MAX_CAPACITY):
            raise damaged()
        parameters = CounterTableParameters(0.5 / per_level, span, capacity)
        return parameters, inspect(parameters.settings, data)[0]

    def insert(self, times: npt.ArrayLike, items: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and an item (int64) for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or more items than the
        capacity would be live.
        """
        self._insert(times, integers("items", np.atleast_1d(items)))

    def query(self, n: int, now: int | None = None) -> dict[int, Estimate]:
        """Return the count of each item that came in the window [now - n, now), 1 <= n <= span.

        `now` is the table's if None. A later one is a look ahead that changes nothing; an earlier
        one raises SynopsisError. Cost: O(bytes).
        """
        found = self._run(self._question(n, now))
        figures = np.stack([found.estimates, found.lowers, found.uppers], axis=1).tolist()
        return {item: Estimate(*row) for item, row in zip(found.ids.tolist(), figures, strict=True)}

    def check(self) -> None:
        """Raise SynopsisError unless each item keeps the invariants of an exponential histogram."""
        settings = self._parameters.settings
        check_cells(settings.head, *inspect(settings, self._data))

    def _no_values(self) -> Integers:
        return NO_QUERIES
