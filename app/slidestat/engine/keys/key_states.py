"""States of a partition's keys in memory, in front of its store."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice, repeat

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.columns import fitted
from slidestat.engine.keys.key_numbers import UNKNOWN, KeyNumbers
from slidestat.engine.keys.key_state import AS_DECLARED, KeyState, StateLayout
from slidestat.engine.keys.shared_keys import KeySample
from slidestat.engine.keys.states import States
from slidestat.engine.keys.stored_keys import PartitionStore, StoredKeys
from slidestat.engine.keys.unwritten import NOTHING_NEEDED, SLOTS, Unwritten
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.records import NO_TIME
from slidestat.synopses.core.arrays import Bools, Integers

# The first of many keys that are in no order, for a page of them.

_SAMPLE = 2_000


def first_keys(
    keys: Collection[str], after: str, limit: int, wanted: Callable[[str], bool]
) -> list[str]:
    """Return the first `limit` of the keys after `after` that are wanted, in character order.

    Costs a comparison a key (about 50 nanoseconds): a sample gives an estimate of the last key of
    the page, so that only few are sorted. The sample is the first keys of the iteration; this suits
    a set best, whose order is that of its hashes.
    """
    sample = sorted(key for key in islice(keys, _SAMPLE) if key > after and wanted(key))
    # Twice as far as the page is expected to reach, and further where it is little of the sample.
    reach = 2 * limit * _SAMPLE // max(1, len(keys)) + 10
    if reach < len(sample):
        last = sample[reach]
        near = [key for key in keys if after < key <= last and wanted(key)]
        if len(near) >= limit:
            return sorted(near)[:limit]
    return sorted(key for key in keys if key > after and wanted(key))[:limit]


NEW_KEY = KeyState(NO_TIME, -1, NO_TIME, 0, ())

# A number's state is in the store alone, if anywhere; here; or nowhere, whatever the store has.
_OUT, _HERE, _DELETED = range(3)


class KeyStates:
    """A cache of states: the changed ones until they are written, and the most recently touched of
    the others, as columns over the keys' numbers. A synopsis is bytes; a state is put together when
    it is written.
    """

    def __init__(
        self,
        numbers: KeyNumbers,
        store: PartitionStore,
        synopses: int,
        limit: int,
        work: PartitionWork | None = None,
        layout: StateLayout = AS_DECLARED,
    ) -> None:
        """Create the cache; a state has so many `synopses`, and `limit` states stay in memory;
        `layout` has the places of synopses in a stored state.
        """
        self.layout = layout
        self.synopses = synopses
        self._numbers = numbers
        self._stored = StoredKeys(store, layout)
        self._limit = limit
        self._work = work or PartitionWork()
        # The number of keys that have a state, here or in the store; None until they are counted.
        self.keys_held: int | None = None
        # A sample of the keys, once those of the store are known.
        self.sample = KeySample()
        self._where = np.empty(0, np.uint8)
        # The states of all numbers; a key that has none here has that of a new key.
        self._all = States.of([], synopses)
        self._sizes = np.empty(0, np.int64)
        # The last look at each key, and the number of looks.
        self._touched, self._looks = np.empty(0, np.int64), 0
        self._unwritten = Unwritten()
        # Bytes of the states that are to be written.
        self.unwritten_bytes = 0
        # Whether the store may not have a key yet: to be written, and being written.
        self._is_new, self._is_taken_new = np.empty(0, bool), np.empty(0, bool)
        self._taken = np.empty(0, np.int64)

    # Questions by name: nothing is remembered of them.

    def peek(self, key: str) -> KeyState | None:
        """Return the key's state, None if it has none."""
        return self.peek_all([key])[0]

    def peek_all(self, keys: Sequence[str]) -> list[KeyState | None]:
        """Return the state of each of the keys, None for one that has none."""
        numbers = self._numbers.find(keys)
        where = self._where_of(numbers)
        here = self._all.at(numbers[where == _HERE]).each()
        out = np.flatnonzero(where == _OUT).tolist()
        stored = iter(self._stored.peek_all([keys[row] for row in out]))
        each: dict[int, Iterator[KeyState | None]]
        each = {_HERE: here, _OUT: stored, _DELETED: repeat(None)}
        return [next(each[it]) for it in where.tolist()]

    def are_there(self, keys: Sequence[str]) -> list[bool]:
        """Return whether each of the keys has a state."""
        where = self._where_of(self._numbers.find(keys))
        out = [keys[row] for row in np.flatnonzero(where == _OUT).tolist()]
        stored = iter(self._stored.are_there(out))
        return [next(stored) if it == _OUT else it == _HERE for it in where.tolist()]

    def keys(self, prefix: str, after: str, limit: int) -> Iterator[str]:
        """Return the first `limit` keys after `after` that begin with `prefix` and have a state, in
        order of their characters (which is that of their UTF-8).
        """

        def is_wanted(key: str) -> bool:
            where = self._where_of(self._numbers.find([key]))[0]
            return key.startswith(prefix) and bool(where != _DELETED)

        new = self._numbers.names(np.flatnonzero(self._is_new | self._is_taken_new))
        found = first_keys(new, after, limit, is_wanted)
        stored = filter(is_wanted, self._stored.all_keys(prefix, after))
        return islice((key for key, _ in groupby(merge(found, stored))), limit)

    # States by number.

    def load(self, numbers: Integers) -> States:
        """Return the states of keys, from memory or the store, now the most recently touched; that
        of a new key where there is none.
        """
        self._fit()
        out = numbers[self._where[numbers] == _OUT]
        self._work.cache_hits += len(numbers) - len(out)
        self._work.cache_misses += len(out)
        if len(out):
            self._bring(out)
        is_none = self._where[numbers] != _HERE
        if is_none.any():
            self._begin(numbers[is_none])
        self._looks += 1
        self._touched[numbers] = self._looks
        return self._all.at(numbers)

    def read(self, numbers: Integers) -> States:
        """Return the states of keys as `load` does; nothing is remembered of it."""
        self._fit()
        found = self._all.at(numbers)
        rows = np.flatnonzero(self._where[numbers] == _OUT)
        if len(rows):
            stored = self._stored.peek_all(self._numbers.names(numbers[rows]))
            for row, state in zip(rows.tolist(), stored, strict=True):
                found.replace(row, state or NEW_KEY)
        return found

    def put(
        self, numbers: Integers, states: States, first_offsets: Integers | int = NOTHING_NEEDED
    ) -> None:
        """Set the states of keys, to be written; `first_offsets` are those of the first event that
        each has absorbed since its last `put`.
        """
        self._fit()
        self._change(numbers, first_offsets)
        self._set(numbers, states)
        self.unwritten_bytes += int(self._sizes[numbers].sum())

    def delete(self, numbers: Integers) -> None:
        """Delete the keys' states, here and with the next write."""
        if not len(numbers):
            return
        self._fit()
        self._count(-len(numbers))
        for key in self._numbers.names(numbers):
            self.sample.discard(key)
        self._change(numbers, NOTHING_NEEDED)
        self._clear(numbers, _DELETED)
        self._is_new[numbers] = False

    def are_held(self) -> Bools:
        """Return bool[n]: for which numbers memory holds something, so that they must not be given
        to other keys.
        """
        self._fit()
        held: Bools = (self._where != _OUT) | self._is_new | self._is_taken_new
        return held

    # Writing.

    def first_offset(self) -> int | None:
        """Return the first offset to read again for the unwritten changes, None for no changes."""
        return self._unwritten.first_offset()

    def take_changes(self, slots: Iterable[int] = range(SLOTS)) -> dict[str, bytes | None]:
        """Return the changed states of these slots since the last taking; None if deleted."""
        self._fit()
        taken = self._taken = self._unwritten.take(slots, self._numbers.slots)
        self.unwritten_bytes -= int(self._sizes[taken].sum())
        self._is_taken_new[:] = False
        self._is_taken_new[taken] = self._is_new[taken]
        self._is_new[taken] = False
        is_here = self._where[taken] == _HERE
        stored = iter(self._encoded(self._all.at(taken[is_here])))
        names = self._numbers.names(taken)
        return {
            name: next(stored) if is_it else None
            for name, is_it in zip(names, is_here.tolist(), strict=True)
        }

    def written(self) -> None:
        """Note that what was taken is in the store, and drop what is beyond the limit."""
        self._fit()
        self._is_taken_new[:] = False
        taken = self._taken
        gone = taken[(self._where[taken] == _DELETED) & ~self._unwritten.has(taken)]
        self._where[gone] = _OUT
        held = np.flatnonzero(self._where != _OUT)
        surplus = len(held) - self._limit
        if surplus > 0:
            clean = held[~self._unwritten.has(held)]
            if surplus < len(clean):
                clean = clean[np.argpartition(self._touched[clean], surplus - 1)[:surplus]]
            self._clear(clean, _OUT)

    # Columns.

    def _fit(self) -> None:
        capacity = self._numbers.capacity
        if len(self._where) >= capacity:
            return
        self._where = fitted(self._where, capacity, fill=_OUT)
        self._all = States(
            fitted(self._all.watermarks, capacity, fill=NEW_KEY.watermark),
            fitted(self._all.offsets, capacity, fill=NEW_KEY.offset),
            fitted(self._all.last_times, capacity, fill=NEW_KEY.last_time),
            fitted(self._all.counts, capacity, fill=NEW_KEY.number),
            [fitted(column, capacity, fill=None) for column in self._all.synopses],
            *self._all.beside,
        )
        self._sizes = fitted(self._sizes, capacity, fill=0)
        self._touched = fitted(self._touched, capacity, fill=0)
        self._unwritten.fit(capacity)
        self._is_new = fitted(self._is_new, capacity, fill=False)
        self._is_taken_new = fitted(self._is_taken_new, capacity, fill=False)

    def _where_of(self, numbers: Integers) -> npt.NDArray[np.uint8]:
        """Return the places of states, of numbers that may be UNKNOWN."""
        self._fit()
        where = np.full(len(numbers), _OUT, np.uint8)
        is_known = numbers != UNKNOWN
        where[is_known] = self._where[numbers[is_known]]
        return where

    def _set(self, numbers: Integers, states: States) -> None:
        self._where[numbers] = _HERE
        self._all.watermarks[numbers] = states.watermarks
        self._all.offsets[numbers] = states.offsets
        self._all.last_times[numbers] = states.last_times
        self._all.counts[numbers] = states.counts
        for column, synopses in zip(self._all.synopses, states.synopses, strict=True):
            column[numbers] = synopses
        self._sizes[numbers] = states.sizes()
        for kept, given in zip(self._all.beside, states.beside, strict=True):
            if kept or given:
                for place, number in enumerate(numbers.tolist()):
                    kept.pop(number, None)
                    if place in given:
                        kept[number] = given[place]

    def _clear(self, numbers: Integers, where: int) -> None:
        """Clear the states at these numbers, and note `where` to look for them."""
        self._where[numbers] = where
        self._all.watermarks[numbers] = NEW_KEY.watermark
        self._all.offsets[numbers] = NEW_KEY.offset
        self._all.last_times[numbers] = NEW_KEY.last_time
        self._all.counts[numbers] = NEW_KEY.number
        for column in self._all.synopses:
            column[numbers] = None
        self._sizes[numbers] = 0
        for kept in self._all.beside:
            if kept:
                for number in numbers.tolist():
                    kept.pop(number, None)

    def _encoded(self, states: States) -> list[bytes]:
        """Return the bytes of states as they are stored."""
        numbers = (states.watermarks, states.offsets, states.last_times, states.counts)
        synopses = [column.tolist() for column in states.synopses]
        encoded = self.layout.encode_all(np.stack(numbers, axis=1), synopses)
        more = sorted(set[int]().union(*states.beside))
        for place, state in zip(more, states.at(np.array(more, np.int64)).each(), strict=True):
            encoded[place] = self.layout.encode(state)
        return encoded

    def _bring(self, numbers: Integers) -> None:
        """Load states from the store."""
        stored = self._stored.peek_all(self._numbers.names(numbers))
        rows = [row for row, state in enumerate(stored) if state is not None]
        found = States.of([state for state in stored if state is not None], self.synopses)
        self._set(numbers[rows], found)

    def _begin(self, numbers: Integers) -> None:
        """Note keys that have no state, and are about to be put."""
        self._clear(numbers, _OUT)
        new = numbers[~self._is_new[numbers]]
        self._is_new[new] = True
        self.sample.add_all(self._numbers.names(new))
        self._count(len(new))

    def _change(self, numbers: Integers, first_offsets: Integers | int) -> None:
        """Note that states change."""
        before = numbers[self._unwritten.has(numbers)]
        self.unwritten_bytes -= int(self._sizes[before].sum())
        self._unwritten.add(numbers, self._numbers.slots[numbers], first_offsets)

    def _count(self, more: int) -> None:
        if self.keys_held is not None:
            self.keys_held += more
