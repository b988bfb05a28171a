"""Emissions of keys without new events: at their next tick, and once more when they fall silent."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.clock import Advance, closing_tick
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import NOT_DUE, DueSlice
from slidestat.engine.keys.states import States
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import NO_QUERIES, Hand, Queries
from slidestat.synopses.core.arrays import Bools, Integers

# When silent keys are emitted once more: at the first tick whose longest window has none of their
# events, and at the first one at which they have been silent for so long that they are forgotten.

IsBefore = Callable[[Integers, Integers], Bools]
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
        numbers: Integers,
        last_times: Integers,
        groups: Integers,
        times: Integers,
        previous: Integers,
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
        numbers: Integers,
        last_times: Integers,
        due: Integers,
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

    def _note(self, numbers: Integers, ticks: Integers, last_offset: int) -> None:
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
        self, numbers: Integers, states: States, due: DueSlice, advance: Advance
    ) -> Closings:
        places = np.searchsorted(numbers, due.closing.numbers)
        names = self._keys.numbers.names(due.closing.numbers)
        end_tick, end_name = due.end

        def is_before_end(some: Integers, ticks: Integers) -> Bools:
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
