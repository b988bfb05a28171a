"""Events into the states of their keys, and the keys' emissions at the ticks between."""

import numpy as np
import numpy.typing as npt

from slidestat.declare.runners import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.engine.clock import event_time
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.events import Events, distinct_texts
from slidestat.engine.keys.held_keys import DueKeys, HeldKeys
from slidestat.engine.keys.key_runs import KeyRuns, cut, gaps_of, previous_times
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.closing import Closing
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Queries

Int64s = npt.NDArray[np.int64]


class Absorber:
    """Absorbs events that wait, those of many keys at once."""

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
        """A trial says what would come, of keys that may be spoilt; whether a key falls silent is
        not sure in it.
        """
        self._topology = topology
        self._every = topology.every_ms
        self._span = topology.span_length
        self._closing = Closing(topology, keys)
        self._keys = keys
        self._kernels = kernels
        self._emissions = emissions
        self._alerts = alerts
        self._is_trial = is_trial

    def trial(self, keys: HeldKeys) -> "Absorber":
        """One that absorbs on trial, into `keys`."""
        emissions = self._emissions.provisional()
        none = FollowedAlerts(keys, None)
        return Absorber(self._topology, keys, self._kernels, emissions, none, is_trial=True)

    def absorb(
        self, events: Events, advance: Advance, taken: DueKeys | None = None
    ) -> PlacedAnswers:
        """Insert events; what their keys come to at the ticks that the watermark passes, in order.
        `taken` is what was due of these keys, or also of others, where that is known.
        """
        if not len(events):
            return NOTHING
        keys, groups = distinct_texts(events.keys)
        opened, closing = taken or self._keys.take_due(keys, advance.watermark)
        due = [(group, opened[key]) for group, key in enumerate(keys) if key in opened]
        silent = [group for group, key in enumerate(keys) if key in closing]
        states = self._keys.cache.load(keys)

        order, _ = event_time.group_rows(groups, len(keys))
        groups, times = groups[order], events.times[order]
        queries = self._passed(keys, groups, times, Queries.of(due), advance.watermark)
        absorbed_watermarks = np.array([s.watermark for s in states], dtype=np.int64)
        absorbed_offsets = np.array([s.offset for s in states], dtype=np.int64)
        new = (events.offsets[order] > absorbed_offsets[groups]) | (
            times > absorbed_watermarks[groups]
        )
        if not new.all():
            groups, times, order = groups[new], times[new], order[new]
        gaps = np.zeros(len(times), dtype=bool)
        ends = Queries.of([])
        if self._closing.is_ever:
            last_times = np.array([s.last_time for s in states], dtype=np.int64)
            previous = previous_times(groups, times, last_times)
            if self._topology.forget_ms is not None:
                gaps = gaps_of(previous, times, self._topology.forget_ms)
            if not self._is_trial:
                closings, ends = self._closing.find(
                    keys, states, groups, times, previous, silent, advance
                )
                queries = queries.and_(closings)
        passed = self._alerts.passed(absorbed_watermarks, advance)
        queries = queries.where(queries.times > passed[queries.groups]).distinct()
        runs = cut(groups, gaps, times, len(keys), *queries)
        answered = self._run(keys, states, runs, events, order, groups, queries, advance)
        offsets = advance.source_offsets(queries.times)
        placed = self._emissions.place(keys, *queries, offsets, answered, advance.emitted)
        forgotten = {
            (tick, keys[group])
            for tick, group in zip(ends.times.tolist(), ends.groups.tolist(), strict=True)
        }
        alerts = self._alerts.follow(keys, states, answered, queries, forgotten, advance)
        return placed.with_alerts(alerts)

    def _passed(
        self, keys: list[str], groups: Int64s, times: Int64s, due: Queries, watermark: int
    ) -> Queries:
        """Return the ticks of events and what was due, as far as the watermark has come; the
        others' timers are armed.
        """
        ticks = event_time.tick_after(times, self._every)
        first = np.ones(len(ticks), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] != ticks[:-1])
        queries = due.and_(Queries(groups[first], ticks[first]))
        still_open = queries.times > watermark
        coming = queries.where(still_open)
        for group, tick in zip(coming.groups.tolist(), coming.times.tolist(), strict=True):
            # An event read again may belong to an earlier tick than what its state is ahead by.
            self._keys.opened.arm(keys[group], tick)
        return queries.where(~still_open)

    def _run(
        self,
        keys: list[str],
        states: list[KeyState],
        runs: KeyRuns,
        events: Events,
        order: Int64s,
        groups: Int64s,
        queries: Queries,
        advance: Advance,
    ) -> dict[Runner, Answered]:
        """Run every synopsis over all keys; keep the new states; return the answers."""
        times, query_times = events.times[order], queries.times
        numbers = np.array([state.number for state in states], np.int64)
        starts = np.searchsorted(groups, np.arange(len(keys) + 1))
        if self._span.of_events:
            # Events are numbered by key, and the numbers stand for times: so a window of time is
            # a window of events. A key that starts anew is numbered anew.
            counts = queries.events_before(groups, times, starts)
            before = runs.numbers_before(numbers, starts)
            query_times = before[runs.run_of] + starts[queries.groups] + counts + 1
            of_run = np.repeat(before, np.diff(runs.starts))
            times = of_run + np.arange(len(groups)) + 1
        answered = self._kernels.absorb(states, runs, times, events, order, query_times)
        touched = np.flatnonzero(starts[1:] > starts[:-1])
        newest = starts[touched + 1] - 1
        last_runs = runs.last[touched]
        # A run that started anew has none of the events before.
        number = np.where(runs.first[touched] == last_runs, numbers[touched], 0)
        number += runs.starts[last_runs + 1] - runs.starts[last_runs]
        last_times = events.times[order[newest]]
        first_offsets = np.minimum.reduceat(events.offsets[order], starts[touched]).tolist()
        watermark, offset = advance.watermark, advance.last_offset
        synopses = list(zip(*(result.states for result in answered.values()), strict=True))
        cache, kept = self._keys.cache, self._alerts.kept
        encode, take_used = cache.layout.encode, self._keys.used.pop
        for group, run, last_time, events_in_all, first_offset in zip(
            touched.tolist(),
            last_runs.tolist(),
            last_times.tolist(),
            number.tolist(),
            first_offsets,
            strict=True,
        ):
            key, previous = keys[group], states[group]
            used, alerts = take_used(key, previous.used), kept(previous.alerts)
            state = KeyState(
                watermark, offset, last_time, events_in_all, synopses[run], used, alerts
            )
            cache.put(key, encode(state), first_offset)
        return answered
