"""A topology from the flags of the command line.

A statistic is KIND[:FIELD][:NAME=VALUE]..., a list with commas: quantile:took.ms:quantiles=0.5,0.99
An alert is NAME:WHEN[:NAME=VALUE]...: slow:p99 > 500:window=5m:for=3
"""

import re
from collections.abc import Mapping, Sequence as AbcSequence
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from slidestat.declare.alerts import Alert
from slidestat.declare.forms.tables import (
    ALERTS,
    STATISTICS,
    alert_of,
    kind_of,
    renamed,
    statistic_of,
    topology_of,
    with_schema,
)
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import PARTITION, Topology
from slidestat.errors import SlidestatError

# The flags of a topology: one for each of its fields, and what `slidestat run --help` says of it.
#
# Nothing else is imported: the help must be there at once.


class Flag(NamedTuple):
    """A flag, its value in the help, whether it can be given many times, and whether it is given
    without a value.
    """

    name: str
    metavar: str
    help: str
    repeats: bool = False
    is_switch: bool = False


# By the fields of `Topology`; a test holds them to be the same.
TOPOLOGY_FLAGS: dict[str, Flag] = {
    "source": Flag("--source", "TOPIC", "The topic of the events."),
    "name": Flag("--name", "NAME", "Begins the names of the topics that are written."),
    "span": Flag("--span", "1h", 'The longest window kept; or "1000 events".'),
    "every": Flag("--every", "1m", "How often statistics are written, in event time."),
    "windows": Flag(
        "--window", "5m", "A window written; repeat it; default: the span.", repeats=True
    ),
    "statistics": Flag(
        "--statistic",
        "KIND[:FIELD][:NAME=VALUE]...",
        "Such as count, or quantile:took.ms:quantiles=0.5,0.99:epsilon=0.02; repeat it; "
        "default: count, mean, deviation, minimum, maximum, quantiles.",
        repeats=True,
    ),
    "lateness": Flag("--lateness", "5s", "How far a record may lie behind the newest."),
    "ahead": Flag("--ahead", "5m", "How far an event may lie after its record's timestamp."),
    "idle": Flag(
        "--idle", "30s", "Emit provisionally when a partition brings nothing for this long."
    ),
    "forget_after": Flag(
        "--forget-after", "7d", "Forget keys of last events, or of totals, after so long."
    ),
    "emit": Flag(
        "--emit",
        "events|windows|always",
        "Emit keys without new events too; default: events.",
    ),
    "key_field": Flag(
        "--key",
        "FIELD",
        "Field of the key; user.id is a field in an object, kafka:key the record's own key.",
    ),
    "time_field": Flag(
        "--time", "FIELD", "Field of the event time; kafka:timestamp is the record's own time."
    ),
    "time_format": Flag(
        "--time-format",
        "ms|s|us|ns|iso8601|iso8601-utc|sequence",
        "How times are written; default: ms.",
    ),
    "value_field": Flag("--value", "FIELD", "Field of statistics that name none."),
    "where": Flag("--where", "CONDITION", 'Count these events alone, as SQL: "status >= 500".'),
    "computed": Flag(
        "--computed",
        "EXPRESSION as NAME",
        "A field computed from others; repeat for more.",
        repeats=True,
    ),
    "tombstones": Flag(
        "--tombstones", "pass-over|dead-letter", "Records without a value; default: pass-over."
    ),
    "source_format": Flag(
        "--source-format", "json|avro|protobuf|json-schema", "Of the events; default: json."
    ),
    "source_schema": Flag(
        "--source-schema", "FILE", "Of events in Avro or Protobuf that take no schema registry."
    ),
    "source_message": Flag(
        "--source-message", "NAME", "Of the schema's messages, which the events are: shop.Order."
    ),
    "publish": Flag("--publish", "partition|KEY,KEY", "Have a referee answer over all partitions."),
    "alerts": Flag(
        "--alert",
        "NAME:WHEN[:NAME=VALUE]...",
        'Such as "slow:p99 > 500 and count >= 100:window=5m:for=3"; repeat it.',
        repeats=True,
    ),
    "repartition": Flag(
        "--repartition",
        "",
        "Move the records to GROUP-repartition by their key first.",
        is_switch=True,
    ),
    "exactly_once": Flag(
        "--exactly-once",
        "",
        "Commit what is written in Kafka transactions, for readers with read_committed.",
        is_switch=True,
    ),
    "output_format": Flag(
        "--output-format", "json|avro|connect-json|protobuf", "Of the statistics; default: json."
    ),
    "output_shape": Flag(
        "--output-shape", "emissions|rows", "rows: a record a window, plain columns."
    ),
    "output": Flag("--output", "NAME", "Begins the names of the topics written; default: --name."),
    "group": Flag("--group", "NAME", "The consumer group's name; default: the topology's."),
}


_FIELD = re.compile(r"\b(?:(?:key|time|value)_field|time_format)\b")
# Not inside of quotes, as a condition may have them.
_COLON = re.compile(r""":(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
_TRUTHS = {"true": True, "false": False}
_FORM = "Write KIND[:FIELD][:NAME=VALUE]..., such as count or quantile:took.ms:quantiles=0.5,0.99."
_ALERT_FORM = "Write NAME:WHEN[:NAME=VALUE]..., such as slow:p99 > 500:window=5m:for=3."


def flag_of(field: str) -> str:
    """Return the flag of a topology's field."""
    return TOPOLOGY_FLAGS[field].name


def topology_of_flags(given: Mapping[str, Any]) -> Topology:
    """Return the topology of the flags that were given, by their fields' names; `statistics` and
    `alerts` are lists of texts. Raises SlidestatError that begins with the flag.
    """
    table = dict(given)
    if STATISTICS in table:
        table[STATISTICS] = [_statistic(text) for text in table[STATISTICS]]
    if ALERTS in table:
        table[ALERTS] = [_alert(text) for text in table[ALERTS]]
    if table.get("publish", PARTITION) != PARTITION:
        table["publish"] = tuple(table["publish"].split(","))
    try:
        return topology_of(with_schema(table, Path()))
    except SlidestatError as error:
        flags = {field: flag.name for field, flag in TOPOLOGY_FLAGS.items()}
        raise SlidestatError(
            _with_flags(renamed(error.message, flags)), _with_flags(error.advice)
        ) from error


def _with_flags(text: str) -> str:
    return _FIELD.sub(lambda field: flag_of(field[0]), text)


def _statistic(text: str) -> Statistic:
    try:
        return _parsed(text)
    except SlidestatError as error:
        raise SlidestatError(
            f"{flag_of(STATISTICS)} {text!r}: {error.message}", error.advice
        ) from error


def _alert(text: str) -> Alert:
    try:
        name, *parts = _COLON.split(text)
        if not parts:
            raise SlidestatError("there is no condition.", _ALERT_FORM)
        table: dict[str, object] = {"name": name, "when": parts[0]}
        for part in parts[1:]:
            field, equals, value = part.partition("=")
            if not equals or field in table:
                error = "is given twice" if equals else "is no NAME=VALUE"
                raise SlidestatError(f"{field!r} {error}.", _ALERT_FORM)
            table[field] = _literal(value) if field in ("for", "certain") else value
        return alert_of(table)
    except SlidestatError as error:
        raise SlidestatError(
            f"{flag_of(ALERTS)} {text!r}: {error.message}", error.advice
        ) from error


def _parsed(text: str) -> Statistic:
    kind, *parts = _COLON.split(text)
    hints = get_type_hints(kind_of(kind))
    parameters: dict[str, object] = {}
    for place, part in enumerate(parts):
        name, equals, value = part.partition("=")
        if not equals:
            if place or not part:
                raise SlidestatError(f"{part!r} is no NAME=VALUE.", _FORM)
            name, value = "field", part
        if name in parameters:
            raise SlidestatError(f"{name} is given twice.", _FORM)
        parameters[name] = _value(value, hints.get(name))
    return statistic_of(kind, parameters)


def _value(text: str, hint: object) -> object:
    """Return a text as a value of a parameter of that type; the statistic checks it."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if str in options:
        return text
    for option in options:
        if get_origin(option) in (AbcSequence, list, tuple):
            parts = text.split(",")
            return tuple(parts if get_args(option) == (str,) else map(_literal, parts))
    return _literal(text)


def _literal(text: str) -> object:
    if text in _TRUTHS:
        return _TRUTHS[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
