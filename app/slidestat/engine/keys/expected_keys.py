"""Keys of a partition that count as silent although they never came.

Such a key has a state of no events from the first tick of the partition's clock on: so its alerts
are evaluated, wait and fire as those of a key that has fallen silent. Nothing is emitted of it
before its first event. It follows from the order of the records, as the clock does; until the state
is durable, a restarted worker reads again from the record that moved the clock.
"""

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.last_written import NEVER_WRITTEN
from slidestat.engine.keys.deadlines import Deadlines
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.states import States, objects
from slidestat.engine.records import NO_TIME
from slidestat.engine.waiting import EventStore


class ExpectedKeys:
    """The expected keys of a partition that may have no state yet, or that of a key that was
    forgotten before it was expected.
    """

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._topology = topology
        self._keys = keys
        self._names = keys.expected

    def begin_again(self, advance: Advance, waiting: EventStore) -> None:
        """Give those that are expected now a state of no events, too."""
        self._names = self._keys.expected
        self.begin(advance, waiting)

    def begin(self, advance: Advance, waiting: EventStore) -> None:
        """Give each of them a state of no events, in the first tick in which the clock is known;
        but those that have events `waiting` from before it, which begin their states.
        """
        if not self._names:
            return
        times = np.insert(advance.watermarks, 0, advance.before)
        known = np.flatnonzero(times > NO_TIME // 2)
        if not len(known):
            return
        every = self._topology.every_ms
        start = max(int(times[known[0]]), self._topology.times.earliest) // every * every
        # The clock is known by its second record: the first one may lie before this tick.
        came = waiting.keys(start - 1)
        names, self._names = [name for name in self._silent(start) if name not in came], ()
        count = len(names)
        # These keys have absorbed nothing, and were last seen at `start`, in the order of States.
        runners = dict.fromkeys(self._topology.runners)
        states = States(
            np.full(count, start),
            np.full(count, -1),
            np.full(count, start),
            np.zeros(count, np.int64),
            [objects([self._topology.empty_synopsis(runner)] * count) for runner in runners],
            {},
            {},
            dict.fromkeys(range(count), NEVER_WRITTEN) if self._topology.chooses else {},
        )
        numbers = self._keys.numbered(names)
        self._keys.states.load(numbers)
        first = int(advance.offsets[max(0, int(known[0]) - 1)])
        self._keys.states.put(numbers, states, np.full(count, first))
        self._keys.opened.arm(numbers, np.full(count, start + every))

    def _silent(self, tick: int) -> list[str]:
        """Return those without a state, and those that are forgotten at a tick; not those of which
        an alert waits or fires, as they were expected before.
        """
        there = self._keys.states.are_there(self._names)
        states = self._keys.states.read(self._keys.numbered(self._names))
        are_closed = Deadlines.of(
            self._topology, states.clocks, tick, states.are_standing, np.zeros(len(states), bool)
        ).are_closed
        return [
            name
            for name, is_there, is_closed in zip(self._names, there, are_closed, strict=True)
            if is_closed or not is_there
        ]
