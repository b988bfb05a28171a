"""The newest synopses of the parties of one stream, of as many ticks as are not yet settled.

With them, those that idle parties would publish if no records came, of ticks that they have not
reached.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple


class Piece(NamedTuple):
    """The place of a synopsis in a stream: its statistic, its party and its tick."""

    statistic: str
    party: str
    tick: int


class PartySynopses:
    """The synopses that the parties of a stream have published; `every` and `span` are the
    topology's.
    """

    def __init__(self, every: int, span: int) -> None:
        self._every = every
        self._span = span
        self._found: dict[tuple[str, str], dict[int, bytes]] = {}
        self._of_idle: dict[tuple[str, str], dict[int, bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._found or self._of_idle)

    def copy(self) -> "PartySynopses":
        """Return a copy; what is put to one of the two does not change the other."""
        other = PartySynopses(self._every, self._span)
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
        """Return the ticks in (after, until] that are answered for: those at which some party
        published, or would `with_idle`, and the first one after each at which the span holds
        nothing any more of what was published until then.
        """
        known = (*self._found.values(), *(self._of_idle.values() if with_idle else ()))
        published = sorted({tick for ticks in known for tick in ticks})
        answered = set(published)
        for tick, following in pairwise([*published, until + 1]):
            closing = -(-(tick + self._span) // self._every) * self._every
            if closing < following:
                answered.add(closing)
        return sorted(tick for tick in answered if after < tick <= until)

    def at(self, tick: int, statistic: str, parties: Collection[str]) -> dict[str, bytes]:
        """Return the synopsis of each of `parties` at a tick, if any of its events may be in the
        span.
        """
        known = {}
        for party in parties:
            place = statistic, party
            ticks = self._of_idle.get(place, {}) | self._found.get(place, {})
            newest = max((t for t in ticks if t <= tick), default=None)
            if newest is not None and newest + self._span > tick:
                known[party] = ticks[newest]
        return known

    def is_known(self, tick: int) -> bool:
        """Return whether some party published a synopsis that may have events in the span that ends
        at a tick.
        """
        return any(
            published <= tick < published + self._span
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
        closing = -(-(tick + self._span) // self._every) * self._every
        return closing > until
