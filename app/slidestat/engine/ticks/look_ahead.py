"""Trials of a partition's next ticks: its outputs if nothing else came."""

from collections.abc import Iterator

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import Advance
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.engine.emissions.placed_answers import PlacedAnswers, newest
from slidestat.engine.events import Events
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.publishing import Clock, Publication, Publisher
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.ticker import Ticker
from slidestat.engine.waiting import EventStore

# Events into states tick by tick, with what is published between.


def absorb_and_publish(
    publisher: Publisher, absorber: Absorber, keys: HeldKeys, events: Events, advance: Advance
) -> tuple[PlacedAnswers, list[Publication | Clock]]:
    """Absorb events, by time; return the answers for their keys, and what is published of the
    states at the ticks that the watermark passes.
    """
    touched: list[PlacedAnswers] = []
    published: list[Publication | Clock] = [
        *publisher.clocks(advance.before, advance.offsets, advance.watermarks)
    ]

    def absorb(part: Events, upto: Advance) -> None:
        # `before` is that of the batch: the answers at the ticks of this part, for a key with
        # events in a later part only, are found with those. Found twice, they are the same.
        touched.append(absorber.absorb(KeyedEvents.of(part), upto))

    done = 0
    before = max(advance.before, advance.emitted)
    for tick in publisher.ticks(events, keys.states, before, advance.watermark):
        end = int(np.searchsorted(events.times, tick))
        absorb(events.between(done, end), advance.until(tick - 1))
        passed = int(advance.offsets[np.searchsorted(advance.watermarks, tick)])
        published += publisher.at(tick, keys.states, passed)
        done = end
    absorb(events.between(done, len(events)), advance)
    # The synopses of a tick come first: its clock means that there are no more.
    published.sort(key=lambda item: (item.tick, isinstance(item, Clock)))
    published = [item for item in published if item.tick > advance.emitted]
    return newest(touched), published


class LookAhead:
    """A source of provisional emissions, tick by tick until a batch comes. Leaves no trace."""

    def __init__(
        self,
        topology: Topology,
        keys: HeldKeys,
        waiting: EventStore,
        absorber: Absorber,
        ticker: Ticker,
    ) -> None:
        self._every = topology.every_ms
        self._has_alerts = bool(topology.alerts)
        self._sees_silence = topology.emits_silence or self._has_alerts
        self._keys = keys
        self._waiting = waiting
        self._absorber = absorber
        self._ticker = ticker
        # The ticks that the last look ahead reached since the last batch.
        self._emitted = self._published = NO_TIME

    def start_anew(self) -> None:
        """Reset after a new batch, as the ticks to come may differ."""
        self._emitted = self._published = NO_TIME

    def outputs(self, now: Advance) -> Iterator[Effects]:
        """Yield the emissions and changes of alerts at the ticks that the watermark would pass,
        slice by slice.

        A tick after events is sure to be emitted, with one exception: an event ahead of the others,
        not after the time that is looked ahead to, that is refused in the end. A window that has
        emptied by then has not, if an event of its key comes after all: the tick after that event
        is emitted instead.
        """
        horizon, every = now.watermark, self._every
        # The events whose next tick lies in between.
        waiting = self._waiting.has_between(
            self._emitted // every * every, horizon // every * every
        )
        if (
            not waiting
            and not any(self._emitted < tick <= horizon for tick in self._keys.opened.ticks())
            and not self._may_have_silent_keys(horizon)
        ):
            return
        emitted, self._emitted = self._emitted, horizon
        silent_after = max(emitted, now.before) if self._sees_silence else None
        if self._has_alerts:
            silent_after = now.before  # An alert follows all ticks.
        trial = self._ticker.trial(self._keys.trial(horizon, silent_after))
        absorbed = trial.absorbed(self._waiting.copy(), now)
        for effects in trial.emissions(absorbed, now):
            emissions = OutputRecords.of(effects.emissions)
            yield Effects(
                emissions.take(np.flatnonzero(emissions.ends > emitted)),
                alerts=[alert for alert in effects.alerts if alert.timestamp > emitted],
            )

    def _may_have_silent_keys(self, horizon: int) -> bool:
        """Return whether keys without events may be emitted at ticks after the last look."""
        if not self._sees_silence or self._emitted // self._every == horizon // self._every:
            return False
        is_due = self._keys.closing.next_due(horizon) is not None
        return is_due or self._waiting.first_offset(horizon) is not None

    def published(self, publisher: Publisher, now: Advance) -> list[Publication | Clock]:
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
