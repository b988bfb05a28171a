"""How often each item came, over any window n <= N: tables with a windowed counter for each.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.1 (hash tables; counting by hashing): an
exponential histogram stands where a counter would (cells.py). Promises of both: norm/README.md.

A `CounterTable` is kept by item, a 64-bit number, so that no two share a counter unless their
hashes are equal. No table of exact membership can do with less than the items there are: one with
more live items than `capacity` at any moment is refused, whole, by WindowTooLargeError, wherever
batches end.

How often any item came, named beforehand or not, in bounded bytes, `run_hashed_counts_batch` tells:
as a Count-Min sketch (Cormode, Muthukrishnan 2005) it is the ECM-sketch (Papapetrou, Garofalakis,
Deligiannakis 2012). Its counters are a `CounterTable`, whose items are their numbers. In each of
`rows` rows a random function hashes an item to one of `width` counters, and an event adds one to
its item's counter of each row. Let an item come f times among the N events of a window; its counter
of row r has c_r = f + X_r, X_r of other items. The table knows L_r <= c_r <= U_r for a counter, and
an estimate E_r within e c_r of it, e at most epsilon.

Contract. Always f <= min U_r, and the estimate, min E_r, is at least (1 - e) f. With a probability
of at least 1 - delta, for each item and window, and a stream that does not depend on the seed:
lower <= f, and |estimate - f| <= epsilon N. Windows of one state share their functions: one that
misses is likelier to miss again. While N < 1 / k, as of few events, counts are exact, with the same
probability. Proof, and what k is: docs/proofs.md.

Space: rows width counters of at most (l + 1)(log2(C / l + 1) + 1) buckets, C the events of a
counter, N / width on average, l = ceil(1 / (2 epsilon)); counters without an event take none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, log
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, integers
from slidestat.synopses.core.envelope import Body, body_of, varint
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import (
    MAX_BUCKETS_PER_LEVEL,
    MAX_SEED,
    MAX_SPAN,
    CountingParameters,
    check_number,
    check_whole,
)
from slidestat.synopses.core.philox import philox
from slidestat.synopses.core.stored import StoredItems
from slidestat.synopses.value_histogram.cells_batch import (
    CellsBatch,
    Settings,
    check_cells,
    inspect,
    run_cells,
)

COUNTER_TABLE = 17
MAX_CAPACITY = 1_000_000


@dataclass(frozen=True)
class CounterTableParameters(CountingParameters):
    """Counts of items over windows of up to `span`.

    epsilon, span: as for `CountParameters`. capacity: how many items may be live at once, 1 to
    10^6. The promise is for each item and each sum over items. Raises SynopsisError for others.
    """

    capacity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("capacity", self.capacity, 1, MAX_CAPACITY)

    @property
    def settings(self) -> Settings:
        """The parameters, as kernels and bytes have them."""
        per_level = self.buckets_per_level
        head = [COUNTER_TABLE, self.span, per_level, 0, self.capacity]
        stored = bytearray().join(map(varint, (self.span, per_level, self.capacity)))
        return Settings(np.array(head, np.int64), np.frombuffer(stored, np.uint8))


def run_counter_table_batch(
    parameters: CounterTableParameters, states: Sequence[bytes | None], batch: Batch
) -> CellsBatch:
    """Feed and ask many tables at once, one a group (key); the values are items, int64.

    The answers are lists of items with their counts: `CellsBatch` describes their layout. Raises
    SynopsisError also for more live items than the capacity.
    """
    return run_cells(parameters.settings, states, batch, batch.items())


class CounterTable(StoredItems[CounterTableParameters]):
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
        body = Body(body_of(data, COUNTER_TABLE))
        limits = MAX_SPAN, MAX_BUCKETS_PER_LEVEL, MAX_CAPACITY
        span, per_level, capacity = (body.number(1, limit) for limit in limits)
        parameters = CounterTableParameters(0.5 / per_level, span, capacity)
        return parameters, inspect(parameters.settings, data)[0]

    def query(self, n: int, now: int | None = None) -> dict[int, Estimate]:
        """Return the count of each item that came in the window [now - n, now), 1 <= n <= span,
        `now` as in `Stored`. Cost: O(bytes).
        """
        found = self._run(self._question(n, now))
        figures = np.stack([found.estimates, found.lowers, found.uppers], axis=1).tolist()
        return {item: Estimate(*row) for item, row in zip(found.ids.tolist(), figures, strict=True)}

    def check(self) -> None:
        """Raise SynopsisError unless each item keeps the invariants of an exponential histogram."""
        check_cells(self._parameters.settings, self._data)


_STREAM = 31  # tells these draws from others of the same seed
_MASK = (1 << 32) - 1
_HALF = np.uint64(32)
# For the rounding of doubles: the rounding in the lower bound is less.
_ROUNDING = 2.0**-48


@dataclass(frozen=True)
class HashedCountParameters:
    """Counts of any items over windows of up to `span`.

    epsilon: the largest error, as a share of the window's events, 0.001 to 0.5. delta: the chance
    of a larger one, or of a lower bound that does not hold, 1e-9 to 0.5. span: longest window kept,
    1 to 2^53. seed: of the hash functions, 0 to 2^63 - 1. Raises SynopsisError for anything else.
    """

    epsilon: float
    delta: float
    span: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, 0.001, 0.5)
        check_number("delta", self.delta, 1e-9, 0.5)
        check_whole("seed", self.seed, 0, MAX_SEED)
        _ = self.table

    @cached_property
    def rows(self) -> int:
        """The rows of counters."""
        return max(1, round(log(1 / self.delta)))

    @cached_property
    def width(self) -> int:
        """The counters of a row."""
        noise = self.epsilon / (1 + self.epsilon) * (1 - _ROUNDING)
        return ceil(1 / (noise / self._base - 2.0**-32))

    @cached_property
    def noise(self) -> float:
        """The share k of other items' events that one of an item's counters has at most, with a
        probability of 1 - delta.
        """
        return self._base * (1 / self.width + 2.0**-32) * (1 + _ROUNDING)

    @property
    def _base(self) -> float:
        """The B of the proof in docs/proofs.md: how far a counter may be above its mean."""
        return float(self.delta ** (-1 / self.rows))

    @cached_property
    def table(self) -> CounterTableParameters:
        """The table of the counters."""
        return CounterTableParameters(self.epsilon, self.span, self.rows * self.width)

    def counters(self, items: Integers) -> Integers:
        """Return the number of each item's counter of each row, int64[rows, items]."""
        items = integers("items", items)
        halves = items.view(np.uint64)
        low, high = halves & np.uint64(_MASK), halves >> _HALF
        found = np.empty((self.rows, len(items)), np.int64)
        for row, (a, b, c) in enumerate(_drawn(self.seed, self.rows)):
            hashes = (a * low + b * high + c) >> _HALF
            found[row] = (hashes * np.uint64(self.width) >> _HALF).astype(np.int64)
            found[row] += row * self.width
        return found


@lru_cache(maxsize=64)
def _drawn(seed: int, rows: int) -> list[npt.NDArray[np.uint64]]:
    """Return a_0, a_1 and b of each row's function, as the seed has them."""
    factors = []
    for row in range(rows):
        key = seed & _MASK, seed >> 32
        drawn = [*philox(row, 0, 0, _STREAM, *key), *philox(row, 1, 0, _STREAM, *key)]
        pairs = zip(drawn[0:6:2], drawn[1:6:2], strict=True)
        factors.append(np.array([(int(a) << 32) | int(b) for a, b in pairs], np.uint64))
    return factors


class HashedCounts(NamedTuple):
    """The new state of each group; and float64[3, Q, W, rows * items + 1], the estimates, lowers
    and uppers of each item's counter of each row, and of all events, last. `item_counts` makes
    counts of them. They are counts of separate events: those of several streams add up.
    """

    states: list[bytes]
    counters: Floats


def run_hashed_counts_batch(
    parameters: HashedCountParameters, states: Sequence[bytes | None], batch: Batch, asked: Integers
) -> HashedCounts:
    """Feed many states at once, one a group (key), and ask each query for the items `asked`.

    The values are items, int64, such as `item_ids` makes of texts.
    """
    repeated = batch.repeated(parameters.rows, parameters.counters(batch.items()).T.reshape(-1))
    if not len(asked):
        # Counters are listed for each window: without an item there is nothing to list.
        repeated = repeated.asking_for(())
    found = run_counter_table_batch(parameters.table, states, repeated)
    return HashedCounts(found.states, counters_of(parameters, found, batch.shape, asked))


def counters_of(
    parameters: HashedCountParameters, found: CellsBatch, shape: tuple[int, int], asked: Integers
) -> Floats:
    """Return the counters of `HashedCounts`, of a table's answer to (queries, windows)."""
    lists = shape[0] * shape[1]
    wanted = parameters.counters(asked).reshape(-1)
    counters = np.zeros((3, lists, len(wanted) + 1))
    if not len(wanted):
        return counters.reshape(3, *shape, 1)
    of_list = np.repeat(np.arange(lists), np.diff(found.ends))
    figures = np.stack((found.estimates, found.lowers, found.uppers))
    # Each row has all events.
    of_first = found.ids < parameters.width
    for totals, counted in zip(counters[..., -1], figures, strict=True):
        totals[:] = np.bincount(of_list[of_first], counted[of_first], lists)
    different, places = np.unique(wanted, return_inverse=True)
    at = np.searchsorted(different, found.ids)
    is_wanted = different[np.minimum(at, len(different) - 1)] == found.ids
    listed = np.zeros((3, lists, len(different)))
    listed[:, of_list[is_wanted], at[is_wanted]] = figures[:, is_wanted]
    counters[..., :-1] = listed[..., places]
    return counters.reshape(3, *shape, len(wanted) + 1)


def item_counts(parameters: HashedCountParameters, counters: Floats) -> Floats:
    """Return float64[3, ..., items]: estimate and bounds of items, of `HashedCounts`' counters."""
    rows, noise, most = parameters.rows, parameters.noise, counters[2, ..., -1:]
    items = (counters.shape[-1] - 1) // rows
    estimates, lowers, uppers = (
        counters[..., :-1].reshape(*counters.shape[:-1], rows, items).min(-2)
    )
    least = (lowers - noise * most) / (1 - noise)
    lowers = np.clip(np.ceil(least - _ROUNDING * most), 0.0, lowers)
    return np.stack((np.clip(estimates, lowers, uppers), lowers, uppers))
