"""Keep the clock of each party, and which ticks are settled, due and answered by them."""

import msgspec

from slidestat.declare.referee import Referee
from slidestat.engine.records import NO_TIME
from slidestat.referee.party_synopses import Piece
from slidestat.referee.referee_answers import Present
from slidestat.schemas.sequence import kinds
from slidestat.schemas.synopsis import PartyClock, party_name

# The idle parties, and the ticks that they would reach if no records came.


class IdleParties:
    """The announcements of idle parties. One is valid until a party's next clock, and is not
    stored: a party that is idle announces it at each tick of the clock on the wall.
    """

    def __init__(self) -> None:
        self.reach: dict[str, int] = {}
        self.parties = 0
        self._announced: dict[str, dict[tuple[str, Piece], bytes]] = {}

    def announce(self, stream: str, piece: Piece, synopsis: bytes) -> None:
        """Keep a synopsis that an idle party would publish; it is valid once its clock follows."""
        self._announced.setdefault(piece.party, {})[stream, piece] = synopsis

    def take(self, party: str, clock: PartyClock) -> dict[tuple[str, Piece], bytes]:
        """Take the clock of an idle party; return the synopses that it announced before, by stream
        and place. Return none, and drop the party until it announces again, if some of them are
        missing, as after a restart.
        """
        announced = self._announced.pop(party, {})
        if len(announced) != clock.announced:
            self.drop(party)
            return {}
        self.reach[party] = clock.tick_ms
        self.parties = max(self.parties, clock.parties)
        return announced

    def drop(self, party: str) -> None:
        """Forget an idle party, as it has published something new or may have."""
        self.reach.pop(party, None)
        self._announced.pop(party, None)


CLOCKS = "clocks"
"""The row of the store that they are in."""


class _Clocks(msgspec.Struct, omit_defaults=True):
    """The clock and the source offset of each party, and the ticks up to which all are `settled`
    and `answered`. For each party and ranking, the ticks that are ranked: those after the first
    number, up to the second one. `begins_amid`: whether earlier records were deleted.
    """

    of: dict[str, int] = msgspec.field(default_factory=dict)
    offsets: dict[str, int] = msgspec.field(default_factory=dict)
    parties: int = 0
    settled: int = NO_TIME
    answered: int = NO_TIME
    ranked: dict[str, dict[str, tuple[int, int]]] = msgspec.field(default_factory=dict)
    begins_amid: bool = False


_NEVER = (NO_TIME, NO_TIME)
_clocks = msgspec.msgpack.Decoder(_Clocks)


class PartyClocks:
    """The clocks of all parties, with the provisional ones of idle parties."""

    def __init__(self, referee: Referee) -> None:
        self.idle = IdleParties()
        self._source = referee.of.events_topic
        self._rankings = {it.name: it.text for it in referee.of.rankings}
        self._absent_party = kinds(is_sequence=referee.is_sequence).absent_party
        self._patience = referee.patience_ms
        self._correctable = referee.correctable_ms
        self._clocks = _Clocks()
        self._have_changed = False

    @property
    def settled(self) -> int:
        """The tick up to which all answers are final."""
        return self._clocks.settled

    @property
    def answered(self) -> int:
        """The tick up to which all are answered; some answers may lack a party."""
        return self._clocks.answered

    @property
    def furthest(self) -> int:
        return max(self._clocks.of.values(), default=NO_TIME)

    def restore(self, row: bytes) -> None:
        """Restore the clocks from their row; raises msgspec.DecodeError for other bytes."""
        self._clocks = _clocks.decode(row)

    def changes(self) -> dict[str, bytes | None]:
        """Return the clocks' row, if it has changed since the last call."""
        if not self._have_changed:
            return {}
        self._have_changed = False
        return {CLOCKS: msgspec.msgpack.encode(self._clocks)}

    def begin_amid(self) -> None:
        """Note that the first records are deleted, with what parties ranked before their clocks."""
        self._clocks.begins_amid = bool(self._rankings)

    def take(self, party: str, clock: PartyClock) -> bool:
        """Take a party's clock; return whether it advances. The party is no longer idle then."""
        clocks = self._clocks
        self._take_ranked(party, clock)
        if clock.tick_ms <= clocks.of.get(party, NO_TIME):
            return False
        clocks.of[party] = clock.tick_ms
        clocks.offsets[party] = clock.source_offset
        clocks.parties = max(clocks.parties, clock.parties)
        self._have_changed = True
        self.idle.drop(party)
        return True

    def is_outdated(self, party: str, clock: PartyClock) -> bool:
        """Return whether a clock's source offset is before that of the party's known clock."""
        return clock.source_offset < self._clocks.offsets.get(party, -1)

    def newly_settled(self) -> int:
        """Return the tick up to which all can be settled: the clock of the slowest party, or
        `correctable` behind the furthest if that is later.
        """
        clocks = self._clocks
        names = self._names(clocks.parties)
        nearest = min((clocks.of.get(name, NO_TIME) for name in names), default=NO_TIME)
        return max(clocks.settled, nearest, self.furthest - self._correctable)

    def due(self, settled: int, newest_of_idle: int) -> int:
        """Return the tick up to which answers are due now, `settled` or a later one."""
        # Not after the newest tick with a synopsis: only up to there a final answer is sure to
        # replace this one.
        with_idle = min(max(self.furthest, newest_of_idle), self.due_in_silence())
        return max(settled, self.furthest - self._patience, with_idle)

    def due_in_silence(self) -> int:
        """Return the tick that all parties have reached with idle ones by their provisional clocks,
        NO_TIME if none is idle. After the newest synopsis, an event may yet come before it.
        """
        if not self.idle.reach:
            return NO_TIME
        came = self._came(with_idle=True)
        names = self._names(max(self._clocks.parties, self.idle.parties))
        return min(came.get(name, NO_TIME) for name in names)

    def answer_up_to(self, due: int) -> None:
        """Record that all ticks up to `due` are answered."""
        if due > self._clocks.answered:
            self._clocks.answered = due
            self._have_changed = True

    def settle_up_to(self, settled: int) -> bool:
        """Settle all ticks up to `settled`; return whether that is further than before."""
        goes_on = settled > self._clocks.settled
        self._clocks.settled = max(settled, self._clocks.settled)
        return goes_on

    def present(self, tick: int, *, with_idle: bool) -> Present:
        """Return the parties whose clocks have reached a tick, and the clocks of the others."""
        came = self._came(with_idle=with_idle)
        names = self._names(max(self._clocks.parties, self.idle.parties if with_idle else 0))
        return Present(
            [name for name in names if came.get(name, NO_TIME) >= tick],
            [
                self._absent_party(name, came.get(name))
                for name in names
                if came.get(name, NO_TIME) < tick
            ],
        )

    def ranked(self, ranking: str, tick: int, present: Present) -> Present:
        """Return the present parties that have ranked their keys at a tick. The others count as
        absent: their workers have other rankings, or had others when they passed the tick.
        """
        absent = list(present.absent)
        for party in present.parties:
            after, until = self._clocks.ranked.get(party, {}).get(ranking, _NEVER)
            if not after < tick <= until:
                came = until if NO_TIME < until < tick else None
                absent.append(self._absent_party(party, came))
        of_them = {it.party: it for it in absent}
        numbered = self._names(len(present.parties) + len(present.absent))
        return Present(
            [name for name in numbered if name not in of_them],
            [of_them[name] for name in numbered if name in of_them],
        )

    def _take_ranked(self, party: str, clock: PartyClock) -> None:
        tick, after = clock.tick_ms, clock.ranked_after_ms
        if self._clocks.begins_amid and party not in self._clocks.of:
            after = tick
        elif after is None:
            after = NO_TIME
        for name, _ in clock.rankings.items() & self._rankings.items():
            known = self._clocks.ranked.setdefault(party, {})
            since, until = known.get(name, _NEVER)
            if tick > until:
                known[name] = (min(since, after) if after <= until else after, tick)
                self._have_changed = True

    def _came(self, *, with_idle: bool) -> dict[str, int]:
        came = self._clocks.of
        if not with_idle:
            return came
        return came | {p: max(tick, came.get(p, NO_TIME)) for p, tick in self.idle.reach.items()}

    def _names(self, parties: int) -> list[str]:
        return [party_name(self._source, number) for number in range(parties)]
