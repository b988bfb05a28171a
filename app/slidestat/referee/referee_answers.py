"""A referee's answers as output records: figures over the parties that are present."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from slidestat.declare.referee import Referee
from slidestat.declare.statistics import NetSum, Sum, SumHistogram
from slidestat.declare.statistics.runner import NOBODY, Answered, Runner, Unions, united
from slidestat.declare.times.calendar_windows import lengths_at
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission import FigureTable, at_end
from slidestat.engine.emissions.emission_codec import EmissionWriter
from slidestat.engine.emissions.output_records import OutputRecord
from slidestat.engine.publishing import published_by
from slidestat.referee.party_synopses import AnsweredTicks, PartySynopses
from slidestat.schemas.emission import AbsentParty, Figure
from slidestat.schemas.sequence import kinds
from slidestat.schemas.synopsis import NumberedSynopsis
from slidestat.synopses import Bundle
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import time_in_range


class Present(NamedTuple):
    """The parties whose events are in an answer, and the absent ones."""

    parties: Sequence[str]
    absent: Sequence[AbsentParty]


class UnionFigures:
    """Figures of the union of parties, of a topology's statistics over its windows.

    `published` names the synopsis of each statistic, as the parties publish it.
    """

    def __init__(self, topology: Topology, published: Sequence[str]) -> None:
        runners = map(united, topology.runners)
        self.runners = dict(zip(published, runners, strict=True))
        self.empty = {
            statistic: topology.empty_synopsis(runner) for statistic, runner in self.runners.items()
        }
        self._windows = topology.window_lengths
        self._calendar = topology.calendar_windows
        self._of_events = topology.span_length.of_events
        self._figures = FigureTable(topology, topology.window_lengths)
        labelled = zip(topology.labels, topology.statistics, strict=True)
        self._sums = {
            label
            for label, statistic in labelled
            if isinstance(statistic, Sum | NetSum | SumHistogram)
        }

    def at(
        self, tick: int, streams: Sequence[PartySynopses], parties: Collection[str]
    ) -> list[list[Figure]]:
        """Return the figures of each stream (at least one) at a tick."""
        rows = self._figures.rows(self.answered(tick, streams, parties))
        return [self._widened(at_end(self._calendar, it, tick), parties) for it in rows]

    def answered(
        self, tick: int, streams: Sequence[PartySynopses], parties: Collection[str]
    ) -> dict[Runner, Answered]:
        """Ask the parties' synopses, for each stream at a tick."""
        answered: dict[Runner, Answered] = {}
        (windows,) = lengths_at(self._windows, np.array([tick]))
        for statistic, runner in self.runners.items():
            bundles: list[Bundle] = []
            times: list[int] = []
            for stream in streams:
                published = stream.at(tick, statistic, parties)
                found, numbers = self.bundles(statistic, published)
                bundles += found
                if self._of_events:
                    # Each party's windows end with its own last event.
                    times += [
                        numbers.get(part.party, 0) + 1 for bundle in found for part in bundle.parts
                    ]
                else:
                    times += [tick] * len(found)
            answered[runner] = runner.union(Unions(bundles, times, windows))
        return answered

    def bundles(
        self, statistic: str, published: Mapping[str, bytes]
    ) -> tuple[list[Bundle], Mapping[str, int]]:
        """Return the bundles of what each party published of a statistic; where windows are of
        events, with the number of the last one of each party.

        Raises SynopsisError for bytes that are no such synopsis.
        """
        numbers = {}
        if self._of_events:
            try:
                found = {it: NumberedSynopsis.decode(data) for it, data in published.items()}
            except ValueError as error:
                raise SynopsisError(str(error)) from None
            published = {party: it.synopsis for party, it in found.items()}
            numbers = {party: it.number for party, it in found.items()}
            for number in numbers.values():
                time_in_range(number + 1)
        bundles = self.runners[statistic].bundles(published, self.empty[statistic])
        for part in (part for bundle in bundles for part in bundle.parts):
            if part.party in numbers and part.now > numbers[part.party] + 1:
                raise SynopsisError(
                    f"the synopsis has come to {part.now - 1} events, and the last one is number"
                    f" {numbers[part.party]}"
                )
        return bundles, numbers

    def _widened(self, figures: list[Figure], parties: Collection[str]) -> list[Figure]:
        """Return the figures with the error of the union: in a sum each party rounds by itself."""
        return [
            _of_so_many(figure, len(parties)) if figure.statistic in self._sums else figure
            for figure in figures
        ]


def _of_so_many(figure: Figure, parties: int) -> Figure:
    """Return a sum's figure with the promise of so many parties.

    For signed sums, the rounding when doubles are added is included: twice 2^-53 of the magnitudes
    for each party.
    """
    signed = figure.magnitude_error > 0
    return msgspec.structs.replace(
        figure,
        absolute_error=figure.absolute_error * parties,
        magnitude_error=figure.magnitude_error + signed * parties * 2.0**-52,
    )


class RefereeAnswers:
    """The answers of a referee: of one tick for many streams, in one call a statistic."""

    def __init__(self, referee: Referee, partition: int, codec: EmissionWriter) -> None:
        topology = referee.answering
        self._referee = referee
        self._emission = kinds(is_sequence=referee.is_sequence).emission
        self._partition = partition
        self._codec = codec
        self._figures = UnionFigures(topology, published_by(topology))
        self._nothing = {
            statistic: self._figures.bundles(statistic, {})[0]
            for statistic in self._figures.runners
        }

    def knows(self, statistic: str) -> bool:
        """Return whether a statistic of this name is answered for."""
        return statistic in self._nothing

    def check(self, statistic: str, synopsis: bytes) -> None:
        """Raise SynopsisError unless these bytes are a synopsis of the statistic."""
        found, _ = self._figures.bundles(statistic, {NOBODY: synopsis})
        for nothing, bundle in zip(self._nothing[statistic], found, strict=True):
            nothing.merge(bundle)  # which says in what way they differ

    def warm(self) -> None:
        """Answer for an empty stream once, so that all kernels are loaded."""
        synopses = PartySynopses(AnsweredTicks(1, 1))
        self.at(1, {NOBODY: synopses}, Present((), ()), 0, provisional=True)

    def at(
        self,
        tick: int,
        streams: Mapping[str, PartySynopses],
        present: Present,
        source_offset: int,
        *,
        provisional: bool,
    ) -> list[OutputRecord]:
        """Return the records of the streams' answers at a tick, by stream; none for no streams."""
        if not streams:
            return []
        names = sorted(streams)
        rows = self._figures.at(tick, [streams[name] for name in names], present.parties)
        referee = self._referee
        records: list[OutputRecord] = []
        for name, figures in zip(names, rows, strict=True):
            emission = self._emission(
                referee.name,
                name,
                tick,
                figures,
                referee.source,
                self._partition,
                source_offset,
                provisional,
                list(present.parties),
                list(present.absent) or None,
            )
            records += [(*record, tick) for record in self._codec.records(emission)]
        return records
