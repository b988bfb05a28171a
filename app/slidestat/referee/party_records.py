"""Read and check the records of the topic of synopses."""

import re
from typing import NamedTuple

import msgspec

from slidestat.declare.topology import Topology
from slidestat.referee.party_synopses import Piece
from slidestat.referee.referee_answers import RefereeAnswers
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.sequence import decode_clock
from slidestat.schemas.synopsis import (
    ClockKey,
    PartyClock,
    ProvisionalKey,
    SynopsisKey,
    decode_key,
    party_name,
)
from slidestat.synopses.core.errors import SynopsisError

_MOST_PARTIES = 100_000
_PARTITION = re.compile(r"[0-9]{1,9}")


class ClockRecord(NamedTuple):
    """The clock of a party or, of an idle one, its provisional clock."""

    party: str
    clock: PartyClock
    is_of_idle: bool


class SynopsisRecord(NamedTuple):
    """A synopsis that a party has published or, of an idle one, would publish."""

    stream: str
    piece: Piece
    synopsis: bytes
    is_of_idle: bool


class RefusedError(Exception):
    """A record that is no synopsis and no clock of this referee's topology."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class PartyRecords:
    """A reader of the records of the parties of one topology."""

    def __init__(self, topology: Topology, answers: RefereeAnswers) -> None:
        self._topology = topology
        self._answers = answers

    def read(
        self, key: bytes | None, value: bytes | None, timestamp: int
    ) -> ClockRecord | SynopsisRecord:
        """Read and check one record; raises RefusedError for one that is no synopsis and no
        clock.
        """
        if key is None or value is None:
            raise RefusedError(Reason.NULL_RECORD, "the record has no key or no value")
        try:
            whose = decode_key(key)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RefusedError(Reason.BAD_KEY, str(error)) from None
        is_of_idle = isinstance(whose, ProvisionalKey)
        whose = whose.of if isinstance(whose, ProvisionalKey) else whose
        if whose.topology != self._topology.name:
            raise RefusedError(Reason.BAD_KEY, f"of the topology {whose.topology!r}")
        if not self._is_party(whose.party):
            raise RefusedError(Reason.BAD_KEY, f"{whose.party!r} is no partition of the source")
        if isinstance(whose, ClockKey):
            return ClockRecord(whose.party, self._clock(value), is_of_idle)
        self._check_synopsis(whose, value, timestamp)
        piece = Piece(whose.statistic, whose.party, timestamp)
        return SynopsisRecord(whose.key, piece, value, is_of_idle)

    def _is_party(self, name: str) -> bool:
        topic, _, partition = name.rpartition("/")
        return (
            topic == self._topology.source
            and _PARTITION.fullmatch(partition) is not None
            and party_name(topic, int(partition)) == name
        )

    def _check_synopsis(self, whose: SynopsisKey, value: bytes, tick: int) -> None:
        if not self._answers.knows(whose.statistic):
            raise RefusedError(Reason.BAD_KEY, f"no statistic is called {whose.statistic!r}")
        self._check_tick(tick)
        try:
            self._answers.check(whose.statistic, value)
        except SynopsisError as error:
            raise RefusedError(Reason.BAD_SYNOPSIS, str(error)) from None

    def _clock(self, value: bytes) -> PartyClock:
        try:
            clock = decode_clock(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RefusedError(Reason.BAD_SYNOPSIS, str(error)) from None
        if clock.parties > _MOST_PARTIES:
            raise RefusedError(Reason.BAD_SYNOPSIS, f"{clock.parties} parties")
        self._check_tick(clock.tick_ms)
        return clock

    def _check_tick(self, tick: int) -> None:
        times = self._topology.times
        if not times.earliest <= tick < times.latest + self._topology.every_ms:
            raise RefusedError(Reason.BAD_TIME, f"{tick} is no tick")
