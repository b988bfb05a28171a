"""Checks of a topology: each raises SlidestatError, naming the field."""

import re
from collections.abc import Iterable, Mapping, Sequence

from slidestat.declare.alerts import (
    MOST_TICKS,
    ReadFigures,
    check_alerts,
    check_possible,
    figure_name,
    may_be_true,
)
from slidestat.declare.derived import (
    ANY,
    EMIT_ALWAYS,
    EMIT_CHANGE,
    EMITS,
    PARTITION,
    SOURCE_FORMATS,
    TOMBSTONES,
    EventTimes,
    KeptFigures,
    ReadFields,
    WrittenTopics,
)
from slidestat.declare.expressions.derived_figures import facts_of
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import RECORD_TIMESTAMP, TIME_IS_READ, check_apart, field_text
from slidestat.declare.figure_names import place_over_windows
from slidestat.declare.naming import NAME, NAME_RULE
from slidestat.declare.rankings import check_rankings
from slidestat.declare.rows import check_rows
from slidestat.declare.statistics import Statistic
from slidestat.declare.times.calendar_windows import CalendarWindow, check_zone
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.values import check_choice, is_list, require_list
from slidestat.errors import SlidestatError, shown
from slidestat.schemas.alert import CLOUD_EVENTS
from slidestat.schemas.event import MAX_KEY_LENGTH

# Checks of conditions and computed fields, against the other fields that a topology reads.


def _check_conditions(topology: ReadFields) -> None:
    """Check the fields that expressions read."""
    numbers = {column.path for column in topology.columns.numbers}
    numbers -= {column.path for column in topology.columns.items}
    for path, sort in topology.asked_fields:
        name, is_number = field_text(path), sort in (Sort.NUMBER, Sort.ANY)
        if path == topology.time_path and (topology.times.is_text or not is_number):
            raise SlidestatError(
                f"an expression reads {name!r}, the time, as a {sort.value}.",
                "Leave it out: the time of an event decides only which windows it is in.",
            )
        if path in numbers and not is_number and sort is not Sort.SCALAR:
            raise SlidestatError(
                f"an expression reads {name!r} as a {sort.value}, and a statistic as a number.",
                "Compare it with a number, or give the statistic another field.",
            )
        if path in topology.computed_fields:
            raise SlidestatError(
                f"a condition reads {name!r}, which is computed.",
                f"Write {topology.computed_fields[path].expression.text} in its place.",
            )


def _check_computed(topology: ReadFields) -> None:
    computed = topology.computed_fields
    if topology.time_path in computed:
        raise SlidestatError(
            f"time_field is {topology.time_name!r}, which is computed.", TIME_IS_READ
        )
    if topology.key_path in computed and computed[topology.key_path].sort is Sort.TRUTH:
        raise SlidestatError(
            f"key_field is {topology.key_name!r}, which is a truth value.",
            "Give keys that are texts or whole numbers.",
        )
    for column in topology.columns.numbers:
        if column.path in computed and computed[column.path].sort is not Sort.NUMBER:
            raise SlidestatError(
                f"a statistic reads numbers from {field_text(column.path)!r},"
                f" which is a {computed[column.path].sort.value}.",
                "Compute a number, or ask for a statistic of items.",
            )
    read = {column.path for column in (*topology.columns.numbers, *topology.columns.items)}
    for path in computed:
        if path not in read and path != topology.key_path:
            raise SlidestatError(
                f"computed has {field_text(path)!r}, which neither the key nor a statistic reads.",
                "Take it out, or name it in key_field, value_field or a statistic's field.",
            )


# Checks of the fields of key, time and value, and of the records that they are in.


def _check_fields(topology: ReadFields) -> None:
    """Check the fields of key, time and value, and what a record without a value is."""
    if topology.tombstones not in TOMBSTONES:
        raise SlidestatError(
            f"tombstones is {topology.tombstones!r}.", 'Give "pass-over" or "dead-letter".'
        )
    check_choice("source_format", topology.source_format, SOURCE_FORMATS)
    if topology.source_schema and not topology.reads_binary:
        raise SlidestatError(
            f"source_schema is given, and source_format is {topology.source_format!r}.",
            'Give source_format = "avro" or "protobuf" too, or leave the schema out.',
        )
    if not isinstance(topology.source_schema, str):
        raise SlidestatError(
            f"source_schema is {topology.source_schema!r}, which is no text.",
            "Give the schema as the text that its file has.",
        )
    has_message = topology.source_format == "protobuf" and topology.source_schema
    if topology.source_message and not has_message:
        raise SlidestatError(
            f"source_message is {topology.source_message!r}, but no source_schema is given:"
            " with a schema registry, each record says itself which message it is.",
            'Give source_format = "protobuf" and source_schema too, or leave it out.',
        )
    if not isinstance(topology.source_message, str):
        raise SlidestatError(
            f"source_message is {topology.source_message!r}, which is no text.",
            'Give the full name of a message: "shop.Order".',
        )
    if topology.envelope not in ("", "debezium"):
        raise SlidestatError(
            f"envelope is {topology.envelope!r}.", 'Give "debezium", or leave it out.'
        )
    all_paths = topology.key_path, topology.time_path, topology.value_path
    paths = [path for path in all_paths if path is not None]
    if len(set(paths)) != len(paths):
        raise SlidestatError(
            f"key_field, time_field and value_field are {topology.key_name!r},"
            f" {topology.time_name!r} and {field_text(topology.value_path)!r}.",
            "Name three different fields.",
        )
    check_choice("time_format", topology.time_format, TIME_FORMATS)
    if topology.time_path is None and topology.time_format != "ms":
        raise SlidestatError(
            f"time_format is {topology.time_format!r}, but the time is {RECORD_TIMESTAMP!r}.",
            "Leave time_format out: Kafka's timestamps are milliseconds.",
        )


# The check of the time after which a key is forgotten.


def _check_forgetting(topology: KeptFigures) -> None:
    """Check `forget_after`: keys that leave the span have no other length."""
    if topology.forget_after == "":
        return
    after = topology.duration(topology.forget_after, "forget_after")
    given = f"forget_after is {topology.forget_after!r}"
    if topology.states_of.sees_span_alone:
        raise SlidestatError(
            f"{given}, but all windows are of time: a key is forgotten when its last event has left"
            f" the span {topology.span!r}.",
            "Leave forget_after out.",
        )
    if after == 0:
        raise SlidestatError(f"{given}.", 'Give a length such as "7d".')
    span = topology.span_length
    if not span.of_events and after < span.length:
        raise SlidestatError(
            f"{given}, less than the span {topology.span!r}, whose windows still have its events.",
            "Lengthen forget_after or shorten the span.",
        )


# The check of the ticks at which a key is emitted.


def _check_emit(topology: KeptFigures) -> None:
    """Check `emit`: windows of last events lose none in a silence."""
    check_choice("emit", topology.emit, EMITS)
    if topology.tolerated and topology.emit != EMIT_CHANGE:
        raise SlidestatError(
            f"tolerance is {topology.tolerance!r}, and emit is {topology.emit!r}.",
            'Give emit = "change" too, or leave the tolerance out.',
        )
    _check_having(topology)
    given = "having is given" if topology.having else f"emit is {topology.emit!r}"
    if topology.chooses and topology.idle_ms:
        raise SlidestatError(
            f"{given}, and idle is {topology.idle!r}: a provisional emission would be the newest"
            " record of its key, and no final one need follow it.",
            'Leave idle out, or give emit = "always" without having.',
        )
    if topology.chooses and topology.publish:
        raise SlidestatError(
            f"{given}, and publish is {topology.publish!r}: synopses are published at every tick"
            " with events.",
            "Leave it out in a topology that publishes.",
        )
    if topology.emit == EMIT_ALWAYS and topology.span_length.of_events:
        raise SlidestatError(
            f"emit is {topology.emit!r}, and the span is {topology.span!r}: the last events of a"
            " key never leave their windows, so it would be emitted at every tick for ever.",
            'Leave emit out, or give the topology a span of time such as "1h".',
        )


def _check_every_events(topology: KeptFigures) -> None:
    """Check that emissions after a number of a key's events are not combined with what is decided
    at ticks of time, nor with what late events may still change.
    """
    if not topology.every_events:
        return
    if topology.idle_ms:
        raise SlidestatError(
            f"every is {topology.every!r}, and idle is {topology.idle!r}: an event that comes after"
            " all changes which ones are counted to, and no final emission need follow a"
            " provisional one.",
            'Leave idle out, or give every as a time such as "1m".',
        )
    for field, is_given in (
        ("publish", topology.publish),
        ("alerts", topology.alerts),
        ("having", topology.having),
        (f"emit = {topology.emit!r}", topology.emit == EMIT_CHANGE),
    ):
        if is_given:
            raise SlidestatError(
                f"every is {topology.every!r}, and {field} is given, which goes by ticks of event"
                " time.",
                'Leave it out, or give every as a time such as "1m".',
            )


def _check_having(topology: KeptFigures) -> None:
    """Check the condition for a key to be emitted."""
    if not isinstance(topology.having, str):
        raise SlidestatError(
            f"having is {topology.having!r}, which is no condition.",
            'Write one, such as "count_5m >= 100".',
        )
    if topology.condition_to_emit is None:
        return
    asked = topology.condition_to_emit
    places = {
        name: place_over_windows(
            name, topology.names_over_windows, f"having is {topology.having!r}, and reads {name!r}"
        )
        for name in map(figure_name, asked.paths)
    }
    _ = topology.past_figures
    parts = dict.fromkeys(part for place in places.values() for part in topology.parts_of(place))
    figures = _read_figures(topology, places, parts)
    # The longer window empties after the shorter one.
    if not any(
        may_be_true(asked, figures, emptied=window) for window in (0, *topology.window_lengths)
    ):
        raise SlidestatError(
            f"having is {topology.having!r}, which no figures make true: no record would be"
            " written.",
            "Give another condition.",
        )


def _read_figures(
    topology: KeptFigures, places: Mapping[str, int], parts: Iterable[int]
) -> ReadFigures:
    sources = {place: topology.figure_sources[place] for place in parts}
    return ReadFigures(sources, places, topology.figure_numbers, facts_of)


# Derived figures, published synopses, records moved by key, alerts and rows.


def _check_derived(topology: KeptFigures) -> None:
    """Check the figures that are computed from others."""
    if not topology.derived_figures:
        return
    if topology.publish:
        raise SlidestatError(
            f"derived is given, and publish is {topology.publish!r}: a referee answers with the"
            " figures of statistics alone.",
            "Leave it out, and compute with the referee's answers.",
        )
    _ = topology.derived_past


def _check_publish(topology: KeptFigures) -> None:
    """Check what is published, and whether it can be united."""
    publish = topology.publish
    if not publish:
        return
    if not topology.publishes_partitions and not (
        is_list(publish) and all(isinstance(key, str) and key for key in publish)
    ):
        raise SlidestatError(
            f"publish is {publish!r}.", f'Give "{PARTITION}", or a list of keys: ["ATL"].'
        )
    if topology.span_length.of_events:
        _check_separate_streams(topology)
    for statistic in topology.statistics:
        if not statistic.can_be_united:
            raise SlidestatError(
                f"publish is {publish!r}, but {statistic.kind} cannot be answered over many"
                " partitions.",
                "Take it out, or keep it in a topology that does not publish.",
            )


def _check_separate_streams(topology: KeptFigures) -> None:
    """Check what is asked of the last events of each party: every party numbers its own events."""
    given = f"publish is {topology.publish!r}, and windows are of {topology.span!r}"
    if topology.forget_after:
        raise SlidestatError(
            f"{given}, with forget_after: it goes by the time of a stream's last event, of which a"
            " referee knows only the tick after it.",
            "Leave forget_after out, or give the span as a duration.",
        )
    for statistic in topology.statistics:
        if not statistic.has_windows:
            raise SlidestatError(
                f"{given}: {statistic.kind} counts back through the events of one stream, and those"
                " of several partitions have no order.",
                "Take it out, give the span as a duration, or number the events of all partitions"
                ' in one sequence: time_format="sequence".',
            )


def _check_synopses(topology: KeptFigures) -> None:
    """Check the interval of keys' synopses, and that they hold all events since the last."""
    if topology.synopses == "":
        return
    given = f"synopses is {topology.synopses!r}"
    if topology.windows_of_events or topology.is_sequence:
        raise SlidestatError(
            f"{given}, but windows are of {topology.span!r}, not of time.",
            "Give the topology a span of time, and times that are no numbers of a sequence.",
        )
    for field, value in (("publish", topology.publish), ("rankings", topology.rankings)):
        if value:
            raise SlidestatError(
                f"{given}, but {topology.name} has {field}, and publishes for a referee on"
                f" {topology.synopsis_topic}.",
                "Leave it out, or give it to a topology of the same events beside this one.",
            )
    advice = f"Give a multiple of `every`, {topology.every!r}, up to the span, {topology.span!r}."
    if not 0 < topology.synopses_ms <= topology.span_length.length:
        raise SlidestatError(f"{given}, and a synopsis knows the events of the span alone.", advice)
    if topology.synopses_ms % topology.every_ms:
        raise SlidestatError(f"{given}, which is no multiple of `every`.", advice)


def _check_rankings_of(topology: KeptFigures) -> None:
    """Check the rankings, the figures that they read, and whether keys can be compared."""
    check_rankings(topology.rankings)
    if not topology.rankings:
        return
    if topology.publish:
        raise SlidestatError(
            f"rankings are given, and publish is {topology.publish!r}: of a key that is published,"
            " a partition knows a part alone.",
            "Declare them in a topology of the same events that does not publish.",
        )
    if topology.windows_of_events:
        raise SlidestatError(
            f"rankings are given, but windows are of {topology.span!r}: keys are compared over the"
            " same time.",
            'Give the topology a span of time such as "1h".',
        )
    if topology.exactly_once:
        raise SlidestatError(
            "rankings are given, and exactly_once is true: what leads in a partition goes to a"
            " partition of its own, and a referee recognises what is repeated.",
            "Leave exactly_once out, or declare the rankings in a topology beside this one.",
        )
    known = topology.names_over_windows
    for ranking in topology.rankings:
        where = f"in the ranking {ranking.name}"
        place_over_windows(ranking.by, known, f"by is {ranking.by!r} {where}")
        for name in () if ranking.condition is None else map(figure_name, ranking.condition.paths):
            given = f"having is {ranking.having!r} {where}, and reads {name!r}"
            place_over_windows(name, known, given)
        _ = topology.past_figures_of(ranking.condition)


def _check_repartition(topology: KeptFigures) -> None:
    """Check whether records can be moved by their key before they are counted."""
    if not isinstance(topology.repartition, bool):
        raise SlidestatError(f"repartition is {topology.repartition!r}.", "Give true or false.")
    if not topology.repartition:
        return
    moved = "sources are several" if topology.sources else "repartition is true"
    if topology.publish:
        raise SlidestatError(
            f"{moved}, and publish is {topology.publish!r}: both bring together"
            " keys that lie in several partitions, and one of them is enough.",
            "Leave publish out: a referee answers for the partitions of one source."
            if topology.sources
            else "Leave repartition out where a referee answers, else publish.",
        )
    if topology.reads_binary:
        raise SlidestatError(
            f"{moved}, and source_format is {topology.source_format!r}: records are"
            " moved by a key that is read from their JSON.",
            "Copy the events to one topic, or to topics in JSON."
            if topology.sources
            else "Have the producers set the record's key, or copy the events to a topic in JSON.",
        )
    if not topology.lateness_ms:
        raise SlidestatError(
            f"{moved}, and lateness is {topology.lateness!r}: a record of one"
            " partition would be late as soon as another partition is ahead of it.",
            'Give the most that one partition may be behind another, such as lateness = "10s".',
        )


def _check_exactly_once(topology: KeptFigures) -> None:
    """Check whether each record that is written can be there once."""
    if not isinstance(topology.exactly_once, bool):
        raise SlidestatError(f"exactly_once is {topology.exactly_once!r}.", "Give true or false.")
    if not topology.exactly_once:
        return
    if topology.publish:
        raise SlidestatError(
            f"exactly_once is true, and publish is {topology.publish!r}: synopses go to partitions"
            " of their own, and a referee recognises one that is repeated.",
            "Leave exactly_once out: the referee counts nothing twice.",
        )
    if topology.idle_ms:
        raise SlidestatError(
            f"exactly_once is true, and idle is {topology.idle!r}: a provisional emission is"
            " written once more when it is final.",
            "Leave idle out, or exactly_once, and take the newest record of each key.",
        )


def _check_alerts_of(topology: KeptFigures) -> None:
    """Check the alerts, the figures that they read, and whether they can fire."""
    check_alerts(topology.alerts)
    if topology.alert_headers not in ("", CLOUD_EVENTS):
        raise SlidestatError(
            f"alert_headers is {topology.alert_headers!r}.", f'Write "{CLOUD_EVENTS}", or none.'
        )
    if topology.alert_headers and not topology.alerts:
        raise SlidestatError(
            f"alert_headers is {topology.alert_headers!r}, and there are no alerts.",
            "Declare some, or leave it out.",
        )
    read = topology.alert_figures
    if topology.alerts and topology.publish:
        raise SlidestatError(
            f"alerts are given, and publish is {topology.publish!r}: each partition has only a part"
            " of the events of such a key.",
            "Declare them in a topology of the same events that does not publish.",
        )
    _ = topology.alert_past_figures, topology.alert_changes

    def emptied_ticks(window: int, longer: int | None) -> int:
        # A window of the calendar may empty at any time, and then has none until the key is
        # forgotten, if nothing comes.
        if isinstance(window, CalendarWindow):
            window = 0
        until = None if isinstance(longer, CalendarWindow) else longer
        if until is None and not topology.expects_keys:
            until = topology.forget_ms
        if topology.span_length.of_events:
            return 0
        return MOST_TICKS if until is None else max(0, -((window - until) // topology.every_ms))

    for alert, of_alert, ticks in zip(topology.alerts, read, topology.alert_ticks, strict=True):
        figures = _read_figures(topology, of_alert.places, of_alert.parts)
        check_possible(alert, figures, of_alert.windows, ticks, emptied_ticks)


def _check_expected(topology: KeptFigures) -> None:
    """Check the keys that are expected, and that something is made of them."""
    expected = topology.expected
    if not is_list(expected) or not all(isinstance(key, str) and key for key in expected):
        raise SlidestatError(
            f"expected is {expected!r}.", 'Give a list of keys, as texts: ["checkout", "search"].'
        )
    if long := [key for key in expected if len(key) > MAX_KEY_LENGTH]:
        raise SlidestatError(
            f"expected has {shown(long[0])}, and a key has at most {MAX_KEY_LENGTH} characters.",
            "Give keys as records have them.",
        )
    if len(set(expected)) != len(expected):
        raise SlidestatError(f"expected is {expected!r}.", "Give each key once.")
    if expected and not topology.alerts:
        raise SlidestatError(
            f"expected is {expected!r}, and there are no alerts, which alone look at such keys.",
            'Declare one, such as when = "count = 0", or leave expected out.',
        )
    topic = topology.expected_topic
    if topic == "":
        return
    given = f"expected_topic is {topic!r}"
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise SlidestatError(
            f"{given}, which is no topic's name.",
            "Name the compacted topic whose record keys are expected.",
        )
    if topic in topology.written_topics or topology.sources_among([topic]):
        raise SlidestatError(
            f"{given}, a topic of this topology's own.",
            "Name a compacted topic of the keys alone: a record for each, a tombstone to end it.",
        )
    if not topology.alerts:
        raise SlidestatError(
            f"{given}, and there are no alerts, which alone look at such keys.",
            'Declare one, such as when = "count = 0", or leave expected_topic out.',
        )


def _check_rows_of(topology: KeptFigures) -> None:
    """Check that rows, if it writes such, can hold its figures."""
    if topology.writes_rows and topology.publishes_partitions:
        raise SlidestatError(
            'output_shape is "rows", and publish is "partition": nothing is emitted by key.',
            "Leave output_shape out: a referee writes emissions.",
        )
    if topology.writes_rows:
        check_rows(topology.statistics, topology.named_figures, topology.row_columns)


# Statistics, and the fields that they are of.


def _check_statistics(topology: KeptFigures) -> None:
    """Check what is asked for, and of which fields."""
    statistics = topology.statistics
    if not isinstance(statistics, Sequence) or not all(
        isinstance(statistic, Statistic) for statistic in statistics
    ):
        raise SlidestatError(
            f"statistics is {statistics!r}, which is not a list of statistics.",
            "Write them as [Count(), Sum()], also a single one as a list.",
        )
    labels = topology.labels
    if not labels or len(set(labels)) != len(labels):
        raise SlidestatError(
            f"statistics has {list(labels)}.",
            "Give at least one statistic, and each once; `name` tells two of a kind apart.",
        )
    for statistic in statistics:
        if statistic.needs_time and topology.windows_of_events:
            raise SlidestatError(
                f"{statistic.kind} is asked for, but windows are of {topology.span!r}.",
                "Take it out, or give the span as a duration.",
            )
        most, span = statistic.most_events, topology.span_length
        if most is not None and span.of_events and span.length > most:
            raise SlidestatError(
                f"{statistic.kind} is asked for, and windows are of {topology.span!r}.",
                f"It holds {most:,} events: give a shorter span, or take it out.",
            )
    read = (column.path for column in (*topology.columns.numbers, *topology.columns.items))
    own = [path for path in (topology.key_path, topology.time_path) if path is not None]
    asked = (path for path, _ in topology.asked_fields)
    check_apart(path for path in (*own, *read, *asked) if path not in topology.computed_fields)
    for column in (*topology.columns.numbers, *topology.columns.items):
        # Different numbers of a sequence are the positions at which anybody saw an event.
        is_position = topology.is_sequence and not column.is_number
        if column.path == topology.time_path and not is_position:
            raise SlidestatError(
                f"a statistic reads {field_text(column.path)!r}, which is the time.",
                "Give it another field: the time of an event decides only which windows it is in.",
            )
    for column in topology.columns.numbers:
        if column.limits is not None and column.limits.least > column.limits.most:
            raise SlidestatError(
                f"no value of {field_text(column.path)!r} is one that all its statistics take.",
                "Give them different fields.",
            )
        if column.path == topology.key_path:
            raise SlidestatError(
                f"a statistic reads numbers from {field_text(column.path)!r}, which is the key.",
                "Give it the field of a number, or the topology another key_field.",
            )


# Lengths: of windows, of lateness, of a sequence.


def _check_times(topology: EventTimes) -> None:
    """Check the span, the windows and all lengths of event time."""
    if topology.every_events == 0 or topology.every_ms < 1:
        raise SlidestatError("every is 0.", 'Give a length such as "1m".')
    span = topology.span_length
    if topology.every_events and not span.of_events:
        raise SlidestatError(
            f"every is {topology.every!r}, but the span is {topology.span!r}.",
            'Give a time such as "1m", or a span of a key\'s last events such as "1000 events".',
        )
    advice = 'Write the windows as a list, also a single one: ["1h"].'
    require_list("windows", topology.windows, advice)
    for text in topology.windows:
        window = topology.window(text, "windows")
        if window.of_events != span.of_events:
            raise SlidestatError(
                f"windows has {text!r}, but the span is {topology.span!r}.",
                "Give both as durations, or both as numbers of events.",
            )
        if window.is_longer_than(span) and isinstance(window.length, CalendarWindow):
            raise SlidestatError(
                f"windows has {text!r}, which may be {window.length // 3_600_000}h long where"
                f" clocks are changed, and the span is {topology.span!r}.",
                f'Give a span of at least "{window.length // 3_600_000}h".',
            )
        if window.is_longer_than(span):
            raise SlidestatError(
                f"windows has {text!r}, which is longer than the span {topology.span!r}.",
                "Lengthen the span or shorten the window.",
            )
    # Read here, so that their errors are raised now.
    _ = (topology.lateness_ms, topology.ahead_ms, topology.idle_ms)
    if topology.is_sequence:
        _check_sequence(topology)
    if not span.of_events and topology.lateness_ms > span.length:
        raise SlidestatError(
            f"lateness is {topology.lateness!r}, more than the span {topology.span!r}.",
            "Lengthen the span or shorten the lateness.",
        )


def _check_calendar(topology: KeptFigures) -> None:
    """Check the time zone, and what windows of the calendar cannot be taken with."""
    if topology.time_zone != "":
        check_zone(topology.time_zone)
    if topology.time_zone and topology.windows_of_events:
        raise SlidestatError(
            f"time_zone is {topology.time_zone!r}, but windows are of {topology.span!r}.",
            "Leave it out, or give the span as a duration.",
        )
    if not topology.calendar_windows:
        return
    given = f"windows has {next(iter(topology.calendar_windows))!r}"
    if any(statistic.kind == "rate" for statistic in topology.statistics):
        raise SlidestatError(
            f"{given}, and rate is asked for: a day that is not over has no length to divide by.",
            "Take rate out, or keep it in a topology whose windows have one length each.",
        )


def _check_sequence(topology: EventTimes) -> None:
    if topology.span_length.length >= topology.times.latest:
        raise SlidestatError(
            f"span is {topology.span!r}, longer than a sequence may be.",
            f"Give less than {topology.times.latest:_} events.",
        )
    for field in ("ahead", "idle"):
        if getattr(topology, field) != getattr(type(topology), field):
            raise SlidestatError(
                f"{field} is {getattr(topology, field)!r}, but event times are numbers of a"
                " sequence, which no clock on the wall can be compared with.",
                "Leave it out.",
            )


# Names of topics, and the form of what is written to them.

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PATTERN = re.compile(r"[A-Za-z0-9._*-]{1,249}")
_OUTPUT_FORMATS = ("json", "avro", "connect-json", "protobuf")
_OF_ROWS = ("connect-json", "protobuf")
_OUTPUT_SHAPES = ("emissions", "rows")


def check_sources(topology: WrittenTopics) -> None:
    """Check the topology's name, and those of the topics that events are on."""
    topology.check_names()
    source, sources = topology.source, topology.sources
    require_list("sources", sources, 'Write sources = ["eu", "us"].')
    if sources and source:
        raise SlidestatError(
            f"source is {source!r}, and sources is given too.",
            "Give one of them: all topics are in sources.",
        )
    if not sources and not source:
        raise SlidestatError(
            "source is empty.", "Name the topic that the events are on, or several in sources."
        )
    if not sources and (not isinstance(source, str) or not _TOPIC.fullmatch(source)):
        raise SlidestatError(
            f"source is {source!r}, which is no topic's name.",
            'For a pattern, write sources = ["orders-*"].'
            if isinstance(source, str) and ANY in source
            else "Use 1 to 249 letters, digits, '.', '_' and '-', as Kafka does.",
        )
    for name in sources:
        if not isinstance(name, str) or not _PATTERN.fullmatch(name):
            raise SlidestatError(
                f"sources has {name!r}, which is no topic's name, and no pattern of names.",
                "Use 1 to 249 letters, digits, '.', '_' and '-', as Kafka does, and '*' for any.",
            )
    if len(set(sources)) < len(sources):
        raise SlidestatError(f"sources is {list(sources)!r}: one is there twice.", "Name it once.")
    if len(sources) == 1 and ANY not in sources[0]:
        raise SlidestatError(
            f"sources is {list(sources)!r}, which is one topic.",
            f'Write source = "{sources[0]}", and repartition = true if more may follow.',
        )


def _check_topics(topology: WrittenTopics) -> None:
    """Check the names of the topics that are written, and the form of the output."""
    output = topology.output
    if not isinstance(output, str) or (output and not NAME.fullmatch(output)):
        raise SlidestatError(f"output is {output!r}, which cannot begin a topic's name.", NAME_RULE)
    if own := topology.sources_among(topology.written_topics):
        if topology.sources:
            raise SlidestatError(
                f"sources is {list(topology.sources)!r}, and this topology writes {own[0]!r}.",
                "Write the names or a pattern that leaves it out, or give the topology another"
                " name.",
            )
        raise SlidestatError(
            f"source is {topology.source!r}, which this topology writes.",
            "Name the topic that the events are on, or give the topology another name.",
        )
    if topology.output_format not in _OUTPUT_FORMATS:
        raise SlidestatError(
            f"output_format is {topology.output_format!r}.",
            'Give "json" or "avro", or of rows "connect-json" or "protobuf".',
        )
    if topology.output_shape not in _OUTPUT_SHAPES:
        raise SlidestatError(
            f"output_shape is {topology.output_shape!r}.", 'Give "emissions" or "rows".'
        )
    if topology.output_format in _OF_ROWS and not topology.writes_rows:
        raise SlidestatError(
            f"output_format is {topology.output_format!r}, and the output is no rows.",
            'Give output_shape = "rows" too.',
        )


# The order of the checks: each relies on those before it.


def check_events(topology: KeptFigures) -> None:
    """Check the fields that are read of events, and all lengths of event time."""
    _check_fields(topology)
    _check_times(topology)


def check_figures(topology: KeptFigures) -> None:
    """Check all else but the sources, once objectives are expanded."""
    _check_topics(topology)
    _check_statistics(topology)
    _check_calendar(topology)
    _check_forgetting(topology)
    _check_derived(topology)
    _check_emit(topology)
    _check_every_events(topology)
    _check_conditions(topology)
    _check_computed(topology)
    _check_publish(topology)
    _check_synopses(topology)
    _check_repartition(topology)
    _check_exactly_once(topology)
    _check_alerts_of(topology)
    _check_rankings_of(topology)
    _check_expected(topology)
    _check_rows_of(topology)
