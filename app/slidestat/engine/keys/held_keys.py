"""The keys of a partition: their states, what they have used of their quotas, and what is due."""

from itertools import islice
from typing import NamedTuple

from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import Alerting
from slidestat.engine.clock.event_time import closing_tick
from slidestat.engine.keys.key_cache import KeyCache, PartitionStore
from slidestat.engine.keys.key_state import (
    KeyState,
    decode_key_state,
    may_have_alerts,
    read_clock,
)
from slidestat.engine.keys.key_timers import KeyTimers
from slidestat.engine.keys.state_layout import AS_DECLARED, StateLayout
from slidestat.engine.partition_work import PartitionWork


class DueKeys(NamedTuple):
    """Of keys with events, those of which something is due besides: at which tick, and which may
    fall silent.
    """

    opened: dict[str, int]
    closing: set[str]


class HeldKeys:
    """All that is remembered by key."""

    def __init__(self, cache: KeyCache) -> None:
        self.cache = cache
        # What keys have used of their quotas, where events that wait have changed it.
        self.used: dict[str, bytes] = {}
        # Keys whose newest event is in no emission yet; keys whose last emission is to come, or
        # one of them; and keys that had it, with the offset up to which they have absorbed.
        self.opened = KeyTimers()
        self.closing = KeyTimers()
        self.closed: dict[str, int] = {}

    @classmethod
    def restored(
        cls,
        topology: Topology,
        store: PartitionStore,
        watermark: int,
        limit: int,
        work: PartitionWork,
        alerting: Alerting | None = None,
        layout: StateLayout = AS_DECLARED,
    ) -> "HeldKeys":
        """The stored keys, with their timers; of the states `limit` stay in memory. `alerting` is
        told how their alerts stand; `layout` says where their synopses stand.

        A state may be ahead of the checkpoint, also in events that will not be read again: it is
        asked for the ticks of its own newest event, not for the checkpoint's next tick.
        """
        held = cls(KeyCache(store, limit, work, layout))
        every = topology.every_ms
        keys = 0
        for key, state in store.scan():
            keys += 1
            held.cache.sample.add(key)
            clock = read_clock(state)
            if alerting is not None and may_have_alerts(state):
                alerting.found(decode_key_state(state).alerts)
            passed = max(watermark, clock.watermark)
            tick = (clock.last_time // every + 1) * every
            if tick > passed:
                held.opened.arm(key, tick)
            closings = (closing_tick(clock.last_time, s, every) for s in topology.silences)
            closing = next((tick for tick in closings if tick > passed), None)
            if closing is not None:
                held.closing.arm(key, closing)
            elif topology.forget_ms is not None:
                held.closed[key] = clock.offset
        held.cache.keys_held = keys
        return held

    def trial(self) -> "HeldKeys":
        """The same keys, to be spoilt. Whether one falls silent is not sure in a trial."""
        trial = HeldKeys(self.cache.copy())
        trial.used = dict(self.used)
        trial.opened = self.opened.copy()
        return trial

    def trial_of(self, key: str) -> "HeldKeys":
        """The same key, to be spoilt, with nothing that is due."""
        trial = HeldKeys(self.cache.copy([key]))
        trial.used = dict(self.used)
        return trial

    def read_with_used(self, keys: list[str]) -> list[KeyState]:
        """States of keys, with what their events that wait have used of their quotas."""
        return [
            state._replace(used=self.used.get(key, state.used))
            for key, state in zip(keys, self.cache.read(keys), strict=True)
        ]

    def take_due(self, keys: list[str], watermark: int) -> DueKeys:
        """Take the timers of keys that are due up to the watermark."""
        ticks = ((key, self.opened.take(key, watermark)) for key in keys)
        return DueKeys(
            {key: tick for key, tick in ticks if tick is not None},
            {key for key in keys if self.closing.take(key, watermark) is not None},
        )

    def delete_closed(self, durable_offset: int, most: int) -> None:
        """Delete the states of closed keys that a restarted worker would not come upon again: one
        that was deleted and had to absorb its last events anew would make another state of them.
        """
        settled = list(
            islice((key for key, offset in self.closed.items() if offset < durable_offset), most)
        )
        for key in settled:
            del self.closed[key]
        self.cache.delete(settled)
