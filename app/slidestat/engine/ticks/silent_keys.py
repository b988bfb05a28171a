"""Emissions of keys without new events: at their next tick, and at those of their silence."""

from typing import NamedTuple, Self

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import NOT_DUE, DueSlice, Silences, SilentTicks
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.chosen_records import ChosenRecords
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Hand, Queries
from slidestat.engine.ticks.ranked_ticks import RankedTicks
from slidestat.synopses.core.arrays import Bools, Integers

# A tick of a silent key follows from the time of its last event alone (`SilentTicks`). It is found
# with the next events of the key, or when its timer is due.


class Closings(NamedTuple):
    """The queries of silent keys; those of them at which keys end; and those that a silence asks
    for, whatever the figures are.
    """

    queries: Queries
    ends: Queries
    silences: Queries


class Closing:
    """A finder of the ticks of the keys of a partition that have no new events."""

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._ticks = SilentTicks.of_emissions(topology)
        # Whether keys are emitted for their silence at all.
        self.is_ever = bool(self._ticks)
        self._forgets = topology.forget_ms is not None
        self._keys = keys

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
        # The silences before each event, and after the last one.
        silent = np.concatenate((previous, last_times[now]))
        whose = np.concatenate((groups, now))
        before = np.full(len(whose), advance.before)
        until = np.concatenate((times, np.full(len(now), advance.watermark)))
        self._keys.take_left(numbers)  # Their events end what was left.
        ends = _queries(whose, self._ticks.ends(silent, before, until))
        found = Closings(
            _queries(whose, self._ticks.between(silent, before, until)),
            ends.where(self._keys.may_end(numbers[ends.groups])),
            _queries(whose, self._ticks.silences(silent, before, until)),
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
        left = np.flatnonzero(self._keys.take_left(numbers))
        ends = ends.and_(Queries(left, due[left]))
        ends = ends.where(self._keys.may_end(numbers[ends.groups]))
        self._keys.close(numbers[ends.groups], last_offset)
        coming = self._ticks.next_after(last_times, until)
        is_more = coming != NOT_DUE
        self._keys.closing.arm(numbers[is_more], coming[is_more])
        return Closings(
            _queries(keys, self._ticks.between(last_times, before, until)),
            ends,
            _queries(keys, self._ticks.silences(last_times, before, until)),
        )

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


class KeyAnswers:
    """The parts by which answers become outputs, for keys with events and silent ones."""

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        kernels: KernelCalls,
        emissions: PlacedEmissions,
        alerts: FollowedAlerts,
        chosen: ChosenRecords,
        ranked: RankedTicks | None = None,
        *,
        is_trial: bool = False,
    ) -> None:
        """Create them; a trial runs on copies of the states, and whether a key falls silent is not
        certain in it: silence is shown only where it is emitted at all.
        """
        self._topology = topology
        self._every, self._every_events = topology.every_ms, topology.every_events
        self._shows_silence = not is_trial or topology.emits_silence
        self._closing = Closing(topology, keys)
        self._finds_silence = self._closing.is_ever and (self._shows_silence or alerts.are_any)
        self._keys = keys
        self._kernels = kernels
        self._emissions = emissions
        self._alerts = alerts
        self._chosen = chosen
        self._ranked = ranked

    def trial(self, keys: HeldKeys, ranked: RankedTicks | None = None) -> Self:
        """Return the same for a trial on `keys`, whose rankings go to `ranked`."""
        emissions, alerts = self._emissions.provisional(), self._alerts.trial(keys)
        kept = emissions, alerts, self._chosen.on(keys), ranked
        return type(self)(self._topology, keys, self._kernels, *kept, is_trial=True)


class SilentKeys(KeyAnswers):
    """A source of answers for keys without events; their states stay as they are."""

    def answer(self, due: DueSlice, advance: Advance) -> PlacedAnswers:
        """Return the emissions that are due, in order."""
        numbers = np.union1d(due.opened.numbers, due.closing.numbers)
        states = self._keys.states.read(numbers)
        until = self._until(numbers, due)
        opened = np.searchsorted(numbers, due.opened.numbers)
        opening = Queries(opened, due.opened.ticks)
        closing = np.searchsorted(numbers, due.closing.numbers)
        found = self._closing.of_silent(
            due.closing.numbers,
            states.last_times[closing],
            due.closing.ticks,
            until[closing],
            advance.last_offset,
        )
        closings = Closings(*(Queries(closing[it.groups], it.times) for it in found))
        first = np.full(len(numbers), NOT_DUE)
        for places, ticks in ((opened, due.opened.ticks), (closing, due.closing.ticks)):
            first[places] = np.minimum(first[places], ticks)
        silences = Silences(np.arange(len(numbers)), states.last_times, first - 1, until)
        self._alerts.arm(numbers, states.alerts, silences)
        shown = due_now = opening
        if self._shows_silence:
            shown, due_now = shown.and_(closings.queries), shown.and_(closings.silences)
        silent = closings.queries.and_(closings.ends)
        if self._keys.are_expected:
            # A key that never came is not emitted; its alerts are evaluated.
            silent = silent.and_(opening)
            shown = shown.where(states.counts[shown.groups] > 0)
        asked = self._alerts.asked(
            numbers, states, shown, silent, silences, advance, follows=bool(self._chosen)
        )
        if not len(asked.queries.times):
            return NOTHING
        some, _ = np.unique(asked.queries.groups, return_inverse=True)
        asked, ends = asked.within(some), closings.ends.within(some)
        due_now = due_now.within(some)
        numbers, states = numbers[some], states.at(some)
        hand = Hand(self._keys.numbers.names(numbers), numbers, states)
        answered = self._kernels.ask(states, asked.queries)
        if (more := self._alerts.more(asked, answered)) is not None:
            asked, answered = more, self._kernels.ask(states, more.queries)
        queries, is_shown = asked.queries, asked.is_shown
        offsets = advance.source_offsets(queries.times)
        table = None
        if self._ranked:
            seen = np.where(states.counts > 0, states.last_times, NO_TIME)
            table = self._ranked.add(hand.names, queries, seen[queries.groups], answered)
        one_life = np.zeros(len(states), np.int64), np.zeros_like(queries.groups)
        is_shown = self._chosen.choose(
            hand, answered, queries, is_shown, due_now, one_life, advance
        )
        is_shown = is_shown & (queries.times > advance.emitted)
        placed = self._emissions.place(hand.names, *queries, offsets, answered, is_shown, table)
        last = states.last_times[queries.groups]
        return placed.with_alerts(self._alerts.follow(hand, answered, asked, last, ends, advance))

    def _until(self, numbers: Integers, due: DueSlice) -> Integers:
        """Return the last time of a slice for each key."""
        end_tick, end_name = due.end
        until = np.full(len(numbers), end_tick - 1)
        if end_name:
            names = self._keys.numbers.names(numbers)
            until[[name < end_name for name in names]] = end_tick
        return until
