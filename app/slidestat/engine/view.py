"""The keys of a partition, for queries."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge, nsmallest
from itertools import islice
from typing import Protocol

from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.clock import Advance
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.waiting import EventStore

# The events of a partition that wait, for questions.


class Unabsorbed:
    """A view of keys with their waiting events, which it absorbs into a copy of a key's state."""

    def __init__(
        self, keys: HeldKeys, waiting: EventStore, absorber: Absorber, now: Callable[[], Advance]
    ) -> None:
        """Create the view; `now` returns the current advance."""
        self._keys = keys
        self._waiting = waiting
        self._absorber = absorber
        self._now = now

    def keys(self) -> set[str]:
        """Return the keys of waiting events up to the watermark."""
        return self._waiting.keys(self._now().watermark)

    def states(self, keys: Sequence[str]) -> list[KeyState | None]:
        """Return the states of keys with the waiting events up to the watermark absorbed."""
        now = self._now()
        events = self._waiting.of_keys(keys, now.watermark)
        if not len(events):
            return self._keys.states.peek_all(keys)
        trial = self._keys.trial_of_nothing()
        self._absorber.trial(trial).absorb(KeyedEvents.of(events), now)
        return trial.states.peek_all(keys)


class Keys(Protocol):
    """The keys that have a state."""

    @property
    def keys_held(self) -> int | None:
        """The number of keys, None until it is known."""

    def peek_all(self, keys: Sequence[str]) -> list[KeyState | None]:
        """Return the state of each of the keys, None for one that has none."""

    def are_there(self, keys: Sequence[str]) -> list[bool]:
        """Return whether each of the keys has a state."""

    def keys(self, prefix: str, after: str, limit: int) -> Iterator[str]:
        """Return the first `limit` keys after `after` that begin with `prefix`, in order."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition's keys as they are now; for use at once, before the next batch."""

    partition: int
    watermark: int
    next_offset: int
    stored: Keys
    loss: Loss | None = None
    unabsorbed: Unabsorbed | None = None
    # The times from which added figures count, by the figures' names.
    starts: Mapping[str, int] = field(default_factory=dict)
    # The keys for which each alert fires, by its name.
    firing: Mapping[str, set[str]] = field(default_factory=dict)

    @property
    def keys_held(self) -> int | None:
        """The number of keys that have a state or events for one, None until it is known. Costs a
        look-up for each key whose events wait.
        """
        held = self.stored.keys_held
        return None if held is None else held + len(self._waiting_keys())

    def alone(self, key: str) -> "KeyView | None":
        """Return a key as it is now, for use at any time; None if stateless. Costs as `state`."""
        state = self.state(key)
        if state is None:
            return None
        place = self.partition, self.watermark, self.next_offset, self.loss
        return KeyView(*place, key, state, self.starts)

    def has(self, key: str) -> bool:
        """Return whether the key has a state. Costs as much as `state`."""
        return self.state(key) is not None

    def state(self, key: str) -> KeyState | None:
        """Return the key's state, None for a key that has none. Costs one look-up, and one key's
        synopses where events of it wait.
        """
        stored = self.stored.peek_all([key])[0]
        if self.unabsorbed is None:
            return stored
        state = self.unabsorbed.states([key])[0]
        if state is None or stored is None:
            return state
        # Alerts change only at ticks: they are as at the key's last emission.
        return state._replace(alerts=stored.alerts)

    def states(self, keys: Sequence[str]) -> list[KeyState | None]:
        """Return the states of keys, None for a key that has none, with none of their alerts."""
        if self.unabsorbed is None:
            return self.stored.peek_all(keys)
        return self.unabsorbed.states(keys)

    def keys(
        self, prefix: str, after: str, limit: int, firing: Collection[str] = ()
    ) -> Iterator[str]:
        """Return the first `limit` keys after `after` that begin with `prefix`, in order of their
        characters; if alerts are named, of those for which one of them fires. Costs them and the
        keys that are new since the last flush, or all that fire, however many keys there are.
        """
        if firing:
            found = set[str]().union(*(self.firing.get(alert, ()) for alert in firing))
            those = (key for key in found if key.startswith(prefix) and key > after)
            return iter(nsmallest(limit, those))
        stored = self.stored.keys(prefix, after, limit)
        waiting = sorted(
            key for key in self._waiting_keys() if key.startswith(prefix) and key > after
        )
        return islice(merge(stored, waiting), limit)

    def _waiting_keys(self) -> list[str]:
        """Return the keys that have events and no state yet."""
        if self.unabsorbed is None:
            return []
        keys = list(self.unabsorbed.keys())
        return [
            key for key, is_it in zip(keys, self.stored.are_there(keys), strict=True) if not is_it
        ]


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key of a partition at one moment, whatever comes later."""

    partition: int
    watermark: int
    next_offset: int
    loss: Loss | None
    key: str
    key_state: KeyState
    starts: Mapping[str, int] = field(default_factory=dict)

    def state(self, key: str) -> KeyState | None:
        """Return the key's state; None for any other key."""
        return self.key_state if key == self.key else None
