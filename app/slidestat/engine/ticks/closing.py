"""When silent keys are emitted once more: at the first tick whose longest window has none of their
events, and at the first one at which they have been silent for so long that they are forgotten.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.clock.event_time import closing_tick
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.queries import Queries

Int64s = npt.NDArray[np.int64]

_NEVER = 2**62


class Closings(NamedTuple):
    """The queries of silent keys; and those of them at which keys end."""

    queries: Queries
    ends: Queries


class Closing:
    """Finds the last ticks of the keys of a partition."""

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._every = topology.every_ms
        self._silences = topology.silences
        self._forget = topology.forget_ms
        self._keys = keys

    @property
    def is_ever(self) -> bool:
        """Whether keys are emitted for their silence at all."""
        return bool(self._silences)

    def ticks_of(self, last_time: int) -> Iterator[tuple[int, bool]]:
        """Yield the ticks at which a key is emitted whose last event was at `last_time`, in order;
        and whether it is forgotten there.
        """
        for silence in self._silences:
            yield closing_tick(last_time, silence, self._every), silence == self._forget

    def close(self, key: str, last_offset: int) -> None:
        """Note a key that is forgotten, with the records up to `last_offset` read."""
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
    ) -> Closings:
        """Find the closing ticks that the watermark passes; note the keys that stay closed, and
        when the others are due.

        `groups` and `times` are those of the keys' new events, `previous` the time of the event
        before each; `silent` keys were due to close.
        """
        touched = np.flatnonzero(np.diff(groups, append=-1))  # the last event of each group
        newest = dict(zip(groups[touched].tolist(), times[touched].tolist(), strict=True))
        for group in silent:
            newest.setdefault(group, states[group].last_time)
        groups_now = np.fromiter(newest.keys(), np.int64, len(newest))
        last_times = np.fromiter(newest.values(), np.int64, len(newest))
        coming = np.full(len(newest), _NEVER)
        queries = ends = Queries.of([])
        for silence in reversed(self._silences):
            ticks = closing_tick(previous, silence, self._every)
            between = (previous != NO_TIME) & (ticks > advance.before) & (times >= ticks)
            last_ticks = closing_tick(last_times, silence, self._every)
            now = (last_ticks > advance.before) & (last_ticks <= advance.watermark)
            passed = Queries(groups[between], ticks[between]).and_(
                Queries(groups_now[now], last_ticks[now])
            )
            queries = queries.and_(passed)
            if silence == self._forget:
                ends = passed
            coming = np.where(last_ticks > advance.watermark, last_ticks, coming)
        for group, tick in zip(newest, coming.tolist(), strict=True):
            self._note(keys[group], tick, advance.last_offset)
        return Closings(queries, ends)

    def _note(self, key: str, tick: int, last_offset: int) -> None:
        """Note at which tick a key is due next, or that it is forgotten."""
        if tick == _NEVER:
            if self._forget is not None:
                self.close(key, last_offset)
            return
        self._keys.closed.pop(key, None)
        # A timer that is armed for an earlier tick stays where it is, and is looked at again when
        # it is due: a busy key would leave one behind at every tick.
        due = self._keys.closing.due(key)
        if due is None or due > tick:
            self._keys.closing.set(key, tick)
