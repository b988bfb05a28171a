"""When keys fall silent: the first tick whose longest window has none of a key's events."""

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.clock import event_time
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.queries import Queries

Int64s = npt.NDArray[np.int64]


class Closing:
    """Finds the last ticks of the keys of a partition."""

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._every = topology.every_ms
        self._span = topology.span_length
        self._forgets_keys = topology.forgets_keys
        self._keys = keys

    def tick_of(self, last_time: int) -> int:
        """The tick at which a key is silent whose last event was at `last_time`."""
        return event_time.closing_tick(last_time, self._span.length, self._every)

    def close(self, key: str, last_offset: int) -> None:
        """The key has had its last emission, with the records up to `last_offset` read."""
        if self._forgets_keys:
            self._keys.closed[key] = last_offset

    def find(
        self,
        keys: list[str],
        states: list[KeyState],
        groups: Int64s,
        times: Int64s,
        previous: Int64s,
        silent: list[int],
        advance: Advance,
    ) -> Queries:
        """Find the closing ticks that the watermark passes; note the keys that stay closed, and
        when the others are due.

        `groups` and `times` are those of the keys' new events, `previous` the time of the event
        before each; `silent` keys were due to close.
        """
        ticks = event_time.closing_tick(previous, self._span.length, self._every)
        between = (previous != NO_TIME) & (ticks > advance.before) & (times >= ticks)
        touched = np.flatnonzero(np.diff(groups, append=-1))  # the last event of each group
        newest = dict(zip(groups[touched].tolist(), times[touched].tolist(), strict=True))
        for group in silent:
            newest.setdefault(group, states[group].last_time)
        closed = []
        last_times = np.fromiter(newest.values(), np.int64, len(newest))
        last_ticks = event_time.closing_tick(last_times, self._span.length, self._every)
        watermark = advance.watermark
        for group, tick in zip(newest, last_ticks.tolist(), strict=True):
            key = keys[group]
            if tick <= watermark:
                closed.append((group, tick))
                self.close(key, advance.last_offset)
                continue
            self._keys.closed.pop(key, None)
            # A timer that is armed stays where it is, and is looked at again when it is due: a busy
            # key would leave one behind at every tick.
            if key not in self._keys.closing:
                self._keys.closing.arm(key, tick)
        return Queries(groups[between], ticks[between]).and_(Queries.of(closed))
