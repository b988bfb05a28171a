"""Events into the states of their keys, and the keys' emissions at the ticks between."""

import numpy as np

from slidestat.declare.statistics.runner import BorrowingRunner
from slidestat.engine import clock
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.events import Events
from slidestat.engine.keys.held_keys import DueBeside
from slidestat.engine.keys.key_timers import NO_SILENCES, NOT_DUE, Silences
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.keys.states import States, objects
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.kernel_calls import Ran, gaps_of, numbers_in_life, previous_times
from slidestat.engine.ticks.queries import NO_QUERIES, Hand, Queries
from slidestat.engine.ticks.silent_keys import KeyAnswers
from slidestat.synopses.core.arrays import Bools, Integers


class Absorber(KeyAnswers):
    """A processor that absorbs waiting events, those of many keys at once."""

    def absorb(
        self, keyed: KeyedEvents, advance: Advance, taken: DueBeside | None = None
    ) -> PlacedAnswers:
        """Insert events, and return the answers for their keys at the ticks that the watermark
        passes, in order. `taken` is what was due of these keys, where that is known.
        """
        if not len(keyed.events):
            return NOTHING
        numbers = self._keys.numbered(keyed.names)
        due = taken or self._keys.take_due(numbers, advance.watermark)
        states = self._keys.states.load(numbers)
        groups, times = keyed.groups, keyed.events.times
        queries = self._passed(numbers, groups, times, due, advance.watermark)
        rows = None
        is_new = keyed.events.offsets > states.offsets[groups]
        is_new |= times > states.watermarks[groups]
        if not is_new.all():
            rows = np.flatnonzero(is_new)
            groups, times = groups[rows], times[rows]
        previous = previous_times(groups, times, states.last_times)
        gaps = gaps_of(previous, times, self._topology.forget_ms)
        if self._every_events is not None:
            ranks = numbers_in_life(groups, gaps, states.counts)
            queries = self._counted_to(ranks, groups, times, advance.watermark)
        silent, ends, due_now = NO_QUERIES, NO_QUERIES, queries
        if self._finds_silence:
            silent, ends, of_silences = self._closing.find(
                numbers, states.last_times, groups, times, previous, due.is_closing, advance
            )
            if self._shows_silence:
                queries, due_now = queries.and_(silent), queries.and_(of_silences)
        silences = NO_SILENCES
        if self._alerts.are_any:
            last_times = states.last_times.copy()
            last_times[groups] = times  # The last row of a key wins.
            silences = Silences.around(groups, times, previous, last_times, advance)
        asked = self._alerts.asked(
            numbers, states, queries, silent, silences, advance, follows=bool(self._chosen)
        )
        events = keyed.events if rows is None else keyed.events.take(rows)
        hand = Hand(keyed.names, numbers, states)
        ran = self._kernels.absorb(states, events, groups, gaps, asked.queries)
        if (more := self._alerts.more(asked, ran.answered)) is not None:
            asked, ran = more, self._kernels.absorb(states, events, groups, gaps, more.queries)
        self._keep(hand, ran, events, groups, advance)
        queries = asked.queries
        offsets = advance.source_offsets(queries.times)
        runs = ran.runs
        lives = runs.last - runs.first, runs.run_of - runs.first[queries.groups]
        is_shown = self._chosen.choose(
            hand, ran.answered, queries, asked.is_shown, due_now, lives, advance
        )
        is_shown = is_shown & (queries.times > advance.emitted)
        everything, table = np.concatenate((np.arange(len(numbers)), groups)), None
        if self._keys.are_expected or self._ranked:
            # A key has no emissions, and no place, before its first event.
            seen = np.where(states.counts > 0, states.last_times, NO_TIME)
            last = queries.last_before(everything, np.concatenate((seen, times)))
            is_shown &= last != NO_TIME
            if self._ranked:
                table = self._ranked.add(hand.names, queries, last, ran.answered)
        placed = self._emissions.place(
            keyed.names, *queries, offsets, ran.answered, is_shown, table
        )
        if not self._alerts.are_any:
            return placed
        last = queries.last_before(everything, np.concatenate((states.last_times, times)))
        return placed.with_alerts(
            self._alerts.follow(hand, ran.answered, asked, last, ends, advance)
        )

    def _passed(
        self, numbers: Integers, groups: Integers, times: Integers, due: DueBeside, watermark: int
    ) -> Queries:
        """Return the ticks of events and what was due, as far as the watermark has come; the
        others' timers are armed. None if events are counted to.
        """
        if self._every_events is not None:
            return NO_QUERIES
        ticks = clock.tick_after(times, self._every)
        first = np.ones(len(ticks), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] != ticks[:-1])
        beside = np.flatnonzero(due.opened != NOT_DUE)
        queries = Queries(beside, due.opened[beside])
        queries = queries.and_(Queries(groups[first], ticks[first]))
        still_open = queries.times > watermark
        coming = queries.where(still_open)
        # An event read again may belong to an earlier tick than what its state is ahead by.
        self._keys.opened.arm(numbers[coming.groups], coming.times)
        return queries.where(~still_open)

    def _counted_to(
        self, ranks: Integers, groups: Integers, times: Integers, watermark: int
    ) -> Queries:
        """Return the ticks of events whose number `ranks` asks for one, as far as the watermark has
        come: a question sees those of its own millisecond as well, in which more may come.
        """
        is_due = (ranks % (self._every_events or 1) == 0) & (times < watermark)
        return Queries(groups[is_due], clock.tick_after(times[is_due], self._every)).distinct()

    def _keep(
        self, hand: Hand, ran: Ran, events: Events, groups: Integers, advance: Advance
    ) -> None:
        """Keep the new states."""
        runs, answered = ran
        counts, numbers = hand.states.counts, hand.numbers
        starts = np.searchsorted(groups, np.arange(len(numbers) + 1))
        touched = np.flatnonzero(starts[1:] > starts[:-1])
        if not len(touched):
            return
        newest = starts[touched + 1] - 1
        last_runs = runs.last[touched]
        # A run that started from nothing has none of the events before.
        count = np.where(runs.first[touched] == last_runs, counts[touched], 0)
        count += runs.starts[last_runs + 1] - runs.starts[last_runs]
        used, alerts, written = self._kept_beside(hand, touched, runs.first != runs.last)
        states = States(
            np.full(len(touched), advance.watermark - (self._every_events is not None)),
            np.full(len(touched), advance.last_offset),
            events.times[newest],
            count,
            [
                objects(result.states)[last_runs]
                for runner, result in answered.items()
                if not isinstance(runner, BorrowingRunner)
            ],
            used,
            alerts,
            written,
        )
        first_offsets = np.minimum.reduceat(events.offsets, starts[touched])
        self._keys.states.put(numbers[touched], states, first_offsets)
        if interval := self._topology.synopses_ms:
            coming = clock.tick_after(states.last_times, interval)
            self._keys.unpublished.arm(numbers[touched], coming)

    def _kept_beside(
        self, hand: Hand, touched: Integers, is_reborn: Bools
    ) -> tuple[dict[int, bytes], dict[int, bytes], dict[int, bytes]]:
        """Return the used quotas of these keys, the state of their alerts, and what was written of
        them last; that of a key of G that `is_reborn` was written in another life.
        """
        used, alerts, written = hand.states.used, hand.states.alerts, hand.states.written
        charged = self._keys.used
        kept_used: dict[int, bytes] = {}
        kept_alerts: dict[int, bytes] = {}
        kept_written: dict[int, bytes] = {}
        if not (used or alerts or written or charged or self._chosen):
            return kept_used, kept_alerts, kept_written
        is_new = is_reborn | (hand.states.last_times == NO_TIME)
        for place, group in enumerate(touched.tolist()):
            own = charged.pop(hand.names[group], used.get(group, b""))
            if own:
                kept_used[place] = own
            standings = self._alerts.kept(alerts.get(group, b""))
            if standings:
                kept_alerts[place] = standings
            last = self._chosen.kept(written.get(group, b""), is_new=bool(is_new[group]))
            if last:
                kept_written[place] = last
        return kept_used, kept_alerts, kept_written
