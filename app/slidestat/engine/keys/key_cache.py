"""States of a partition's keys in memory, in front of its store."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from typing import Protocol

from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.keys.first_keys import first_keys
from slidestat.engine.keys.key_sample import KeySample
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.keys.state_layout import AS_DECLARED, StateLayout
from slidestat.engine.keys.unwritten import SLOTS, UnwrittenKeys
from slidestat.engine.partition_work import PartitionWork

NEW_KEY = KeyState(NO_TIME, -1, NO_TIME, 0, ())


class PartitionStore(Protocol):
    """The part of a table that a partition reads."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """The stored states of keys, None where there is none."""

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """The keys from `start` on and their states, in key order."""

    def checkpoint(self) -> bytes | None:
        """The partition's checkpoint, None for a partition never seen."""


class KeyCache:
    """Changed states until they are written, and the most recently touched of the others."""

    def __init__(
        self,
        store: PartitionStore,
        limit: int,
        work: PartitionWork | None = None,
        layout: StateLayout = AS_DECLARED,
    ) -> None:
        """Of the states `limit` stay in memory; `layout` says where their synopses stand."""
        self.layout = layout
        self._store = store
        self._limit = limit
        self._work = work or PartitionWork()
        # How many keys have a state, here or in the store; None until somebody has counted them.
        self.keys_held: int | None = None
        # Some of them, once somebody has named those of the store.
        self.sample = KeySample()
        # None for a key that is deleted here and may still be in the store.
        self._states: dict[str, bytes | None] = {}
        self._unwritten = UnwrittenKeys()
        # Bytes of the states that are to be written.
        self.unwritten_bytes = 0
        # Keys that the store may not have yet: to be written, and being written.
        self._new: set[str] = set()
        self._taken_new: set[str] = set()

    def peek(self, key: str) -> bytes | None:
        """The key's state, None if it has none; nothing is remembered of the question."""
        return self._states[key] if key in self._states else self._store.get_many([key])[0]

    def keys(self, prefix: str, after: str, limit: int) -> Iterator[str]:
        """The first `limit` keys after `after` that begin with `prefix` and have a state, in order
        of their characters (which is that of their UTF-8).
        """
        states = self._states

        def wanted(key: str) -> bool:
            return key.startswith(prefix) and states.get(key) is not None

        unwritten = (first_keys(new, after, limit, wanted) for new in (self._new, self._taken_new))
        stored = (
            key for key in self._stored_keys(prefix, after) if states.get(key, b"") is not None
        )
        return islice((key for key, _ in groupby(merge(*unwritten, stored))), limit)

    def _stored_keys(self, prefix: str, after: str) -> Iterator[str]:
        for key, _ in self._store.scan(max(prefix, after)):
            if not key.startswith(prefix):
                break
            if key != after:
                yield key

    def copy(self, keys: Iterable[str] | None = None) -> "KeyCache":
        """The same states, of all keys or of some; what is put there stays there."""
        other = KeyCache(self._store, self._limit, layout=self.layout)
        other.keys_held = self.keys_held
        states = self._states
        other._states = (
            dict(states) if keys is None else {key: states[key] for key in keys if key in states}
        )
        return other

    def load(self, keys: list[str]) -> list[KeyState]:
        """States of keys, from memory or the store, now the most recently touched."""
        states = self._states
        missing = [key for key in keys if key not in states]
        found = dict(zip(missing, self._store.get_many(missing), strict=True)) if missing else {}
        self._work.cache_hits += len(keys) - len(missing)
        self._work.cache_misses += len(missing)
        loaded = []
        new = 0
        for key in keys:
            if key in states:
                state = states[key] = states.pop(key)
            elif (state := found[key]) is not None:
                states[key] = state
            if state is None:
                self._new.add(key)
                self.sample.add(key)
                new += 1
            loaded.append(NEW_KEY if state is None else self.layout.decode(state))
        self._count(new)
        return loaded

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """The states of keys, None where there is none; nothing is remembered of the question."""
        states = self._states
        missing = [key for key in keys if key not in states]
        found = dict(zip(missing, self._store.get_many(missing), strict=True)) if missing else {}
        return [states[key] if key in states else found[key] for key in keys]

    def read(self, keys: list[str]) -> list[KeyState]:
        """As `get_many`, taken apart."""
        states = self.get_many(keys)
        return [NEW_KEY if state is None else self.layout.decode(state) for state in states]

    def put(self, key: str, state: bytes, first_offset: int) -> None:
        """The key's new state, to be written; the first of the events that it has absorbed since it
        was put last lies at `first_offset`.
        """
        before = self._states.get(key)
        self._states[key] = state
        if self._unwritten.add(key, first_offset) and before is not None:
            self.unwritten_bytes -= len(before)
        self.unwritten_bytes += len(state)

    def delete(self, keys: Iterable[str]) -> None:
        """The keys' states go, here and with the next write."""
        keys = list(keys)
        self._count(-len(keys))
        for key in keys:
            before = self._states.get(key)
            self._states[key] = None
            if self._unwritten.add(key) and before is not None:
                self.unwritten_bytes -= len(before)
            self.sample.discard(key)

    def _count(self, more: int) -> None:
        if self.keys_held is not None:
            self.keys_held += more

    def first_offset(self) -> int | None:
        """From where the source must be read to make again what is to be written, None if nothing
        is.
        """
        return self._unwritten.first_offset()

    def take_changes(self, slots: Iterable[int] = range(SLOTS)) -> dict[str, bytes | None]:
        """Return the states of the keys of these slots that changed since they were last taken;
        None for a deleted key.
        """
        changes = {key: self._states[key] for key in self._unwritten.take(slots)}
        self.unwritten_bytes -= sum(len(state) for state in changes.values() if state is not None)
        self._taken_new = self._new & changes.keys()
        self._new -= self._taken_new
        return changes

    def written(self, changes: Iterable[str]) -> None:
        """These changes are in the store: what is beyond the limit leaves the memory."""
        states = self._states
        self._taken_new = set()
        for key in changes:
            if key not in self._unwritten and states.get(key, b"") is None:
                del states[key]
        surplus = len(states) - self._limit
        if surplus > 0:
            clean = (key for key in states if key not in self._unwritten)
            for key in [key for key, _ in zip(clean, range(surplus), strict=False)]:
                del states[key]
