"""Events of many keys, taken some keys at a time; those that are not taken yet wait on."""

from typing import NamedTuple

import numpy as np

from slidestat.engine.events import Events
from slidestat.engine.keys.keyed_events import KeyedEvents


class Slice(NamedTuple):
    """The events of the keys from the place `first` up to `end`."""

    first: int
    end: int
    events: KeyedEvents


class KeySlices:
    """Events by key, keys in order of their names; the events of a key keep their order."""

    def __init__(self, events: Events) -> None:
        self._all = KeyedEvents.of(events)
        self._next = 0

    @property
    def names(self) -> list[str]:
        """The names of all keys, in the order in which they are taken."""
        return self._all.names

    @property
    def next_key(self) -> str | None:
        """The first key that was not taken, None if all were."""
        return self.names[self._next] if self._next < len(self.names) else None

    @property
    def rest(self) -> Events:
        """The events that were not taken."""
        return self._all.between(self._next, len(self.names)).with_keys()

    def take(self, size: int) -> Slice:
        """Return all events of the next keys: of one key, and of more up to `size` events."""
        first, starts = self._next, self._all.starts
        after = int(np.searchsorted(starts, starts[first] + size, "right")) - 1
        self._next = max(after, first + 1)
        taken = Slice(first, self._next, self._all.between(first, self._next))
        if self.next_key is None:
            # Any view holds the memory of all.
            nothing = self._all.events.take(np.empty(0, np.int64))
            self._all = KeyedEvents(self.names, np.zeros_like(starts), nothing)
        return taken
