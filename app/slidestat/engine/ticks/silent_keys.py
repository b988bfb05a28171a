"""Emissions of keys without new events: at their next tick, and once more when they fall silent."""

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import DueSlice, Place
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.closing import Closing
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Queries


class SilentKeys:
    """Answers for keys without events; their states stay as they are."""

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
        """The same for `keys`, provisionally."""
        none = FollowedAlerts(keys, None)
        emissions = self._emissions.provisional()
        return SilentKeys(self._topology, keys, self._kernels, emissions, none)

    def answer(self, due: DueSlice, advance: Advance) -> PlacedAnswers:
        """The emissions of what is due, in order."""
        keys = list({key for _, key in (*due.opened, *due.closing)})
        states = self._keys.cache.read(keys)
        group_of = {key: group for group, key in enumerate(keys)}
        queries = [(group_of[key], tick) for tick, key in due.opened]
        ends: set[Place] = set()
        for due_at, key in due.closing:
            group = group_of[key]
            for tick, is_forgotten in self._closing.ticks_of(states[group].last_time):
                if tick < due_at:
                    continue
                if (tick, key) >= due.end:
                    self._keys.closing.arm(key, tick)
                    break
                queries.append((group, tick))
                if is_forgotten:
                    ends.add((tick, key))
                    self._closing.close(key, advance.last_offset)
        absorbed = np.array([state.watermark for state in states], np.int64)
        passed = self._alerts.passed(absorbed, advance).tolist()
        queries = [(group, tick) for group, tick in queries if tick > passed[group]]
        if not queries:
            return NOTHING
        groups, times = Queries.of(queries).distinct()
        asked, groups = np.unique(groups, return_inverse=True)
        at_ticks = Queries(groups, times)
        keys = [keys[group] for group in asked.tolist()]
        states = [states[group] for group in asked.tolist()]
        if self._of_events:
            times = np.array([state.number for state in states], np.int64)[groups] + 1
        answered = self._kernels.ask(states, groups, times)
        offsets = advance.source_offsets(at_ticks.times)
        placed = self._emissions.place(keys, *at_ticks, offsets, answered, advance.emitted)
        alerts = self._alerts.follow(keys, states, answered, at_ticks, ends, advance)
        return placed.with_alerts(alerts)
