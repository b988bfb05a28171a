"""How often each item came, of one key over any window: the frequent ones, and none missed.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004): their
deterministic sketch of counts for fixed-size, variable-size and n-of-N windows, as one set of
blocks; Misra and Gries, "Finding repeated elements" (1982), for a block.

Contract: with m events in the window [now - n, now), n <= N, for every item, seen or not,
lower <= its count <= upper and upper - lower < epsilon m; the estimate, in the middle, is off by
less than half of that. A list for a share s >= epsilon misses no item with at least s m events, and
has none with less than (s - 2 epsilon) m. Up to 2^(levels + 2) events, about 10/epsilon, counts
are exact. Proofs: blocks.py, frequent_layout.py, frequent_answer.py.
Items are 64-bit numbers. A state then is flat and bounded by the theorem, whatever items are
called; names are the caller's: a number that they already have, or a 64-bit hash of them.
Space: O(1/epsilon log^2(1/epsilon) log(epsilon m)) items; few events or few items, few bytes.
Cost: an event O(log(1/epsilon)) amortised; a query O(items listed * log).
Order: times must not fall. Merge: not offered (blocks are numbered by one stream's events); bounds
of separate streams add up.

>>> from app.synopses.levels.frequent_items import FrequentItems, FrequentParameters
>>> pages = FrequentItems.create(FrequentParameters(epsilon=0.01, span=60_000))
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
>>> pages.query(60_000, 9)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.synopses import faults
from app.synopses.batch import NO_QUERIES, integers
from app.synopses.errors import SynopsisError
from app.synopses.estimate import Estimate
from app.synopses.histogram_codec import TIME_MIN
from app.synopses.levels.block_codec import read_envelope, summary_error
from app.synopses.levels.blocks import BASE
from app.synopses.levels.frequent_batch import head_of, run_frequent_batch
from app.synopses.levels.frequent_codec import FREQUENT, decode, oldest_whole, read_numbers
from app.synopses.levels.frequent_kernel import (
    DEAD,
    LISTED,
    NOW,
    SPAN,
    STATE_SIZE,
    TAIL,
    TIME,
    TOTAL,
    Blocks,
    Integers,
    make_blocks,
)
from app.synopses.levels.frequent_parameters import FrequentParameters
from app.synopses.wire import VERSION

__all__ = ["FrequentItem", "FrequentItems", "FrequentParameters"]


class FrequentItem(NamedTuple):
    """`lower <= count of item <= upper`, always; the estimate is in the middle."""

    item: int
    estimate: float
    lower: float
    upper: float


class FrequentItems:
    """A synopsis of the items of one stream, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept.
    """

    def __init__(self, parameters: FrequentParameters, data: bytes, now: int) -> None:
        self._parameters = parameters
        self._data = data
        self._now = now

    @classmethod
    def create(cls, parameters: FrequentParameters) -> "FrequentItems":
        """Return a summary that has seen nothing."""
        empty = run_frequent_batch(parameters, [None], [0, 0], [], [], [0, 0], [], [], 0)
        return cls(parameters, empty.states[0], TIME_MIN)

    @classmethod
    def from_bytes(cls, data: bytes) -> "FrequentItems":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else."""
        parameters, state, _, _, _ = _read(data)
        summary = cls(parameters, bytes(data), int(state[NOW]))
        summary.check()
        return summary

    @property
    def parameters(self) -> FrequentParameters:
        """What the summary was made with."""
        return self._parameters

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to; -2^61 before any."""
        return self._now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        return self._data

    def insert(self, times: npt.ArrayLike, items: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and an item (int64) for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or an item is no number.
        """
        times = integers("times", np.atleast_1d(times))
        self._run(times, integers("items", np.atleast_1d(items)), None)

    def advance(self, now: int) -> None:
        """Move on to `now` without events, dropping what expires; SynopsisError if it goes back."""
        self._run(NO_QUERIES, NO_QUERIES, np.array([_time(now)], np.int64))

    def frequent(self, n: int, share: float, now: int | None = None) -> list[FrequentItem]:
        """Return the items that may have `share` of the window [now - n, now), most frequent first.

        1 <= n <= span; `now` is the summary's if None, a later one is a look ahead that changes
        nothing. The share is taken to the millionth; one below epsilon raises SynopsisError, for
        items would be missed.
        """
        if not (self._parameters.epsilon <= share <= 1):
            raise SynopsisError(
                f"a share must be from epsilon, {self._parameters.epsilon}, to 1, not {share!r}"
            )
        return self._counts(n, share, now)[0]

    def query(self, n: int, item: int, now: int | None = None) -> Estimate:
        """Return the count of `item` in the window [now - n, now); n and now as for `frequent`."""
        counts, unlisted = self._counts(n, 0, now)
        for known in counts:
            if known.item == item:
                return Estimate(known.estimate, known.lower, known.upper)
        return Estimate(unlisted / 2, 0.0, float(unlisted))

    def stored_items(self) -> int:
        """Return how many items the state holds, those of the tail included."""
        _, state, head, _, blocks = _read(self._data)
        total, dead = int(state[TOTAL]), int(state[DEAD])
        items = total - int(state[TAIL])
        for layer in range(BASE, total.bit_length()):
            complete = total >> layer
            if complete & 1 and (complete - 1) << layer > dead:
                items += int(blocks[1][layer, LISTED])
            oldest = oldest_whole(total, layer, dead, int(head[2]))
            for block in range((complete - 2) | 1, oldest - 1, -2):
                items += int(blocks[0][layer, (block >> 1) % blocks[0].shape[1], LISTED])
        return items

    def check(self) -> None:
        """Raise SynopsisError unless the state is what blocks.py says: what decoding checks, and
        that known times rise with the events they belong to."""
        _, state, head, times, blocks = _read(self._data)
        total, dead, now = int(state[TOTAL]), int(state[DEAD]), int(state[NOW])
        known = [(int(state[TAIL]) + i, int(time)) for i, time in enumerate(times)]
        for layer in range(BASE, total.bit_length()):
            complete = total >> layer
            if complete & 1 and (complete - 1) << layer > dead:
                known.append(((complete - 1) << layer, int(blocks[1][layer, TIME])))
            oldest = oldest_whole(total, layer, dead, int(head[2]))
            for block in range((complete - 2) | 1, oldest - 1, -2):
                slot = (block >> 1) % blocks[0].shape[1]
                known.append((block << layer, int(blocks[0][layer, slot, TIME])))
        known.sort()
        ordered = [time for _, time in known]
        if ordered != sorted(ordered) or (ordered and ordered[-1] >= now):
            raise SynopsisError("times of events do not rise with their numbers")

    def _counts(self, n: int, share: float, now: int | None) -> tuple[list[FrequentItem], int]:
        at = self._now if now is None else _time(now)
        result = run_frequent_batch(
            self._parameters, [self._data], [0, 0], [], [], [0, 1], [at], [n], share
        )
        columns = (result.items.tolist(), result.lowers.tolist(), result.uppers.tolist())
        counts = [
            FrequentItem(item, (lower + upper) / 2, float(lower), float(upper))
            for item, lower, upper in zip(*columns, strict=True)
        ]
        counts.sort(key=lambda count: -count.estimate)
        return counts, int(result.unlisted[0, 0])

    def _run(self, times: Integers, items: Integers, to: Integers | None) -> None:
        result = run_frequent_batch(
            self._parameters,
            [self._data],
            [0, len(times)],
            times,
            items,
            [0, 0],
            NO_QUERIES,
            [],
            0,
            to,
        )
        if to is not None:
            self._now = int(to[0])
        elif len(times) > 0:
            self._now = max(self._now, int(times[-1]) + 1)
        self._data = result.states[0]


def _time(number: int) -> int:
    if not (TIME_MIN <= number <= -TIME_MIN):
        raise SynopsisError(f"{number} is out of range: times are from -2^61 to 2^61 - 1")
    return number


def _read(data: bytes) -> tuple[FrequentParameters, Integers, Integers, Integers, Blocks]:
    """Decode `data`; returns its parameters, numbers, layout, times of the tail, and blocks."""
    array = np.frombuffer(bytearray(data), np.uint8)
    state = np.empty(STATE_SIZE, np.int64)
    fault, number, epsilon = read_envelope(array, 0, len(array), FREQUENT)
    if fault != faults.OK:
        known = VERSION if fault == faults.NEWER_VERSION else FREQUENT
        raise summary_error(fault, int(number), known, -1)
    try:
        head = head_of(FrequentParameters(float(epsilon), 1))
    except SynopsisError:
        raise summary_error(faults.CORRUPTED, 0, 0, -1) from None
    fault, begin, at = read_numbers(array, 0, len(array), head, state)
    if fault != faults.OK:
        raise summary_error(fault, 0, 0, -1)
    times = np.empty(int(state[TOTAL]) - int(begin), np.int64)
    items = np.empty(len(times), np.int64)
    blocks = make_blocks(head, int(state[TOTAL]), int(state[DEAD]))
    fault = decode(array, at, len(array), head, state, times, items, blocks)
    if fault != faults.OK:
        raise summary_error(fault, 0, 0, -1)
    return FrequentParameters(float(epsilon), int(head[SPAN])), state, head, times, blocks
