"""The synopses of all keys at each multiple of an interval, for rollups.

The synopses of a tick have exactly the events before it. So the watermark stops there: what comes
before is absorbed and emitted, the states are published as they are, and then the rest follows. A
key is published at the first such tick after its newest event, and at no other: that follows from
its state alone, so a restart needs no more. Published synopses are acknowledged before any state
that has passed the tick is written, as emissions are.
"""

from collections.abc import Callable, Iterator

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import tick_after
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.publishing import Publication, published_statistics
from slidestat.engine.waiting import EventStore
from slidestat.synopses.core.arrays import Integers


class IntervalSynopses:
    """A publisher of the synopses of a partition's keys, at the interval that is declared."""

    def __init__(self, topology: Topology, keys: HeldKeys) -> None:
        self._interval = topology.synopses_ms
        self._keys = keys
        meanings = dict.fromkeys(runner.meaning for runner in topology.runners)
        self._kept = list(zip(published_statistics(topology), meanings, strict=True))

    def next_tick(self, waiting: EventStore, watermark: int) -> int | None:
        """Return the first tick up to the watermark at which there may be something to publish,
        once the events before it are absorbed; None if there is none.
        """
        if not self._interval:
            return None
        due, first = self._keys.unpublished.next_due(watermark), waiting.first_time()
        coming = watermark + 1 if first is None else tick_after(first, self._interval)
        tick = coming if due is None else min(coming, due)
        return tick if tick <= watermark else None

    def at(
        self, tick: int, source_offset: int, size: Callable[[], int]
    ) -> Iterator[list[Publication]]:
        """Yield the synopses of a tick, those of `size()` keys at a time, in the order of keys;
        exactly the events before it have been absorbed.
        """
        yield from self._of(self._keys.unpublished.pop(tick), tick, source_offset, size)

    def rest(
        self, tick: int, source_offset: int, size: Callable[[], int]
    ) -> Iterator[list[Publication]]:
        """Yield the synopses of the keys that were not published since their newest event, as `at`
        does: for the end of history.
        """
        numbers = np.flatnonzero(self._keys.unpublished.are_armed())
        yield from self._of(numbers, tick, source_offset, size)

    def _of(
        self, numbers: Integers, tick: int, source_offset: int, size: Callable[[], int]
    ) -> Iterator[list[Publication]]:
        names = self._keys.numbers.names(numbers)
        order = sorted(range(len(names)), key=names.__getitem__)
        start = 0
        while start < len(order):
            some = order[start : start + size()]
            states = self._keys.states.read(numbers[some])
            yield [
                Publication(tick, source_offset, names[place], statistic, meaning, column[row])
                for row, place in enumerate(some)
                if states.counts[row]  # An expected key that never came has no synopses.
                for (statistic, meaning), column in zip(self._kept, states.synopses, strict=True)
            ]
            start += len(some)
