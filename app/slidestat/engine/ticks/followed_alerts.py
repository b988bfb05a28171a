"""Alerts at the emissions of keys; their state is kept in the keys' states."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.engine.alerts.alerting import Alerting, Changed, Emitted
from slidestat.engine.clock import Advance
from slidestat.engine.emissions.placed_answers import PlacedAlert
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.ticks.queries import Hand, Queries
from slidestat.synopses.core.arrays import Integers


class FollowedAlerts:
    """A follower of the alerts of a partition's keys, from emission to emission."""

    def __init__(
        self, keys: HeldKeys, alerting: Alerting | None, *, tell_again: bool = False
    ) -> None:
        """Create the follower; `alerting` is None where there are no alerts, and in a trial, which
        must not emit changes that are not certain.

        With `tell_again`, changes at emissions that are out are emitted again, if other alerts were
        declared then.
        """
        self._tell_again = tell_again
        self._keys = keys
        self._alerting = alerting

    def passed(self, absorbed_watermarks: Integers, advance: Advance) -> Integers:
        """Return the times up to which keys need no answers: their states have absorbed them, or
        they were emitted.

        With alerts, what was emitted does not count, as an alert must follow it in each state.
        """
        if self._alerting is not None:
            return absorbed_watermarks
        return np.maximum(absorbed_watermarks, advance.emitted)

    def kept(self, standings: bytes) -> bytes:
        """Return the standings of a key's declared alerts, for a state that is written."""
        return b"" if self._alerting is None else self._alerting.kept(standings)

    def follow(
        self,
        hand: Hand,
        answered: dict[Runner, Answered],
        queries: Queries,
        ends: Queries,
        advance: Advance,
    ) -> list[PlacedAlert]:
        """Apply the emissions of keys to their alerts; keep the alerts' state, and return the
        changes to emit. At `ends` keys are forgotten.
        """
        if self._alerting is None:
            return []
        names, alerts = hand.names, hand.states.alerts
        changed, records = self._alerting.follow(
            names,
            [alerts.get(place, b"") for place in range(len(names))],
            answered,
            Emitted(*queries, advance.source_offsets(queries.times)),
            {
                (tick, names[group])
                for group, tick in zip(ends.groups.tolist(), ends.times.tolist(), strict=True)
            },
            advance.loss,
        )
        if changed:
            self._keep(changed, advance.last_offset)
        return [
            (place, it)
            for place, it in records
            if self._tell_again or it.timestamp > advance.emitted
        ]

    def _keep(self, changed: Sequence[Changed], last_offset: int) -> None:
        """Put the state of alerts into the states of their keys, as they are now."""
        numbers = self._keys.numbered([change.key for change in changed])
        states = self._keys.states.load(numbers)
        # No event before the tick waits: the state may have a watermark that has passed it.
        ticks = np.array([change.tick for change in changed], np.int64)
        # Events that wait are charged up to that offset: what they have used goes along.
        charged = self._keys.used
        used = {
            place: charged.get(change.key, states.used.get(place, b""))
            for place, change in enumerate(changed)
        }
        now = replace(
            states,
            watermarks=np.maximum(states.watermarks, ticks),
            offsets=np.full(len(changed), last_offset),
            used={place: own for place, own in used.items() if own},
            alerts={place: it.standings for place, it in enumerate(changed) if it.standings},
        )
        first_offsets = np.array([change.first_offset for change in changed], np.int64)
        self._keys.states.put(numbers, now, first_offsets)
