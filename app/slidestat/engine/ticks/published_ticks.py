"""Events into states tick by tick, with what is published between."""

import numpy as np

from slidestat.engine.emissions.placed_answers import PlacedAnswers, newest
from slidestat.engine.events import Events
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.keyed_events import KeyedEvents
from slidestat.engine.publishing import Clock, Publication, TickPublisher
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.advance import Advance


def absorb_and_publish(
    publisher: TickPublisher,
    absorber: Absorber,
    keys: HeldKeys,
    events: Events,
    advance: Advance,
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
        # events in a later part only, are found with those. If they are found twice, they are the
        # same.
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
