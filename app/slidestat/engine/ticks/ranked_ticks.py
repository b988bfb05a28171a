"""The keys of a partition that lead in its declared rankings, tick by tick, for a referee.

At a tick, all keys are compared of which the span has an event. So their figures are computed at
each, as with `emit = "always"`, though not all are emitted. The leading keys of a tick are known
once all slices of keys have been asked. It is published before the clock that has passed the tick,
and acknowledged before any state that has passed it is written. So after a crash, no tick is ranked
that a stored state has passed: some keys could no longer be asked, and all of it is out.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import msgspec
import numpy as np

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.engine.clock import Advance, closing_tick
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.emission import FigureTable, at_end
from slidestat.engine.emissions.rankings import Ranked, leading, that_may_have_places, that_may_lead
from slidestat.engine.publishing import RANKING, Clock, Publication, Publisher
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.queries import Queries
from slidestat.schemas.query import Contender
from slidestat.schemas.ranking import PublishedPart
from slidestat.synopses.core.arrays import Bools, Floats, Integers


class RankedFigure:
    """A figure of a topology, with the condition for a key to have a place by it."""

    def __init__(
        self,
        topology: Topology,
        by: str,
        condition: Expression | None,
        ranked: Ranked,
        starts: Mapping[str, int],
    ) -> None:
        """Create the figure with the name `by`; `starts` maps names of added figures to the times
        from which they are counted.
        """
        self.ranked = ranked
        self._condition = condition
        self._figures = FigureTable(topology, topology.window_lengths, starts).numbered
        self._columns = {name: found[0] for name, found in topology.names_over_windows.items()}
        self._place = self._columns[by]
        of_condition = topology.past_figures_of(condition)
        self._past = {**topology.past_read_by([self._place]), **of_condition}
        self.reach = topology.reach_over(self._past)
        self._model = self._figures.models()[self._place]
        self._added = AddedFigures(topology, starts)
        self._calendar = topology.calendar_windows

    def table(self, answered: Mapping[Runner, Answered]) -> Floats:
        """Return the numbers of all figures of the topology."""
        return self._figures.table(answered)

    def of(self, table: Floats) -> Floats:
        """Return the numbers of the figure, float64[n, 3], from those of all."""
        return table[:, self._place]

    def that_may_have_places(
        self, table: Floats, answered: Mapping[Runner, Answered]
    ) -> tuple[Integers, Floats, Bools]:
        """Return the rows that may have a place, their figures in the order of the ranking, and
        which of them surely have one; as the function of this name.
        """
        past = {call: figure.of(answered) for call, figure in self._past.items()}
        truths = None
        if self._condition is not None:
            truths = self._figures.truths(self._condition, table, self._columns, past)
        numbers = self._figures.column(table, self._place, past)
        return that_may_have_places(numbers, truths, smallest=self.ranked.smallest)

    def contender(
        self,
        key: str,
        numbers: Sequence[float],
        end: int,
        partition: int,
        *,
        is_sure: bool,
        lost: bool,
    ) -> Contender:
        """Return a key with the numbers of its figure, of windows that end at `end`."""
        estimate, lower, upper = (it if isfinite(it) else None for it in numbers)
        figure = msgspec.structs.replace(self._model, estimate=estimate, lower=lower, upper=upper)
        dated = at_end(self._calendar, [figure], end)
        [figure] = self._added.marked(dated, end) if self._added else dated
        return Contender(key, figure, is_sure, partition, end, lost)


class _Part(NamedTuple):
    """Some keys that may lead at a tick: their names, the numbers of their figures, those in the
    order of the ranking, and which of them surely have a place.
    """

    names: list[str]
    numbers: Floats
    figures: Floats
    are_sure: Bools


class _Found:
    """The keys found for one ranking at one tick so far, and how many may have a place."""

    def __init__(self) -> None:
        self.keys = 0
        self.parts: list[_Part] = []


class RankedTicks:
    """A collector of the keys that lead at the ticks in work."""

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        starts: Mapping[str, int],
        passed: int = NO_TIME,
    ) -> None:
        """Create the collector; `starts` maps names of added figures to the times from which they
        are counted, and stored states have `passed` the ticks up to there.
        """
        self._arguments = topology, topic, partition, starts
        self._every, self._span = topology.every_ms, topology.span_length.length
        self._earliest = topology.times.earliest
        self._partition = partition
        self._passed = passed
        self._clocks = Publisher(topology, topic, partition).clocks
        self._figures = {
            it.name: RankedFigure(
                topology, it.by, it.condition, Ranked(it.size, it.is_of_smallest), starts
            )
            for it in topology.rankings
        }
        self._meanings = {it.name: it.text for it in topology.rankings}
        self._found: dict[int, dict[str, _Found]] = {}
        self._coming: list[Clock] = []

    def __bool__(self) -> bool:
        """Return whether there are rankings."""
        return bool(self._figures)

    def trial(self) -> "RankedTicks":
        """Return a collector for a trial."""
        return RankedTicks(*self._arguments, self._passed)

    def add(
        self,
        names: Sequence[str],
        queries: Queries,
        last_times: Integers,
        answered: Mapping[Runner, Answered],
    ) -> Floats | None:
        """Take in the answers to queries of keys, `last_times` being the time of the last event
        before each. Return the numbers of all figures, if they were computed.
        """
        if not self._figures or not len(queries.times):
            return None
        is_live = (last_times != NO_TIME) & (queries.times > self._passed)
        is_live &= closing_tick(last_times, self._span, self._every) > queries.times
        if not is_live.any():
            return None
        for tick in np.unique(queries.times[is_live]).tolist():
            self._found.setdefault(tick, {name: _Found() for name in self._figures})
        table = next(iter(self._figures.values())).table(answered)
        for name, figure in self._figures.items():
            rows, figures, are_sure = figure.that_may_have_places(table, answered)
            chosen = np.flatnonzero(is_live[rows])
            chosen = chosen[np.argsort(queries.times[rows[chosen]], kind="stable")]
            ticks = queries.times[rows[chosen]]
            begins = np.flatnonzero(np.diff(ticks, prepend=NO_TIME))
            for of in np.split(chosen, begins[1:]) if len(chosen) else ():
                found = self._found[int(queries.times[rows[of[0]]])][name]
                found.keys += len(of)
                of = of[that_may_lead(figures[of], figure.ranked.size)]
                groups = queries.groups[rows[of]].tolist()
                found.parts.append(
                    _Part(
                        [names[group] for group in groups],
                        figure.of(table)[rows[of]],
                        figures[of],
                        are_sure[of],
                    )
                )
        return table

    def begin(self, advance: Advance) -> None:
        """Note the clocks of an advance, which may then be taken piece by piece.

        A clock is of all ticks since the previous one. One with ticks that a stored state has
        passed is out, or was never due: the state may be from before there were rankings.
        """
        if self._figures:
            every, reached = self._every, max(self._passed, advance.emitted)
            reached = reached // every * every if reached >= self._earliest else NO_TIME
            previous = max(advance.before // every * every, NO_TIME)
            self._coming = []
            for clock in self._clocks(advance.before, advance.offsets, advance.watermarks):
                if previous >= reached:
                    self._coming.append(clock._replace(previous=previous))
                previous = clock.tick

    def take(self, advance: Advance) -> list[Publication | Clock]:
        """Return what is published at the ticks that an advance, or a piece of one, passes: what
        leads at each, then the clock that has passed it.
        """
        found, self._found = self._found, {}
        before, end = max(advance.before, advance.emitted), advance.watermark
        published: list[Publication | Clock] = [it for it in self._coming if it.tick <= end]
        self._coming = self._coming[len(published) :]
        for tick, of_tick in found.items():
            if before < tick <= end:
                published += self._of_tick(tick, of_tick, advance)
        return sorted(published, key=lambda it: (it.tick, isinstance(it, Clock)))

    def _of_tick(
        self, tick: int, found: Mapping[str, _Found], advance: Advance
    ) -> Iterator[Publication]:
        ends = np.array([tick])
        loss = advance.loss
        offset = int(advance.source_offsets(ends)[0])
        for name, of in found.items():
            figure, contenders = self._figures[name], []
            lost = loss is not None and bool(loss.concerns(ends, figure.reach)[0])
            keys = [key for part in of.parts for key in part.names]
            if keys:
                numbers, figures, are_sure = (
                    np.concatenate(columns) for columns in list(zip(*of.parts, strict=True))[1:]
                )
                order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
                rows = order[leading(figures[order], figure.ranked.size)]
                contenders = [
                    figure.contender(
                        keys[row], it, tick, self._partition, is_sure=is_sure, lost=lost
                    )
                    for row, it, is_sure in zip(
                        rows.tolist(), numbers[rows].tolist(), are_sure[rows].tolist(), strict=True
                    )
                ]
            meaning = self._meanings[name]
            synopsis = msgspec.json.encode(PublishedPart(of.keys, contenders, meaning))
            yield Publication(tick, offset, name, RANKING, meaning, synopsis)
