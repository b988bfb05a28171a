"""A topology from the flags of the command line.

A statistic is KIND[:FIELD][:NAME=VALUE]..., a list with commas: quantile:took.ms:quantiles=0.5,0.99
An alert is NAME:WHEN[:NAME=VALUE]...: slow:p99 > 500:window=5m:for=3
With a change, WHEN may be empty: slower::change=mean_took_ms:delta=0.001
A ranking is NAME:BY:NAME=VALUE...: slowest:p99_5m:largest=20
An objective is NAME:GOOD:NAME=VALUE...: availability:status < 500:objective=0.999
"""

import re
from collections.abc import Callable, Mapping, Sequence as AbcSequence
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from slidestat.declare.alerts import NOT_IN_CONDITION, Alert, beside, is_field
from slidestat.declare.forms import tables
from slidestat.declare.forms.flag_list import TOPOLOGY_FLAGS, flag_of
from slidestat.declare.rankings import Ranking
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import PARTITION, Topology
from slidestat.errors import SlidestatError

_FIELD = re.compile(r"\b(?:(?:key|time|value)_field|time_format)\b")
# Colons and commas outside quotes, as a condition may have them in quotes.
_COLON, _COMMA = (re.compile(rf"""{mark}(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""") for mark in ":,")
_TRUTHS = {"true": True, "false": False}
_FORM = "Write KIND[:FIELD][:NAME=VALUE]..., such as count or quantile:took.ms:quantiles=0.5,0.99."
_ALERT_FORM = "Write NAME:WHEN[:NAME=VALUE]..., such as slow:p99 > 500:window=5m:for=3."
_RANKING_FORM = "Write NAME:BY:NAME=VALUE..., such as slowest:p99_5m:largest=20."
_SLO_FORM = "Write NAME:GOOD:NAME=VALUE..., such as availability:status < 500:objective=0.999."


def topology_of_flags(given: Mapping[str, Any]) -> Topology:
    """Return the topology of the flags that were given, by their fields' names; `statistics`,
    `alerts`, `rankings` and `slos` are lists of texts. Raises SlidestatError that begins with the
    flag.
    """
    table = dict(given)
    for name in _READERS.keys() & table.keys():
        table[name] = [_read(name, text) for text in table[name]]
    if table.get("publish", PARTITION) != PARTITION:
        table["publish"] = _listed(table["publish"])
    for name in ("sources", "expected"):
        if table.get(name):
            table[name] = _listed(table[name])
    try:
        return tables.topology_of(tables.with_schema(table, Path()))
    except SlidestatError as error:
        flags = {field: flag.name for field, flag in TOPOLOGY_FLAGS.items()}
        raise SlidestatError(
            _with_flags(tables.renamed(error.message, flags)), _with_flags(error.advice)
        ) from error


def _listed(text: str) -> tuple[str, ...]:
    """Return the texts between commas, whatever spaces are around them."""
    return tuple(part.strip() for part in text.split(","))


def _with_flags(text: str) -> str:
    return _FIELD.sub(lambda field: flag_of(field[0]), text)


def _read(field: str, text: str) -> object:
    """Return what a flag declares; raises SlidestatError that begins with the flag and its text."""
    try:
        return _READERS[field](text)
    except SlidestatError as error:
        raise SlidestatError(f"{flag_of(field)} {text!r}: {error.message}", error.advice) from error


def _alert(text: str) -> Alert:
    table = _named_parts(text, "when", _ALERT_FORM)
    try:
        if table.get("change") == "":
            advice = 'Name a figure: "slower::change=mean_took_ms".'
            raise SlidestatError("change names nothing.", advice)
        literals = _literals(table, "for", "certain", "delta")
        return tables.declared_of(Alert, {**table, **literals, **_texts(table)})
    except SlidestatError as error:
        given = table["when"].partition("=")
        if given[1] and is_field(name := given[0].strip()):
            # It could not be read as a condition.
            said = f"the condition begins with {name}, {NOT_IN_CONDITION}"
            raise SlidestatError(said, beside(table["name"], name)) from error
        raise


def _ranking(text: str) -> Ranking:
    table = _named_parts(text, "by", _RANKING_FORM)
    return tables.declared_of(Ranking, {**table, **_literals(table, "largest", "smallest")})


def _slo(text: str) -> Slo:
    table = _named_parts(text, "good", _SLO_FORM)
    numbers = _literals(table, "objective", "least_events")
    texts = (text for text in table.get("alerts", "").split(",") if text)
    alerts = {"alerts": tuple(texts)} if "alerts" in table else {}
    return tables.declared_of(Slo, {**table, **numbers, **alerts, **_texts(table)})


_SECOND = {"when": "condition", "good": "condition", "by": "figure"}


def _named_parts(text: str, condition: str, form: str) -> dict[str, str]:
    """Return the parts of NAME:CONDITION[:NAME=VALUE]... by their names."""
    name, *parts = _COLON.split(text)
    if not parts:
        raise SlidestatError(f"there is no {_SECOND[condition]}.", form)
    table = {"name": name, condition: parts[0]}
    for part in parts[1:]:
        field, equals, value = part.partition("=")
        if not equals or field in table:
            error = "is given twice" if equals else "is no NAME=VALUE"
            raise SlidestatError(f"{field!r} {error}.", form)
        table[field] = value
    return table


def _literals(table: Mapping[str, str], *names: str) -> dict[str, object]:
    return {name: _literal(table[name]) for name in names if name in table}


def _texts(table: Mapping[str, str]) -> dict[str, object]:
    """Return labels and annotations, "team=shop,tier=2", and a runbook, each perhaps in quotes."""
    found: dict[str, object] = {}
    for name in ("labels", "annotations"):
        if name in table:
            pairs = [part.partition("=") for part in _COMMA.split(table[name])]
            found[name] = {key.strip(): _unquoted(text) for key, _, text in pairs}
    if "runbook" in table:
        found["runbook"] = _unquoted(table["runbook"])
    return found


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] else text


def _statistic(text: str) -> Statistic:
    kind, *parts = _COLON.split(text)
    hints = get_type_hints(tables.kind_of(kind))
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
    return tables.statistic_of(kind, parameters)


def _value(text: str, hint: object) -> object:
    """Return a text as a value of a parameter of that type; the statistic checks it."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if str in options:
        return text
    for option in options:
        if get_origin(option) in (AbcSequence, list, tuple):
            parts = _listed(text) if text else ()
            return parts if get_args(option) == (str,) else tuple(map(_literal, parts))
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


_READERS: Mapping[str, Callable[[str], object]] = {
    tables.STATISTICS: _statistic,
    tables.ALERTS: _alert,
    tables.RANKINGS: _ranking,
    tables.SLOS: _slo,
}
