"""Emissions of keys without new events: at their next tick, and once more when they fall silent."""

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.in_order import Placed
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import DueSlice
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.closing import Closing
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
    ) -> None:
        self._topology = topology
        self._of_events = topology.span_length.of_events
        self._closing = Closing(topology, keys)
        self._keys = keys
        self._kernels = kernels
        self._emissions = emissions

    def trial(self, keys: HeldKeys) -> "SilentKeys":
        """The same for `keys`, provisionally."""
        return SilentKeys(self._topology, keys, self._kernels, self._emissions.provisional())

    def answer(self, due: DueSlice, advance: Advance) -> list[Placed]:
        """The emissions of what is due, in order."""
        keys = list({key for _, key in (*due.opened, *due.closing)})
        states = self._keys.cache.read(keys)
        group_of = {key: group for group, key in enumerate(keys)}
        queries = [(group_of[key], tick) for tick, key in due.opened]
        for _, key in due.closing:
            group = group_of[key]
            tick = self._closing.tick_of(states[group].last_time)
            if (tick, key) >= due.end:
                self._keys.closing.arm(key, tick)
                continue
            queries.append((group, tick))
            self._closing.close(key, advance.last_offset)
        queries = [
            (group, tick)
            for group, tick in queries
            if tick > max(states[group].watermark, advance.emitted)
        ]
        if not queries:
            return []
        groups, ticks = Queries.of(queries).distinct()
        asked, groups = np.unique(groups, return_inverse=True)
        keys = [keys[group] for group in asked.tolist()]
        states = [states[group] for group in asked.tolist()]
        times = ticks
        if self._of_events:
            times = np.array([state.number for state in states], np.int64)[groups] + 1
        answered = self._kernels.ask(states, groups, times)
        offsets = advance.source_offsets(ticks)
        return self._emissions.write(keys, groups, ticks, offsets, answered, advance.loss)
