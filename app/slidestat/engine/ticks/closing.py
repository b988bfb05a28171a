"""When silent keys are emitted once more: at the first tick whose longest window has none of their
events, and at the first one at which they have been silent for so long that they are forgotten.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.clock.event_time import closing_tick
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import NOT_DUE
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.queries import NO_QUERIES, Queries

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

IsBefore = Callable[[Int64s, Int64s], Bools]
"""Called with the places of keys and ticks of theirs: which of these come before an end."""


class Closings(NamedTuple):
    """The queries of silent keys; and those of them at which keys end."""

    queries: Queries
    ends: Queries


class Closing:
    """A finder of the last ticks of the keys of a partition."""

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._every = topology.every_ms
        self._silences = topology.silences
        self._forget = topology.forget_ms
        self._keys = keys

    @property
    def is_ever(self) -> bool:
        """Return whether keys are emitted for their silence at all."""
        return bool(self._silences)

    def find(
        self,
        numbers: Int64s,
        last_times: Int64s,
        groups: Int64s,
        times: Int64s,
        previous: Int64s,
        is_closing: Bools,
        advance: Advance,
    ) -> Closings:
        """Find the closing ticks that the watermark passes; note the keys that stay closed, and
        when the others are due.

        `numbers` are those of the keys, and `last_times` of their newest events before; `groups`
        and `times` are those of their new events, `previous` the time of the event before each; of
        `is_closing` keys a tick was due.
        """
        touched = np.flatnonzero(np.diff(groups, append=-1))  # the last event of each group
        last_times, is_looked_at = last_times.copy(), is_closing.copy()
        last_times[groups[touched]], is_looked_at[groups[touched]] = times[touched], True
        now = np.flatnonzero(is_looked_at)
        coming = np.full(len(now), NOT_DUE)
        queries = ends = NO_QUERIES
        for silence in reversed(self._silences):
            ticks = closing_tick(previous, silence, self._every)
            between = (previous != NO_TIME) & (ticks > advance.before) & (times >= ticks)
            last_ticks = closing_tick(last_times[now], silence, self._every)
            is_passed = (last_ticks > advance.before) & (last_ticks <= advance.watermark)
            passed = Queries(groups[between], ticks[between]).and_(
                Queries(now[is_passed], last_ticks[is_passed])
            )
            queries = queries.and_(passed)
            if silence == self._forget:
                ends = passed
            coming = np.where(last_ticks > advance.watermark, last_ticks, coming)
        self._note(numbers[now], coming, advance.last_offset)
        return Closings(queries, ends)

    def of_silent(
        self,
        numbers: Int64s,
        last_times: Int64s,
        due: Int64s,
        is_before_end: IsBefore,
        last_offset: int,
    ) -> Closings:
        """Find the closing ticks of silent keys from the tick on that is due of each; what does not
        come before an end is due then. Keys that are forgotten are noted, with the records up to
        `last_offset` read.
        """
        queries = ends = NO_QUERIES
        going = np.arange(len(numbers))
        for silence in self._silences:
            ticks = closing_tick(last_times[going], silence, self._every)
            is_due = ticks >= due[going]
            is_now = is_before_end(going, ticks)
            later = is_due & ~is_now
            self._keys.closing.arm(numbers[going[later]], ticks[later])
            passed = Queries(going[is_due & is_now], ticks[is_due & is_now])
            queries = queries.and_(passed)
            if silence == self._forget:
                ends = passed
                self._keys.close(numbers[passed.groups], last_offset)
            going = going[~later]
        return Closings(queries, ends)

    def _note(self, numbers: Int64s, ticks: Int64s, last_offset: int) -> None:
        """Note at which tick keys are due next, or that they are forgotten."""
        is_over = ticks == NOT_DUE
        if self._forget is not None:
            self._keys.close(numbers[is_over], last_offset)
        numbers, ticks = numbers[~is_over], ticks[~is_over]
        self._keys.reopen(numbers)
        # A timer that is armed for an earlier tick stays where it is, and is looked at again when
        # it is due: a busy key would leave one behind at every tick.
        is_sooner = self._keys.closing.due(numbers) > ticks
        self._keys.closing.set(numbers[is_sooner], ticks[is_sooner])
