"""The emissions at the ticks that the watermark passes, of all keys, some keys at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from time import thread_time

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.clock import Advance, tick_after
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.intake.intake import Taken
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_timers import Place, due_slices
from slidestat.engine.publishing import Publication
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.interval_synopses import IntervalSynopses
from slidestat.engine.ticks.ranked_ticks import RankedTicks
from slidestat.engine.ticks.silent_keys import SilentKeys
from slidestat.engine.waiting import EventStore
from slidestat.synopses.core.arrays import Integers

# Emissions from several sources, in one order, as soon as it is sure what comes next.

# The answers that a source gives in one go, and a place before which none of its later ones lies.
Given = tuple[PlacedAnswers, Place]

# Emissions that are yielded in one batch: they do not block their sender for long, and their text
# is in memory that was used before. Of more it would be new, and be cleared, each time.
_AT_ONCE = 1_000
_FIRST: Place = (-(2**63), "")
LAST: Place = (2**63 - 1, "")
"""Behind all places."""


def in_order(
    write: Callable[[PlacedAnswers], OutputRecords], *sources: Iterator[Given]
) -> Iterator[Effects]:
    """Yield the answers of all sources in the order of their places, each written as soon as no
    other can come before it. One source is asked at a time; after each come outputs, maybe none, or
    several where there are many.
    """
    ends = [_FIRST] * len(sources)
    held: list[PlacedAnswers] = []
    while min(ends) < LAST:
        behind = ends.index(min(ends))
        given, ends[behind] = next(sources[behind], (NOTHING, LAST))
        parts = [part.split(min(ends)) for part in (*held, given)]
        held = [rest for _, rest in parts if not rest.is_empty]
        sure = PlacedAnswers.joined([before for before, _ in parts])
        alerts = [record for _, record in sure.alerts]
        for start in range(0, max(len(sure), 1), _AT_ONCE):
            yield Effects(write(sure.between(start, start + _AT_ONCE)), alerts=alerts)
            alerts = []


# The size of a slice of work, so that it does not block its thread for long.

# A heartbeat, a question or an acknowledgement can wait for so long.
_HOLD_S = 0.03
# A slice may be slow by chance.
_GROWTH, _SHRINKAGE = 2, 4


class Pace:
    """A number of things to do at a time, which follows from how long the last ones took.

    Results must not depend on it.
    """

    def __init__(self, first: int, most: int) -> None:
        self.size = min(first, most)
        self._most = most

    @contextmanager
    def doing(self, count: int) -> Iterator[None]:
        """Measure a block that does `count` things.

        CPU time is measured: where that is short, smaller slices would take more of it in all.
        """
        started = thread_time()
        yield
        self.took(count, thread_time() - started)

    def took(self, done: int, seconds: float) -> None:
        """Adapt the size to `done` things that took `seconds`."""
        fitting = int(done * _HOLD_S / max(seconds, 1e-6))
        slowest, quickest = self.size // _SHRINKAGE, self.size * _GROWTH
        self.size = max(1, min(fitting, quickest, self._most), slowest)


# The amounts of a partition that may be in memory.


@dataclass(frozen=True, slots=True)
class SliceSizes:
    """The maximum number of a tick's events, and of its keys without events, in one slice."""

    events: int = 100_000
    keys: int = 5_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a partition holds in memory."""

    # States in front of the store; least recently touched go first.
    cached_keys: int = 200_000
    # The most events that wait though they could be absorbed, and their bytes; a batch's come on
    # top.
    waiting_events: int = 300_000
    waiting_bytes: int = 16 * 2**20
    # The most emissions of keys with events for which ticks are kept back.
    kept_emissions: int = 50_000
    slices: SliceSizes = field(default_factory=SliceSizes)
    # Keys are deleted this many at a time.
    deleted_keys: int = 100_000


# The first slice, of keys or events, before it is known how long they take.
_FIRST_SLICE = 500


class Ticker:
    """A scheduler that takes in waiting events by slices, and yields the emissions due."""

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        absorber: Absorber,
        silent: SilentKeys,
        emissions: PlacedEmissions,
        sizes: SliceSizes,
        ranked: RankedTicks,
    ) -> None:
        self._topology = topology
        self._every = topology.every_ms
        self._keys = keys
        self._absorber = absorber
        self._silent = silent
        self._emissions = emissions
        self._ranked = ranked
        self._synopses = IntervalSynopses(topology, keys)
        self._events_pace = Pace(_FIRST_SLICE, sizes.events)
        self._keys_pace = Pace(_FIRST_SLICE, sizes.keys)

    def trial(self, keys: HeldKeys) -> "Ticker":
        """Return a ticker for a trial on `keys`, at the same pace."""
        ranked = self._ranked.trial()
        absorber, silent = self._absorber.trial(keys, ranked), self._silent.trial(keys, ranked)
        emissions = self._emissions.provisional()
        trial = Ticker(self._topology, keys, absorber, silent, emissions, SliceSizes(), ranked)
        trial._events_pace, trial._keys_pace = self._events_pace, self._keys_pace
        return trial

    def outputs(self, waiting: EventStore, advance: Advance, most: int) -> Iterator[Effects]:
        """Insert the events that wait up to the watermark, and yield the emissions of all keys at
        the ticks that it passes, in order. Where keys with events are emitted at every tick, about
        `most` of their emissions are in memory at once. The synopses of keys, where an interval is
        declared, come before the emissions of their tick.
        """
        while True:
            tick = self._synopses.next_tick(waiting, advance.watermark)
            before, after = (advance, advance) if tick is None else advance.up_to(tick - 1)
            for piece in self._pieces(waiting, before, most):
                yield from self.emissions(self.absorbed(waiting, piece), piece)
            if tick is None:
                return
            offset, advance = int(advance.source_offsets(np.array([tick]))[0]), after
            for published in self._synopses.at(tick, offset, lambda: self._keys_pace.size):
                if tick > advance.emitted:
                    yield Effects(published=[*published])

    def synopses_left(self, tick: int, source_offset: int) -> Iterator[list[Publication]]:
        """Yield the synopses that were not published since their keys' newest events."""
        return self._synopses.rest(tick, source_offset, lambda: self._keys_pace.size)

    def emissions(self, absorbed: Iterator[Given], advance: Advance) -> Iterator[Effects]:
        """Return the emissions of all keys at the ticks of an advance, in order; `absorbed` are the
        answers for keys with events.
        """
        write = self._emissions.writer(advance.loss)
        return chain(in_order(write, absorbed, self._untouched(advance)), self._leading(advance))

    def _leading(self, advance: Advance) -> Iterator[Effects]:
        """Yield the keys that lead in rankings, once all answers of an advance are known."""
        if published := self._ranked.take(advance):
            yield Effects(published=[*published])

    def _pieces(self, waiting: EventStore, advance: Advance, most: int) -> Iterator[Advance]:
        """Yield an advance piece by piece, each of some ticks, where keys with events are emitted
        at every tick: a piece has about `most` of their emissions. The next piece is asked for once
        the one before is emitted.
        """
        if not self._topology.asks_always:
            yield advance
            return
        keys, every = max(1, len(waiting.keys(advance.watermark))), self._every
        ticks = max(1, most // keys)
        while True:
            first = waiting.first_time()
            due = [self._keys.opened.next_due(advance.watermark)]
            due += [self._keys.closing.next_due(advance.watermark), first]
            start = min((time for time in due if time is not None), default=advance.watermark)
            end = (max(start, advance.before) // every + ticks) * every
            if end >= advance.watermark:
                yield advance
                return
            piece, advance = advance.up_to(end)
            yield piece

    def absorbed(self, waiting: EventStore, advance: Advance) -> Iterator[Given]:
        """Insert waiting events up to the watermark, some keys at a time; yield their answers."""
        slices = waiting.slices(advance.watermark)
        # Now, for all: what is due of keys without events is found meanwhile.
        numbers = self._keys.numbered(slices.names)
        due = self._keys.take_due(numbers, advance.watermark)
        tick = tick_after(advance.before, self._every)
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
            keys.numbers,
            keys.opened,
            keys.closing,
            advance.watermark,
            lambda: pace.size,
            self._every if self._topology.asks_always or self._topology.alerts else None,
        )
        for part in due:
            with pace.doing(len(part.opened.numbers) + len(part.closing.numbers)):
                placed = self._silent.answer(part, advance)
            yield placed, part.end


# Ticks that the watermark has passed, and whose emissions wait for more to be read.
#
# A worker that catches up passes several ticks in each batch, and each of them finds few events of
# a key. Kept back over some batches, the events of many ticks are absorbed in one call of a kernel,
# which answers at each tick between: a state is read, checked and written once for all of them.


class KeptTicks:
    """The batches since the last emissions, and the most emissions that they lead to."""

    def __init__(self, topology: Topology) -> None:
        self._every = topology.every_ms
        self._always = topology.asks_always
        self._before = 0
        self._moves: list[tuple[Integers, Integers]] = []
        # The most emissions of keys with events: each of a batch's keys at each of its ticks.
        self.emissions = 0

    def __bool__(self) -> bool:
        return bool(self._moves)

    def add(self, taken: Taken) -> None:
        """Keep back the ticks of a batch; nothing is kept if it passes none, and none is kept."""
        first, last = taken.before // self._every, int(taken.watermarks[-1]) // self._every
        if not self._moves:
            if first == last:
                return
            self._before = taken.before
        self._moves.append((taken.offsets, taken.watermarks))
        events = taken.events
        most = len(events.keys.unique()) * (last - first + 1)
        self.emissions += most if self._always else min(len(events), most)

    def take(self, emitted: int, loss: Loss | None) -> Advance:
        """Return the advance over all that was kept, and keep nothing any more."""
        moves, self._moves, self.emissions = self._moves, [], 0
        offsets, watermarks = map(np.concatenate, zip(*moves, strict=True))
        return Advance(self._before, offsets, watermarks, emitted, loss)
