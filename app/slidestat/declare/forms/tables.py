"""A topology from a table of its fields. Unknown and missing ones are found here, what is wrong
with the others by the checks of the topology and its statistics.
"""

import errno
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TypeVar

from slidestat.declare.alerts import Alert
from slidestat.declare.figure_names import asked_quantile
from slidestat.declare.kinds import KINDS
from slidestat.declare.rankings import Ranking
from slidestat.declare.referee import NEWEST_IS_PROVISIONAL, Referee
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Statistic
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError, unknown

STATISTICS = "statistics"
ALERTS = "alerts"
RANKINGS = "rankings"
SLOS = "slos"
SCHEMA = "source_schema"
_KIND = "kind"
# A file or a class of Python, and not a kind.
_OF_PYTHON = re.compile(r"[.:]|^[A-Z]")

# The beginning of a check's message: "span is ...", "the epsilon of count is ...".
_SUBJECT = re.compile(r"(?:the )?(?P<field>\w+)(?: of \w+)?(?= (?:is|are|has) )")


def topology_of(table: Mapping[str, object]) -> Topology:
    """Return the topology with these fields; `statistics` is a list of tables with a `kind` and its
    parameters, or of statistics. Lists become tuples.

    Raises SlidestatError that begins with the field: statistics[1].epsilon is the second one's.
    """
    _check_names(table, Topology, "", "field of a topology")
    values = {name: _frozen(value) for name, value in table.items()}
    if STATISTICS in table:
        values[STATISTICS] = _statistics(table[STATISTICS])
    if ALERTS in table:
        values[ALERTS] = _tables(table[ALERTS], Alert, ALERTS, 'name = "slow"')
    if RANKINGS in table:
        values[RANKINGS] = _tables(table[RANKINGS], Ranking, RANKINGS, 'name = "slowest"')
    if SLOS in table:
        values[SLOS] = _tables(table[SLOS], Slo, SLOS, 'name = "availability"')
    return Topology(**values)  # type: ignore[arg-type]  # It checks their types itself.


def with_schema(table: Mapping[str, object], folder: Path) -> Mapping[str, object]:
    """Return the table with the schema in place of its file, whose path is relative to `folder`.

    Raises SlidestatError that begins with the field for one that cannot be read.
    """
    if SCHEMA not in table:
        return table
    name = table[SCHEMA]
    try:
        if not isinstance(name, str):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        file = folder / name
        if table.get("source_format") == "protobuf" and file.suffix != ".proto":
            return {**table, SCHEMA: b64encode(file.read_bytes()).decode()}
        return {**table, SCHEMA: file.read_text(encoding="utf-8-sig")}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SlidestatError(
            f"{SCHEMA} is {name!r}, which cannot be read: {why}.", "Give the file of the schema."
        ) from error


def referee_of(table: Mapping[str, object]) -> Referee:
    """Return the referee with these fields, `of` being its topology. Lists become tuples.

    Raises SlidestatError that begins with the field.
    """
    for name in ("having", "tolerance"):
        if name in table:
            raise SlidestatError(
                f"{name} is no field of a referee: {NEWEST_IS_PROVISIONAL}",
                "Leave it out, and choose among the answers where they are read.",
            )
    _check_names(table, Referee, "", "field of a referee")
    values = {name: _frozen(value) for name, value in table.items()}
    return Referee(**values)  # type: ignore[arg-type]  # It checks their types itself.


def statistic_of(kind: str, parameters: Mapping[str, object], place: str = "") -> Statistic:
    """Return the statistic of a kind with these parameters. Lists become tuples.

    Raises SlidestatError that begins with the parameter, `place` before it.
    """
    statistic = kind_of(kind, place)
    _check_names(parameters, statistic, place, f"parameter of {kind}")
    try:
        values = {name: _frozen(value) for name, value in parameters.items()}
        return statistic(**values)  # type: ignore[arg-type]  # It checks their types itself.
    except SlidestatError as error:
        names = {field.name: f"{place}{field.name}" for field in fields(statistic)}
        raise SlidestatError(renamed(error.message, names), error.advice) from error


def kind_of(kind: str, place: str = "") -> type[Statistic]:
    """Return the class of a kind of statistic; raises SlidestatError for an unknown kind."""
    if kind not in KINDS:
        if (asked := asked_quantile(kind)) is not None:
            raise SlidestatError(
                f"{place}{_KIND} is {kind!r}, which is no statistic.",
                f'Write kind = "quantile" with quantiles = [{asked.share:f}].',
            )
        if _OF_PYTHON.search(kind):
            raise SlidestatError(
                f"{place}{_KIND} is {kind!r}, which is no statistic of slidestat's own.",
                "A statistic of your own is declared in a topology in Python.",
            )
        raise unknown(f"{place}{_KIND} is {kind!r}, which is no statistic.", kind, KINDS)
    return KINDS[kind]


def renamed(message: str, names: Mapping[str, str]) -> str:
    """Return the message of a check, with the field that it begins with named as in `names`."""
    subject = _SUBJECT.match(message)
    if subject is None or subject["field"] not in names:
        return message
    return names[subject["field"]] + message[subject.end() :]


def _statistics(given: object) -> tuple[Statistic, ...]:
    if not isinstance(given, list) or not all(isinstance(s, dict | Statistic) for s in given):
        raise SlidestatError(
            f"{STATISTICS} is {given!r}, which is not an array of tables.",
            f'Begin each with a line [[{STATISTICS}]], and write {_KIND} = "count" below it.',
        )
    return tuple(s if isinstance(s, Statistic) else _statistic(i, s) for i, s in enumerate(given))


def _statistic(index: int, table: Mapping[str, object]) -> Statistic:
    place = f"{STATISTICS}[{index}]."
    kind = table.get(_KIND)
    if not isinstance(kind, str):
        error = "is missing" if kind is None else f"is {kind!r}, which is no text"
        raise SlidestatError(f"{place}{_KIND} {error}.", f"Write one of {', '.join(KINDS)}.")
    parameters = {name: value for name, value in table.items() if name != _KIND}
    return statistic_of(kind, parameters, place)


_Declared = TypeVar("_Declared", Alert, Ranking, Slo)
_WHAT: dict[type, str] = {Alert: "an alert", Ranking: "a ranking", Slo: "an objective"}


def _tables(
    given: object, declared: type[_Declared], name: str, example: str
) -> tuple[_Declared, ...]:
    if not isinstance(given, list | tuple) or not all(
        isinstance(it, dict | declared) for it in given
    ):
        raise SlidestatError(
            f"{name} is {given!r}, which is not an array of tables.",
            f"Begin each with a line [[{name}]], and write {example} below it.",
        )
    return tuple(
        it if isinstance(it, declared) else declared_of(declared, it, f"{name}[{i}].")
        for i, it in enumerate(given)
    )


def declared_of(
    declared: type[_Declared], table: Mapping[str, object], place: str = ""
) -> _Declared:
    """Return the alert, the ranking or the objective with these fields; raises SlidestatError that
    begins with the field, `place` before it.
    """
    # Python has the word `for` for itself: there the field's name ends in "_".
    names = {field.name.removesuffix("_"): field for field in fields(declared)}
    for name in table:
        if name not in names:
            raise unknown(f"{place}{name} is no field of {_WHAT[declared]}.", name, names)
    for name, field in names.items():
        is_needed = field.default is field.default_factory is MISSING or (
            name == "when" and not table.get("change")
        )
        if is_needed and name not in table:
            instead = ", or a figure in `change`" if name == "when" else ""
            raise SlidestatError(
                f"{place}{name} is missing.", f"It has no default: give it{instead}."
            )
    try:
        return declared(**{names[name].name: _frozen(value) for name, value in table.items()})  # type: ignore[arg-type]
    except SlidestatError as error:
        placed = {name: f"{place}{name}" for name in names}
        raise SlidestatError(renamed(error.message, placed), error.advice) from error


def _check_names(
    given: Iterable[str],
    declared: type[Topology] | type[Referee] | type[Statistic],
    place: str,
    what: str,
) -> None:
    known = {field.name: field for field in fields(declared)}
    for name in given:
        if name not in known:
            raise unknown(f"{place}{name} is no {what}.", name, known)
    for name, field in known.items():
        if field.default is MISSING and name not in given:
            raise SlidestatError(f"{place}{name} is missing.", "It has no default: give it.")


class _Listed(tuple[object, ...]):
    """A tuple that a message shows as the list that somebody has written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(list(self))


def _frozen(value: object) -> object:
    return _Listed(map(_frozen, value)) if isinstance(value, list | tuple) else value
