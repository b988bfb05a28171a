"""The synopses of all keys at each end of an interval, for rollups of history.

A synopsis of a tick has exactly the events before it, as what a topology publishes has; here all
keys have one where they had events since the tick before, and are emitted as well.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from slidestat.declare.topology import Topology
from slidestat.engine.clock import tick_after
from slidestat.engine.events import Events
from slidestat.engine.keys.key_states import KeyStates
from slidestat.engine.keys.stored_keys import PartitionStore, StoredKeys
from slidestat.engine.publishing import Clock, Publication, published_statistics
from slidestat.engine.view import Keys
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers


class IntervalSynopses:
    """A keeper of one partition's synopses at the ticks of an interval, in place of a
    `Publisher`.
    """

    whole_key = None

    def __init__(self, topology: Topology, interval_ms: int) -> None:
        self._interval = interval_ms
        meanings = dict.fromkeys(runner.meaning for runner in topology.runners)
        self._kept = list(zip(published_statistics(topology), meanings, strict=True))
        # The keys with events before a tick that has not passed, by tick.
        self._open: dict[int, set[str]] = {}

    def absorbing(self, events: Events) -> None:
        """Note whose events are absorbed before the ticks after them."""
        ticks = tick_after(events.times, self._interval)
        for tick in np.unique(ticks).tolist():
            keys = events.keys.filter(pa.array(ticks == tick))
            self._open.setdefault(tick, set()).update(keys.unique().to_pylist())

    def ticks(self, events: Events, _states: KeyStates, before: int, watermark: int) -> list[int]:
        """Return the ticks after `before` and up to `watermark` that have events, rising; `events`
        are about to be absorbed, by time.
        """
        self.absorbing(events)
        return sorted(tick for tick in self._open if before < tick <= watermark)

    def at(self, tick: int, states: Keys, source_offset: int) -> Iterator[Publication]:
        """Yield the synopses of a tick, when exactly the events before it have been absorbed."""
        return self._of(self._open.pop(tick), tick, states, source_offset)

    def rest(self, tick: int, states: PartitionStore, source_offset: int) -> Iterator[Publication]:
        """Yield the synopses at the end of history, `tick`, of the keys with events since their
        last.
        """
        keys = set().union(*self._open.values())
        self._open = {}
        return self._of(keys, tick, StoredKeys(states), source_offset)

    def clocks(self, _before: int, _offsets: Integers, _watermarks: Integers) -> Iterator[Clock]:
        """Return no clocks, as no referee waits for them."""
        return iter(())

    def _of(
        self, keys: set[str], tick: int, states: Keys, source_offset: int
    ) -> Iterator[Publication]:
        for key in sorted(keys):
            (state,) = states.peek_all([key])
            if state is None:
                continue
            for (statistic, meaning), synopsis in zip(self._kept, state.synopses, strict=True):
                yield Publication(tick, source_offset, key, statistic, meaning, synopsis)


def require_interval(topology: Topology, interval_ms: int, text: str) -> None:
    """Raise SlidestatError for an interval at which synopses would not hold all of history."""
    if topology.publish:
        raise SlidestatError(
            f"--synopses is {text!r}, but {topology.name} publishes its synopses at each tick.",
            "Leave it out.",
        )
    if topology.windows_of_events:
        raise SlidestatError(
            f"--synopses is {text!r}, but windows are of {topology.span!r}, not of time.",
            "Give the topology a span of time.",
        )
    span = topology.span_length.length
    advice = f"Give a multiple of `every`, {topology.every!r}, up to the span, {topology.span!r}."
    if not 0 < interval_ms <= span:
        raise SlidestatError(
            f"--synopses is {text!r}, and a synopsis knows the events of the span alone.", advice
        )
    if interval_ms % topology.every_ms:
        raise SlidestatError(f"--synopses is {text!r}, which is no multiple of `every`.", advice)
