"""Events by key."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slidestat.engine.clock import group_rows
from slidestat.engine.events import Events, distinct_texts, numbered_texts
from slidestat.synopses.core.arrays import Integers

# Names of keys in order, and their places there.


def ranked(names: list[str]) -> tuple[list[str], Integers]:
    """Return the names in order, and the place of each there. Costs little where they are so."""
    in_order = sorted(names)
    if in_order == names:
        return names, np.arange(len(names))
    return in_order, places_in(in_order, names)


def places_in(in_order: list[str], names: Iterable[str]) -> Integers:
    """Return the places of names among others, all of which differ."""
    place_of = {name: place for place, name in enumerate(in_order)}
    return np.fromiter(map(place_of.__getitem__, names), np.int64)


@dataclass(frozen=True, slots=True)
class KeyedEvents:
    """The events of G keys, whose names rise: those of key g are rows starts[g] up to
    starts[g + 1], `starts` int64[G + 1], in their order. Their column of keys has nothing.
    """

    names: list[str]
    starts: Integers
    events: Events

    @classmethod
    def of(cls, events: Events) -> "KeyedEvents":
        """Return events, in any order, by key. Costs a sort of the keys, a copy of the events."""
        keys, places = distinct_texts(events.keys)
        names, ranks = ranked(keys)
        order, starts = group_rows(ranks[places], len(keys))
        return cls(names, starts, replace(events, keys=pa.nulls(len(events))).take(order))

    @property
    def groups(self) -> Integers:
        """The place of each event's key."""
        return np.repeat(np.arange(len(self.names)), np.diff(self.starts))

    def between(self, first: int, end: int) -> "KeyedEvents":
        """Return the events of some of the keys; nothing is copied but names."""
        start, stop = int(self.starts[first]), int(self.starts[end])
        starts = self.starts[first : end + 1] - start
        return KeyedEvents(self.names[first:end], starts, self.events.between(start, stop))

    def with_keys(self) -> Events:
        """Return the events with their keys as a column."""
        names = pa.array(self.names, pa.large_string())
        return replace(self.events, keys=numbered_texts(self.groups, names))


# Events of many keys, taken some keys at a time; those that are not taken yet wait on.


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
