"""The newest synopses of the parties of one stream, of as many ticks as are not yet settled.

With them, those that idle parties would publish if no records came, of ticks still ahead of them.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple, Self

import msgspec
import numpy as np

from slidestat.declare.referee import Referee
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.engine.clock import closing_tick
from slidestat.engine.records import NO_TIME


class Piece(NamedTuple):
    """The place of a synopsis in a stream: its statistic, its party and its tick."""

    statistic: str
    party: str
    tick: int


class AnsweredTicks(NamedTuple):
    """The ticks at which a referee answers for a stream in a silence.

    A party's synopsis of a tick has its last event in the `every` before. So a length n later, a
    window has lost it at the first tick from there on; if n is no multiple of `every`, maybe at the
    tick before, and `emptied` lengths are answered for at both. One of the calendar has lost it at
    the first tick after the hour, the day or the week that has the last moment before the tick: if
    the event was of the one before, that has ended by the tick itself, which is answered for. A
    span of None is one of events, which a silence does not change.
    """

    every: int
    span: int | None
    emptied: tuple[int, ...] = ()
    always: bool = False

    @classmethod
    def of(cls, referee: Referee) -> Self:
        """Return those that a referee's `emit` asks for."""
        topology = referee.answering
        if topology.rankings:
            # A ranking holds for its tick alone: at the next one no key may lead.
            return cls(topology.every_ms, topology.every_ms)
        emptied = topology.silences if topology.emits_silence else ()
        length = topology.span_length
        span = None if length.of_events else length.length
        return cls(topology.every_ms, span, emptied, topology.asks_always)

    def last(self, published: int) -> int | None:
        """Return the first tick at which the span has no event that was published at a tick."""
        if self.span is None:
            return None
        return -(-(published + self.span) // self.every) * self.every

    def has(self, published: int, tick: int) -> bool:
        """Return whether the span that ends at `tick` may have what was published before."""
        return published <= tick and (self.span is None or published + self.span > tick)

    def between(self, published: int, after: int, before: int) -> Iterator[int]:
        """Yield those of the silence since a tick that are after `after` and before `before`, in no
        order; some may be there twice.
        """
        last = self.last(published)
        if last is None:
            return
        found = [last]
        for length in self.emptied:
            newest = np.array([published - 1])
            found.append(int(closing_tick(newest, length, self.every)[0]))
            if not isinstance(length, CalendarWindow):
                found.append((published + length) // self.every * self.every)
        yield from (tick for tick in found if after < tick < before)
        if self.always:
            first = max(published, after // self.every * self.every) + self.every
            yield from range(first, min(last + 1, before), self.every)


class PartySynopses:
    """The synopses that the parties of a stream have published."""

    def __init__(self, silence: AnsweredTicks) -> None:
        self._silence = silence
        self._found: dict[tuple[str, str], dict[int, bytes]] = {}
        self._of_idle: dict[tuple[str, str], dict[int, bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._found or self._of_idle)

    def copy(self) -> "PartySynopses":
        """Return a copy; what is put to one of the two does not change the other."""
        other = PartySynopses(self._silence)
        other._found = {place: dict(ticks) for place, ticks in self._found.items()}
        other._of_idle = {place: dict(ticks) for place, ticks in self._of_idle.items()}
        return other

    def put(self, piece: Piece, synopsis: bytes) -> None:
        """Keep a synopsis; one that comes again replaces itself."""
        self._found.setdefault((piece.statistic, piece.party), {})[piece.tick] = synopsis

    def put_of_idle(self, piece: Piece, synopsis: bytes) -> None:
        """Keep what an idle party would publish."""
        self._of_idle.setdefault((piece.statistic, piece.party), {})[piece.tick] = synopsis

    def drop_of_idle(self, party: str) -> None:
        """Forget what a party would have published."""
        for place in [place for place in self._of_idle if place[1] == party]:
            del self._of_idle[place]

    def newest_of_idle(self) -> int | None:
        """Return the last tick that idle parties would publish at, None if there is none."""
        return max((tick for ticks in self._of_idle.values() for tick in ticks), default=None)

    def ticks(self, after: int, until: int, *, with_idle: bool) -> list[int]:
        """Return the ticks in (after, until] that get an answer: those at which a party published
        (or would publish, `with_idle`), and those of the silence after each.
        """
        known = (*self._found.values(), *(self._of_idle.values() if with_idle else ()))
        published = sorted({tick for ticks in known for tick in ticks})
        answered = set(published)
        for tick, following in pairwise([*published, until + 1]):
            answered.update(self._silence.between(tick, after, following))
        return sorted(tick for tick in answered if after < tick <= until)

    def at(self, tick: int, statistic: str, parties: Collection[str]) -> dict[str, bytes]:
        """Return the synopsis of each of `parties` at a tick, if the span may have its events."""
        known = {}
        for party in parties:
            place = statistic, party
            ticks = self._of_idle.get(place, {}) | self._found.get(place, {})
            newest = max((t for t in ticks if t <= tick), default=None)
            if newest is not None and self._silence.has(newest, tick):
                known[party] = ticks[newest]
        return known

    def is_known(self, tick: int) -> bool:
        """Return whether a party's synopsis may have events in the span that ends at a tick."""
        return any(
            self._silence.has(published, tick)
            for ticks in (*self._found.values(), *self._of_idle.values())
            for published in ticks
        )

    def settle(self, until: int) -> Iterator[Piece]:
        """Forget the synopses that no tick after `until` needs, and yield their places: of each
        party all but its newest up to there, and that one too once it is out of the span.
        """
        for (statistic, party), ticks in list(self._found.items()):
            settled = sorted(tick for tick in ticks if tick <= until)
            kept = settled[-1:] if settled and self._is_needed(settled[-1], until) else []
            for tick in settled[: len(settled) - len(kept)]:
                del ticks[tick]
                yield Piece(statistic, party, tick)
            if not ticks:
                del self._found[statistic, party]

    def _is_needed(self, tick: int, until: int) -> bool:
        last = self._silence.last(tick)
        return last is None or last > until


# The synopses of all streams of a partition, a row each: stream, statistic, party and tick.

_rows = msgspec.json.Decoder(tuple[str, str, str, int])


class PartyStreams:
    """The synopses of each stream, kept as long as a tick that is not settled needs them."""

    def __init__(self, silence: AnsweredTicks) -> None:
        self.of: dict[str, PartySynopses] = {}
        self._silence = silence
        self._changed: dict[str, bytes | None] = {}

    def restore(self, row: str, synopsis: bytes) -> None:
        """Take in a row of the store; raises msgspec.DecodeError for one that is no place."""
        stream, statistic, party, tick = _rows.decode(row)
        self._of(stream).put(Piece(statistic, party, tick), synopsis)

    def put(self, stream: str, piece: Piece, synopsis: bytes) -> None:
        """Keep what a party has published."""
        self._of(stream).put(piece, synopsis)
        self._changed[_row(stream, piece)] = synopsis

    def put_of_idle(self, stream: str, piece: Piece, synopsis: bytes) -> None:
        """Keep, but do not store, what an idle party would publish."""
        self._of(stream).put_of_idle(piece, synopsis)

    def drop_of_idle(self, party: str) -> None:
        """Drop what a party would have published."""
        for stream, synopses in list(self.of.items()):
            synopses.drop_of_idle(party)
            if not synopses:
                del self.of[stream]

    def forget(self, stream: str, settled: int) -> None:
        """Drop the synopses of a stream that no unsettled tick needs."""
        synopses = self.of[stream]
        for piece in synopses.settle(settled):
            self._changed[_row(stream, piece)] = None
        if not synopses:
            del self.of[stream]

    def forget_all(self, settled: int) -> None:
        """Drop the synopses of all streams that no unsettled tick needs."""
        for stream in list(self.of):
            self.forget(stream, settled)

    def changes(self) -> dict[str, bytes | None]:
        """Return the rows that changed since the last call: new ones, then those to be deleted."""
        changed, self._changed = self._changed.items(), {}
        rows: dict[str, bytes | None] = {row: data for row, data in changed if data is not None}
        return rows | {row: None for row, data in changed if data is None}

    def due(
        self, after: int, until: int, *, with_idle: bool
    ) -> Iterator[tuple[int, dict[str, PartySynopses]]]:
        """Yield the ticks in (after, until], rising, each with the streams to answer for."""
        if until <= after:
            return
        at: dict[int, dict[str, PartySynopses]] = {}
        for name, synopses in self.of.items():
            for tick in synopses.ticks(after, until, with_idle=with_idle):
                at.setdefault(tick, {})[name] = synopses
        yield from sorted(at.items(), key=lambda item: item[0])

    def newest_of_idle(self) -> int:
        """Return the newest tick for which an idle party would publish, NO_TIME for none."""
        ahead = (synopses.newest_of_idle() for synopses in self.of.values())
        return max((tick for tick in ahead if tick is not None), default=NO_TIME)

    def _of(self, stream: str) -> PartySynopses:
        found = self.of.get(stream)
        if found is None:
            found = PartySynopses(self._silence)
            self.of[stream] = found
        return found


def _row(stream: str, piece: Piece) -> str:
    return msgspec.json.encode((stream, *piece)).decode()
