"""Alerts at the emissions of keys; how they stand is kept in the keys' states."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.declare.runners import Answered, Runner
from slidestat.engine.alerts.alerting import Alerting, Emitted
from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.keys.key_timers import Place
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.queries import Queries

Int64s = npt.NDArray[np.int64]


class FollowedAlerts:
    """Takes the alerts of a partition's keys on."""

    def __init__(
        self, keys: HeldKeys, alerting: Alerting | None, *, tell_again: bool = False
    ) -> None:
        """`alerting` is None where there are no alerts, and in a trial: they tell nothing of what
        is not sure. They `tell_again` what becomes of them at emissions that are out, if that was
        not told by the same alerts.
        """
        self._tell_again = tell_again
        self._keys = keys
        self._alerting = alerting

    def passed(self, absorbed_watermarks: Int64s, advance: Advance) -> Int64s:
        """Up to where keys need no answers: their states have absorbed it, or it was emitted. But
        of what was emitted alerts must go on, where a state has not.
        """
        if self._alerting is not None:
            return absorbed_watermarks
        return np.maximum(absorbed_watermarks, advance.emitted)

    def kept(self, standings: bytes) -> bytes:
        """How the alerts of a key stand that are declared, for a state that is written."""
        return b"" if self._alerting is None else self._alerting.kept(standings)

    def follow(
        self,
        keys: Sequence[str],
        states: Sequence[KeyState],
        answered: dict[Runner, Answered],
        queries: Queries,
        forgotten: set[Place],
        advance: Advance,
    ) -> list[tuple[Place, AlertRecord]]:
        """Take the alerts of keys on by their emissions, of states as they were before; keep how
        they stand, and return what is to be told. Keys end at `forgotten`.
        """
        if self._alerting is None:
            return []
        changed, records = self._alerting.follow(
            keys,
            [state.alerts for state in states],
            answered,
            Emitted(*queries, advance.source_offsets(queries.times)),
            forgotten,
            advance.loss,
        )
        kept = self._keys.cache.read([change.key for change in changed])
        for change, state in zip(changed, kept, strict=True):
            # No event before the tick waits: the state may say that it has passed it.
            # Events that wait are charged up to that offset: what they have used goes along.
            now = state._replace(
                watermark=max(state.watermark, change.tick),
                offset=advance.last_offset,
                used=self._keys.used.get(change.key, state.used),
                alerts=change.standings,
            )
            stored = self._keys.cache.layout.encode(now)
            self._keys.cache.put(change.key, stored, change.first_offset)
        return [
            (place, it)
            for place, it in records
            if self._tell_again or it.timestamp > advance.emitted
        ]
