"""The keys of a partition as they are stored."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from slidestat.engine.keys.key_state import AS_DECLARED, KeyState, StateLayout


class PartitionStore(Protocol):
    """The part of a table that a partition reads."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return the stored states of keys, None where there is none."""

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the keys from `start` on and their states, in key order."""

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Yield the keys with alerts that were written provisionally, and what is noted of them."""

    def checkpoint(self) -> bytes | None:
        """Return the partition's checkpoint, None for a partition never seen."""


class StoredKeys:
    """A reader of a store."""

    # The number of keys that have a state; they are never counted.
    keys_held: int | None = None

    def __init__(self, store: PartitionStore, layout: StateLayout = AS_DECLARED) -> None:
        """Create the reader; `layout` has the places of the synopses in a state."""
        self._store = store
        self._layout = layout

    def peek_all(self, keys: Sequence[str]) -> list[KeyState | None]:
        """Return keys' states, None for one without; raises SlidestatError for other bytes."""
        decode = self._layout.decode
        found = self._store.get_many(list(keys)) if keys else []
        return [None if stored is None else decode(stored) for stored in found]

    def are_there(self, keys: Sequence[str]) -> list[bool]:
        """Return whether each of the keys has a state."""
        return [stored is not None for stored in self._store.get_many(list(keys))]

    def keys(self, prefix: str, after: str, limit: int) -> Iterator[str]:
        """Return the first `limit` keys after `after` that begin with `prefix`, in order of their
        characters (which is that of their UTF-8).
        """
        return islice(self.all_keys(prefix, after), limit)

    def all_keys(self, prefix: str, after: str) -> Iterator[str]:
        """Yield all keys after `after` that begin with `prefix`."""
        for key, _ in self._store.scan(max(prefix, after)):
            if not key.startswith(prefix):
                break
            if key != after:
                yield key


# A store that has nothing: for reading records without keeping states.


class NoStates:
    """A PartitionStore of a partition never seen."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        return [None] * len(keys)

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:  # noqa: ARG002
        """Return no keys."""
        return iter(())

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Return no keys."""
        return iter(())

    def checkpoint(self) -> None:
        return
