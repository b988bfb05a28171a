"""Emissions of keys without new events: at their next tick, and once more when they fall silent."""

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.due_slices import DueSlice
from slidestat.engine.keys.hand import Hand
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.states.states import States
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.closing import Closing, Closings
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Queries

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class SilentKeys:
    """A source of answers for keys without events; their states stay as they are."""

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        kernels: KernelCalls,
        emissions: PlacedEmissions,
        alerts: FollowedAlerts,
    ) -> None:
        self._topology = topology
        self._of_events = topology.span_length.of_events
        self._closing = Closing(topology, keys)
        self._keys = keys
        self._kernels = kernels
        self._emissions = emissions
        self._alerts = alerts

    def trial(self, keys: HeldKeys) -> "SilentKeys":
        """Return the same source for `keys`, provisionally."""
        none = FollowedAlerts(keys, None)
        emissions = self._emissions.provisional()
        return SilentKeys(self._topology, keys, self._kernels, emissions, none)

    def answer(self, due: DueSlice, advance: Advance) -> PlacedAnswers:
        """Return the emissions that are due, in order."""
        numbers = np.union1d(due.opened.numbers, due.closing.numbers)
        states = self._keys.states.read(numbers)
        queries = Queries(np.searchsorted(numbers, due.opened.numbers), due.opened.ticks)
        closings = self._closings(numbers, states, due, advance)
        queries = queries.and_(closings.queries)
        passed = self._alerts.passed(states.watermarks, advance)
        queries = queries.where(queries.times > passed[queries.groups]).distinct()
        if not len(queries.times):
            return NOTHING
        asked, groups = np.unique(queries.groups, return_inverse=True)
        queries = Queries(groups, queries.times)
        ends = closings.ends.within(asked)
        numbers, states = numbers[asked], states.at(asked)
        hand = Hand(self._keys.numbers.names(numbers), numbers, states)
        times = states.counts[groups] + 1 if self._of_events else queries.times
        answered = self._kernels.ask(states, groups, times)
        offsets = advance.source_offsets(queries.times)
        placed = self._emissions.place(hand.names, *queries, offsets, answered, advance.emitted)
        return placed.with_alerts(self._alerts.follow(hand, answered, queries, ends, advance))

    def _closings(
        self, numbers: Int64s, states: States, due: DueSlice, advance: Advance
    ) -> Closings:
        places = np.searchsorted(numbers, due.closing.numbers)
        names = self._keys.numbers.names(due.closing.numbers)
        end_tick, end_name = due.end

        def is_before_end(some: Int64s, ticks: Int64s) -> Bools:
            is_before = ticks < end_tick
            for row in np.flatnonzero(ticks == end_tick).tolist():
                is_before[row] = names[some[row]] < end_name
            return is_before

        found = self._closing.of_silent(
            due.closing.numbers,
            states.last_times[places],
            due.closing.ticks,
            is_before_end,
            advance.last_offset,
        )
        return Closings(*(Queries(places[it.groups], it.times) for it in found))
