"""Questions for figures of many keys at once, as they are now: for those with the largest or the
smallest values of one, and for tables of several.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slidestat.declare.alerts import figure_condition, figure_name
from slidestat.declare.declared import Declared
from slidestat.declare.expressions.nodes import fields_of
from slidestat.declare.figure_names import place_over_windows
from slidestat.declare.rankings import MOST_PLACES, order_of
from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.emission import FigureTable, at_end
from slidestat.engine.emissions.rankings import Ranked, leading
from slidestat.engine.keys.key_state import KeyState
from slidestat.engine.keys.states import States
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Queries
from slidestat.engine.ticks.ranked_ticks import RankedFigure
from slidestat.engine.view import PartitionView
from slidestat.errors import SlidestatError
from slidestat.live.live_query import asked_of, is_forgotten, may_lack
from slidestat.schemas.query import KeyRow, RankingAnswer, RankingPart
from slidestat.schemas.sequence import kinds
from slidestat.synopses.core.arrays import Integers

DEFAULT_PLACES = 10


class KeySlice(NamedTuple):
    """Some keys of a partition, which rise, and their states, at one moment."""

    partition: int
    watermark: int
    loss: Loss | None
    starts: Mapping[str, int]
    keys: Sequence[str]
    states: Sequence[KeyState | None]

    @classmethod
    def of(cls, view: PartitionView, keys: Sequence[str]) -> "KeySlice":
        """Return these keys as they are in a view; they stay so."""
        place = view.partition, view.watermark, view.loss, view.starts
        return cls(*place, keys, view.states(keys))


class _NamedFigures:
    """Figures of a topology by their names with windows, such as "p99_5m", of any of its keys."""

    def __init__(self, declared: Declared, named: Mapping[str, str], having: str = "") -> None:
        """Create the question for the figures `named`, each with what names it in an error, and
        those that the condition `having` reads. Raises SlidestatError for what there is not.
        """
        topology = _rankable(declared)
        self._condition = figure_condition(having, "having") if having else None
        known = topology.names_over_windows
        read = [place_over_windows(name, known, said) for name, said in named.items()]
        for path in () if self._condition is None else fields_of(self._condition.node):
            name = figure_name(path)
            read.append(place_over_windows(name, known, f"having reads {name!r}"))
        self._topology, places = _of_figures(topology, read)
        # Where the synopsis of each runner is.
        self._places = dict(zip(self._topology.runners, places, strict=True)).values()
        past = self._topology.past_figures_of(self._condition)
        self._calls = KernelCalls(
            self._topology, PartitionWork(), further=(it.runner for it in past.values())
        )

    def _live(self, keys: KeySlice) -> tuple[list[int], Integers]:
        """Return the rows of keys that have events and are not forgotten, though their states may
        be there yet, and where the windows of each end.
        """
        topology = self._topology.states_of  # It decides when keys are forgotten.
        rows, ends = [], []
        for row, state in enumerate(keys.states):
            if state is None or not state.number:
                continue
            end = max(keys.watermark, state.watermark) + 1
            is_over = is_forgotten(topology, state.last_time, end)
            if topology.sees_span_alone:
                is_over = state.last_time < end - topology.span_length.length
            if not is_over:
                rows.append(row)
                ends.append(end)
        return rows, np.array(ends, np.int64)

    def _answered(self, found: Sequence[KeyState | None], ends: Integers) -> dict[Runner, Answered]:
        """Return the answers of the synopses of keys that are there, at the ends of windows."""
        kept = [
            it._replace(synopses=tuple(it.synopses[place] for place in self._places))
            for it in found
            if it is not None
        ]
        states = States.of(kept, len(self._places))
        return self._calls.ask(states, Queries(np.arange(len(kept)), ends))


class LiveRanking(_NamedFigures):
    """A question for the keys of the largest, or the smallest, values of a figure.

    `by` is the name of a figure with its window, such as "p99_5m", or of a derived one; `size` how
    many keys are asked for. With `having`, a condition as in a topology, only keys for which it may
    hold have a place. Raises SlidestatError for a figure or a name that does not exist, with the
    parameter that names it.
    """

    def __init__(
        self,
        declared: Declared,
        by: str,
        size: int = DEFAULT_PLACES,
        *,
        smallest: bool = False,
        having: str = "",
    ) -> None:
        order = order_of(is_of_smallest=smallest)
        if not 1 <= size <= MOST_PLACES:
            raise SlidestatError(
                f"{order} is {size}.", f"Give how many keys, from 1 to {MOST_PLACES:,}."
            )
        super().__init__(declared, {by: f"by is {by!r}"}, having)
        self._by, self._having = by, having
        self.asked = {"by": by, order: str(size), **({"having": having} if having else {})}
        self._ranked = Ranked(size, smallest)
        self._kinds = kinds(is_sequence=self._topology.is_sequence)

    @classmethod
    def of_sizes(
        cls,
        declared: Declared,
        by: str,
        largest: int | None = None,
        smallest: int | None = None,
        having: str = "",
    ) -> "LiveRanking":
        """Return the question for a number of the largest figures, or of the smallest; for the
        largest if neither is given.
        """
        if largest is not None and smallest is not None:
            raise SlidestatError(
                "largest and smallest are given together.", "Ask one after the other."
            )
        is_smallest = smallest is not None
        size = smallest if is_smallest else largest
        size = DEFAULT_PLACES if size is None else size
        return cls(declared, by, size, smallest=is_smallest, having=having)

    def part(self, keys: KeySlice) -> RankingPart:
        """Return the keys, among these, that decide who has a place. Costs their synopses.

        Raises SlidestatError for a stored state that cannot be read.
        """
        topology = self._topology
        rows, ends = self._live(keys)
        if not rows:
            return RankingPart(0, [])
        answered = self._answered([keys.states[row] for row in rows], ends)
        ranked = RankedFigure(topology, self._by, self._condition, self._ranked, keys.starts)
        table = ranked.table(answered)
        may, of_those, are_sure = ranked.that_may_have_places(table, answered)
        chosen = leading(of_those, self._ranked.size)
        found = []
        for row, is_sure in zip(may[chosen].tolist(), are_sure[chosen].tolist(), strict=True):
            end = int(ends[row])
            lost = may_lack(keys.loss, ranked.reach, end)
            key, numbers = keys.keys[rows[row]], ranked.of(table)[row].tolist()
            found.append(
                ranked.contender(key, numbers, end, keys.partition, is_sure=is_sure, lost=lost)
            )
        return RankingPart(len(may), found)

    def joined(self, parts: Iterable[RankingPart]) -> RankingPart:
        """Return the part of all keys of some parts."""
        return self._ranked.joined(parts)

    def answer(self, part: RankingPart) -> RankingAnswer:
        """Return the ranking of the keys of a part."""
        size, smallest = self._ranked
        return self._kinds.ranking(
            topology=self._topology.name,
            by=self._by,
            order=order_of(is_of_smallest=smallest),
            size=size,
            keys=part.keys,
            places=self._ranked.keys(part.contenders, self._kinds.ranked_key),
            having=self._having,
        )


class LiveTable(_NamedFigures):
    """A question for the figures of some keys, by their names with windows, as a table.

    Raises SlidestatError, naming the parameter, for a name that no figure has.
    """

    def __init__(self, declared: Declared, figures: Sequence[str]) -> None:
        super().__init__(declared, {name: f"figure is {name!r}" for name in figures})
        self._columns = {name: self._topology.names_over_windows[name][0] for name in figures}
        self._alerts = [alert.name for alert in declared.answering.alerts]

    def rows(self, keys: KeySlice, firing: Mapping[str, Collection[str]]) -> list[KeyRow]:
        """Return a row for each of the keys that has events and is not forgotten, with the alerts
        that fire for it; and one without figures for others for which one fires, as for expected
        ones that never came. Costs the synopses of these keys.

        Raises SlidestatError for a stored state that cannot be read.
        """
        fires = {
            key: names
            for key in keys.keys
            if (names := [alert for alert in self._alerts if key in firing.get(alert, ())])
        }
        rows, ends = self._live(keys)
        silent = fires.keys() - {keys.keys[row] for row in rows}
        found = [KeyRow(key, keys.partition, fires[key], {}) for key in silent]
        if not rows:
            return found
        topology = self._topology
        table = FigureTable(topology, topology.window_lengths, keys.starts)
        numbered = table.numbered.rows(self._answered([keys.states[row] for row in rows], ends))
        added, reach = AddedFigures(topology, keys.starts), topology.emission_reach
        for row, end, figures in zip(rows, ends.tolist(), numbered, strict=True):
            key = keys.keys[row]
            marked = added.marked(at_end(topology.calendar_windows, figures, end), end)
            named = {name: marked[place] for name, place in self._columns.items()}
            lost = may_lack(keys.loss, reach, end)
            found.append(KeyRow(key, keys.partition, fires.get(key, []), named, lost=lost))
        return found


def figures_to_rank_by(declared: Declared) -> Iterator[str]:
    """Yield the names of the figures by which keys can be ranked."""
    topology = declared.answering
    if declared is topology and not topology.publish:
        named = topology.names_over_windows.items()
        yield from (name for name, places in named if len(places) == 1)


def _rankable(declared: Declared) -> Topology:
    """Return a topology whose keys are each in one partition; raises SlidestatError for others."""
    topology = declared.answering
    if declared is not topology:
        raise SlidestatError(
            f"{declared.name} is a referee, which cannot be asked for rankings.",
            f"It writes them to {declared.output_topic}."
            if topology.rankings
            else "Ask for its streams one by one.",
        )
    if topology.publish:
        raise SlidestatError(
            f"{topology.name} publishes for a referee: of a key that is published, a partition"
            " knows a part alone, and keys have no ranking.",
            "Ask the referee for its streams, one by one.",
        )
    return topology


def _of_figures(topology: Topology, read: Sequence[int]) -> tuple[Topology, list[int]]:
    """Return a topology with the statistics of the figures at some places alone, and where the
    synopsis of each is among those that are kept.
    """
    derives = any(place >= len(topology.figure_sources) for place in read)
    parts = [part for place in read for part in topology.parts_of(place)]
    if derives:
        parts += [part for figure in topology.derived_figures for part in figure.parts]
    labels = dict.fromkeys(topology.figure_sources[part].label for part in sorted(parts))
    asked = asked_of(topology, statistics=list(labels))
    return replace(asked.topology, derived=topology.derived if derives else ()), asked.places
