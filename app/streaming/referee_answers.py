"""A referee's answers as output records: figures over the parties that are present."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from app.streaming.emission import FigureTable, OutputRecord
from app.streaming.output_codec import EmissionCodec
from app.streaming.party_synopses import PartySynopses
from app.streaming.publishing import published_statistics
from app.streaming.referee import Referee
from app.streaming.runners import Answered, Runner
from app.streaming.statistics import Sum
from app.streaming.unions import empty_synopsis, unite
from app.synopses.merge import Bundle
from schemas.emission import AbsentParty, Emission, Figure, emission_key

# A bundle has at least one part: of parties that know nothing, the synopsis of nobody.
_NOBODY = "nobody"


class Present(NamedTuple):
    """Whose events are in an answer, and whose are not."""

    parties: Sequence[str]
    absent: Sequence[AbsentParty]


class RefereeAnswers:
    """Answers one tick for many streams in one call a statistic."""

    def __init__(self, referee: Referee, partition: int, codec: EmissionCodec) -> None:
        topology = referee.answering
        self._referee = referee
        self._partition = partition
        self._codec = codec
        self._figures = FigureTable(topology, topology.window_lengths)
        self._windows = np.array(topology.window_lengths, np.int64)
        runners = list(dict.fromkeys(topology.runners))
        self._runners = dict(zip(published_statistics(topology), runners, strict=True))
        self._empty = {
            statistic: empty_synopsis(runner, topology)
            for statistic, runner in self._runners.items()
        }
        self._made_with = {statistic: _made_with(empty) for statistic, empty in self._empty.items()}
        labelled = zip(topology.labels, topology.statistics, strict=True)
        self._sums = {label for label, statistic in labelled if isinstance(statistic, Sum)}

    def knows(self, statistic: str) -> bool:
        """Whether a statistic of this name is answered for."""
        return statistic in self._runners

    def check(self, statistic: str, synopsis: bytes) -> None:
        """Raise SynopsisError unless these bytes are a synopsis of the statistic."""
        if _made_with(synopsis) != self._made_with[statistic]:
            # The bundle of the two says in which way they differ.
            Bundle.of({_NOBODY: self._empty[statistic], "published": synopsis})

    def warm(self) -> None:
        """Answer once of nothing, so that all kernels are loaded."""
        synopses = PartySynopses(1, 1)
        self.at(1, {_NOBODY: synopses}, Present((), ()), 0, provisional=True)

    def at(
        self,
        tick: int,
        streams: Mapping[str, PartySynopses],
        present: Present,
        source_offset: int,
        *,
        provisional: bool,
    ) -> list[OutputRecord]:
        """The records of the streams' answers at a tick, by stream; none for no streams."""
        if not streams:
            return []
        names = sorted(streams)
        answered: dict[Runner, Answered] = {}
        for statistic, runner in self._runners.items():
            bundles = []
            for name in names:
                known = streams[name].at(tick, statistic, present.parties)
                bundles.append(Bundle.of(known or {_NOBODY: self._empty[statistic]}))
            answered[runner] = unite(runner, bundles, [tick] * len(bundles), self._windows)
        rows = self._figures.rows(answered)
        referee = self._referee
        records = []
        for name, figures in zip(names, rows, strict=True):
            emission = Emission(
                referee.name,
                name,
                tick,
                self._widened(figures, present.parties),
                referee.source,
                self._partition,
                source_offset,
                provisional,
                list(present.parties),
                list(present.absent) or None,
            )
            key = emission_key(referee.name, name, tick)
            records.append((key, self._codec.encode(emission), tick))
        return records

    def _widened(self, figures: list[Figure], parties: Collection[str]) -> list[Figure]:
        """The figures with what the union promises: in a sum each party rounds once for itself."""
        return [
            msgspec.structs.replace(figure, absolute_error=figure.absolute_error * len(parties))
            if figure.statistic in self._sums
            else figure
            for figure in figures
        ]


def _made_with(synopsis: bytes) -> tuple[int, object]:
    bundle = Bundle.of({_NOBODY: synopsis})
    return bundle.kind, bundle.parameters
