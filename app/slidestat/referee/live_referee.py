"""Questions to the live state of a referee: any windows up to the span, over all parties, now.

Now is the newest tick that the referee answers for: the last one that is settled, or, when parties
stay away for longer than its patience, the last one that it has answered without them. So an answer
is what an emission of that tick would be, for other windows; it names the parties it is of.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from slidestat.declare.referee import Referee
from slidestat.engine.emissions.emission import at_end
from slidestat.engine.publishing import published_by
from slidestat.errors import SlidestatError
from slidestat.live.live_query import RankTable, asked_of
from slidestat.referee.party_synopses import PartySynopses
from slidestat.referee.referee_answers import Present, UnionFigures
from slidestat.schemas.query import KeyAnswer
from slidestat.schemas.sequence import kinds
from slidestat.synopses.core.errors import SynopsisError


@dataclass(frozen=True, slots=True)
class RefereeView:
    """A referee's streams of one partition as they are now; for use at once, before the next batch.

    `watermark` is the tick that is answered for, NO_TIME before the first.
    """

    partition: int
    watermark: int
    next_offset: int
    streams: Mapping[str, PartySynopses]
    present: Present

    @property
    def keys_held(self) -> int:
        """The number of streams that can be asked for."""
        return sum(1 for _ in self._known())

    def alone(self, key: str) -> "RefereeView | None":
        """Return a copy of a stream, for use at any time; None where there is nothing to answer."""
        if not self.has(key):
            return None
        return replace(self, streams={key: self.streams[key].copy()})

    def has(self, key: str) -> bool:
        """Return whether there is something to answer for a stream."""
        return key in self.streams and self.streams[key].is_known(self.watermark)

    def keys(
        self, prefix: str, after: str, limit: int, firing: Collection[str] = ()
    ) -> Iterator[str]:
        """Return the first `limit` streams after `after` that begin with `prefix`, in order of
        their characters; none for which an alert fires, as a referee has no alerts. Costs a look at
        all of them.
        """
        if firing:
            return iter(())
        wanted = (key for key in self._known() if key > after and key.startswith(prefix))
        return islice(sorted(wanted), limit)

    def _known(self) -> Iterator[str]:
        return (key for key in self.streams if self.has(key))


class RefereeQuery:
    """A question that can be put to any stream of a referee. It has the parameters, and the
    refusals, of a `LiveQuery` of the referee's topology.
    """

    def __init__(
        self,
        referee: Referee,
        windows: Sequence[str] = (),
        statistics: Sequence[str] = (),
        quantiles: Sequence[float] = (),
        where: str | None = None,
        ranks: Sequence[float] = (),
        items: Sequence[str] = (),
        ago: str | None = None,
    ) -> None:
        if referee.of.rankings:
            raise SlidestatError(
                f"{referee.name} writes the rankings of {referee.of.name}, and has no figures.",
                f"Ask {referee.of.name}, or read the rankings on {referee.output_topic}.",
            )
        if ago is not None:
            raise SlidestatError(
                f"ago is {ago!r}, and {referee.name} is a referee, which answers as of now.",
                f"Ask {referee.of.name}, if its keys have one partition each, or read the emissions"
                " of that time.",
            )
        asked, *_ = asked_of(referee.answering, windows, statistics, quantiles, where, ranks, items)
        self._where = where
        self._calendar = asked.calendar_windows
        self._ranks = RankTable(asked) if ranks else None
        published = dict(zip(referee.of.labels, published_by(referee.of), strict=True))
        self._referee = referee
        self._key_answer = kinds(is_sequence=referee.is_sequence).key_answer
        self._figures = UnionFigures(asked, [published[label] for label in asked.labels])

    def answer(self, view: RefereeView, key: str) -> KeyAnswer | None:
        """Return the stream's figures over the parties that are present, None for a stream that is
        not there. Costs the synopses of one stream.

        Raises SlidestatError for a stored synopsis that cannot be read.
        """
        if not view.has(key):
            return None
        parties, absent = view.present
        asked = view.watermark, [view.streams[key]], parties
        try:
            ranks = self._ranks.rows(self._figures.answered(*asked)) if self._ranks else None
            ranks = ranks and at_end(self._calendar, ranks, view.watermark)
            figures = [] if self._ranks else self._figures.at(*asked)[0]
        except SynopsisError as error:
            raise SlidestatError(
                f"A stored synopsis of a party is damaged: {error}.",
                "Delete the worker's data folder; it is restored from the changelog.",
            ) from error
        referee = self._referee
        return self._key_answer(
            referee.name,
            key,
            view.watermark,
            figures,
            referee.source,
            view.partition,
            view.next_offset,
            list(parties),
            list(absent) or None,
            self._where,
            ranks=ranks,
        )
