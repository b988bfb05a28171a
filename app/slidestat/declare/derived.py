"""Derived from the fields of a topology: topics, lengths, columns, synopses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, Self, TypeVar

import numpy as np

from slidestat.declare.alerts import (
    ALERTS_LABEL,
    Alert,
    AlertFigures,
    alert_figures,
    figure_condition,
    figure_name,
    label_of,
)
from slidestat.declare.columns import Column, Columns
from slidestat.declare.expressions.changes import ChangingFigure, changing_figure
from slidestat.declare.expressions.derived_figures import DerivedFigure, derived_figures, facts_of
from slidestat.declare.expressions.expression import (
    ComputedField,
    Expression,
    computed_fields,
    condition_of,
)
from slidestat.declare.expressions.intervals import Numbers
from slidestat.declare.expressions.known_intervals import Facts
from slidestat.declare.expressions.nodes import (
    Call,
    FieldValue,
    Literal,
    Node,
    Sort,
    calls_of,
    text_of,
)
from slidestat.declare.fields import (
    RECORD_KEY,
    RECORD_TIMESTAMP,
    Field,
    FieldPath,
    field_path,
    field_text,
    path_unless,
)
from slidestat.declare.figure_names import (
    FigureSource,
    NamedFigure,
    figure_sources,
    names_over_windows,
)
from slidestat.declare.naming import Named
from slidestat.declare.rankings import Ranking
from slidestat.declare.rows import RowColumn, row_columns
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.base import Promise
from slidestat.declare.statistics.runner import (
    Answered,
    BorrowingRunner,
    ChosenRunner,
    PastWindow,
    Runner,
    Work,
    past_of,
    shared,
)
from slidestat.declare.times.calendar_windows import (
    CALENDAR_WINDOWS,
    CalendarWindow,
    calendar_window,
)
from slidestat.declare.times.lengths import (
    WindowLength,
    duration_ms,
    number_of_events,
    sequence_length,
    share_of,
    window_length,
)
from slidestat.declare.times.time_format import TIME_FORMATS, TimeFormat
from slidestat.errors import SlidestatError
from slidestat.synopses.core.errors import SynopsisError

# Event time as a topology declares it: the format of times, and lengths.


class EventTimes:
    """The lengths that a topology declares, as numbers."""

    span: str
    every: str
    windows: Sequence[str]
    lateness: str
    ahead: str
    idle: str
    forget_after: str
    emit: str
    tolerance: str
    having: str
    time_zone: str
    time_format: str

    @property
    def times(self) -> TimeFormat:
        """The format in which event times are written."""
        return TIME_FORMATS[self.time_format]

    @property
    def is_sequence(self) -> bool:
        """Return whether event times are numbers of a global sequence."""
        return self.times.is_sequence

    @cached_property
    def span_length(self) -> WindowLength:
        """The span N."""
        return self.window(self.span, "span")

    @property
    def windows_of_events(self) -> bool:
        """Return whether windows are numbers of events: of each key's, or of the sequence."""
        return self.is_sequence or self.span_length.of_events

    def window(self, text: str, field: str) -> WindowLength:
        """Return the length of a window from its text; of a sequence, a length of event time; of
        one of the calendar the window itself, which is as long as it may be.
        """
        if not self.is_sequence:
            if isinstance(text, str) and text.strip() in CALENDAR_WINDOWS:
                zoned = calendar_window(text.strip(), self.time_zone, field)
                return WindowLength(zoned, of_events=False)
            if field != "span" and isinstance(text, str) and text.strip()[:1].isalpha():
                names = ", ".join(f'"{name}"' for name in CALENDAR_WINDOWS)
                raise SlidestatError(
                    f"{field} is {text!r}, which is no window.",
                    f'Write a whole number and a unit, such as "5m" or "7d", or one of {names}.',
                )
            return window_length(text, field)
        length = sequence_length(text, field)
        if length < 1:
            raise SlidestatError(f"{field} is 0.", 'Give a length such as "1000 events".')
        return WindowLength(length, of_events=False)

    def duration(self, text: str, field: str) -> int:
        """Return a length of event time from its text: milliseconds, or numbers of the sequence."""
        return (sequence_length if self.is_sequence else duration_ms)(text, field)

    @cached_property
    def window_lengths(self) -> tuple[int, ...]:
        """Lengths of the emitted windows, shortest first, in what the span is measured in."""
        windows = self.windows or (self.span,)
        return tuple(sorted({self.window(window, "windows").length for window in windows}))

    @cached_property
    def calendar_windows(self) -> dict[str, CalendarWindow]:
        """The emitted windows of the calendar, by their names."""
        return {it.name: it for it in self.window_lengths if isinstance(it, CalendarWindow)}

    @cached_property
    def every_events(self) -> int | None:
        """The number of its events after which a key is emitted; None where `every` is a time."""
        return None if self.is_sequence else number_of_events(self.every, "every")

    @property
    def every_ms(self) -> int:
        """The time between ticks. After events of a key, any millisecond may be one."""
        return 1 if self.every_events else self.duration(self.every, "every")

    @property
    def lateness_ms(self) -> int:
        return self.duration(self.lateness, "lateness")

    @property
    def ahead_ms(self) -> int:
        return duration_ms(self.ahead, "ahead")

    @property
    def idle_ms(self) -> int:
        return duration_ms(self.idle, "idle")


# The fields that are read of each event, and the conditions under which they are.

_What = TypeVar("_What")

TOMBSTONES = ("pass-over", "dead-letter")
EMIT_LABEL = "emit"
"""The name under which is stored with states what decides when keys are emitted, if figures do."""

EMIT_EVENTS, EMIT_WINDOWS, EMIT_ALWAYS, EMIT_CHANGE = EMITS = (
    "events",
    "windows",
    "always",
    "change",
)
SOURCE_FORMATS = ("json", "avro", "protobuf", "json-schema")
_BINARY = ("avro", "protobuf")


class ReadFields(EventTimes):
    """The fields of events that a topology reads."""

    key_field: Field
    time_field: Field
    value_field: Field
    where: str
    computed: Sequence[str]
    tombstones: str
    source_format: str
    source_schema: str
    source_message: str
    envelope: str
    statistics: Sequence[Statistic]

    @cached_property
    def key_path(self) -> FieldPath | None:
        """The field of the key; None where it is the record's own."""
        return path_unless(self.key_field, "key_field", RECORD_KEY)

    @cached_property
    def time_path(self) -> FieldPath | None:
        """The field of the event time; None where it is the record's timestamp."""
        return path_unless(self.time_field, "time_field", RECORD_TIMESTAMP)

    @cached_property
    def value_path(self) -> FieldPath:
        return field_path(self.value_field, "value_field")

    @property
    def key_name(self) -> str:
        """Return the key's name for messages."""
        return RECORD_KEY if self.key_path is None else field_text(self.key_path)

    @property
    def key_expression(self) -> str:
        """The expression of the key, always written in one way; "" where the key is a field."""
        computed = self.computed_fields.get(self.key_path or ())
        return "" if computed is None else computed.text

    @property
    def time_name(self) -> str:
        """Return the event time's name for messages."""
        return RECORD_TIMESTAMP if self.time_path is None else field_text(self.time_path)

    @property
    def passes_tombstones_over(self) -> bool:
        """Return whether a record without a value is skipped, and makes no dead letter."""
        return self.tombstones == TOMBSTONES[0]

    @property
    def reads_plain_json(self) -> bool:
        """Return whether records are JSON objects with the fields of events."""
        return self.source_format == "json" and not self.envelope

    @property
    def reads_binary(self) -> bool:
        """Return whether the source's format needs a schema to be read."""
        return self.source_format in _BINARY

    @property
    def is_framed(self) -> bool:
        """Return whether the source's values have a framing, or their records a header instead."""
        return self.source_format != "json" and not self.source_schema

    @property
    def takes_registry(self) -> bool:
        """Return whether the schemas of the source's records are in a registry."""
        return self.reads_binary and not self.source_schema

    @property
    def condition(self) -> Expression | None:
        """The condition on its events, None if it counts all."""
        return condition_of(self.where, "where")

    @cached_property
    def computed_fields(self) -> dict[FieldPath, ComputedField]:
        """Return the fields that are computed, by their paths."""
        return computed_fields(self.computed, "computed")

    @property
    def computed_texts(self) -> list[str]:
        """Return its computed fields, always written the same way, in the order of their names."""
        return [field.text for _, field in sorted(self.computed_fields.items())]

    @cached_property
    def asked_fields(self) -> list[tuple[FieldPath, Sort]]:
        """Return the fields that expressions read, each path with its sort."""
        own = [] if self.condition is None else [self.condition]
        computed = (known.expression for known in self.computed_fields.values())
        known = (*own, *self.columns.conditions, *computed)
        return [field for expression in known for field in expression.fields]

    @cached_property
    def expression_fields(self) -> dict[FieldPath, set[Sort]]:
        """Return the fields that expressions read, each path with the sorts that it is read as."""
        found: dict[FieldPath, set[Sort]] = {}
        for path, sort in self.asked_fields:
            found.setdefault(path, set()).add(sort)
        return found

    @cached_property
    def columns(self) -> Columns:
        """Return the fields that are read of each event besides its key and time."""
        conditions = (statistic.condition for statistic in self.statistics)
        return Columns.of(
            chain.from_iterable(map(self.columns_of, self.statistics)),
            (condition for condition in conditions if condition is not None),
        )

    @cached_property
    def chosen_columns(self) -> dict[int, tuple[int, ...]]:
        """The number columns that no statistic reads of all events, by their places: the places of
        the conditions under which it is read.
        """
        readers = (
            (self.columns.index(column), statistic.condition)
            for statistic in self.statistics
            for column in self.columns_of(statistic)
            if column.is_number
        )
        return _chosen(readers, self.columns.conditions)

    @cached_property
    def chosen_computed(self) -> dict[FieldPath, tuple[int, ...]]:
        """The computed fields that are not read of all events, by their paths: the places of the
        conditions under which they are.
        """
        readers = (
            (column.path, statistic.condition)
            for statistic in self.statistics
            for column in self.columns_of(statistic)
            if column.path in self.computed_fields and column.path != self.key_path
        )
        return _chosen(readers, self.columns.conditions)

    @cached_property
    def filling_columns(self) -> dict[int, float]:
        """The largest value of each number column whose values can fill a window, by its place.

        Windows of events cannot be filled: fewer events have smaller limits.
        """
        if self.span_length.of_events:
            return {}
        wanted = [self.columns_of(s) for s in self.statistics if not s.is_landmark]
        paths = {column.path for column in chain.from_iterable(wanted) if _is_limited(column)}
        return {
            place: column.limits.most
            for place, column in enumerate(self.columns.numbers)
            if column.path in paths and column.limits is not None
        }

    def columns_of(self, statistic: Statistic) -> list[Column]:
        span = self.span_length
        shares = span.of_events and not statistic.is_landmark
        return [
            Column(column.path, column.limits.shared_by(span.length))
            if shares and column.limits is not None and _is_limited(column)
            else column
            for column in statistic.columns(self.value_path)
        ]


def _chosen(
    readers: Iterable[tuple[_What, Expression | None]], conditions: Sequence[Expression]
) -> dict[_What, tuple[int, ...]]:
    """Return the indexes, among the conditions, of those under which something is read; leave out
    what is read unconditionally.
    """
    found: dict[_What, list[int | None]] = {}
    for what, condition in readers:
        place = None if condition is None else conditions.index(condition)
        found.setdefault(what, []).append(place)
    return {
        what: tuple(place for place in places if place is not None)
        for what, places in found.items()
        if None not in places
    }


def _is_limited(column: Column) -> bool:
    return column.limits is not None and not column.limits.are_any


# The topics that a topology writes, and the form of what it writes.

# A topology that publishes this keeps one state a partition, over the events of all keys.
PARTITION = "partition"


# Stands for any characters in a pattern of topics: no topic's name has one.
ANY = "*"


class WrittenTopics(Named):
    """The topics, by `name`, `output`, `publish`, `synopses`, `alerts` and `repartition`."""

    source: str
    sources: Sequence[str]
    output: str
    output_format: str
    output_shape: str
    publish: str | Sequence[str]
    synopses: str
    alerts: Sequence[Alert]
    alert_headers: str
    rankings: Sequence[Ranking]
    expected: Sequence[str]
    expected_topic: str
    repartition: bool
    exactly_once: bool

    @property
    def writes_rows(self) -> bool:
        """Return whether the output is a row for each window."""
        return self.output_shape == "rows"

    @property
    def publishes_partitions(self) -> bool:
        """Return whether states are kept and published of whole partitions, not of keys."""
        return self.publish == PARTITION

    @property
    def has_referee(self) -> bool:
        """Return whether its partitions publish synopses, or leaders of rankings, for a referee."""
        return bool(self.publish or self.rankings)

    @property
    def marks_losses(self) -> bool:
        """Return whether emissions are marked that may lack records: answers to what is published,
        and rollups of synopses, could not say so.
        """
        return not (self.publish or self.synopses)

    @property
    def synopsis_topic(self) -> str:
        """The topic on which the partitions publish their synopses, if they do."""
        return f"{self._output_prefix}-synopses"

    def synopsis_partitions(self, partitions: int) -> int:
        """Return the number of its partitions, where the source has `partitions`: one for a stream
        of whole partitions, and for rankings; streams of keys are spread.
        """
        return 1 if self.publishes_partitions or self.rankings else partitions

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics of the events as they are declared: names, and patterns of names."""
        return tuple(self.sources) or (self.source,)

    @property
    def named_sources(self) -> list[str]:
        """The topics of the events that are declared by their names."""
        return [it for it in self.source_topics if ANY not in it]

    @property
    def has_pattern(self) -> bool:
        """Return whether topics of the events are declared by a pattern of names."""
        return len(self.named_sources) < len(self.source_topics)

    @property
    def sources_text(self) -> str:
        return ", ".join(self.source_topics)

    def sources_among(self, topics: Iterable[str]) -> list[str]:
        """Return the sources among the topics that there are, sorted; a pattern takes none of
        Kafka's own, such as __consumer_offsets.
        """
        declared = self.source_topics
        return sorted(
            topic
            for topic in topics
            if topic in declared
            or (not topic.startswith("__") and any(fnmatchcase(topic, it) for it in declared))
        )

    @property
    def events_topic(self) -> str:
        """The topic whose partitions are counted: the source, unless `repartition` is true."""
        return f"{self.group_name}-repartition" if self.repartition else self.source

    @property
    def expects_keys(self) -> bool:
        """Return whether keys may count as silent although they never came."""
        return bool(self.expected or self.expected_topic)

    @property
    def alert_topic(self) -> str | None:
        return f"{self._output_prefix}-alerts" if self.alerts else None

    @property
    def read_topics(self) -> tuple[str, ...]:
        moved = (self.events_topic,) if self.repartition else ()
        expected = (self.expected_topic,) if self.expected_topic else ()
        return (*self.source_topics, *moved, *expected)

    @property
    def written_topics(self) -> tuple[str, ...]:
        topics = super().written_topics
        if self.alert_topic is not None:
            topics = (*topics, self.alert_topic)
        if self.repartition:
            topics = (*topics, self.events_topic)
        return (*topics, self.synopsis_topic) if self.has_referee or self.synopses else topics

    @property
    def _output_prefix(self) -> str:
        return self.output or self.name


# The figures of a topology, the synopses that they come from, and the meaning of states.


class PastFigure(NamedTuple):
    """A figure of the past: what it is of, and the runner that answers for it."""

    source: FigureSource
    runner: PastWindow

    def of(self, answered: Mapping[Runner, Answered]) -> Numbers:
        """Return the figure's numbers at the queries."""
        windows = np.array([self.runner.window], np.float64)
        statistic = self.source.statistic
        answers = answered[self.runner].answers
        numbers = statistic.numbers(answers, windows)
        found = Numbers.of(numbers[:, :, 0, statistic.series().index(self.source.series)].T)
        if past_of(self.runner.runner).adds_up:
            return found
        # Both ends may cut the bucket that has all events that the window may have.
        surely = answers["events"][1][:, 0] > 0 if "events" in answers else False
        return replace(found, nulls=found.nulls | ~(found.values & surely))


class KeptFigures(WrittenTopics, ReadFields):
    """The figures of a topology by name, and the synopses that keep them."""

    derived: Sequence[str]

    @property
    def counted(self) -> Self:
        """The topology whose events are counted: this one."""
        return self

    @property
    def answering(self) -> Self:
        """The topology whose figures are in answers: this one."""
        return self

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each statistic's figures."""
        return tuple(statistic.label(self.value_path) for statistic in self.statistics)

    @cached_property
    def figure_sources(self) -> list[FigureSource]:
        """An emission's figures and what they are of, without listed items and derived figures."""
        return figure_sources(self.statistics, self.labels, self.window_lengths, self.value_path)

    @cached_property
    def derived_figures(self) -> tuple[DerivedFigure, ...]:
        """The figures that are computed from others, in their order behind these."""
        figures = [source.named for source in self.figure_sources]
        taken = {*self.labels, *(figure.name for figure in figures)}
        names = names_over_windows(figures, self._window_texts)
        return derived_figures(self.derived, names, taken)

    @cached_property
    def named_figures(self) -> list[NamedFigure]:
        """The figures of an emission but those of lists of items, by their plain names."""
        derived = [NamedFigure(figure.name, None) for figure in self.derived_figures]
        return [*(source.named for source in self.figure_sources), *derived]

    def parts_of(self, place: int) -> Sequence[int]:
        """Return the places of the figures of statistics that the named figure at a place is of."""
        derived = place - len(self.figure_sources)
        return (place,) if derived < 0 else self.derived_figures[derived].parts

    def figure_numbers(
        self,
        place: int,
        rows: int,
        figure: Callable[[int], Numbers],
        facts: Facts | None = None,
        past: Mapping[Node, Numbers] = MappingProxyType({}),
    ) -> Numbers:
        """Return the numbers, in `rows` rows, of the named figure at a place, from those of
        statistics. `facts` are what is known of these; without any, what holds if no statistic was
        added later. `past` has the figures of the past that derived ones read, by calls of `ago`.
        """
        derived = place - len(self.figure_sources)
        if derived < 0:
            return figure(place)
        facts = self.figure_facts() if facts is None else facts
        return self.derived_figures[derived].numbers(rows, figure, facts, past)

    def figure_facts(self, starts: Mapping[str, int] = MappingProxyType({})) -> Facts:
        """Return what is known of the figures that derived ones are of; `starts` maps names of
        added figures to the times from which they are counted.
        """
        parts = {path: part for figure in self.derived_figures for path, part in figure.read}
        sources = {path: self.figure_sources[part.place] for path, part in parts.items()}
        return facts_of(sources, starts, parts)

    @cached_property
    def derived_past(self) -> dict[Node, PastFigure]:
        """The figures of the past that derived figures read, by their calls of `ago`.

        Raises SlidestatError for what has no past, or none that is kept.
        """
        places = {name: found[0] for name, found in self.names_over_windows.items()}
        return {
            call: self._past_figure(call, places, f"{figure.name} in derived")
            for figure in self.derived_figures
            for call in figure.calls
        }

    def past_read_by(self, places: Iterable[int]) -> dict[Node, PastFigure]:
        """Return the figures of the past that the derived ones among figures at places read."""
        first = len(self.figure_sources)
        derived = (self.derived_figures[place - first] for place in places if place >= first)
        return {call: self.derived_past[call] for figure in derived for call in figure.calls}

    @cached_property
    def row_columns(self) -> list[RowColumn]:
        """The columns of its rows, if it writes such."""
        window = "window_events" if self.windows_of_events else "window_ms"
        return row_columns(
            self.named_figures,
            window,
            is_sequence=self.is_sequence,
            names_windows=bool(self.calendar_windows),
        )

    @cached_property
    def alert_figures(self) -> tuple[AlertFigures, ...]:
        """The figures that each alert reads, with their windows' lengths in the span's unit."""
        return tuple(
            alert_figures(
                alert,
                self.named_figures,
                self.parts_of,
                self.names_over_windows,
                self.window_lengths,
                self.window(alert.window, f"the window of the alert {alert.name}").length
                if alert.window
                else None,
            )
            for alert in self.alerts
        )

    @cached_property
    def alert_ticks(self) -> tuple[int, ...]:
        """For how many ticks in a row the condition of each alert must hold."""
        return tuple(alert.ticks(self.every_ms, self.duration) for alert in self.alerts)

    @cached_property
    def alerts_change_in_silence(self) -> bool:
        """Return whether an alert reads a figure that changes while nothing comes: an age, one of
        the past, or what came last in its window. Ages in events stay what they are.
        """
        if self.span_length.of_events:
            return False
        read = {place for alert in self.alert_figures for place in alert.parts}
        found = (self.figure_sources[place].statistic for place in read)
        grows = any(not (it.has_windows or it.is_landmark) for it in found)
        return grows or any(self.alert_past_figures) or any(self.alert_changes)

    @cached_property
    def alert_past_figures(self) -> tuple[dict[Node, PastFigure], ...]:
        """The figures of the past that each alert reads, itself or in derived figures, by the calls
        of `ago`.

        Raises SlidestatError for what has no past, or none that is kept.
        """
        return tuple(
            self.past_read_by(figures.places.values())
            | {
                call: self._past_figure(call, figures.places, f"the alert {alert.name}")
                for asked in (alert.condition, alert.resolution)
                if asked is not None
                for call in calls_of(asked.node, "ago")
            }
            for alert, figures in zip(self.alerts, self.alert_figures, strict=True)
        )

    @cached_property
    def alert_changes(self) -> tuple[ChangingFigure | None, ...]:
        """The figure whose change each alert looks for, None for one that looks for none.

        Raises SlidestatError for one of which a change cannot be found.
        """
        return tuple(
            None
            if alert.changing is None
            else changing_figure(
                alert.changing.node,
                f"the alert {alert.name} asks for a change of {alert.changing.text}",
                {path: read.places[figure_name(path)] for path in alert.changing.paths},
                self.figure_sources,
                self.derived_figures,
                lambda source: self.runners[self.labels.index(source.label)],
                self.every_ms,
                self.span_length.length,
                of_events=self.span_length.of_events,
            )
            for alert, read in zip(self.alerts, self.alert_figures, strict=True)
        )

    @property
    def further_windows(self) -> list[BorrowingRunner]:
        """The runners of further windows of the synopses, computed at ticks, each once."""
        of_rankings = (self.past_figures_of(ranking.condition) for ranking in self.rankings)
        past = (self.derived_past, self.past_figures, *self.alert_past_figures, *of_rankings)
        asked: list[BorrowingRunner] = [it.runner for known in past for it in known.values()]
        changes = (change.of for change in self.alert_changes if change is not None)
        return list(dict.fromkeys([*asked, *chain.from_iterable(changes)]))

    @cached_property
    def synopses_ms(self) -> int:
        """The interval at which the synopses of keys are written, 0 for never."""
        return self.duration(self.synopses, "synopses") if self.synopses else 0

    @cached_property
    def runners(self) -> tuple[Runner, ...]:
        """The synopsis of each statistic; those of two that can share one are equal."""
        return shared([self._runner(statistic) for statistic in self.statistics])

    def _runner(self, statistic: Statistic) -> Runner:
        path = statistic.path(self.value_path)
        try:
            runner = self._one_window_runner(statistic)
            if runner is None:
                runner = statistic.runner(self.span_length.length, path)
        except SynopsisError as error:
            raise SlidestatError(
                f"the statistic {statistic.label(self.value_path)} cannot be kept: {error}.",
                "Give it other parameters.",
            ) from error
        condition = statistic.condition
        return runner if condition is None else ChosenRunner(runner, condition)

    def empty_synopsis(self, runner: Runner) -> bytes:
        """Return the synopsis of a stream that has had no event."""
        windows = np.array(self.window_lengths, np.int64)
        return runner.run([None], Work.question(self.columns, (), windows)).states[0]

    @property
    def states_of(self) -> "KeptFigures":
        """The topology whose states are kept: this one."""
        return self

    def _one_window_runner(self, statistic: Statistic) -> Runner | None:
        """Return the synopsis for one window of a fixed number of events, None if more is asked.

        The statistic takes each of the events that make a key's last n: one that lacks its field is
        a dead letter where all statistics read that field. A window of time has now more of them,
        now less. With a party of fewer events, its error would not be a share of them, so windows
        of any length are published.
        """
        declared = self.states_of
        span = declared.span_length
        if not span.of_events or declared.window_lengths != (span.length,) or declared.publish:
            return None
        read = {column.path for column in statistic.columns(self.value_path)}
        if statistic.condition is not None or not all(
            read <= {column.path for column in other.columns(self.value_path)}
            for other in declared.statistics
        ):
            return None
        return statistic.one_window_runner(span.length, statistic.path(self.value_path))

    @property
    def _kept_for_one_window(self) -> list[str]:
        """The meanings of states that are of use for the one window alone."""
        runners = map(self._one_window_runner, self.statistics)
        return list(dict.fromkeys(runner.meaning for runner in runners if runner is not None))

    def promise_of(self, statistic: Statistic, window: int | None) -> Promise:
        """Return the error of figures over a window of that length, None for those without one.

        A state for one window answers for shorter ones with the same error, in events.
        """
        span = self.span_length.length
        promise = statistic.promise(span)
        if window is None or self._one_window_runner(statistic) is None:
            return promise
        return replace(promise, share_error=min(1.0, promise.share_error * span / window))

    @property
    def sees_span_alone(self) -> bool:
        """Return whether no figure depends on events of a key that have left the span."""
        landmarks = any(statistic.is_landmark for statistic in self.statistics)
        return not self.span_length.of_events and not landmarks

    @property
    def emission_reach(self) -> int | None:
        """The reach of an emission back from its tick: over its windows, and over those of the past
        that its derived figures and `having` read; None for any time.
        """
        return self.reach_over({**self.derived_past, **self.past_figures})

    def reach_over(self, past: Mapping[Node, PastFigure]) -> int | None:
        """Return the reach back from a tick of the windows and of figures of the past; None for any
        time.
        """
        if not self.sees_span_alone:
            return None
        of_past = (figure.runner for figure in past.values())
        return max(int(max(self.window_lengths)), *(it.window + it.ago for it in of_past), 0)

    @cached_property
    def forget_ms(self) -> int | None:
        """The event time after its last event at which a key is forgotten; None if it never is."""
        if self.forget_after:
            return self.duration(self.forget_after, "forget_after")
        return self.span_length.length if self.sees_span_alone else None

    @cached_property
    def silences(self) -> tuple[int, ...]:
        """The event times after its last event at which a key is emitted once more: when the span,
        or any window but with "events", has none of its events any more, and when it is forgotten.
        """
        emptied: tuple[int, ...] = ()
        if not self.span_length.of_events:
            windows = () if self.emit == EMIT_EVENTS else self.window_lengths
            emptied = *windows, self.span_length.length
        forgotten = () if self.forget_ms is None else (self.forget_ms,)
        return tuple(sorted({*emptied, *forgotten}))

    @property
    def alert_silences(self) -> tuple[int, ...]:
        """The event times after its last event at which the alerts of a key are evaluated: when a
        window that they read has none of its events any more.
        """
        if self.span_length.of_events:
            return ()
        return tuple(sorted({window for alert in self.alert_figures for window in alert.windows}))

    @property
    def emits_silence(self) -> bool:
        """Return whether a key may be emitted without events before its span has none of them."""
        is_asked = self.emit != EMIT_EVENTS or self.chooses
        return is_asked and not self.span_length.of_events

    @property
    def chooses(self) -> bool:
        """Return whether figures decide at which ticks a key is emitted."""
        return self.emit == EMIT_CHANGE or bool(self.having)

    @property
    def is_asked_alone(self) -> bool:
        """Return whether figures are computed even at ticks without an emission: for rankings."""
        return bool(self.rankings) and not (self.emit == EMIT_ALWAYS or self.chooses)

    @property
    def asks_always(self) -> bool:
        """Return whether a key has figures at every tick while the span has an event of it."""
        asks = self.emit == EMIT_ALWAYS or self.chooses or bool(self.rankings)
        return asks and not self.span_length.of_events

    @cached_property
    def tolerated(self) -> Fraction:
        """The tolerance, as a share of a bound."""
        return share_of(self.tolerance)

    def _with_derived(self, places: Iterable[int]) -> str:
        """Return the expressions of the derived ones among figures at these places, "" of none."""
        first = len(self.figure_sources)
        derived = sorted({place - first for place in places if place >= first})
        return "".join(
            f" {it.name} = {it.text}" for it in map(self.derived_figures.__getitem__, derived)
        )

    @cached_property
    def condition_to_emit(self) -> Expression | None:
        """The condition `having`, None without one."""
        return figure_condition(self.having, "having") if self.having else None

    @cached_property
    def past_figures(self) -> dict[Node, PastFigure]:
        """The figures of the past that the condition `having` reads, itself or in derived figures,
        by the calls of `ago`.

        Raises SlidestatError for what has no past, or none that is kept.
        """
        return self.past_figures_of(self.condition_to_emit)

    def past_figures_of(self, having: Expression | None) -> dict[Node, PastFigure]:
        """Return the figures of the past that a condition `having` reads, as `past_figures`."""
        if having is None:
            return {}
        places = {name: places[0] for name, places in self.names_over_windows.items()}
        read = (places[figure_name(path)] for path in having.paths)
        own = {
            call: self._past_figure(call, places, "having") for call in calls_of(having.node, "ago")
        }
        return self.past_read_by(read) | own

    def _past_figure(self, call: Call, places: Mapping[str, int], where: str) -> PastFigure:
        match call.operands:
            case (FieldValue(path), Literal(str() as text)):
                place = places[figure_name(path)]
            case _:
                raise ValueError(f"{call} is no figure of the past")
        what = f"{where} reads {text_of(call)}, which"
        if place >= len(self.figure_sources):
            raise SlidestatError(
                f"{what} is of a derived figure, which is kept of no window.",
                "Compute with the past of the figures that it is of.",
            )
        source = self.figure_sources[place]
        statistic, window = source.statistic, source.window
        runner = self.runners[self.labels.index(source.label)]
        if self.span_length.of_events or window is None:
            raise SlidestatError(
                f"{what} is of no window of time, and others have no past.",
                "Ask for the past of a figure over a window such as 5m.",
            )
        if not statistic.has_past:
            raise SlidestatError(
                f"{what} is of {statistic.kind}, which has no past: its state has what came last.",
                "Read that of counts, rates, sums, means, histograms, quantiles by value and named"
                " items: in place of an extreme, a quantile.",
            )
        ago = self.duration(text, f"the ago of {text_of(call)} in {where}")
        if not 0 < ago <= self.span_length.length - window:
            raise SlidestatError(
                f"{what} is not kept: the span is {self.span!r}.",
                "Window and ago together are at most the span: declare a longer one, or ask for"
                " less.",
            )
        return PastFigure(source, PastWindow(runner, window, ago))

    @cached_property
    def names_over_windows(self) -> dict[str, list[int]]:
        """The places of the figures that conditions over several windows read, by their names."""
        return names_over_windows(self.named_figures, self._window_texts)

    @property
    def _window_texts(self) -> dict[int, list[str]]:
        """Return how each length of a window was written."""
        texts: dict[int, list[str]] = {}
        for text in self.windows or (self.span,):
            texts.setdefault(self.window(text, "windows").length, []).append(text)
        return texts

    @property
    def window_names(self) -> dict[int, str]:
        """The emitted windows by name, each as it was written first."""
        return {window: texts[0].strip() for window, texts in self._window_texts.items()}

    @cached_property
    def state_meaning(self) -> dict[str, str]:
        """Return the fields that stored states depend on: with another meaning, states are of no
        use. Windows and `every` are free to change.
        """
        written = self.time_format
        return {
            "group": self.group_name,
            "name": self.name,
            "source": self.events_topic,
            "key_field": "none, whole partitions" if self.publishes_partitions else self.key_name,
            "time_field": self.time_name + ("" if written == "ms" else f" in {written}"),
            "span": f"{self.span_length.length} {'events' if self.windows_of_events else 'ms'}",
            "lateness": f"{self.lateness_ms} {self.times.unit}",
            "statistics": "; ".join(dict.fromkeys(runner.meaning for runner in self.runners)),
            **({"one window": "; ".join(fixed)} if (fixed := self._kept_for_one_window) else {}),
            **({} if self.condition is None else {"where": self.condition.text}),
            **({"computed": "; ".join(self.computed_texts)} if self.computed else {}),
        }

    @cached_property
    def state_label(self) -> dict[str, str]:
        """Return what is stored with states: their meaning, where their output goes, the alerts
        that apply to them, and what decides when they are emitted, if figures do.
        """
        windows = [alert.window for alert in self.alert_figures]
        read = self._with_derived(
            it for alert in self.alert_figures for it in alert.places.values()
        )
        alerts = {ALERTS_LABEL: label_of(self.alerts, windows, read)} if self.alerts else {}
        having = self.condition_to_emit
        names = [] if having is None else map(figure_name, having.paths)
        emits = self._with_derived(self.names_over_windows[name][0] for name in names)
        chosen = {EMIT_LABEL: f"{self.emit} {self.having}{emits}".rstrip()} if self.chooses else {}
        return {**self.state_meaning, "output": self.output_topic, **alerts, **chosen}
