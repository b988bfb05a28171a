"""A referee's rankings as output records: of the keys of all partitions that are present."""

from collections.abc import Mapping

import msgspec

from slidestat.declare.referee import Referee
from slidestat.engine.emissions.output_records import OutputRecord
from slidestat.engine.emissions.rankings import Ranked
from slidestat.engine.publishing import RANKING
from slidestat.referee.party_clocks import PartyClocks
from slidestat.referee.party_synopses import PartySynopses
from slidestat.referee.referee_answers import Present
from slidestat.schemas.emission import emission_key
from slidestat.schemas.ranking import Ranking, decode_part
from slidestat.synopses.core.errors import SynopsisError


class RankingAnswers:
    """The rankings of a referee's topology at ticks; streams have the names of rankings. A party
    whose worker has another declaration passes ticks without parts of a ranking, and so does one
    without keys. Clocks contain what a party ranks, so the former counts as absent.
    """

    def __init__(self, referee: Referee, partition: int, clocks: PartyClocks) -> None:
        self._referee = referee
        self._clocks = clocks
        self._partition = partition
        self._rankings = {it.name: it for it in referee.of.rankings}
        self._texts = {it.text for it in referee.of.rankings}

    def knows(self, statistic: str) -> bool:
        """Return whether what is published under this name is of a ranking."""
        return statistic == RANKING

    def check(self, _statistic: str, synopsis: bytes) -> None:
        """Raise SynopsisError unless these bytes are what leads in one of the rankings."""
        try:
            of = decode_part(synopsis).of
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise SynopsisError(str(error)) from None
        if of not in self._texts:
            raise SynopsisError(f"of a ranking that is not declared, {of}")

    def at(
        self,
        tick: int,
        streams: Mapping[str, PartySynopses],
        present: Present,
        source_offset: int,
        *,
        provisional: bool,
    ) -> list[OutputRecord]:
        """Return the records of the rankings at a tick, by name; none of one that nobody present
        has. One that lacks a party which is at the tick remains provisional.
        """
        referee = self._referee
        records: list[OutputRecord] = []
        for name in sorted(streams.keys() & self._rankings.keys()):
            declared = self._rankings[name]
            having = self._clocks.ranked(name, tick, present)
            if not having.parties:
                continue
            ranked = Ranked(declared.size, declared.is_of_smallest)
            known = streams[name].at(tick, RANKING, having.parties).values()
            part = ranked.joined(it for it in map(decode_part, known) if it.of == declared.text)
            ranking = Ranking(
                topology=referee.name,
                ranking=name,
                window_end_ms=tick,
                by=declared.by,
                order=declared.order,
                size=declared.size,
                keys=part.keys,
                places=ranked.keys(part.contenders),
                source=referee.source,
                source_partition=self._partition,
                source_offset=source_offset,
                parties=list(having.parties),
                having=declared.having,
                provisional=provisional or len(having.absent) > len(present.absent),
                absent=list(having.absent) or None,
            )
            records.append(
                (emission_key(referee.name, name, tick), msgspec.json.encode(ranking), tick)
            )
        return records
