"""Events by key."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.engine.clock.event_time import group_rows
from slidestat.engine.events import Events, distinct_texts, numbered_texts
from slidestat.engine.keys.name_order import ranked

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyedEvents:
    """The events of G keys, whose names rise: those of key g are rows starts[g] up to
    starts[g + 1], `starts` int64[G + 1], in their order. Their column of keys has nothing.
    """

    names: list[str]
    starts: Int64s
    events: Events

    @classmethod
    def of(cls, events: Events) -> "KeyedEvents":
        """Return events, given in any order, by key. Costs one sort of the keys, and one copy of
        the events.
        """
        keys, places = distinct_texts(events.keys)
        names, ranks = ranked(keys)
        order, starts = group_rows(ranks[places], len(keys))
        return cls(names, starts, replace(events, keys=pa.nulls(len(events))).take(order))

    @property
    def groups(self) -> Int64s:
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
