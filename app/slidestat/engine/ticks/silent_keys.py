"""Emissions of keys without new events: at their next tick, and at those of their silence."""

from typing import NamedTuple

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import NOT_DUE, DueSlice, SilentTicks
from slidestat.engine.keys.states import States
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Hand, Queries
from slidestat.synopses.core.arrays import Bools, Integers

# A tick of a silent key follows from the time of its last event alone (`SilentTicks`). It is found
# with the next events of the key, or when its timer is due.


class Closings(NamedTuple):
    """The queries of silent keys; and those of them at which keys end."""

    queries: Queries
    ends: Queries


class Closing:
    """A finder of the ticks of the keys of a partition that have no new events."""

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._ticks = SilentTicks(topology)
        self._forgets = topology.forget_ms is not None
        self._keys = keys

    @property
    def is_ever(self) -> bool:
        """Return whether keys are emitted for their silence at all."""
        return bool(self._ticks)

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
        """Find the ticks without events that the watermark passes; note the keys that are
        forgotten, and when the others are due.

        `numbers` are those of the keys, and `last_times` of their newest events before; `groups`
        and `times` are those of their new events, `previous` the time of the event before each; of
        `is_closing` keys a tick was due.
        """
        touched = np.flatnonzero(np.diff(groups, append=-1))  # the last event of each group
        last_times, is_looked_at = last_times.copy(), is_closing.copy()
        last_times[groups[touched]], is_looked_at[groups[touched]] = times[touched], True
        now = np.flatnonzero(is_looked_at)
        # Before each event, and after the last one.
        silent = np.concatenate((previous, last_times[now]))
        whose = np.concatenate((groups, now))
        before = np.full(len(whose), advance.before)
        until = np.concatenate((times, np.full(len(now), advance.watermark)))
        found = Closings(
            _queries(whose, self._ticks.between(silent, before, until)),
            _queries(whose, self._ticks.ends(silent, before, until)),
        )
        passed = np.full(len(now), advance.watermark)
        self._note(
            numbers[now], self._ticks.next_after(last_times[now], passed), advance.last_offset
        )
        return found

    def of_silent(
        self,
        numbers: Integers,
        last_times: Integers,
        due: Integers,
        until: Integers,
        last_offset: int,
    ) -> Closings:
        """Find the ticks of silent keys from the one on that is due of each up to `until`; what
        comes later is due then. Keys that are forgotten are noted, with the records up to
        `last_offset` read.
        """
        before, keys = due - 1, np.arange(len(numbers))
        ends = _queries(keys, self._ticks.ends(last_times, before, until))
        self._keys.close(numbers[ends.groups], last_offset)
        coming = self._ticks.next_after(last_times, until)
        is_more = coming != NOT_DUE
        self._keys.closing.arm(numbers[is_more], coming[is_more])
        return Closings(_queries(keys, self._ticks.between(last_times, before, until)), ends)

    def _note(self, numbers: Integers, ticks: Integers, last_offset: int) -> None:
        """Note at which tick keys are due next, or that they are forgotten."""
        is_over = ticks == NOT_DUE
        if self._forgets:
            self._keys.close(numbers[is_over], last_offset)
        numbers, ticks = numbers[~is_over], ticks[~is_over]
        self._keys.reopen(numbers)
        # A timer that is armed for an earlier tick stays where it is, and is looked at again when
        # it is due: a busy key would leave one behind at every tick.
        is_sooner = self._keys.closing.due(numbers) > ticks
        self._keys.closing.set(numbers[is_sooner], ticks[is_sooner])


def _queries(groups: Integers, found: tuple[Integers, Integers]) -> Queries:
    """Return what was found at some places, as queries of these groups."""
    places, ticks = found
    return Queries(groups[places], ticks)


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
        until = np.full(len(names), end_tick - 1)
        if end_name:
            until[[name < end_name for name in names]] = end_tick
        found = self._closing.of_silent(
            due.closing.numbers,
            states.last_times[places],
            due.closing.ticks,
            until,
            advance.last_offset,
        )
        return Closings(*(Queries(places[it.groups], it.times) for it in found))
