"""Questions of keys at ticks, as columns."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.states import States
from slidestat.synopses.core.arrays import Integers


class Queries(NamedTuple):
    """Queries: `groups` int64[Q], the place of each one's key; `times` int64[Q], its tick."""

    groups: Integers
    times: Integers

    def and_(self, others: "Queries") -> "Queries":
        """Return these queries and the others."""
        return Queries(*map(np.concatenate, zip(self, others, strict=True)))

    def where(self, wanted: npt.NDArray[np.bool_]) -> "Queries":
        return Queries(self.groups[wanted], self.times[wanted])

    def last_before(self, groups: Integers, times: Integers) -> Integers:
        """Return int64[Q]: the time of the last event of its group before each query. Each group
        has an event, which may be at NO_TIME.
        """
        is_event = np.repeat([False, True], [len(self.times), len(times)])
        of, at = np.concatenate((self.groups, groups)), np.concatenate((self.times, times))
        # A query comes before the events of its own time.
        order = np.lexsort((is_event, at, of))
        rows = np.arange(len(order))
        last = np.maximum.accumulate(np.where(is_event[order], rows, 0))
        places = np.empty(len(order), np.int64)
        places[order] = last
        found: Integers = at[order][places[: len(self.times)]]
        return found

    def within(self, groups: Integers) -> "Queries":
        """Return the queries of some groups, which rise, with the groups' places among them."""
        places = np.searchsorted(groups, self.groups)
        places[places == len(groups)] = 0
        is_there = groups[places] == self.groups
        return Queries(places[is_there], self.times[is_there])

    def distinct(self) -> "Queries":
        """Return each query once, by group and time."""
        order = np.lexsort((self.times, self.groups))
        groups, times = self.groups[order], self.times[order]
        first = np.ones(len(groups), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (times[1:] != times[:-1])
        return Queries(groups[first], times[first])

    def are_in(self, others: "Queries") -> npt.NDArray[np.bool_]:
        """Return bool[Q]: which queries are among the others; both distinct, by group and time."""
        both = self.and_(others)
        order = np.lexsort((both.times, both.groups))
        groups, times = both.groups[order], both.times[order]
        is_twice = np.zeros(len(order), dtype=bool)
        is_twice[:-1] = (groups[1:] == groups[:-1]) & (times[1:] == times[:-1])
        found = np.zeros(len(order), dtype=bool)
        found[order] = is_twice
        # Sorting is stable: of two that are the same, that of these queries comes first.
        return found[: len(self.times)]

    def events_before(self, groups: Integers, times: Integers, starts: Integers) -> Integers:
        """Return int64[Q]: how many events of its group lie before each query. Events are by group,
        which begin at `starts`.
        """
        events = np.stack((groups, times, np.ones_like(groups)))
        queries = np.stack((self.groups, self.times, np.zeros_like(self.times)))
        both = np.concatenate((queries, events), axis=1)
        # A query comes before the events of its own time.
        order = np.lexsort((both[2], both[1], both[0]))
        passed = np.cumsum(both[2][order])
        places = np.empty(len(order), np.int64)
        places[order] = passed
        return places[: len(self.times)] - starts[self.groups]


NO_QUERIES = Queries(np.empty(0, np.int64), np.empty(0, np.int64))


# The keys in hand, of which something is computed.


class Hand(NamedTuple):
    """G keys in work, their numbers int64[G], and their states before the work."""

    names: list[str]
    numbers: Integers
    states: States
