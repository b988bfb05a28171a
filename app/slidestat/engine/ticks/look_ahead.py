"""Trials of a partition's next ticks: its outputs if nothing else came."""

from collections.abc import Iterator

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.publishing import Clock, Publication, TickPublisher
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.advance import Advance
from slidestat.engine.ticks.published_ticks import absorb_and_publish
from slidestat.engine.ticks.ticker import Ticker
from slidestat.engine.waiting.event_store import EventStore


class LookAhead:
    """A source of provisional emissions: it yields each tick to come once, until a batch comes.
    Trials leave no trace.
    """

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        waiting: EventStore,
        absorber: Absorber,
        ticker: Ticker,
    ) -> None:
        self._every = topology.every_ms
        self._keys = keys
        self._waiting = waiting
        self._absorber = absorber
        self._ticker = ticker
        # How far the last looks since the last batch went.
        self._emitted = self._published = NO_TIME

    def start_anew(self) -> None:
        """Reset after a new batch, as the ticks to come may differ."""
        self._emitted = self._published = NO_TIME

    def emissions(self, now: Advance) -> Iterator[OutputRecords]:
        """Yield the emissions at the ticks that the watermark would pass, slice by slice.

        A tick after events is sure to be emitted, with one exception: an event ahead of the others,
        not after the time that is looked ahead to, that is refused in the end.
        """
        horizon, every = now.watermark, self._every
        # The events whose next tick lies in between.
        waiting = self._waiting.has_between(
            self._emitted // every * every, horizon // every * every
        )
        if not waiting and not any(
            self._emitted < tick <= horizon for tick in self._keys.opened.ticks()
        ):
            return
        trial = self._ticker.trial(self._keys.trial(horizon))
        emitted, self._emitted = self._emitted, horizon
        for emissions, _ in trial.emissions(self._waiting.copy(), now):
            yield emissions.take(np.flatnonzero(emissions.ends > emitted))

    def published(self, publisher: TickPublisher, now: Advance) -> list[Publication | Clock]:
        """Return what would be published at the ticks that it would pass. Nothing, if there has
        been no further tick since it was asked last.
        """
        tick = now.watermark // self._every * self._every
        if tick <= max(self._published, now.before):
            return []
        self._published = tick
        keys = self._keys.trial(now.watermark)
        events = self._waiting.copy().take(now.watermark)
        return absorb_and_publish(publisher, self._absorber.trial(keys), keys, events, now)[1]
