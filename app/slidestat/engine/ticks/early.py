"""Events into states though no tick is due: when their keys are to be written, or too many wait."""

from collections.abc import Callable, Iterable, Iterator

from slidestat.engine.clock import Advance
from slidestat.engine.events import Events
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.keys.unwritten import SLOTS, slot_of
from slidestat.engine.publishing import Publisher
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.ticker import Ticker
from slidestat.engine.waiting import EventStore


class EarlyAbsorption:
    """An early absorption of events up to the watermark, which emits nothing."""

    def __init__(
        self,
        waiting: EventStore,
        absorber: Absorber,
        ticker: Ticker,
        publisher: Publisher | None,
        now: Callable[[], Advance],
        next_offset: int,
    ) -> None:
        """Create the absorption; `now` returns the advance, `next_offset` is the first read."""
        self._waiting = waiting
        self._absorber = absorber
        self._ticker = ticker
        self._publisher = publisher
        self._now = now
        # The offset up to which had been read when a slot of keys had its turn to be written.
        self._read_at_turn = [next_offset] * SLOTS

    def of_all(self) -> Iterator[object]:
        """Insert the events of all keys, some at each step of what is returned."""
        now = self._now()
        if self._publisher is None:
            return self._ticker.absorbed(self._waiting, now)
        self._absorb(self._waiting.take(now.watermark), now)
        return iter(())

    def of_slots(self, slots: frozenset[int]) -> None:
        """Insert the events of keys whose states are about to be written."""
        now = self._now()
        if len(slots) == SLOTS:
            self._absorb(self._waiting.take(now.watermark), now)
        else:
            self._absorb_old(slots, now)

    def _absorb_old(self, slots: Iterable[int], now: Advance) -> None:
        """Insert the events of slots whose turn it is, if one has waited since their turn before:
        most of what waits is absorbed by a tick before that, with all else of its key.
        """
        first = self._waiting.first_offset(now.watermark)
        old = {slot for slot in slots if first is not None and first < self._read_at_turn[slot]}
        if old:
            events = self._waiting.take_keys(now.watermark, lambda key: slot_of(key) in old)
            self._absorb(events, now)
        for slot in slots:
            self._read_at_turn[slot] = now.last_offset + 1

    def _absorb(self, events: Events, now: Advance) -> None:
        self._absorber.absorb(KeyedEvents.of(events), now)
