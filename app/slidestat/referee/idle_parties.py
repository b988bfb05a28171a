"""The parties that are idle: up to where they would have come if nothing else did."""

from slidestat.referee.party_synopses import Piece
from slidestat.schemas.synopsis import PartyClock


class IdleParties:
    """The announcements of idle parties. One is valid until a party's next clock, and is not
    stored: a party that is idle announces it at each tick of the clock on the wall.
    """

    def __init__(self) -> None:
        self.reach: dict[str, int] = {}
        self.parties = 0
        self._announced: dict[str, dict[tuple[str, Piece], bytes]] = {}

    def announce(self, stream: str, piece: Piece, synopsis: bytes) -> None:
        """A synopsis of a stream that a party would publish; valid when its clock follows."""
        self._announced.setdefault(piece.party, {})[stream, piece] = synopsis

    def take(self, party: str, clock: PartyClock) -> dict[tuple[str, Piece], bytes]:
        """A party would have come to this clock; the synopses that it has announced before, by
        stream and place. One whose synopses are not all here, as they came before a restart, is not
        idle until it says so again.
        """
        announced = self._announced.pop(party, {})
        if len(announced) != clock.announced:
            self.drop(party)
            return {}
        self.reach[party] = clock.tick_ms
        self.parties = max(self.parties, clock.parties)
        return announced

    def drop(self, party: str) -> None:
        """The party has something new, or it is not known any more whether it has."""
        self.reach.pop(party, None)
        self._announced.pop(party, None)
