"""Flajolet-Martin bitmaps with times: distinct items of any window, in little room, roughly.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.5: the bitmaps of Flajolet and Martin (1983),
with the latest time at which each bit was set instead of the bit. A bit is set in a window if that
time is in it. An item sets one bit: one of m bitmaps, and in it bit i with a probability of
2^-(i+1), i = 0..61, or the last, 62, with 2^-62; which, is a random function (Philox) of the seed
and of the item.

The estimate is the x for which as many bits as are set, Z, are expected to be:
E(x) = sum over bits of 1 - (1 - q)^x, q being the bit's probability. (Flajolet's and Martin's looks
at the lowest bit that is not set in each bitmap: it is biased for few items, and has no bounds.)
Its standard error is about 0.69 / sqrt(m) for many items. Promises and costs: README.md; of
a relative error, `relative_width` says what to expect. Why: docs/proofs.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult
from slidestat.synopses.core.envelope import damaged
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SEED, MAX_SPAN, check_whole
from slidestat.synopses.core.philox import philox
from slidestat.synopses.core.stored import Estimating, StoredItems
from slidestat.synopses.distinct import codec
from slidestat.synopses.distinct.batch import item_column, run_items, run_union
from slidestat.synopses.distinct.codec import BITS
from slidestat.synopses.distinct.kernel import first_zeros
from slidestat.synopses.distinct.parameters import DELTAS, checked_delta

MOST_ITEMS = 2.0**62
MIN_BITMAPS = 16
MAX_BITMAPS = 4096

_STREAM = 18  # tells these draws from others of the same seed
_MASK = (1 << 32) - 1
_NO_LEVELS = 1 << 62  # a capacity that is never reached
_NO_POLYNOMIALS = np.ones((1, 3), np.int64)


@dataclass(frozen=True)
class BitmapsParameters:
    """Flajolet-Martin bitmaps over windows of up to `span`.

    bitmaps: how many, a power of two, 16 to 4,096. delta: the chance that the bounds miss, 10^-9
    to 0.5, at most nine decimals. span: longest window kept, 1 to 2^53, in the unit of the event
    times. seed: 0 to 2^63 - 1. Raises SynopsisError for anything else.
    """

    bitmaps: int
    delta: float
    span: int
    seed: int

    def __post_init__(self) -> None:
        check_whole("bitmaps", self.bitmaps, MIN_BITMAPS, MAX_BITMAPS)
        if self.bitmaps & (self.bitmaps - 1):
            raise SynopsisError(f"bitmaps must be a power of two, not {self.bitmaps}")
        checked_delta(self.delta)
        check_whole("span", self.span, 1, MAX_SPAN)
        check_whole("seed", self.seed, 0, MAX_SEED)

    @property
    def relative_width(self) -> float:
        """About how far the bounds are from the estimate, as a share of it, for many items."""
        return sqrt(2 * log(2 / self.delta) / self.bitmaps) * log(2)


@kernel
def _bits_of(items: Integers, bitmaps: int, seed: int) -> Integers:
    """Return the bit that each item sets: bit i of bitmap b is i * bitmaps + b."""
    bits = np.empty(len(items), np.int64)
    low, high = seed & _MASK, (seed >> 32) & _MASK
    for i in range(len(items)):
        item = items[i]
        a, b, c, _ = philox(item & _MASK, (item >> 32) & _MASK, 0, _STREAM, low, high)
        bits[i] = first_zeros(b, c) * bitmaps + (a & (bitmaps - 1))
    return bits


class BitFigures(ABC):
    """The answer for each number of bits that are set; made when it is first asked for."""

    def __init__(self, bitmaps: int) -> None:
        self._bitmaps = bitmaps
        self._known = np.full((3, BITS * bitmaps + 1), np.nan)
        self._known[:, 0] = 0.0

    @abstractmethod
    def _found(self, bits: Floats) -> tuple[Floats, Floats, Floats]:
        """Return estimates, lowers and uppers for numbers of bits above 0."""

    def of(self, bits: Floats) -> Floats:
        """Return float64[3, ...]: estimates, lowers and uppers for numbers of bits."""
        places = np.minimum(bits, BITS * self._bitmaps).astype(np.int64)
        new = np.unique(places[np.isnan(self._known[0, places])])
        if len(new) > 0:
            self._known[:, new] = self._found(new.astype(np.float64))
        return self._known[:, places]


class _Figures(BitFigures):
    def __init__(self, bitmaps: int, delta: float) -> None:
        super().__init__(bitmaps)
        self._log = log(2 / delta)
        shares = 2.0 ** -np.minimum(np.arange(1, BITS + 1), BITS - 1) / bitmaps
        self._unset = np.log1p(-shares)  # log(1 - q)

    def expected(self, x: Floats) -> Floats:
        """Return E(x)."""
        free: Floats = np.expm1(np.multiply.outer(x, self._unset)).sum(axis=-1)
        return -self._bitmaps * free

    def _root(self, bits: Floats, side: int) -> Floats:
        """Return the x with E(x) + side * t(x) = bits, to the precision of a double."""
        a = self._log / 3
        low, high = np.zeros(len(bits)), np.full(len(bits), MOST_ITEMS)
        for _ in range(120):
            # a geometric mean for large x, where numbers of bits are logarithms
            middle = np.where(low < 1, (low + np.minimum(high, 2)) / 2, np.sqrt(low * high))
            expected = self.expected(middle)
            spread = np.minimum(expected, self._bitmaps + 1)
            reach = a + np.sqrt(a * a + 2 * self._log * spread)
            below = expected + side * reach < bits
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low if side > 0 else high

    def _found(self, bits: Floats) -> tuple[Floats, Floats, Floats]:
        lower = np.maximum(np.floor(self._root(bits, 1)), bits)
        upper = np.ceil(self._root(bits, -1))
        return np.clip(self._root(bits, 0), lower, upper), lower, upper


_figures = lru_cache(maxsize=16)(_Figures)


def _head_of(parameters: BitmapsParameters) -> tuple[Integers, Integers]:
    stored = parameters.bitmaps, round(parameters.delta * DELTAS), parameters.span, parameters.seed
    return np.array([*stored, 1, _NO_LEVELS, codec.BITMAPS], np.int64), _NO_POLYNOMIALS


def run_bitmaps_batch(
    parameters: BitmapsParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many synopses at once, one a group (key).

    Arguments, results and errors are those of `run_distinct_batch`, but no answer is exact unless
    its bounds are equal. Cost: O(bytes in + events + queries * bits in their windows + bytes out),
    and once half a millisecond for each number of bits that comes up.
    """
    items = item_column(batch.values, len(batch.columns.times))
    batch = batch.holding(_bits_of(items, parameters.bitmaps, parameters.seed))
    result = run_items(*_head_of(parameters), states, batch)
    figures = _figures(parameters.bitmaps, parameters.delta).of(result.estimates)
    return BatchResult(result.states, *figures)


class DistinctBitmaps(StoredItems[BitmapsParameters], Estimating[BitmapsParameters]):
    """Roughly how many distinct items one stream had, over any window up to the span.

    >>> from slidestat.synopses import BitmapsParameters, DistinctBitmaps
    >>> visitors = DistinctBitmaps.create(BitmapsParameters(64, 0.01, span=60_000, seed=1))
    >>> visitors.insert([1_000, 2_000, 50_000], [17, 4, 17])
    >>> round(visitors.query(60_000).estimate)
    2
    """

    run_batch = staticmethod(run_bitmaps_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[BitmapsParameters, int]:
        return _read(data)[:2]

    def kept(self) -> int:
        """Return how many bits are set."""
        return len(_read(self._data)[2].items)

    def check(self) -> None:
        """Raise SynopsisError unless each bit is one of the bitmaps', and is there once.

        Cost: O(bytes log(bytes)).
        """
        _read(self._data)


def merge_bitmaps(states: Sequence[bytes]) -> bytes:
    """Return the state of the union of the streams of `states`, all of the same parameters.

    As `merge_distinct`.
    """
    return run_union(_head_of, [_read(state) for state in states])


def _read(data: bytes) -> tuple[BitmapsParameters, int, codec.Kept]:
    """Decode `data`; returns what it was made with, its time, and the bits, oldest first."""

    def complete(head: Integers) -> BitmapsParameters:
        head[codec.INSTANCES], head[codec.CAPACITY] = 1, _NO_LEVELS
        bitmaps, delta, span, seed = head[: codec.STORED].tolist()
        return BitmapsParameters(bitmaps, delta / DELTAS, span, seed)

    parameters, now, kept = codec.read_state(data, codec.BITMAPS, complete)
    bits = kept.items
    most = BITS * parameters.bitmaps
    if len(np.unique(bits)) < len(bits) or not ((bits >= 0) & (bits < most)).all():
        raise damaged()
    return parameters, now, kept
