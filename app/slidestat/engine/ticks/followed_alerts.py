"""Alerts at the ticks of keys, with or without emissions; their state is in the keys' states."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import Alerting, Evaluated
from slidestat.engine.clock import Advance, tick_after
from slidestat.engine.emissions.placed_answers import PlacedAlert
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import AlertTicks, Silences
from slidestat.engine.keys.states import States
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.queries import NO_QUERIES, Hand, Queries
from slidestat.synopses.core.arrays import Bools, Integers

# The ticks at which alerts are evaluated.
#
# Alerts are evaluated at the ticks at which a key is emitted, at those at which a window that they
# read empties, and, while an alert of the key waits or fires, at every tick. Whether one does at a
# tick follows from the ticks before. So the ticks in between are asked for keys that had one
# before, and, if a condition holds at any of the others, all of them are asked for a second time.


class Asked(NamedTuple):
    """Queries of some keys. At the shown ones a key is emitted; at the due ones its alerts are
    evaluated; at the others only if an alert waits or fires. All ticks of the keys at the places
    `followed` are included; `silences` are the stretches in which they lie.
    """

    queries: Queries
    is_shown: Bools
    is_due: Bools
    followed: frozenset[int]
    silences: Silences
    passed: Integers

    def within(self, groups: Integers) -> "Asked":
        """Return the queries with their keys' places among the rising `groups`, which have all."""
        place = np.full(max((groups.max(initial=-1), self.silences.groups.max(initial=-1))) + 1, -1)
        place[groups] = np.arange(len(groups))
        silences = self.silences._replace(groups=place[self.silences.groups])
        return self._replace(
            queries=Queries(place[self.queries.groups], self.queries.times),
            followed=frozenset(place[list(self.followed)].tolist()) - {-1},
            silences=silences.at(silences.groups >= 0),
            passed=self.passed[groups],
        )


class FollowedAlerts:
    """A follower of the alerts of a partition's keys, from tick to tick."""

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        alerting: Alerting | None,
        *,
        tell_again: bool = False,
        judge_all_at: int | None = None,
    ) -> None:
        """Create the follower; `alerting` is None where there are no alerts.

        If other alerts were declared before, with `tell_again` changes at ticks that are out are
        emitted again, and the alerts of all keys are evaluated at the tick `judge_all_at`.
        """
        self._tell_again = tell_again
        self._judge_all_at = judge_all_at
        self._topology = topology
        self._keys = keys
        self._alerting = alerting
        self.are_any = alerting is not None
        self._ticks = AlertTicks(topology) if self.are_any else None

    def trial(self, keys: HeldKeys) -> "FollowedAlerts":
        """Return a follower for a trial on `keys`, whose changes are provisional."""
        alerting = None if self._alerting is None else self._alerting.provisional()
        at = self._judge_all_at
        return FollowedAlerts(self._topology, keys, alerting, judge_all_at=at)

    def asked(
        self,
        numbers: Integers,
        states: States,
        shown: Queries,
        silent: Queries,
        silences: Silences,
        advance: Advance,
        *,
        follows: bool,
    ) -> Asked:
        """Return the queries of keys: for the emissions that are `shown`, for the ticks of their
        silence, shown or not, and for what else their alerts need; but for ticks that the states
        have absorbed, or, where there are no alerts, that were emitted.

        With alerts, or if something else `follows` the emissions, what was emitted does not count,
        as it must be followed in each state.
        """
        if self._alerting is None or self._ticks is None:
            passed = states.watermarks
            if not follows:
                passed = np.maximum(passed, advance.emitted)
            queries = shown.where(shown.times > passed[shown.groups]).distinct()
            every = np.ones(len(queries.times), dtype=bool)
            return Asked(queries, every, every, frozenset(), silences, passed)
        passed = states.watermarks
        shown = shown.where(shown.times > passed[shown.groups]).distinct()
        due = shown.and_(silent).and_(Queries(*self._ticks.of_all(silences)))
        due = due.and_(self._unconfirmed(numbers, silences)).and_(self._judged_anew(silences))
        due = due.where(due.times > passed[due.groups]).distinct()
        followed = frozenset(states.alerts)
        asked = Asked(
            due, due.are_in(shown), np.ones(len(due.times), bool), followed, silences, passed
        )
        return self._with_standing(asked, followed)

    def more(self, asked: Asked, answered: Mapping[Runner, Answered]) -> Asked | None:
        """Return the queries with those of keys of which an alert begins to wait or to fire at one
        of the answers, at the ticks after it; None if there are no others.
        """
        if self._alerting is None or not len(asked.queries.times):
            return None
        silences, every = asked.silences, self._topology.every_ms
        if not (tick_after(silences.after, every) + every <= silences.until).any():
            return None
        holding = self._alerting.holding(
            answered, asked.queries.groups, asked.queries.times, asked.is_due
        )
        found = frozenset(holding) - asked.followed
        if not found:
            return None
        more = self._with_standing(asked, found)
        return more if len(more.queries.times) > len(asked.queries.times) else None

    def _with_standing(self, asked: Asked, followed: frozenset[int]) -> Asked:
        """Return the queries with all that are needed of these keys if an alert waits or fires."""
        if not followed or self._ticks is None:
            return asked
        is_of_them = np.isin(asked.silences.groups, list(followed))
        further = Queries(*self._ticks.of_standing(asked.silences.at(is_of_them)))
        further = further.where(further.times > asked.passed[further.groups]).distinct()
        further = further.where(~further.are_in(asked.queries))
        if not len(further.times):
            return asked._replace(followed=asked.followed | followed)
        queries = asked.queries.and_(further)
        order = np.lexsort((queries.times, queries.groups))
        none = np.zeros(len(further.times), dtype=bool)
        return Asked(
            Queries(queries.groups[order], queries.times[order]),
            np.concatenate((asked.is_shown, none))[order],
            np.concatenate((asked.is_due, none))[order],
            asked.followed | followed,
            asked.silences,
            asked.passed,
        )

    def kept(self, standings: bytes) -> bytes:
        """Return the standings of a key's declared alerts, for a state that is written."""
        return b"" if self._alerting is None else self._alerting.kept(standings)

    def follow(
        self,
        hand: Hand,
        answered: Mapping[Runner, Answered],
        asked: Asked,
        last: Integers,
        ends: Queries,
        advance: Advance,
    ) -> list[PlacedAlert]:
        """Evaluate the alerts of keys at the ticks that are due; keep the alerts' state, and return
        the changes to emit. `last` is the time of the last event before each query; at `ends` keys
        are forgotten.
        """
        if self._alerting is None or self._ticks is None:
            return []
        names, alerts = hand.names, hand.states.alerts
        queries = asked.queries
        changed, standing, records = self._alerting.follow(
            names,
            [alerts.get(place, b"") for place in range(len(names))],
            answered,
            Evaluated(*queries, advance.source_offsets(queries.times), last, asked.is_due),
            {
                (tick, names[group])
                for group, tick in zip(ends.groups.tolist(), ends.times.tolist(), strict=True)
            },
            advance.loss,
        )
        if changed:
            self._keys.keep_beside("alerts", changed, advance.last_offset)
        self.arm(hand.numbers, standing, asked.silences)
        return [
            (place, it)
            for place, it in records
            if self._tell_again or it.timestamp > advance.emitted
        ]

    def arm(self, numbers: Integers, standing: Collection[int], silences: Silences) -> None:
        """Have keys looked at again at the next tick at which their alerts may change; at the
        places `standing` one waits or fires. The last stretch of each key is in the order of the
        keys, behind all others.
        """
        if self._ticks is None:
            return
        last = silences.at(np.arange(len(silences.groups) - len(numbers), len(silences.groups)))
        is_standing = np.zeros(len(numbers), dtype=bool)
        is_standing[list(standing)] = True
        coming = self._ticks.next_after(last.last_times, last.until, is_standing)
        others = self._unconfirmed(numbers, silences, are_coming=True)
        np.minimum.at(coming, others.groups, others.times)
        is_sooner = self._keys.closing.due(numbers) > coming
        self._keys.closing.set(numbers[is_sooner], coming[is_sooner])

    def _judged_anew(self, silences: Silences) -> Queries:
        """Return the tick at which the alerts of all keys are evaluated, of those with an event."""
        if (at := self._judge_all_at) is None:
            return NO_QUERIES
        is_there = (silences.after < at) & (at <= silences.until)
        groups = silences.groups[is_there & (silences.last_times != NO_TIME)]
        return Queries(groups, np.full(len(groups), at))

    def _unconfirmed(
        self, numbers: Integers, silences: Silences, *, are_coming: bool = False
    ) -> Queries:
        """Return the ticks with provisional alerts of keys, up to the end of their last stretches;
        with `are_coming` those after it.
        """
        if self._alerting is None or not self._alerting.unconfirmed.of:
            return NO_QUERIES
        place_of = {number: place for place, number in enumerate(numbers.tolist())}
        until = silences.until[len(silences.until) - len(numbers) :].tolist()
        keys = self._alerting.unconfirmed.of
        found = [
            (place_of[number], tick)
            for number, ticks in zip(
                self._keys.numbered(list(keys)).tolist(), keys.values(), strict=True
            )
            if number in place_of
            for tick in ticks
            if (tick > until[place_of[number]]) == are_coming
        ]
        groups, times = np.array(found, np.int64).reshape(-1, 2).T
        return Queries(groups, times)
