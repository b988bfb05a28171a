"""Events of many keys, taken some keys at a time; those that are not taken yet wait on."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from slidestat.engine.clock.event_time import group_rows
from slidestat.engine.events import Events, distinct_texts, numbered_texts


class KeySlices:
    """Events by key, keys in order of their names; the events of a key keep their order."""

    def __init__(self, events: Events) -> None:
        """Costs one sort of the keys, and one copy of the events."""
        keys, places = distinct_texts(events.keys)
        by_name = sorted(range(len(keys)), key=keys.__getitem__)
        ranks = np.empty(len(keys), np.int64)
        ranks[by_name] = np.arange(len(keys))
        order, self._starts = group_rows(ranks[places], len(keys))
        self.keys = [keys[place] for place in by_name]
        # From here on a key is a number: what is moved about are no texts.
        self._names = pa.array(self.keys, pa.large_string())
        numbered = numbered_texts(ranks[places], self._names)
        self._events = replace(events, keys=numbered).take(order)
        self._next = 0

    @property
    def next_key(self) -> str | None:
        """The first key that was not taken, None if all were."""
        return self.keys[self._next] if self._next < len(self.keys) else None

    @property
    def rest(self) -> Events:
        """The events that were not taken."""
        taken = int(self._starts[self._next]) if self.next_key is not None else 0
        return self._events.between(taken, len(self._events))

    def take(self, size: int) -> Events:
        """All events of the next keys: of one key, and of more up to `size` events."""
        first, starts = self._next, self._starts
        after = int(np.searchsorted(starts, starts[first] + size, "right")) - 1
        self._next = max(after, first + 1)
        events = self._events.between(int(starts[first]), int(starts[self._next]))
        codes = events.keys.indices.to_numpy() - first
        names = self._names[first : self._next]
        if self.next_key is None:
            # Any view holds the memory of all.
            self._events = self._events.take(np.empty(0, np.int64))
        return replace(events, keys=numbered_texts(codes, names))
