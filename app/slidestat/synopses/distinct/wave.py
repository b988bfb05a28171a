"""A randomised wave: how many distinct items were in any window n <= N, of one stream or of many.

Source: Gibbons, Tirthapura 2002, section 4 (randomised waves) and 5 (distinct values, predicates).
Each item has a random level, l or more with a probability of 2^-l; each level keeps the `capacity`
newest distinct items that reach it, with the time each was last seen. A window is answered by the
lowest level that has it whole: 2^l times the items there. Promises and costs: README.md.
Why: docs/proofs.md.

The state is a function of the latest time of each live item: for any two streams, the item that is
among the newest ones of both is so of one of them, at its latest time. So merging loses nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Bools, Integers
from slidestat.synopses.core.batch import NO_QUERIES, TIME_MIN, row_of, window_length
from slidestat.synopses.core.envelope import damaged
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import StoredItems, moving
from slidestat.synopses.distinct import codec
from slidestat.synopses.distinct.batch import head_of, run_distinct_batch, run_union
from slidestat.synopses.distinct.kernel import bounds_of, complete_level, fill_levels
from slidestat.synopses.distinct.parameters import EPSILONS, DistinctParameters

Predicate = Callable[[Integers], Bools]
"""Given items, int64, returns which of them are meant: a mask of the same length."""


class DistinctEstimate(NamedTuple):
    """Distinct items: `exact` says that all three figures are the exact answer.

    Else lower <= exact answer <= upper with the confidence that the query names.
    """

    estimate: float
    lower: float
    upper: float
    exact: bool


class Retained(NamedTuple):
    """A random sample of a window's distinct items, oldest to newest, each there with 2^-level."""

    items: Integers
    level: int


class DistinctWave(StoredItems[DistinctParameters]):
    """The number of distinct items of one stream, over any window up to the span.

    >>> from slidestat.synopses import DistinctParameters, DistinctWave
    >>> visitors = DistinctWave.create(DistinctParameters(0.05, 0.01, span=60_000, seed=1))
    >>> visitors.insert([1_000, 2_000, 50_000], [17, 4, 17])
    >>> visitors.query(60_000)
    DistinctEstimate(estimate=2.0, lower=2.0, upper=2.0, exact=True)
    """

    kinds: ClassVar[tuple[int, ...]] = (codec.RANDOMISED_WAVE,)

    run_batch = staticmethod(run_distinct_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[DistinctParameters, int]:
        parameters, now, kept = _read(data)
        twice = len(np.unique(kept.items)) < len(kept.items)
        unmoved = moving(NO_QUERIES, NO_QUERIES, None)
        if twice or run_distinct_batch(parameters, [data], unmoved).states[0] != data:
            raise damaged()
        return parameters, now

    def query(
        self, n: int, now: int | None = None, predicate: Predicate | None = None
    ) -> DistinctEstimate:
        """Return how many distinct items are in [now - n, now), 1 <= n <= span.

        With a predicate, how many of them it holds for: then the error is less than epsilon times
        all distinct items of the window, with a confidence of 1 - `parameters.predicate_delta`.
        `now` as in `Stored`. Cost: O(bytes).
        """
        kept = self._window(n, now)
        meant = np.ones(len(kept.items), np.bool_)
        if predicate is not None:
            meant = np.asarray(predicate(kept.items))
            if meant.dtype != np.bool_ or meant.shape != kept.items.shape:
                raise SynopsisError("a predicate must return a bool for each item it was given")
        certain = int(np.count_nonzero(meant))
        if len(kept.items) < self._parameters.capacity:
            return DistinctEstimate(float(certain), float(certain), float(certain), True)
        every, chosen = [], []
        for instance in range(self._parameters.instances):
            level = self._level(kept, instance)
            reaches = kept.levels[:, instance] >= level
            every.append(float(np.count_nonzero(reaches)) * 2.0**level)
            chosen.append(float(np.count_nonzero(reaches & meant)) * 2.0**level)
        epsilon = self._parameters.epsilon
        millionths = round(epsilon * EPSILONS)
        total = bounds_of(float(np.median(every)), millionths, self._parameters.capacity)
        if predicate is None:
            return DistinctEstimate(*total, False)
        share, margin = float(np.median(chosen)), epsilon * total[0] / (1 - epsilon)
        lower = max(float(certain), float(floor(share - margin)))
        upper = min(float(ceil(share + margin)), total[2] - (len(kept.items) - certain))
        upper = max(upper, lower)
        return DistinctEstimate(min(max(share, lower), upper), lower, upper, False)

    def retained(self, n: int, now: int | None = None) -> Retained:
        """Return the sample of the distinct items of [now - n, now) that the first instance has.

        Level 0 is all of them. `n` and `now` as in `query`. Cost: O(bytes).
        """
        kept = self._window(n, now)
        if len(kept.items) < self._parameters.capacity:
            return Retained(kept.items, 0)
        level = self._level(kept, 0)
        return Retained(kept.items[kept.levels[:, 0] >= level], level)

    def kept_items(self, n: int, now: int | None = None) -> Integers:
        """Return all items that are kept of those last seen in [now - n, now), oldest first.

        `n` and `now` as in `query`. Cost: O(bytes).
        """
        return self._window(n, now).items

    def kept(self) -> int:
        """Return how many items are kept."""
        return len(_read(self._data)[2].items)

    def check(self) -> None:
        """Raise SynopsisError unless the levels are those that the items have.

        Cost: O(bytes), and the hashing of all items.
        """
        kept = _read(self._data)[2]
        _, polynomials = head_of(self._parameters)
        levels, window = np.full_like(kept.levels, codec.UNKNOWN), np.empty(16, np.int64)
        for slot in range(len(kept.items)):
            fill_levels(slot, kept.items, levels, polynomials, window)
        if len(kept.items) >= self._parameters.capacity and np.any(levels != kept.levels):
            raise SynopsisError("the state has levels that are not those of its items")

    def _window(self, n: int, now: int | None) -> codec.Kept:
        start = self._at(now) - window_length(n, self._parameters.span)
        return _read(self._data)[2].since(start)

    def _level(self, kept: codec.Kept, instance: int) -> int:
        reached = np.bincount(kept.levels[:, instance], minlength=64).astype(np.int64)
        return int(complete_level(reached, self._parameters.capacity))


def merge_distinct(states: Sequence[bytes]) -> bytes:
    """Return the state of the union of the streams of `states`, all of the same parameters.

    Its time is the latest of theirs, and it is what one synopsis fed with all their events in order
    of time would have. Raises SynopsisError for no states, for states of different parameters, and
    for bytes that are none. Cost: O(bytes log(bytes)), and the hashing of what is kept.
    """
    return run_union(head_of, [_read(state) for state in states])


def wave_of_items(parameters: DistinctParameters, items: Integers) -> bytes:
    """Return a wave of span 1 at time 1 that has each item, an event at 0, by rising item.

    Cost: O(items log(items)), and the hashing of the items.
    """
    made_with = replace(parameters, span=1)
    distinct = np.unique(items)
    times = np.zeros(len(distinct), np.int64)
    batch = moving(times, distinct, np.ones(1, np.int64))
    return run_distinct_batch(made_with, [None], batch).states[0]


def _read(data: bytes) -> tuple[DistinctParameters, int, codec.Kept]:
    """Decode `data`; returns what it was made with, its time, and what is kept, oldest first."""

    def complete(head: Integers) -> DistinctParameters:
        parameters = DistinctParameters.of_stored(head)
        head[codec.INSTANCES], head[codec.CAPACITY] = parameters.instances, parameters.capacity
        return parameters

    return codec.read_state(data, codec.RANDOMISED_WAVE, complete)


# Union counting: how many of the last n positions are 1 in the OR of t streams of bits, each seen
# by one party.
#
# Source: Gibbons, Tirthapura 2002, section 4 (Union Counting, scenario 3 of section 3.4). A 1 is a
# distinct item: its position, last (and once) seen at that position. So each party has a
# `DistinctWave` whose items and times are positions, all of one seed, and the referee merges what
# they send; no other mechanism is needed. Contract, space and costs are those of `DistinctWave`.


def insert_bits(party: DistinctWave, bits: npt.ArrayLike) -> None:
    """Take in the next bits of a party's stream, whose first bit is at position 0.

    Raises SynopsisError, and takes in nothing, for anything but zeros and ones.
    """
    column = np.atleast_1d(row_of("bits", bits))
    if column.ndim != 1 or not np.isin(column, (0, 1)).all():
        raise SynopsisError("bits must be one row of zeros and ones")
    position = 0 if party.now == TIME_MIN else party.now
    ones = position + np.flatnonzero(column)
    party.insert(ones, ones)
    party.advance(position + len(column))


def union_count(parties: Sequence[bytes], n: int) -> DistinctEstimate:
    """Return the referee's answer for the last n positions, up to the furthest party's.

    parties: the state of each party. A position that a party has not reached yet counts as a 0.
    Raises SynopsisError for states that cannot be merged, and for n beyond their span.
    """
    return DistinctWave.from_bytes(merge_distinct(parties)).query(n)
