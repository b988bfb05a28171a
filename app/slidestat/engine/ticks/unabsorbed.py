"""The events of a partition that wait, for questions."""

from collections.abc import Callable

from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.states.key_state import KeyState
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.waiting.event_store import EventStore


class Unabsorbed:
    """A view of keys with their waiting events, which it absorbs into a copy of a key's state."""

    def __init__(
        self,
        keys: HeldKeys,
        waiting: EventStore,
        absorber: Absorber,
        now: Callable[[], Advance],
    ) -> None:
        """Create the view; `now` returns the current advance."""
        self._keys = keys
        self._waiting = waiting
        self._absorber = absorber
        self._now = now

    def keys(self) -> set[str]:
        """Return the keys of waiting events up to the watermark."""
        return self._waiting.keys(self._now().watermark)

    def state(self, key: str) -> KeyState | None:
        """Return a key's state with the waiting events up to the watermark absorbed."""
        now = self._now()
        events = self._waiting.of_key(key, now.watermark)
        if not len(events):
            return self._keys.states.peek(key)
        trial = self._keys.trial_of_nothing()
        self._absorber.trial(trial).absorb(KeyedEvents.of(events), now)
        return trial.states.peek(key)
