"""The emissions at the ticks that the watermark passes, of all keys, some keys at a time."""

from collections.abc import Iterator

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.in_order import LAST, Given, Outputs, in_order
from slidestat.engine.emissions.placed_answers import PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.keys.due_slices import due_slices
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.limits import SliceSizes
from slidestat.engine.pace import Pace
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.silent_keys import SilentKeys
from slidestat.engine.waiting.event_store import EventStore

# Of keys or events, before it is known how long they take.
_FIRST_SLICE = 500


class Ticker:
    """A scheduler that takes waiting events slice by slice, and yields the emissions that are
    due.
    """

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        absorber: Absorber,
        silent: SilentKeys,
        emissions: PlacedEmissions,
        sizes: SliceSizes,
    ) -> None:
        self._topology = topology
        self._every = topology.every_ms
        self._keys = keys
        self._absorber = absorber
        self._silent = silent
        self._emissions = emissions
        self._events_pace = Pace(_FIRST_SLICE, sizes.events)
        self._keys_pace = Pace(_FIRST_SLICE, sizes.keys)

    def trial(self, keys: HeldKeys) -> "Ticker":
        """Return a ticker for a trial on `keys`, at the same pace."""
        absorber, silent = self._absorber.trial(keys), self._silent.trial(keys)
        emissions = self._emissions.provisional()
        trial = Ticker(self._topology, keys, absorber, silent, emissions, SliceSizes())
        trial._events_pace, trial._keys_pace = self._events_pace, self._keys_pace
        return trial

    def absorb(self, waiting: EventStore, advance: Advance) -> Iterator[None]:
        """Insert all events up to the watermark though no tick has passed: nothing is emitted."""
        for _ in self._touched(waiting, advance):
            yield

    def emissions(self, waiting: EventStore, advance: Advance) -> Iterator[Outputs]:
        """Insert the events that wait up to the watermark; the emissions of all keys at the ticks
        that it passes, in order.
        """
        write = self._emissions.writer(advance.loss)
        return in_order(write, self._touched(waiting, advance), self._untouched(advance))

    def emissions_after(self, absorbed: PlacedAnswers, advance: Advance) -> Iterator[Outputs]:
        """Yield the emissions as `emissions` does, where the events are absorbed already, with the
        answers `absorbed`.
        """
        write = self._emissions.writer(advance.loss)
        return in_order(write, iter([(absorbed, LAST)]), self._untouched(advance))

    def _touched(self, waiting: EventStore, advance: Advance) -> Iterator[Given]:
        """Yield the answers for keys with events."""
        slices = waiting.slices(advance.watermark)
        # Now, for all: what is due of keys without events is found meanwhile.
        numbers = self._keys.numbered(slices.names)
        due = self._keys.take_due(numbers, advance.watermark)
        tick = (advance.before // self._every + 1) * self._every
        while slices.next_key is not None:
            first, end, keyed = slices.take(self._events_pace.size)
            with self._events_pace.doing(len(keyed.events)):
                placed = self._absorber.absorb(keyed, advance, due.between(first, end))
            yield placed, LAST if slices.next_key is None else (tick, slices.next_key)

    def _untouched(self, advance: Advance) -> Iterator[Given]:
        """Yield the answers of keys without events."""
        pace = self._keys_pace
        keys = self._keys
        due = due_slices(
            keys.numbers, keys.opened, keys.closing, advance.watermark, lambda: pace.size
        )
        for part in due:
            with pace.doing(len(part.opened.numbers) + len(part.closing.numbers)):
                placed = self._silent.answer(part, advance)
            yield placed, part.end
