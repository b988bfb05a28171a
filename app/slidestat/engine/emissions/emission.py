"""Figures as output records."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.declare.alerts import figure_name
from slidestat.declare.expressions.derived_figures import columns_of
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.intervals import Intervals, Numbers, Truths
from slidestat.declare.expressions.nodes import Node
from slidestat.declare.statistics.base import ListStatistic, Promise, Series, Statistic
from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.times.calendar_windows import CalendarWindow, length_at
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.agreement import Agreement
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec, JsonWithNumbers
from slidestat.engine.emissions.emission_text import EmissionText
from slidestat.engine.emissions.output_records import EmittedNumbers, OutputRecord, OutputRecords
from slidestat.engine.emissions.placed_answers import PlacedAnswers
from slidestat.schemas.emission import Figure, LostRecords
from slidestat.schemas.query import ValueRank
from slidestat.schemas.sequence import kinds
from slidestat.synopses.core.arrays import Floats, Integers

_Dated = TypeVar("_Dated", Figure, ValueRank)
# A figure's other fields than its three numbers, by their names.
_Tail = dict[str, Any]
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Figure)}
# Final and provisional emissions, with and without losses, and the newest ones.
_MOST_TEXTS = 8


class FigureTable:
    """A table that makes a topology's figures from the answers of its synopses."""

    def __init__(
        self,
        topology: Topology,
        windows: Sequence[int],
        starts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Create the table; `starts` maps names of added figures to the times from which they are
        counted: they need not agree with figures of other events.
        """
        self._numbers = NumberedFigures(topology, np.array(windows, np.float64), starts)
        # In the order of the statistics: a slice of the numbers, or lists.
        self._parts: list[slice | _Lists] = []
        statistics = zip(topology.statistics, topology.labels, topology.runners, strict=True)
        for statistic, label, runner in statistics:
            promise = topology.promise_of(statistic, None)
            of_events = topology.windows_of_events
            tails = [
                [
                    _tail(window, of_events, series, topology.promise_of(statistic, window))
                    for series in statistic.series()
                ]
                for window in (windows if statistic.has_windows else (None,))
            ]
            if isinstance(statistic, ListStatistic):
                self._parts.append(_Lists(statistic, label, runner, [tail for (tail,) in tails]))
                continue
            values = statistic.path(topology.value_path), statistic.where, starts.get(label)
            self._parts.append(self._numbers.add(statistic, label, runner, values, promise, tails))
        if topology.derived_figures:
            self._parts.append(self._numbers.add_derived())

    @property
    def numbers(self) -> "NumberedFigures | None":
        """The figures' numbers, if each answer has the same figures; None for lists of items."""
        if any(isinstance(part, _Lists) for part in self._parts):
            return None
        return self._numbers

    @property
    def numbered(self) -> "NumberedFigures":
        """The figures that are in every answer, also where others are not."""
        return self._numbers

    def rows(self, answered: Mapping[Runner, Answered]) -> list[list[Figure]]:
        """Return the figures of each query; `answered` are the answers of each runner."""
        numbers = self._numbers.rows(answered) if self._numbers.are_any else []
        if self.numbers is not None:
            return numbers
        parts = [
            part.rows(answered) if isinstance(part, _Lists) else [row[part] for row in numbers]
            for part in self._parts
        ]
        return [list(chain.from_iterable(row)) for row in zip(*parts, strict=True)]

    def listed(self, answered: Mapping[Runner, Answered]) -> list[list[Figure]]:
        """Return the figures of listed items of each query."""
        lists = [part.rows(answered) for part in self._parts if isinstance(part, _Lists)]
        return [list(chain.from_iterable(row)) for row in zip(*lists, strict=True)]


class NumberedFigures:
    """The figures that are in every answer: those of all statistics but lists of items."""

    def __init__(self, topology: Topology, windows: Floats, starts: Mapping[str, int]) -> None:
        self._topology = topology
        self._windows = windows
        self._facts = topology.figure_facts(starts) if topology.derived_figures else None
        self._derived = range(0)
        self._statistics: list[tuple[Statistic, Runner]] = []
        self._templates: list[tuple[str, _Tail]] = []
        self._agreement = Agreement()

    def add(
        self,
        statistic: Statistic,
        label: str,
        runner: Runner,
        values: Hashable,
        promise: Promise,
        tails: Sequence[Sequence[_Tail]],
    ) -> slice:
        """Take in a statistic of these `values`, with the tails of its figures in each window;
        return their place among all figures.
        """
        start = len(self._templates)
        self._statistics.append((statistic, runner))
        self._templates += [(label, tail) for window in tails for tail in window]
        end = len(self._templates)
        columns = np.arange(start, end).reshape(len(tails), -1)
        self._agreement.add(values, statistic, promise, columns)
        return slice(start, end)

    def add_derived(self) -> slice:
        """Take in the derived figures, behind all others; return their place."""
        start = len(self._templates)
        for figure in self._topology.derived_figures:
            # A figure of now and that of before each have a chance of their own to miss.
            tails = (self._templates[part.place][1] for _, part in figure.read)
            confidence = joint_confidence(it.get("confidence", 1.0) for it in tails)
            tail = {"derived": True} | ({"confidence": confidence} if confidence < 1 else {})
            self._templates.append((figure.name, tail))
        self._derived = range(start, len(self._templates))
        return slice(start, len(self._templates))

    def __len__(self) -> int:
        return len(self._templates)

    @property
    def are_any(self) -> bool:
        """Return whether there are statistics of such figures; they may be of none, as counts of
        items of which none is named.
        """
        return bool(self._statistics)

    def column(self, table: Floats, place: int, past: Mapping[Node, Numbers]) -> Numbers:
        """Return the numbers of the figure at a place, from those of a `table` and of the `past`;
        of a derived one also whether it may be NULL where its estimate is not.
        """
        return self.of_place(place, len(table), lambda part: Numbers.of(table[:, part]), past)

    def of_place(
        self, place: int, rows: int, figure: Callable[[int], Numbers], past: Mapping[Node, Numbers]
    ) -> Numbers:
        """Return the numbers of the figure at a place, from those of statistics and of the past, by
        calls of `ago`, in `rows` rows.
        """
        return self._topology.figure_numbers(place, rows, figure, self._facts, past)

    def truths(
        self,
        asked: Expression,
        table: Floats,
        columns: Mapping[str, int],
        past: Mapping[Node, Numbers],
        others: Mapping[str, Numbers] = MappingProxyType({}),
    ) -> Truths:
        """Return the truth values of a condition in each row of a `table`; `columns` are the places
        of the figures by the names that it has for them, `past` those of its calls of `ago`, and of
        those that derived figures have, and `others` numbers that have a name.
        """
        figures = {
            path: others[name]
            if (name := figure_name(path)) in others
            else self.column(table, columns[name], past)
            for path in asked.paths
        }
        return Intervals(len(table), figures, past).truths(asked.node)

    def models(self) -> list[Figure]:
        """Return the figures of an answer, without their numbers."""
        return [Figure(label, None, None, None, **tail) for label, tail in self._templates]

    def table(self, answered: Mapping[Runner, Answered]) -> Floats:
        """Return float64[queries, figures, 3]: estimates, lowers and uppers."""
        tables = [
            statistic.numbers(answered[runner].answers, self._windows)
            for statistic, runner in self._statistics
        ]
        table = np.empty((tables[0].shape[1], len(self), 3))
        end = 0
        for numbers in tables:
            queries, windows, series = numbers.shape[1:]
            start, end = end, end + windows * series
            table[:, start:end] = np.moveaxis(numbers.reshape(3, queries, end - start), 0, 2)
        self._agreement.settle(table)
        past = {call: it.of(answered) for call, it in self._topology.derived_past.items()}
        for place in self._derived:
            table[:, place] = columns_of(self.column(table, place, past))
        return table

    def rows(self, answered: Mapping[Runner, Answered]) -> list[list[Figure]]:
        """Return the figures of each query."""
        templates = self._templates
        return [
            [
                Figure(label, estimate, lower, upper, **tail)
                for (label, tail), (estimate, lower, upper) in zip(templates, row, strict=True)
            ]
            for row in self.table(answered).tolist()
        ]


@dataclass(frozen=True)
class _Lists:
    """A statistic whose figures are those of the items that it found."""

    statistic: ListStatistic
    label: str
    runner: Runner
    tails: Sequence[_Tail]

    def rows(self, answered: Mapping[Runner, Answered]) -> list[list[Figure]]:
        return [
            [
                Figure(self.label, *found.numbers, **tail, item=found.item)
                for listed, tail in zip(lists, self.tails, strict=True)
                for found in self.statistic.chosen(listed)
            ]
            for lists in answered[self.runner].lists
        ]


class EmissionEncoder:
    """A writer of the emissions of one source partition."""

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        codec: EmissionWriter,
        starts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Create the encoder; `starts` are the times from which added figures count, by name."""
        self._topology = topology.name
        self._added = AddedFigures(topology, starts)
        self._source = (topic, partition)
        self._codec = codec.of_added(starts) if starts else codec
        self._kinds = kinds(is_sequence=topology.is_sequence)
        self._figures = FigureTable(topology, topology.window_lengths, starts)
        numbers = self._figures.numbers
        # Formats other than JSON, and lists of items, are written one emission at a time.
        self._numbers = numbers if isinstance(codec, JsonCodec) else None
        self._keeps_numbers = isinstance(codec, JsonWithNumbers)
        self._model = self._kinds.emission(
            self._topology, "", 0, numbers.models() if numbers else [], *self._source, 0
        )
        self._texts: dict[tuple[bool, LostRecords | None, int], EmissionText] = {}
        self._calendar = topology.calendar_windows
        self._reach = topology.emission_reach

    def figures(
        self, answered: Mapping[Runner, Answered], table: Floats | None = None
    ) -> npt.NDArray[Any]:
        """Return the figures of each query, as `encode` takes them: float64[n, figures, 3], or n
        lists; `table` are their numbers, if they were computed before.
        """
        if self._numbers is not None:
            return self._numbers.table(answered) if table is None else table
        rows = self._figures.rows(answered)
        figures = np.empty(len(rows), object)
        for place, row in enumerate(rows):
            figures[place] = row
        return figures

    def encode(
        self, answers: PlacedAnswers, *, provisional: bool, loss: Loss | None
    ) -> OutputRecords:
        """Return answers as records, in order; what may lack records of `loss` is marked."""
        return OutputRecords.joined(
            [
                self._written(answers.between(start, end), provisional, lost)
                for start, end, lost in self._parts(answers.ticks, loss)
            ]
        )

    def _written(
        self, answers: PlacedAnswers, provisional: bool, lost: LostRecords | None
    ) -> OutputRecords:
        ends = answers.ticks
        if self._numbers is not None:
            text = self._text(provisional, lost, int(ends[0]))
            names, groups = answers.keys()
            said = names, groups, ends, answers.figures, answers.source_offsets
            records = text.write(*said)
            if self._keeps_numbers:
                records.said = [EmittedNumbers(text.model, *said)]
            return records
        figures = answers.figures.tolist()
        if self._calendar:
            figures = [
                at_end(self._calendar, *it) for it in zip(figures, ends.tolist(), strict=True)
            ]
        if self._added:
            figures = list(map(self._added.all_marked, figures, ends.tolist()))
        names = [answers.names[rank] for rank in answers.ranks.tolist()]
        return OutputRecords.of(
            self._each(figures, names, ends, answers.source_offsets, provisional, lost)
        )

    def _parts(
        self, ticks: Integers, loss: Loss | None
    ) -> Iterator[tuple[int, int, LostRecords | None]]:
        """Yield runs of answers that lack the same lost records, and in which the same figures
        cover their windows: start, end, and the lost records. Windows of the calendar have
        another length at each tick.
        """
        if not len(ticks):
            return
        if loss is None and not self._added and not self._calendar:
            yield 0, len(ticks), None
            return
        concerned, lost = np.zeros(len(ticks), bool), None
        if loss is not None:
            concerned = loss.concerns(ticks, self._reach)
            lost = loss.as_record(self._kinds.lost_records)
        differs = np.diff(concerned) | (np.diff(self._stages(ticks)) != 0)
        edges = [0, *(np.flatnonzero(differs) + 1).tolist(), len(ticks)]
        for start, end in pairwise(edges):
            yield start, end, lost if concerned[start] else None

    def _stages(self, ends: Integers) -> Integers:
        """Return int64[n]: equal numbers for ends whose figures differ in numbers alone."""
        return ends if self._calendar else self._added.stages(ends)

    def _text(self, provisional: bool, lost: LostRecords | None, end: int) -> EmissionText:
        """Return the text of emissions at the window end `end`, and others of its stage."""
        kind = provisional, lost, int(self._stages(np.array([end]))[0])
        text = self._texts.get(kind)
        if text is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            figures = self._added.marked(at_end(self._calendar, self._model.figures, end), end)
            text = EmissionText(
                replace(self._model, figures=figures, provisional=provisional, lost=lost)
            )
            self._texts[kind] = text
        return text

    def _each(
        self,
        rows: Sequence[list[Figure]],
        keys: Sequence[str],
        ticks: Integers,
        source_offsets: Integers,
        provisional: bool,
        lost: LostRecords | None,
    ) -> Iterator[OutputRecord]:
        topology = self._topology
        for figures, key, tick, offset in zip(
            rows, keys, ticks.tolist(), source_offsets.tolist(), strict=True
        ):
            emission = self._kinds.emission(
                topology, key, tick, figures, *self._source, offset, provisional, lost=lost
            )
            for record in self._codec.records(emission):
                yield *record, tick


def joint_confidence(confidences: Iterable[float]) -> float:
    """Return the confidence with which the bounds of several figures hold at once."""
    misses = sum((1 - Fraction(repr(it)) for it in confidences), Fraction(0))
    return float(max(Fraction(0), 1 - misses))


def window_fields(window: int | None, *, of_events: bool) -> _Tail:
    """Return what a figure has of its window; one of the calendar gets its length by `at_end`."""
    if isinstance(window, CalendarWindow):
        return {"window": window.name}
    return {"window_events" if of_events else "window_ms": window}


def at_end(
    windows: Mapping[str, CalendarWindow], figures: Sequence[_Dated], end: int
) -> list[_Dated]:
    """Return figures, or ranks, with the lengths that windows of the calendar have at their end."""
    if not windows:
        return list(figures)
    return [
        figure
        if figure.window is None
        else replace(figure, window_ms=length_at(windows[figure.window], end))
        for figure in figures
    ]


def _tail(window: int | None, of_events: bool, series: Series, promise: Promise) -> _Tail:
    share_error = promise.share_error if series.share_error is None else series.share_error
    tail = {
        **window_fields(window, of_events=of_events),
        # Flat: asdict would copy each number, of each figure, at each start and question.
        **vars(series),
        **vars(promise),
        "share_error": share_error,
    }
    # msgspec leaves out what is the default itself, not what equals it.
    return {name: value for name, value in tail.items() if value != _DEFAULTS[name]}
