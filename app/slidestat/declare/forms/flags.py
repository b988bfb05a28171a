"""A topology from the flags of the command line.

A statistic is KIND[:FIELD][:NAME=VALUE]..., a list with commas: quantile:took.ms:quantiles=0.5,0.99
Alerts, rankings and objectives are declared in a file.
"""

import re
from collections.abc import Mapping, Sequence as AbcSequence
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from slidestat.declare.forms.flag_list import TOPOLOGY_FLAGS, flag_of
from slidestat.declare.forms.tables import (
    STATISTICS,
    kind_of,
    renamed,
    statistic_of,
    topology_of,
    with_schema,
)
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import PARTITION, Topology
from slidestat.errors import SlidestatError

_FIELD = re.compile(r"\b(?:(?:key|time|value)_field|time_format)\b")
# Not inside of quotes, as a condition may have them.
_COLON = re.compile(r""":(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
_TRUTHS = {"true": True, "false": False}
_FORM = "Write KIND[:FIELD][:NAME=VALUE]..., such as count or quantile:took.ms:quantiles=0.5,0.99."


def topology_of_flags(given: Mapping[str, Any]) -> Topology:
    """Return the topology of the flags that were given, by their fields' names; `statistics` are a
    list of texts. Raises SlidestatError that begins with the flag.
    """
    table = dict(given)
    if STATISTICS in table:
        table[STATISTICS] = [_statistic(text) for text in table[STATISTICS]]
    if table.get("publish", PARTITION) != PARTITION:
        table["publish"] = _listed(table["publish"])
    if table.get("sources"):
        table["sources"] = _listed(table["sources"])
    try:
        return topology_of(with_schema(table, Path()))
    except SlidestatError as error:
        flags = {field: flag.name for field, flag in TOPOLOGY_FLAGS.items()}
        raise SlidestatError(
            _with_flags(renamed(error.message, flags)), _with_flags(error.advice)
        ) from error


def _listed(text: str) -> tuple[str, ...]:
    """Return the texts between commas, whatever spaces are around them."""
    return tuple(part.strip() for part in text.split(","))


def _with_flags(text: str) -> str:
    return _FIELD.sub(lambda field: flag_of(field[0]), text)


def _statistic(text: str) -> Statistic:
    try:
        return _parsed(text)
    except SlidestatError as error:
        raise SlidestatError(
            f"{flag_of(STATISTICS)} {text!r}: {error.message}", error.advice
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
