"""Keep the synopses of all streams of a partition, each a row of the store."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.referee.party_synopses import PartySynopses, Piece


class _Place(NamedTuple):
    """The row of a synopsis."""

    stream: str
    statistic: str
    party: str
    tick: int


_places = msgspec.json.Decoder(_Place)


class PartyStreams:
    """The synopses of each stream, kept as long as a tick that is not settled needs them."""

    def __init__(self, every_ms: int, span_ms: int) -> None:
        self.of: dict[str, PartySynopses] = {}
        self._every_ms = every_ms
        self._span_ms = span_ms
        self._changed: dict[str, bytes | None] = {}

    def restore(self, row: str, synopsis: bytes) -> None:
        """Take in a row of the store; raises msgspec.DecodeError for one that is no place."""
        at = _places.decode(row)
        self._of(at.stream).put(Piece(at.statistic, at.party, at.tick), synopsis)

    def put(self, stream: str, piece: Piece, synopsis: bytes) -> None:
        """Keep what a party has published."""
        self._of(stream).put(piece, synopsis)
        self._changed[_row(_Place(stream, *piece))] = synopsis

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
            self._changed[_row(_Place(stream, *piece))] = None
        if not synopses:
            del self.of[stream]

    def forget_all(self, settled: int) -> None:
        """Drop the synopses of all streams that no unsettled tick needs."""
        for stream in list(self.of):
            self.forget(stream, settled)

    def changes(self) -> dict[str, bytes | None]:
        """Return the rows that changed since the last call: new ones first, then those to be
        deleted.
        """
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
            found = PartySynopses(self._every_ms, self._span_ms)
            self.of[stream] = found
        return found


def _row(place: _Place) -> str:
    return msgspec.json.encode(place).decode()
