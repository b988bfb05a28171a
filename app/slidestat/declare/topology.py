"""A topology: what is computed from one topic, declared and nothing else."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from slidestat.declare.alerts import Alert, check_alerts, window_of
from slidestat.declare.columns import Column, Columns
from slidestat.declare.expressions.computed_field import ComputedField, computed_fields
from slidestat.declare.expressions.expression import Expression, condition_of
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import (
    RECORD_KEY,
    RECORD_TIMESTAMP,
    Field,
    FieldPath,
    check_apart,
    field_path,
    field_text,
    path_unless,
)
from slidestat.declare.figure_names import NamedFigure, named_figures
from slidestat.declare.lengths import WindowLength, duration_ms, sequence_length, window_length
from slidestat.declare.naming import NAME, NAME_RULE, Named
from slidestat.declare.rows import RowColumn, check_rows, row_columns
from slidestat.declare.statistics import DEFAULT, Statistic
from slidestat.declare.time_format import TIME_FORMATS, TimeFormat
from slidestat.errors import SlidestatError
from slidestat.synopses.core.errors import SynopsisError

if TYPE_CHECKING:
    from slidestat.declare.runners import Runner

_What = TypeVar("_What")

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SOURCE_FORMATS = ("json", "avro", "json-schema")
_OUTPUT_FORMATS = ("json", "avro", "connect-json")
_OUTPUT_SHAPES = ("emissions", "rows")
_TOMBSTONES = ("pass-over", "dead-letter")

# A topology that publishes this keeps one state a partition, over the events of all keys.
PARTITION = "partition"


@dataclass(frozen=True, kw_only=True)
class Topology(Named):
    """Statistics of a keyed topic over sliding windows of event time, or of each key's last events.

    name: begins the names of its group, its state and the topics that it writes. 1 to 100 letters,
    digits, '.', '_' and '-', the first a letter or digit.
    source: the topic that the events are on.
    span: the longest window kept (N): of event time, "1h", or of a key's last events, "100000
    events".
    every: an emission follows each time the watermark passes a multiple of it.
    windows: the lengths emitted, each n <= N; without any, the span itself. Others, up to the span,
    can be asked for at any time.
    statistics: what is computed over each window, each once; `name` tells two of a kind apart.
    lateness: how far a record may lie behind the event time that its partition has reached. The
    watermark is that time less the lateness; records behind it are late, and not counted. An event
    that jumps ahead of those around it does not move it: it waits until most of 16 records have
    come as far, and is a dead letter where they do not.
    ahead: how far an event time may lie after the Kafka timestamp of its record. One that lies
    further comes from a clock that is wrong, and makes a dead letter.
    idle: when a partition has brought no record for so long, of real time, what is not yet emitted
    is, provisionally; "0s" never does so.
    key_field: the path of the key in the JSON records, a text or a whole number; "kafka:key" is the
    key that Kafka keeps of the record, UTF-8 text.
    time_field: the path of the event time; "kafka:timestamp" is the one that Kafka keeps of the
    record, in milliseconds.
    time_format: how times are written: "ms", "s", "us" or "ns" since 1970, "iso8601" with a time
    zone, or "iso8601-utc", which is UTC where it has none; or that they are numbers of a global
    "sequence". Then all lengths are numbers of events ("1000 events"),
    what is called `..._ms` too, and there is no `ahead` and no `idle`.
    value_field: the path of what statistics read that name no field of their own.
    where: the condition on an event to be counted, as SQL: "status >= 500 and path like '/api/%'".
    Others move event time, and leave no letter.
    computed: fields that are computed from those of an event, as SQL: "latency_ms / 1000 as
    latency_s", "country || '+' || merchant as who". The key and what statistics read may be such
    fields.
    tombstones: what a record without a value is: "pass-over", nothing that is counted, as in a
    compacted topic, or a "dead-letter".
    source_format: that of the source, "json", or as a schema registry's clients write it: "avro" or
    "json-schema".
    source_schema: the schema of a source in Avro that takes no registry, as JSON; in TOML and in
    flags the file that has it.
    group: the consumer group of the workers is slidestat-GROUP; without one, the topology's name is
    taken. Topologies of one source and group share a worker.
    output_format: that of the output, "json" or "avro", or of rows "connect-json": JSON with the
    schema that Kafka Connect asks for.
    output_shape: "emissions", a record for each key and window end with all figures in a list; or
    "rows", one for each window as well, with plain columns.
    output: begins the names of the topics that are written, in place of `name`: two versions of a
    topology, in groups of their own, can run side by side.
    publish: has the partitions publish their synopses at each tick, for a referee: those of the
    keys that it lists, which may be spread over partitions because they are too hot for one, and
    are not emitted but by the referee; or, with "partition", one state a partition over all of its
    events, which need no key.
    alerts: conditions on the figures of a key, asked at each of its emissions; what becomes of them
    goes to the topic NAME-alerts.

    Raises SlidestatError, naming the field, for a topology that cannot be.
    """

    name: str
    source: str
    span: str
    every: str
    windows: Sequence[str] = ()
    statistics: Sequence[Statistic] = DEFAULT
    lateness: str = "0s"
    ahead: str = "5m"
    idle: str = "0s"
    key_field: Field = "key"
    time_field: Field = "time"
    time_format: str = "ms"
    value_field: Field = "value"
    where: str = ""
    computed: Sequence[str] = ()
    tombstones: str = "pass-over"
    source_format: str = "json"
    source_schema: str = ""
    group: str = ""
    output_format: str = "json"
    output_shape: str = "emissions"
    output: str = ""
    publish: str | Sequence[str] = ()
    alerts: Sequence[Alert] = ()

    def __post_init__(self) -> None:
        self._check_topics()
        self._check_fields()
        self._check_times()
        self._check_statistics()
        self._check_conditions()
        self._check_computed()
        self._check_publish()
        self._check_alerts()
        if self.writes_rows and self.publishes_partitions:
            raise SlidestatError(
                'output_shape is "rows", and publish is "partition": nothing is emitted by key.',
                "Leave output_shape out: a referee writes emissions.",
            )
        if self.writes_rows:
            check_rows(self.statistics, self.named_figures, self.row_columns)

    def _check_topics(self) -> None:
        self._check_names()
        if not isinstance(self.output, str) or (self.output and not NAME.fullmatch(self.output)):
            raise SlidestatError(
                f"output is {self.output!r}, which cannot begin a topic's name.", NAME_RULE
            )
        if not self.source:
            raise SlidestatError("source is empty.", "Name the topic that the events are on.")
        if not isinstance(self.source, str) or not _TOPIC.fullmatch(self.source):
            raise SlidestatError(
                f"source is {self.source!r}, which is no topic's name.",
                "Use 1 to 249 letters, digits, '.', '_' and '-', as Kafka does.",
            )
        if self.source in self.written_topics:
            raise SlidestatError(
                f"source is {self.source!r}, which this topology writes.",
                "Name the topic that the events are on, or give the topology another name.",
            )
        if self.source_format not in _SOURCE_FORMATS:
            formats = ", ".join(f'"{name}"' for name in _SOURCE_FORMATS)
            raise SlidestatError(
                f"source_format is {self.source_format!r}.", f"Give one of {formats}."
            )
        if self.source_schema and self.source_format != "avro":
            raise SlidestatError(
                f"source_schema is given, and source_format is {self.source_format!r}.",
                'Give source_format = "avro" too, or leave the schema out.',
            )
        if not isinstance(self.source_schema, str):
            raise SlidestatError(
                f"source_schema is {self.source_schema!r}, which is no text.",
                "Give the schema as the text that its file has.",
            )
        if self.output_format not in _OUTPUT_FORMATS:
            raise SlidestatError(
                f"output_format is {self.output_format!r}.",
                'Give "json" or "avro", or of rows "connect-json".',
            )
        if self.output_shape not in _OUTPUT_SHAPES:
            raise SlidestatError(
                f"output_shape is {self.output_shape!r}.", 'Give "emissions" or "rows".'
            )
        if self.output_format == "connect-json" and not self.writes_rows:
            raise SlidestatError(
                f"output_format is {self.output_format!r}, and the output is no rows.",
                'Give output_shape = "rows" too.',
            )
        if self.tombstones not in _TOMBSTONES:
            raise SlidestatError(
                f"tombstones is {self.tombstones!r}.", 'Give "pass-over" or "dead-letter".'
            )

    def _check_fields(self) -> None:
        paths = [
            path for path in (self.key_path, self.time_path, self.value_path) if path is not None
        ]
        if len(set(paths)) != len(paths):
            raise SlidestatError(
                f"key_field, time_field and value_field are {self.key_name!r},"
                f" {self.time_name!r} and {field_text(self.value_path)!r}.",
                "Name three different fields.",
            )
        if self.time_format not in tuple(TIME_FORMATS):  # It may be anything, also unhashable.
            formats = ", ".join(f'"{name}"' for name in TIME_FORMATS)
            raise SlidestatError(f"time_format is {self.time_format!r}.", f"Give one of {formats}.")
        if self.time_path is None and self.time_format != "ms":
            raise SlidestatError(
                f"time_format is {self.time_format!r}, but the time is {RECORD_TIMESTAMP!r}.",
                "Leave time_format out: Kafka's timestamps are milliseconds.",
            )

    def _check_times(self) -> None:
        if self.every_ms < 1:
            raise SlidestatError("every is 0.", 'Give a length such as "1m".')
        span = self.span_length
        if isinstance(self.windows, str) or not isinstance(self.windows, Sequence):
            raise SlidestatError(
                f"windows is {self.windows!r}, which is not a list.",
                'Write the windows as a list, also a single one: ["1h"].',
            )
        for text in self.windows:
            window = self.window(text, "windows")
            if window.of_events != span.of_events:
                raise SlidestatError(
                    f"windows has {text!r}, but the span is {self.span!r}.",
                    "Give both as durations, or both as numbers of events.",
                )
            if window > span:
                raise SlidestatError(
                    f"windows has {text!r}, which is longer than the span {self.span!r}.",
                    "Lengthen the span or shorten the window.",
                )
        # Read, so that what is wrong is said now.
        _ = (self.lateness_ms, self.ahead_ms, self.idle_ms)
        if self.is_sequence:
            self._check_sequence()
        if not span.of_events and self.lateness_ms > span.length:
            raise SlidestatError(
                f"lateness is {self.lateness!r}, more than the span {self.span!r}.",
                "Lengthen the span or shorten the lateness.",
            )

    def _check_sequence(self) -> None:
        if self.span_length.length >= self.times.latest:
            raise SlidestatError(
                f"span is {self.span!r}, longer than a sequence may be.",
                f"Give less than {self.times.latest:_} events.",
            )
        for field in ("ahead", "idle"):
            if getattr(self, field) != getattr(Topology, field):
                raise SlidestatError(
                    f"{field} is {getattr(self, field)!r}, but event times are numbers of a"
                    " sequence, which no clock on the wall can be compared with.",
                    "Leave it out.",
                )

    def _check_statistics(self) -> None:
        statistics = self.statistics
        if not isinstance(statistics, Sequence) or not all(
            isinstance(statistic, Statistic) for statistic in statistics
        ):
            raise SlidestatError(
                f"statistics is {statistics!r}, which is not a list of statistics.",
                "Write them as [Count(), Sum()], also a single one as a list.",
            )
        labels = self.labels
        if not labels or len(set(labels)) != len(labels):
            raise SlidestatError(
                f"statistics has {list(labels)}.",
                "Give at least one statistic, and each once; `name` tells two of a kind apart.",
            )
        for statistic in statistics:
            if statistic.needs_time and self.windows_of_events:
                raise SlidestatError(
                    f"{statistic.kind} is asked for, but windows are of {self.span!r}.",
                    "Take it out, or give the span as a duration.",
                )
            most = statistic.most_events
            if most is not None and self.span_length.of_events and self.span_length.length > most:
                raise SlidestatError(
                    f"{statistic.kind} is asked for, and windows are of {self.span!r}.",
                    f"It holds {most:,} events: give a shorter span, or take it out.",
                )
        read = (column.path for column in (*self.columns.numbers, *self.columns.items))
        own = [path for path in (self.key_path, self.time_path) if path is not None]
        asked = (path for path, _ in self._asked_fields)
        check_apart(path for path in (*own, *read, *asked) if path not in self.computed_fields)
        for column in (*self.columns.numbers, *self.columns.items):
            # Different numbers of a sequence are the positions at which anybody saw an event.
            is_position = self.is_sequence and not column.is_number
            if column.path == self.time_path and not is_position:
                raise SlidestatError(
                    f"a statistic of {field_text(column.path)!r} is asked for, which is the time.",
                    "Give it another field: what times decide is which windows an event is in.",
                )
        for column in self.columns.numbers:
            if column.limits is not None and column.limits.least > column.limits.most:
                raise SlidestatError(
                    f"no value of {field_text(column.path)!r} suits all statistics.",
                    "Give them different fields.",
                )
            if column.path == self.key_path:
                raise SlidestatError(
                    f"a statistic of the numbers of {field_text(column.path)!r} is asked for, "
                    "which is the key.",
                    "Give it the field of a number, or the topology another key_field.",
                )

    def _check_conditions(self) -> None:
        numbers = {column.path for column in self.columns.numbers}
        numbers -= {column.path for column in self.columns.items}
        for path, sort in self._asked_fields:
            name, is_number = field_text(path), sort in (Sort.NUMBER, Sort.ANY)
            if path == self.time_path and (self.times.is_text or not is_number):
                raise SlidestatError(
                    f"an expression reads {name!r}, the time, as a {sort.value}.",
                    "Leave it out: times decide by themselves which windows an event is in.",
                )
            if path in numbers and not is_number:
                raise SlidestatError(
                    f"an expression reads {name!r} as a {sort.value}, and a statistic as a number.",
                    "Compare it with a number, or give the statistic another field.",
                )
            if path in self.computed_fields:
                raise SlidestatError(
                    f"a condition reads {name!r}, which is computed.",
                    f"Write {self.computed_fields[path].expression.text} in its place.",
                )

    def _check_computed(self) -> None:
        computed = self.computed_fields
        if self.time_path in computed:
            raise SlidestatError(
                f"time_field is {self.time_name!r}, which is computed.",
                "Name a field of the events, and how times are written in time_format.",
            )
        if self.key_path in computed and computed[self.key_path].sort is Sort.TRUTH:
            raise SlidestatError(
                f"key_field is {self.key_name!r}, which is a truth value.",
                "Give keys that are texts or whole numbers.",
            )
        for column in self.columns.numbers:
            if column.path in computed and computed[column.path].sort is not Sort.NUMBER:
                raise SlidestatError(
                    f"a statistic of the numbers of {field_text(column.path)!r} is asked for,"
                    f" which is a {computed[column.path].sort.value}.",
                    "Compute a number, or ask for a statistic of items.",
                )
        read = {column.path for column in (*self.columns.numbers, *self.columns.items)}
        for path in computed:
            if path not in read and path != self.key_path:
                raise SlidestatError(
                    f"computed has {field_text(path)!r}, which neither the key nor a statistic is"
                    " of.",
                    "Take it out, or name it in key_field, value_field or a statistic's field.",
                )

    @cached_property
    def computed_fields(self) -> dict[FieldPath, ComputedField]:
        """Return the fields that are computed, by their paths."""
        return computed_fields(self.computed, "computed")

    @property
    def _asked_fields(self) -> list[tuple[FieldPath, Sort]]:
        """Return the fields that expressions read, each path with its sort."""
        own = [] if self.condition is None else [self.condition]
        computed = (known.expression for known in self.computed_fields.values())
        known = (*own, *self.columns.conditions, *computed)
        return [field for expression in known for field in expression.fields]

    @property
    def expression_fields(self) -> dict[FieldPath, set[Sort]]:
        """Return the fields that expressions read, each path with the sorts that it is read as."""
        found: dict[FieldPath, set[Sort]] = {}
        for path, sort in self._asked_fields:
            found.setdefault(path, set()).add(sort)
        return found

    @property
    def computed_texts(self) -> list[str]:
        """Return its computed fields, always written the same way, in the order of their names."""
        return [field.text for _, field in sorted(self.computed_fields.items())]

    @property
    def condition(self) -> Expression | None:
        """The condition on its events, None if it counts all."""
        return condition_of(self.where, "where")

    def _check_publish(self) -> None:
        publish = self.publish
        if not publish:
            return
        of_keys = isinstance(publish, Sequence) and not isinstance(publish, str)
        if not self.publishes_partitions and not (
            of_keys and all(isinstance(key, str) and key for key in publish)
        ):
            raise SlidestatError(
                f"publish is {publish!r}.", f'Give "{PARTITION}", or a list of keys: ["ATL"].'
            )
        if self.span_length.of_events:
            raise SlidestatError(
                f"publish is {publish!r}, but windows are of {self.span!r}: partitions number"
                " their events each on its own.",
                "Give the span as a duration, or number the events of all partitions in one"
                ' sequence: time_format="sequence".',
            )
        for statistic in self.statistics:
            if not statistic.can_be_united:
                raise SlidestatError(
                    f"publish is {publish!r}, but {statistic.kind} cannot be answered over many"
                    " partitions.",
                    "Take it out, or keep it in a topology that does not publish.",
                )

    def _check_alerts(self) -> None:
        check_alerts(self.alerts, self.named_figures)
        if self.alerts and self.publish:
            raise SlidestatError(
                f"alerts are given, and publish is {self.publish!r}: what a partition knows of such"
                " keys is not all there is.",
                "Declare them in a topology of the same events that does not publish.",
            )
        _ = self.alert_windows

    @cached_property
    def alert_windows(self) -> tuple[int, ...]:
        """The length of each alert's window, in what the span is measured in."""
        return tuple(
            window_of(
                alert,
                self.window_lengths,
                self.window(alert.window, f"the window of the alert {alert.name}").length
                if alert.window
                else None,
            )
            for alert in self.alerts
        )

    @cached_property
    def named_figures(self) -> list[NamedFigure]:
        """The figures of an emission but those of lists of items, by their plain names."""
        return named_figures(self.statistics, self.labels, self.window_lengths)

    @property
    def writes_rows(self) -> bool:
        """Whether its output is a row for each window."""
        return self.output_shape == "rows"

    @cached_property
    def row_columns(self) -> list[RowColumn]:
        """The columns of its rows, if it writes such."""
        window = "window_events" if self.windows_of_events else "window_ms"
        return row_columns(self.named_figures, window)

    @property
    def is_sequence(self) -> bool:
        """Whether event times are numbers of a global sequence."""
        return self.times.is_sequence

    @property
    def windows_of_events(self) -> bool:
        """Whether windows are numbers of events: of each key's, or of the sequence."""
        return self.is_sequence or self.span_length.of_events

    @cached_property
    def span_length(self) -> WindowLength:
        """The span N."""
        return self.window(self.span, "span")

    def window(self, text: str, field: str) -> WindowLength:
        """The length of a window, as it is written; of a sequence, one of event time."""
        if not self.is_sequence:
            return window_length(text, field)
        length = sequence_length(text, field)
        if length < 1:
            raise SlidestatError(f"{field} is 0.", 'Give a length such as "1000 events".')
        return WindowLength(length, of_events=False)

    def duration(self, text: str, field: str) -> int:
        """A length of event time, as it is written: in milliseconds, or numbers of the sequence."""
        return (sequence_length if self.is_sequence else duration_ms)(text, field)

    @property
    def forgets_keys(self) -> bool:
        """Whether a key's state is worth nothing once its last event has left the span."""
        landmarks = any(statistic.is_landmark for statistic in self.statistics)
        return not self.span_length.of_events and not landmarks

    @property
    def every_ms(self) -> int:
        return self.duration(self.every, "every")

    @property
    def lateness_ms(self) -> int:
        return self.duration(self.lateness, "lateness")

    @property
    def ahead_ms(self) -> int:
        return duration_ms(self.ahead, "ahead")

    @property
    def idle_ms(self) -> int:
        return duration_ms(self.idle, "idle")

    @cached_property
    def window_lengths(self) -> tuple[int, ...]:
        """Lengths of the emitted windows, shortest first, in what the span is measured in."""
        windows = self.windows or (self.span,)
        return tuple(sorted({self.window(window, "windows").length for window in windows}))

    @property
    def key_path(self) -> FieldPath | None:
        """The field of the key; None where it is the record's own."""
        return path_unless(self.key_field, "key_field", RECORD_KEY)

    @property
    def time_path(self) -> FieldPath | None:
        """The field of the event time; None where it is the record's timestamp."""
        return path_unless(self.time_field, "time_field", RECORD_TIMESTAMP)

    @property
    def key_name(self) -> str:
        """Return the key's name for messages."""
        return RECORD_KEY if self.key_path is None else field_text(self.key_path)

    @property
    def time_name(self) -> str:
        """Return the event time's name for messages."""
        return RECORD_TIMESTAMP if self.time_path is None else field_text(self.time_path)

    @property
    def times(self) -> TimeFormat:
        """How event times are written."""
        return TIME_FORMATS[self.time_format]

    @property
    def value_path(self) -> FieldPath:
        return field_path(self.value_field, "value_field")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each statistic's figures."""
        return tuple(statistic.label(self.value_path) for statistic in self.statistics)

    @cached_property
    def columns(self) -> Columns:
        """Return the fields that are read of each event beside its key and time."""
        conditions = (statistic.condition for statistic in self.statistics)
        return Columns.of(
            chain.from_iterable(map(self._columns, self.statistics)),
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
            for column in self._columns(statistic)
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
            for column in self._columns(statistic)
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
        wanted = [self._columns(s) for s in self.statistics if not s.is_landmark]
        paths = {column.path for column in chain.from_iterable(wanted) if _is_limited(column)}
        return {
            place: column.limits.most
            for place, column in enumerate(self.columns.numbers)
            if column.path in paths and column.limits is not None
        }

    def _columns(self, statistic: Statistic) -> list[Column]:
        span = self.span_length
        shares = span.of_events and not statistic.is_landmark
        return [
            Column(column.path, column.limits.shared_by(span.length))
            if shares and column.limits is not None and _is_limited(column)
            else column
            for column in statistic.columns(self.value_path)
        ]

    @cached_property
    def runners(self) -> tuple["Runner", ...]:
        """The synopsis of each statistic; those of two that can share one are equal."""
        from slidestat.declare.runners import shared

        try:
            return shared([self._runner(statistic) for statistic in self.statistics])
        except SynopsisError as error:
            raise SlidestatError(
                f"statistics has one that cannot be kept: {error}.", "Give it other parameters."
            ) from error

    def _runner(self, statistic: Statistic) -> "Runner":
        from slidestat.declare.runners import ChosenRunner

        path = statistic.path(self.value_path)
        runner = statistic.runner(self.span_length.length, path)
        condition = statistic.condition
        return runner if condition is None else ChosenRunner(runner, condition)

    @property
    def state_meaning(self) -> dict[str, str]:
        """Return the fields that stored states depend on: with another meaning, states are of no
        use. Windows and `every` are free to change.
        """
        written = self.time_format
        return {
            "group": self.group_name,
            "name": self.name,
            "source": self.source,
            "key_field": "none, whole partitions" if self.publishes_partitions else self.key_name,
            "time_field": self.time_name + ("" if written == "ms" else f" in {written}"),
            "span": f"{self.span_length.length} {'events' if self.windows_of_events else 'ms'}",
            "lateness": f"{self.lateness_ms} {self.times.unit}",
            "statistics": "; ".join(dict.fromkeys(runner.meaning for runner in self.runners)),
            **({} if self.condition is None else {"where": self.condition.text}),
            **({"computed": "; ".join(self.computed_texts)} if self.computed else {}),
        }

    @property
    def passes_tombstones_over(self) -> bool:
        """Whether a record without a value is passed over, and makes no letter."""
        return self.tombstones == _TOMBSTONES[0]

    @property
    def reads_avro(self) -> bool:
        """Whether the source is in Avro."""
        return self.source_format == "avro"

    @property
    def takes_registry(self) -> bool:
        """Whether the schemas of the source's records are in a registry."""
        return self.reads_avro and not self.source_schema

    @property
    def state_label(self) -> dict[str, str]:
        """Return what is stored beside states: their meaning, and where their output goes."""
        return {**self.state_meaning, "output": self.output_topic}

    @property
    def synopsis_topic(self) -> str:
        """Where the partitions publish their synopses, if they do."""
        return f"{self._output_prefix}-synopses"

    @property
    def alert_topic(self) -> str | None:
        return f"{self._output_prefix}-alerts" if self.alerts else None

    @property
    def publishes_partitions(self) -> bool:
        """Whether what is kept and published is of whole partitions, not of keys."""
        return self.publish == PARTITION

    @property
    def written_topics(self) -> tuple[str, ...]:
        topics: tuple[str, ...]
        topics = (self.output_topic, self.dead_letter_topic, self.late_topic, self.changelog_topic)
        if self.alert_topic is not None:
            topics = (*topics, self.alert_topic)
        return (*topics, self.synopsis_topic) if self.publish else topics

    @property
    def _output_prefix(self) -> str:
        return self.output or self.name


def _chosen(
    readers: Iterable[tuple[_What, Expression | None]], conditions: Sequence[Expression]
) -> dict[_What, tuple[int, ...]]:
    """The places, among the conditions, of those under which something is read; not of what is read
    whatever holds.
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


def require_emissions(topology: Topology, what: str) -> None:
    """Raise SlidestatError, for something that reads emissions, unless the topology writes such."""
    if topology.writes_rows:
        raise SlidestatError(
            f"{topology.name} writes rows, and {what} reads emissions.",
            "Leave output_shape out, in a topology of another name beside this one if need be.",
        )


def require_json(topology: Topology, what: str) -> None:
    """Raise SlidestatError, for something that reads JSON alone, unless the source has that."""
    if topology.source_format != "json":
        raise SlidestatError(
            f"{topology.name} has source_format = {topology.source_format!r}, and {what} reads JSON"
            " alone.",
            "Give it a topology of the same events in JSON, without a source_format.",
        )


def require_times(topology: Topology, what: str) -> None:
    """Raise SlidestatError, for something that needs times, unless event times are such."""
    if topology.is_sequence:
        raise SlidestatError(
            f"{topology.name} has numbers of a sequence for event times, and {what} goes by times.",
            "Give it a topology of the same events with a time_field of times.",
        )
