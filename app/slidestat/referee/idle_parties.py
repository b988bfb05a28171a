"""The idle parties, and the ticks that they would reach if no records came."""

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
