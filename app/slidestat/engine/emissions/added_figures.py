"""Which figures do not cover their windows: those of statistics that were added while a topology
ran, as long as their windows begin before that.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from slidestat.declare.statistics.base import ListStatistic
from slidestat.declare.times.calendar_windows import CalendarWindow, length_at
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import AddedStatistic, ValueRank
from slidestat.synopses.core.arrays import Integers

_T = TypeVar("_T", Figure, ValueRank)

WHOLE, NEVER_WHOLE = -(2**62), 2**62


class AddedFigures:
    """The figures of a topology's statistics that were added."""

    def __init__(self, topology: Topology, starts: Mapping[str, int]) -> None:
        """Create the marks; `starts` are the times from which added figures count, by name."""
        self._starts = starts
        # Once in an emission: figures of the span, or of all events.
        span = topology.span_length
        self._spans = {
            label: span.length
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            if not statistic.is_landmark and not statistic.has_windows and not span.of_events
        }
        self._calendar = topology.calendar_windows
        windows = () if span.of_events else topology.window_lengths
        self._longest = None if span.of_events else max(topology.window_lengths)
        self._landmarks = {
            label
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            if statistic.is_landmark
        }
        of_events = topology.windows_of_events
        names = (*topology.labels, *(figure.name for figure in topology.derived_figures))
        self._places = {label: place for place, label in enumerate(names)}
        # The labels and windows of what derived figures are of.
        self._parts: dict[str, list[tuple[str, int | None, int]]] = {
            figure.name: [
                (source.label, None if of_events else source.window, 0)
                for source in map(topology.figure_sources.__getitem__, figure.parts)
            ]
            + [
                (it.source.label, it.runner.window, it.runner.ago)
                for it in map(topology.derived_past.__getitem__, figure.calls)
            ]
            for figure in topology.derived_figures
        }
        # Lists of items are replaced by a figure for each window.
        self._lists = [
            Figure(
                *(label, None, None, None),
                window_ms=None if of_events else length,
                window_events=length if of_events else None,
                window=length.name if isinstance(length, CalendarWindow) else None,
                counted_from_ms=starts[label],
            )
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            if isinstance(statistic, ListStatistic) and label in starts
            for length in topology.window_lengths
        ]
        edges = {self._whole_from(it, length, 0) for it in starts for length in (*windows, None)}
        edges.update(self._whole_from(*it) for of in self._parts.values() for it in of)
        self._edges = np.array(sorted(edges - {WHOLE, NEVER_WHOLE}), np.int64)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def whole_from(self, figure: Figure | ValueRank) -> int:
        """Return the first window end at which a figure covers its whole window."""
        own = figure.window_ms if figure.window is None else self._calendar[figure.window]
        parts = self._parts.get(figure.statistic, [(figure.statistic, own, 0)])
        return max(self._whole_from(*part) for part in parts)

    def _whole_from(self, label: str, window: int | None, ago: int) -> int:
        start = self._starts.get(label)
        if start is None:
            return WHOLE
        length = window or self._spans.get(label)
        # A key's last events, and all of them, may reach back over any time.
        return NEVER_WHOLE if length is None else _whole(start, length) + ago

    def _start_of(self, name: str) -> int:
        """Return the time from which a figure is counted; of a derived one, all that it is of."""
        labels = [label for label, *_ in self._parts.get(name, [(name, None, 0)])]
        return max(self._starts[label] for label in labels if label in self._starts)

    def statistics(self) -> list[AddedStatistic]:
        """Return each statistic that was added, with the first window end at which all of its
        figures cover their windows.
        """
        found = []
        for label, start in self._starts.items():
            longest = self._spans.get(label, self._longest)
            until = None if longest is None or label in self._landmarks else start + longest
            found.append(AddedStatistic(label, start, until))
        return found

    def marked(self, figures: Sequence[_T], end: int) -> list[_T]:
        """Return the figures, or ranks, of windows that end at `end`, with the start of counting in
        those that do not cover their window.
        """
        return [
            figure
            if end >= self.whole_from(figure)
            else replace(figure, counted_from_ms=self._start_of(figure.statistic))
            for figure in figures
        ]

    def all_marked(self, figures: Sequence[Figure], end: int) -> list[Figure]:
        """Return all figures of windows that end at `end`, in the order of an emission, as `marked`
        has them.

        A list of items that does not cover its window, and has no items, becomes a figure without
        an item, which carries the mark.
        """
        found = self.marked(figures, end)
        if not self._lists:
            return found
        there = {_list_of(figure) for figure in found}
        empty = [
            it
            if it.window is None
            else replace(it, window_ms=length_at(self._calendar[it.window], end))
            for it in self._lists
            if end < self.whole_from(it) and _list_of(it) not in there
        ]
        return sorted([*found, *empty], key=self._order) if empty else found

    def _order(self, figure: Figure) -> tuple[int, int]:
        own = figure.window_ms if figure.window is None else self._calendar[figure.window]
        return self._places[figure.statistic], own or figure.window_events or 0

    def stages(self, ends: Integers) -> Integers:
        """Return int64[n]: equal numbers for ends of windows with the same complete figures."""
        return np.searchsorted(self._edges, ends, side="right")


def _list_of(figure: Figure) -> tuple[str, int | str | None, int | None]:
    return figure.statistic, figure.window or figure.window_ms, figure.window_events


def _whole(start: int, window: int) -> int:
    """Return the first end at which a window has nothing from before `start`."""
    if isinstance(window, CalendarWindow):
        return int(window.next_starts(np.array([start - 1]))[0]) + 1
    return start + window
