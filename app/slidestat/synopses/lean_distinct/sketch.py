"""How many distinct items one stream had, over any window up to the span, in little room.

Source: as flajolet_martin.py: Datar, Gionis, Indyk, Motwani 2002, section 6.5. All bits that are
set are counted; and the newest 4 / epsilon items are kept as they are, so that few items are
counted exactly. Promises and costs: README.md.

The state is a function of the latest time of each live item, and that of a union is the later one
of both: so merging loses nothing, and batches cannot show.

Proof, and a comparison with registers of a HyperLogLog: docs/proofs.md. By all bits that are set
instead of the lowest that is not, the standard error is ln(2) / sqrt(m), not 0.78 / sqrt(m).
"""

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import ClassVar

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult, joined, split, window_length
from slidestat.synopses.core.envelope import damaged, decoded, named_by_bytes, refused
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.stored import Estimating, StoredItems
from slidestat.synopses.distinct.batch import common, item_column
from slidestat.synopses.distinct.codec import BITS, COUNT, NOW, SPAN, read_head
from slidestat.synopses.distinct.flajolet_martin import BitFigures
from slidestat.synopses.lean_distinct import codec
from slidestat.synopses.lean_distinct.kernel import bit_of, finish, read_state, run, set_bit, unite
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters, reach

MOST_ITEMS = 2.0**62
_CHANCES = 2.0 ** -np.minimum(np.arange(1, BITS + 1), BITS - 1)


def moments(items: Floats, bitmaps: int) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the number of bits that so many items set."""
    hits = np.multiply.outer(items, _CHANCES / bitmaps)
    free = np.exp(-hits)
    sets = -np.expm1(-hits)
    slope = bitmaps * (hits * free).sum(axis=-1)
    variance = bitmaps * (free * sets).sum(axis=-1) - slope * slope / items
    return bitmaps * sets.sum(axis=-1), np.maximum(variance, 0.0)


class _Figures(BitFigures):
    def __init__(self, bitmaps: int, delta: float) -> None:
        super().__init__(bitmaps)
        self._reach = reach(delta)

    def _root(self, bits: Floats, side: int) -> Floats:
        """Return the number of items whose likely range of bits ends with `bits` on `side`."""
        k, c = self._reach
        low, high = np.full(len(bits), 1e-9), np.full(len(bits), MOST_ITEMS)
        for _ in range(110):
            middle = np.sqrt(low * high)
            mean, variance = moments(middle, self._bitmaps)
            below = mean + side * (k * np.sqrt(variance) + c) < bits
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low if side > 0 else high

    def _found(self, bits: Floats) -> tuple[Floats, Floats, Floats]:
        lower = np.maximum(np.floor(self._root(bits, 1)), bits)
        upper = np.maximum(np.ceil(self._root(bits, -1)), lower)
        return np.clip(2 * lower * (upper / (lower + upper)), lower, upper), lower, upper


_figures = lru_cache(maxsize=4)(_Figures)  # The finest of them take 170 MB each.


def figures_for(parameters: LeanDistinctParameters, exact: Floats, set_bits: Floats) -> Floats:
    """Return float64[3, ...]: estimates, lowers and uppers of the windows of a kernel's answers.

    exact: the number of distinct items where it is known, else -1. set_bits: of the others, how
    many bits are set. No answer of these is below `parameters.exact`: so many are there for sure.
    """
    known = exact >= 0
    figures = _figures(parameters.bitmaps, parameters.delta)
    found = figures.of(np.where(known, 0.0, set_bits)).clip(float(parameters.exact), inf)
    return np.where(known, exact, found)


@lru_cache(maxsize=64)
def head_of(parameters: LeanDistinctParameters) -> Integers:
    """Return `parameters` as kernels take them."""
    return np.array([*parameters.stored, parameters.bitmaps, parameters.exact], np.int64)


def run_lean_distinct_batch(
    parameters: LeanDistinctParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many synopses of distinct items at once, one a group (key).

    All is as of `run_distinct_batch`, `parameters.exact` being the capacity; and an estimate is off
    by at most epsilon of the exact number, with the same confidence.

    Cost: O(bytes in + events + queries * (bits set, or events in a window with fewer than `exact`
    items) + bytes out), and once a millisecond or so for each number of bits that comes up.
    """
    columns = batch.within(parameters.span)
    items = item_column(batch.values, len(columns.times))
    answers = np.empty((2, *batch.shape), np.float64)
    given = (head_of(parameters),), states, columns, items, answers
    out, ends = drive(run, *given, kinds=LeanDistinct.kinds)
    return BatchResult(split(out, ends), *figures_for(parameters, answers[0], answers[1]))


def united(parameters: LeanDistinctParameters, states: Sequence[bytes]) -> bytes:
    """Return the state of the union of the streams of `states`, of the latest `now` of them.

    Raises SynopsisError for bytes that are not a state made with these parameters. Cost: O(bytes).
    """
    error_code, part, a, out, ends = unite(head_of(parameters), *joined(states))
    if error_code != error_codes.OK:
        place = int(part) if len(states) > 1 else -1
        raise error_codes.synopsis_error(int(error_code), int(a), 0, place, LeanDistinct.kinds)
    return bytes(out[: ends[1]])


@kernel
def _window(head: Integers, arena: Bytes, start: int) -> tuple[int, int, Bytes, int]:
    """Return (error, its number, bytes, how many of them are the state)."""
    ids = np.empty(len(arena) // codec.SHORTEST_ITEM + 1, np.int64)
    times = np.empty(len(ids), np.int64)
    last = np.full(BITS * head[codec.BITMAPS], codec.NEVER, np.int64)
    touched = np.empty(len(last), np.int64)
    stored = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64, np.uint8)
    error_code, a, number = read_state(
        arena, 0, len(arena), head, stored, state, ids, times, last, touched, 0
    )
    if error_code != error_codes.OK:
        return error_code, a, out, 0
    for i in range(number):
        last[touched[i]] = 0 if last[touched[i]] >= start else codec.NEVER
    first = 0
    while first < state[COUNT] and times[first] < start:
        first += 1
    for slot in range(first, state[COUNT]):
        times[slot] = 0
        number = set_bit(bit_of(ids[slot], head), 0, last, touched, number)
    alone = head.copy()
    alone[SPAN] = 1
    kept = np.arange(state[COUNT] - 1, first - 1, -1)
    out, end = finish(out, 0, alone, 1, ids, times, kept, last, touched, number)
    return error_codes.OK, 0, out, end


class LeanDistinct(StoredItems[LeanDistinctParameters], Estimating[LeanDistinctParameters]):
    """The number of distinct items of one stream, over any window up to the span.

    >>> from slidestat.synopses import LeanDistinct, LeanDistinctParameters
    >>> visitors = LeanDistinct.create(LeanDistinctParameters(0.05, 0.01, span=60_000, seed=1))
    >>> visitors.insert([1_000, 2_000, 50_000], [17, 4, 17])
    >>> visitors.query(60_000)
    Estimate(estimate=2.0, lower=2.0, upper=2.0)
    """

    kinds: ClassVar[tuple[int, ...]] = (codec.LEAN_DISTINCT,)

    is_checked_when_read = True
    run_batch = staticmethod(run_lean_distinct_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[LeanDistinctParameters, int]:
        return _read(data)

    def window(self, n: int, now: int | None = None) -> bytes:
        """Return a state of span 1 that has seen at 0 what this one has seen in [now - n, now).

        It answers as this one does of that window. `n` and `now` as in `query`. Cost: O(bytes).
        """
        start = self._at(now) - window_length(n, self._parameters.span)
        arena = np.frombuffer(bytearray(self._data), np.uint8)
        error_code, a, out, end = _window(head_of(self._parameters), arena, start)
        if error_code != error_codes.OK:
            raise refused(error_code, a, codec.LEAN_DISTINCT)
        return bytes(out[:end])

    def check(self) -> None:
        """Raise SynopsisError unless the state is what its items and bits are written as."""
        if united(self._parameters, [self._data]) != self._data:
            raise damaged()


def merge_lean_distinct(states: Sequence[bytes]) -> bytes:
    """Return the state of the union of the streams, as `merge_distinct`. Cost: O(bytes)."""
    states = [*states]
    return united(common([_read(state)[0] for state in states]), states)


def _read(data: bytes) -> tuple[LeanDistinctParameters, int]:
    """Return what `data` was made with, and its time; SynopsisError for no such state."""
    head, state = np.zeros(codec.HEAD_SIZE, np.int64), np.zeros(codec.STATE_SIZE, np.int64)
    kind = codec.LEAN_DISTINCT
    decoded(read_head, data, (kind,), kind, codec.SHORTEST_ITEM, head, state)
    return named_by_bytes(LeanDistinctParameters.of_stored, head), int(state[NOW])
