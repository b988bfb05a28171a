"""Events into the states of their keys, and the keys' emissions at the ticks between."""

import numpy as np

from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.engine import clock
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.events import Events
from slidestat.engine.keys.held_keys import DueBeside, HeldKeys
from slidestat.engine.keys.key_timers import NOT_DUE
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.keys.states import States, objects
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls, KeyRuns, cut, gaps_of, previous_times
from slidestat.engine.ticks.queries import NO_QUERIES, Hand, Queries
from slidestat.engine.ticks.silent_keys import Closing
from slidestat.synopses.core.arrays import Integers


class Absorber:
    """A processor that absorbs waiting events, those of many keys at once."""

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        kernels: KernelCalls,
        emissions: PlacedEmissions,
        alerts: FollowedAlerts,
        *,
        is_trial: bool = False,
    ) -> None:
        """Create the absorber; a trial runs on copies of the states, and whether a key falls silent
        is not certain in it: it is told only where silence is emitted at all.
        """
        self._topology = topology
        self._every = topology.every_ms
        self._span = topology.span_length
        self._closing = Closing(topology, keys)
        self._keys = keys
        self._kernels = kernels
        self._emissions = emissions
        self._alerts = alerts
        self._finds_silence = self._closing.is_ever and (not is_trial or topology.emits_silence)

    def trial(self, keys: HeldKeys) -> "Absorber":
        """Return an absorber for a trial on `keys`."""
        emissions = self._emissions.provisional()
        none = FollowedAlerts(keys, None)
        return Absorber(self._topology, keys, self._kernels, emissions, none, is_trial=True)

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
        gaps = np.zeros(len(times), dtype=bool)
        ends = NO_QUERIES
        if self._closing.is_ever:
            previous = previous_times(groups, times, states.last_times)
            if self._topology.forget_ms is not None:
                gaps = gaps_of(previous, times, self._topology.forget_ms)
            if self._finds_silence:
                closings, ends = self._closing.find(
                    numbers, states.last_times, groups, times, previous, due.is_closing, advance
                )
                queries = queries.and_(closings)
        passed = self._alerts.passed(states.watermarks, advance)
        queries = queries.where(queries.times > passed[queries.groups]).distinct()
        runs = cut(groups, gaps, times, len(numbers), *queries)
        events = keyed.events if rows is None else keyed.events.take(rows)
        hand = Hand(keyed.names, numbers, states)
        answered = self._run(hand, runs, events, groups, queries, advance)
        offsets = advance.source_offsets(queries.times)
        placed = self._emissions.place(keyed.names, *queries, offsets, answered, advance.emitted)
        return placed.with_alerts(self._alerts.follow(hand, answered, queries, ends, advance))

    def _passed(
        self, numbers: Integers, groups: Integers, times: Integers, due: DueBeside, watermark: int
    ) -> Queries:
        """Return the ticks of events and what was due, as far as the watermark has come; the
        others' timers are armed.
        """
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

    def _run(
        self,
        hand: Hand,
        runs: KeyRuns,
        events: Events,
        groups: Integers,
        queries: Queries,
        advance: Advance,
    ) -> dict[Runner, Answered]:
        """Run every synopsis over all keys; keep the new states; return the answers."""
        times, query_times = events.times, queries.times
        counts, numbers = hand.states.counts, hand.numbers
        starts = np.searchsorted(groups, np.arange(len(numbers) + 1))
        if self._span.of_events:
            # Events are numbered by key, and the numbers are used as times: so a window of time is
            # a window of events. A key that starts again is numbered from the start.
            passed = queries.events_before(groups, times, starts)
            before = runs.numbers_before(counts, starts)
            query_times = before[runs.run_of] + starts[queries.groups] + passed + 1
            of_run = np.repeat(before, np.diff(runs.starts))
            times = of_run + np.arange(len(groups)) + 1
        answered = self._kernels.absorb(hand.states, runs, times, events, query_times)
        touched = np.flatnonzero(starts[1:] > starts[:-1])
        if not len(touched):
            return answered
        newest = starts[touched + 1] - 1
        last_runs = runs.last[touched]
        # A run that started from nothing has none of the events before.
        count = np.where(runs.first[touched] == last_runs, counts[touched], 0)
        count += runs.starts[last_runs + 1] - runs.starts[last_runs]
        used, alerts = self._kept_beside(hand, touched)
        states = States(
            np.full(len(touched), advance.watermark),
            np.full(len(touched), advance.last_offset),
            events.times[newest],
            count,
            [objects(result.states)[last_runs] for result in answered.values()],
            used,
            alerts,
        )
        first_offsets = np.minimum.reduceat(events.offsets, starts[touched])
        self._keys.states.put(numbers[touched], states, first_offsets)
        return answered

    def _kept_beside(
        self, hand: Hand, touched: Integers
    ) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Return the used quotas of these keys, and the state of their alerts."""
        used, alerts = hand.states.used, hand.states.alerts
        charged = self._keys.used
        if not (used or alerts or charged):
            return {}, {}
        kept_used, kept_alerts = {}, {}
        for place, group in enumerate(touched.tolist()):
            own = charged.pop(hand.names[group], used.get(group, b""))
            if own:
                kept_used[place] = own
            standings = self._alerts.kept(alerts.get(group, b""))
            if standings:
                kept_alerts[place] = standings
        return kept_used, kept_alerts
