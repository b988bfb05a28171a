"""The keys of a partition: their states, what they have used of their quotas, and what is due."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import Alerting
from slidestat.engine.keys.columns import fitted
from slidestat.engine.keys.deadlines import Deadlines
from slidestat.engine.keys.key_numbers import KeyNumbers
from slidestat.engine.keys.key_state import (
    AS_DECLARED,
    KeyState,
    StateLayout,
    decode_key_state,
    may_have_alerts,
    read_clocks,
)
from slidestat.engine.keys.key_states import NEW_KEY, KeyStates
from slidestat.engine.keys.key_timers import NOT_DUE, KeyTimers
from slidestat.engine.keys.states import Beside
from slidestat.engine.keys.stored_keys import NoStates, PartitionStore
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.records import NO_TIME
from slidestat.synopses.core.arrays import Bools, Integers

_NOT_CLOSED = 2**63 - 1
# Stored keys are read this many at a time: other threads wait for Python's lock meanwhile.
_AT_ONCE = 20_000
# Numbers are looked through for such as can be given back once they are twice as many as the last
# time, and so many more.
_MORE_NUMBERS = 10_000


class DueBeside(NamedTuple):
    """The other deadlines of G keys with events, int64[G] and bool[G]: the tick at which a key is
    due, NOT_DUE if it is not; and whether it may fall silent.
    """

    opened: Integers
    is_closing: npt.NDArray[np.bool_]

    def between(self, start: int, end: int) -> "DueBeside":
        """Return the deadlines of some of the keys."""
        return DueBeside(self.opened[start:end], self.is_closing[start:end])


class HeldKeys:
    """The keys of a partition with all that is remembered of them."""

    def __init__(self, numbers: KeyNumbers, states: KeyStates) -> None:
        self.numbers = numbers
        self.states = states
        # The used quotas of keys, where events that wait have changed them.
        self.used: dict[str, bytes] = {}
        # Keys whose newest event is in no emission yet; keys whose last emission is to come, or
        # one of them; and keys that had it, with the offset up to which they have absorbed.
        self.opened = KeyTimers()
        self.closing = KeyTimers()
        # Keys with events that no published synopses have yet, by the tick at which they will be.
        self.unpublished = KeyTimers()
        self._closed_at = np.empty(0, np.int64)
        self._next_sweep = _MORE_NUMBERS
        # Keys that are never forgotten.
        self.expected: Sequence[str] = ()
        self._expected_numbers = np.empty(0, np.int64)
        # The first tick of a worker, if it has other alerts than the one before.
        self._judge_all_at: int | None = None
        # Keys that are no longer expected, while one of their alerts waits or fires.
        self._left = np.empty(0, np.int64)
        # The largest watermark of a state when they were restored.
        self.stored_watermark = NO_TIME

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
        expected: Mapping[str, int] = MappingProxyType({}),
        partition: int = 0,
        *,
        judge_all_at: int | None = None,
    ) -> "HeldKeys":
        """Return the stored keys, with their timers; `limit` of the states stay in memory.

        `alerting` gets the state of their alerts; `layout` has the places of their synopses; the
        `expected` ones of this partition are never forgotten; at the tick `judge_all_at` alerts are
        evaluated of all keys. A state may be ahead of the checkpoint, also in events that will not
        be read again: so ticks follow from its newest event, not from the checkpoint's next tick.
        """
        numbers = KeyNumbers()
        synopses = len(set(topology.runners))
        held = cls(numbers, KeyStates(numbers, store, synopses, limit, work, layout))
        held.states.keys_held = 0
        held._judge_all_at = judge_all_at
        held._expect(expected, partition)
        scan = store.scan()
        while some := list(islice(scan, _AT_ONCE)):
            names, states = [key for key, _ in some], [state for _, state in some]
            held.states.sample.add_all(names)
            is_standing = np.zeros(len(states), dtype=bool)
            if alerting is not None:
                for row, state in enumerate(states):
                    if may_have_alerts(state):
                        standings = decode_key_state(state).alerts
                        is_standing[row] = alerting.found(names[row], standings)
            clocks = read_clocks(states)
            held.stored_watermark = max(held.stored_watermark, int(clocks[:, 0].max()))
            held._arm(topology, names, clocks, watermark, is_standing)
            held.states.keys_held += len(names)
        return held

    def _arm(
        self,
        topology: Topology,
        names: Sequence[str],
        clocks: Integers,
        watermark: int,
        is_standing: Bools,
    ) -> None:
        """Set timers of stored keys by their clocks; of `standing` keys an alert waits or fires."""
        is_expected = np.zeros(len(names), bool)
        if self.expected:
            expected = frozenset(self.expected)
            is_expected[:] = [name in expected for name in names]
        due = Deadlines.of(
            topology, clocks, watermark, is_standing, is_expected, self._judge_all_at
        )
        rows = np.flatnonzero(due.are_any)
        numbers = np.full(len(names), -1)
        numbers[rows] = self.numbers.of([names[row] for row in rows.tolist()])
        self.fit()
        is_opened, is_closing = due.opened != NOT_DUE, due.closing != NOT_DUE
        self.opened.set(numbers[is_opened], due.opened[is_opened])
        self.closing.set(numbers[is_closing], due.closing[is_closing])
        is_unpublished = due.unpublished != NOT_DUE
        self.unpublished.set(numbers[is_unpublished], due.unpublished[is_unpublished])
        self._closed_at[numbers[due.are_closed]] = clocks[due.are_closed, 1]
        self._left = np.concatenate((self._left, numbers[due.are_left]))

    def fit(self) -> None:
        """Make room for all numbers that were given."""
        capacity = self.numbers.capacity
        if len(self._closed_at) < capacity:
            self.opened.fit(capacity)
            self.closing.fit(capacity)
            self.unpublished.fit(capacity)
            self._closed_at = fitted(self._closed_at, capacity, fill=_NOT_CLOSED)

    def _expect(self, expected: Mapping[str, int], partition: int) -> None:
        """Have those of these keys never forgotten that must come on this partition."""
        self.states.sample.watched = frozenset(expected)
        self._set_expected([key for key, place in expected.items() if place == partition])

    def _set_expected(self, names: Sequence[str]) -> None:
        self.expected, self._expected_numbers = names, self.numbered(names)

    def change_expected(
        self, topology: Topology, expected: Mapping[str, int], partition: int, watermark: int
    ) -> None:
        """Have other keys never forgotten from now on. Earlier ones may end again, by the timers
        that a restart would give them; those that have a state here are compared with their places.
        """
        before = set(self.expected)
        self._expect(expected, partition)
        changed = sorted(before ^ set(self.expected))
        for key, is_there in zip(expected, self.states.are_there([*expected]), strict=True):
            if is_there:
                self.states.sample.add(key)
        there = self.states.are_there(changed)
        changed = [name for name, is_there in zip(changed, there, strict=True) if is_there]
        numbers = self.numbered(changed)
        states = self.states.read(numbers)
        self.reopen(numbers)
        self._arm(topology, changed, states.clocks, watermark, states.are_standing)

    @property
    def are_expected(self) -> bool:
        """Return whether there are keys that may have a state without an event."""
        return bool(self.expected)

    def may_end(self, numbers: Integers) -> Bools:
        """Return, as bool[n], whether keys may be forgotten."""
        may: Bools = ~np.isin(numbers, self._expected_numbers)
        return may

    def take_left(self, numbers: Integers) -> Bools:
        """Return bool[n]: which keys were expected before this worker, and end; each named once."""
        left: Bools = np.isin(numbers, self._left)
        if left.any():
            self._left = np.setdiff1d(self._left, numbers)
        return left

    def numbered(self, names: Sequence[str]) -> Integers:
        """Return the numbers of keys, with room for what will be remembered of them."""
        numbers = self.numbers.of(names)
        self.fit()
        return numbers

    def trial(self, watermark: int, silent_after: int | None = None) -> "HeldKeys":
        """Return a copy of the keys for a trial, with the timers that are due up to a watermark.

        Those of silent keys are among them, for ticks later than `silent_after`, if given.
        """
        trial = self.trial_of_nothing()
        due, ticks = self.opened.due_until(watermark)
        trial.opened.set(trial.numbered(self.numbers.names(due)), ticks)
        if silent_after is not None:
            due, ticks = self.closing.due_until(watermark)
            ticks = np.maximum(ticks, silent_after + 1)
            trial.closing.set(trial.numbered(self.numbers.names(due)), ticks)
        return trial

    def trial_of_nothing(self) -> "HeldKeys":
        """Return a copy of the keys for a trial, with no timers."""
        numbers, states = KeyNumbers(), self.states
        beneath = KeyStates(
            numbers, _Beneath(states), states.synopses, limit=0, layout=states.layout
        )
        trial = HeldKeys(numbers, beneath)
        trial.used = dict(self.used)
        trial._set_expected(self.expected)
        return trial

    def read_with_used(self, keys: Sequence[str]) -> list[KeyState]:
        """Return the states of keys, with the use of their quotas by events that wait."""
        states = (state or NEW_KEY for state in self.states.peek_all(keys))
        return [
            state._replace(used=self.used.get(key, state.used))
            for key, state in zip(keys, states, strict=True)
        ]

    def keep_beside(
        self, what: Literal["alerts", "written"], changes: Sequence[Beside], last_offset: int
    ) -> None:
        """Put what follows from the emissions of keys into their states, as they are now."""
        numbers = self.numbered([change.key for change in changes])
        states = self.states.load(numbers)
        # No event before the tick waits: the state may have a watermark that has passed it.
        ticks = np.array([change.tick for change in changes], np.int64)
        # Events that wait are charged up to that offset: what they have used goes along.
        used = {
            place: self.used.get(change.key, states.used.get(place, b""))
            for place, change in enumerate(changes)
        }
        kept = {place: change.kept for place, change in enumerate(changes) if change.kept}
        now = replace(
            states,
            watermarks=np.maximum(states.watermarks, ticks),
            offsets=np.full(len(changes), last_offset),
            used={place: own for place, own in used.items() if own},
            alerts=kept if what == "alerts" else states.alerts,
            written=kept if what == "written" else states.written,
        )
        first_offsets = np.array([change.first_offset for change in changes], np.int64)
        self.states.put(numbers, now, first_offsets)

    def take_due(self, numbers: Integers, watermark: int) -> DueBeside:
        """Take the timers of keys that are due up to the watermark."""
        return DueBeside(
            self.opened.take(numbers, watermark), self.closing.take(numbers, watermark) != NOT_DUE
        )

    def close(self, numbers: Integers, last_offset: int) -> None:
        """Note keys that are forgotten, with the records up to `last_offset` read."""
        self._closed_at[numbers[self.may_end(numbers)]] = last_offset

    def reopen(self, numbers: Integers) -> None:
        """Note keys that are not forgotten."""
        self._closed_at[numbers] = _NOT_CLOSED

    def delete_closed(self, durable_offset: int, most: int) -> None:
        """Delete the states of closed keys whose events a restarted worker would not read again: a
        deleted state that had to absorb its last events again would become another one.
        """
        settled = np.flatnonzero(self._closed_at < durable_offset)[:most]
        self._closed_at[settled] = _NOT_CLOSED
        self.states.delete(settled)

    def give_back_numbers(self) -> None:
        """Forget the numbers of keys of which nothing is remembered; none may be in use."""
        if len(self.numbers) < self._next_sweep:
            return
        self.fit()
        is_used = self.opened.are_armed() | self.closing.are_armed()
        is_used |= self.unpublished.are_armed() | (self._closed_at != _NOT_CLOSED)
        is_used[self._expected_numbers] = True
        capacity = self.numbers.capacity
        self.numbers.release(
            self.numbers.unused(is_used[:capacity] | self.states.are_held()[:capacity])
        )
        self._next_sweep = 2 * len(self.numbers) + _MORE_NUMBERS


class _Beneath(NoStates):
    """The states of keys as the store of a trial, which lists and tells nothing."""

    def __init__(self, states: KeyStates) -> None:
        self._states = states

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """Return the states encoded as they would be stored, None for a key that has none."""
        encode = self._states.layout.encode
        states = self._states.peek_all(keys)
        return [None if state is None else encode(state) for state in states]
