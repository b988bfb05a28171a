"""A topology as plain tables, all resolved: for what must not depend on the streaming side."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields

import msgspec

from slidestat.declare.alerts import figure_name
from slidestat.declare.declared import Declared, require_emissions
from slidestat.declare.derived import EMIT_CHANGE, PastFigure
from slidestat.declare.expressions.derived_figures import DerivedFigure
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import Call, FieldValue, Node, calls_of, text_of
from slidestat.declare.figure_names import FigureSource
from slidestat.declare.rankings import Ranking
from slidestat.declare.referee import Referee
from slidestat.declare.statistics.base import ListStatistic, Series, Statistic
from slidestat.declare.times.calendar_windows import CalendarWindow, rules_of_zone
from slidestat.declare.topology import Topology, require_json
from slidestat.errors import SlidestatError

# The figures that an audit of a referee's rankings needs.
_RANKED = "ranking_figures"
_BASE = {"name", "field", "by", "weight", "where"}


def require_audited(declared: Declared) -> None:
    """Raise SlidestatError for a topology that publishes whole partitions: it emits nothing by key;
    for one that writes rows; and for a source that is not JSON.
    """
    require_json(declared.answering, "an audit")
    require_emissions(declared, "an audit", or_rankings=True)
    if declared.counted is None:
        return
    if declared.counted.publishes_partitions:
        raise SlidestatError(
            f"{declared.name} publishes the synopses of whole partitions, and emits no figure that"
            " could be recomputed.",
            "Audit the referee that answers for it.",
        )


def resolved(declared: Declared) -> dict[str, object]:
    """Return a declaration as numbers, texts and lists: topics, paths, lengths in ms or events, and
    of each statistic its label, kind, paths, parameters and figures; of a referee its own fields,
    and `of`, its topology.
    """
    if isinstance(declared, Referee):
        rankings = {it.name: it.text for it in declared.of.rankings}
        ranked = [_ranking(declared.of, it) for it in declared.of.rankings]
        return {
            "name": declared.name,
            "patience_ms": declared.patience_ms,
            "correctable_ms": declared.correctable_ms,
            "of": _topology(declared.answering),
            **({"rankings": rankings} if rankings else {}),
            **({_RANKED: ranked} if ranked else {}),
        }
    return _topology(declared.answering)


def _topology(topology: Topology) -> dict[str, object]:
    span = topology.span_length
    table: dict[str, object] = {
        "name": topology.name,
        "source": topology.events_topic,
        "key_path": topology.key_path,
        "time_path": topology.time_path,
        "time_format": topology.time_format,
        "span": span.length,
        "of_events": span.of_events,
        "windows": list(map(resolved_window, topology.window_lengths)),
        "every_ms": topology.every_ms,
        "lateness_ms": topology.lateness_ms,
        "forgets_keys": topology.sees_span_alone,
        "statistics": [
            _statistic(topology, statistic, label)
            for statistic, label in zip(topology.statistics, topology.labels, strict=True)
        ],
    }
    if topology.every_events:
        table["every_events"] = topology.every_events
    if topology.calendar_windows:
        table["time_zone"] = topology.time_zone
        # Figures are others by other rules.
        table["time_zone_rules"] = rules_of_zone(topology.time_zone)
    if topology.forget_after:
        table["forget_after_ms"] = topology.forget_ms
    # Left out for "events", as by workers that knew nothing else.
    if topology.emits_silence or topology.emit == EMIT_CHANGE:
        table["emit"] = topology.emit
    if topology.tolerated:
        table["tolerance"] = str(topology.tolerated)
    asked = topology.condition_to_emit
    if asked is not None:
        table |= _condition(topology, asked, topology.having, topology.past_figures)
    if topology.derived_figures:
        table["derived"] = [_derived(topology, figure) for figure in topology.derived_figures]
    if topology.condition is not None:
        table["where"] = topology.condition.text
    if topology.computed:
        table["computed"] = [
            [path[0], field.expression.text]
            for path, field in sorted(topology.computed_fields.items())
        ]
    if not topology.passes_tombstones_over:
        table["tombstones"] = topology.tombstones
    if topology.source_format != "json":
        table["source_format"] = topology.source_format
    if topology.source_schema:
        table["source_schema"] = topology.source_schema
    if topology.source_message:
        table["source_message"] = topology.source_message
    if topology.envelope:
        table["envelope"] = topology.envelope
    if topology.publish:
        table["publish"] = topology.publish
    return table


def _condition(
    topology: Topology, asked: Expression, text: str, past: Mapping[Node, PastFigure]
) -> dict[str, object]:
    """Return a condition `having`, with a name for each figure of the past, and what it reads."""
    return {
        "having": text_of(_with_names(asked.node)) if past else text,
        "having_figures": _read_by_condition(topology, asked, past),
    }


def _with_names(node: Node) -> Node:
    match node:
        case Call("ago"):
            return FieldValue((text_of(node),))
        case Call(operator, operands):
            return Call(operator, tuple(map(_with_names, operands)))
    return node


def _read_by_condition(
    topology: Topology, asked: Expression, past: Mapping[Node, PastFigure]
) -> list[dict[str, object]]:
    """Return the figures that `having` reads: the path of each in the condition, what it is of, its
    name if it is derived, and how long ago its window ended if it is of the past.
    """
    found: list[dict[str, object]] = []
    for path in asked.paths:
        name = figure_name(path)
        place = topology.names_over_windows[name][0]
        derived = place - len(topology.figure_sources)
        if derived < 0:
            found.append({"path": path, "parts": [_part(topology.figure_sources[place])]})
        else:
            parts = _parts(topology, topology.derived_figures[derived])
            found.append({"path": path, "parts": parts, "derived": name})
    calls = dict.fromkeys(calls_of(asked.node, "ago"))
    found += ({"path": (text_of(it),), "parts": [_past_part(past[it])]} for it in calls)
    return found


def _ranking(topology: Topology, ranking: Ranking) -> dict[str, object]:
    """Return a ranking as a table: its fields, the figure that it is by as one that is derived, and
    its condition as that of a topology.
    """
    place = topology.names_over_windows[ranking.by][0]
    derived = place - len(topology.figure_sources)
    if derived < 0:
        parts = [_part(topology.figure_sources[place])]
        by: dict[str, object] = {"name": ranking.by, "expression": '"0"', "parts": parts}
    else:
        by = _derived(topology, topology.derived_figures[derived])
    table = {
        "name": ranking.name,
        "by": by,
        "order": ranking.order,
        "size": ranking.size,
        "written_having": ranking.having,
    }
    asked = ranking.condition
    if asked is None:
        return table
    return table | _condition(topology, asked, ranking.having, topology.past_figures_of(asked))


def _past_part(past: PastFigure) -> dict[str, object]:
    return _part(past.source) | {"ago": past.runner.ago}


def _parts(topology: Topology, figure: DerivedFigure) -> list[dict[str, object]]:
    """Return what a derived figure reads: label, window and what distinguishes figures in it, and
    how long ago the window ended if it is of the past.
    """
    return [
        _part(topology.figure_sources[part.place])
        if part.past is None
        else _past_part(topology.derived_past[part.past])
        for _, part in figure.read
    ]


def _part(source: FigureSource) -> dict[str, object]:
    return {
        "label": source.label,
        "window": resolved_window(source.window),
        "series": _series(source.series),
    }


def resolved_window(window: int | None) -> int | str | None:
    """Return the length of a window, or the name of one of the calendar."""
    return window.name if isinstance(window, CalendarWindow) else window


def _series(series: Series) -> dict[str, object]:
    """Return a series as a table, without an item if it has none: old fingerprints stay."""
    table = asdict(series)
    if series.item is None:
        del table["item"]
    return table


def _derived(topology: Topology, figure: DerivedFigure) -> dict[str, object]:
    """Return a derived figure as a table: its expression over columns "0", "1", and so on, and what
    these are, statistic, window and series.
    """
    return {
        "name": figure.name,
        "expression": figure.numbered_text,
        "parts": _parts(topology, figure),
    }


def _statistic(topology: Topology, statistic: Statistic, label: str) -> dict[str, object]:
    columns = statistic.columns(topology.value_path)
    is_list = isinstance(statistic, ListStatistic)
    condition = statistic.condition
    return {
        "label": label,
        "kind": statistic.kind,
        "paths": [column.path for column in columns],
        "is_item": any(not column.is_number for column in columns),
        "is_landmark": statistic.is_landmark,
        # The items of a list decide it.
        "series": None if is_list else [_series(series) for series in statistic.series()],
        "parameters": {
            field.name: getattr(statistic, field.name)
            for field in fields(statistic)
            if field.name not in _BASE | statistic.later_fields
        },
        # Left out without one: fingerprints from before conditions stay the same.
        **({} if condition is None else {"where": condition.text}),
        **({} if statistic.has_windows or statistic.is_landmark else {"has_windows": False}),
    }


# The fingerprint of a declaration: a short text that says by which one an emission was computed.
#
# It is in a header of each emission's record, so that key and value are what they would be without.
# Two declarations have the same one if all that figures mean is the same in both: how events are
# read, windows, statistics with their parameters. The name of the group, the format and the topics
# of the output are free to differ.

_DIGITS = 16
"""Hexadecimal digits: 64 bits, so that two among a thousand are the same in one case of 10^13."""


def fingerprint_of(declared: Declared) -> str:
    """Return the fingerprint of a topology or a referee: 16 hexadecimal digits."""
    return fingerprint(resolved(declared))


def fingerprint(table: Mapping[str, object]) -> str:
    """Return the fingerprint of a declaration in plain tables; JSON and back keeps it."""
    # They follow from the rest: fingerprints from before they were there stay the same.
    known = {name: it for name, it in table.items() if name != _RANKED}
    text = msgspec.json.encode(known, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
