"""Write docs/reference.md from the declarations themselves: `python -m scripts.reference`.

Names, types and defaults are those of the dataclasses, the meanings stand in their docstrings: an
entry begins a line with `NAME: ` and ends with the next one or at an empty line, and what a class
does not say of a field is said by those that it inherits it from. A test holds the file to it.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

from benchmarks.harness.examples import example
from slidestat.declare.alerts import Alert
from slidestat.declare.forms.flag_list import flag_of
from slidestat.declare.kinds import KINDS
from slidestat.declare.rankings import Ranking
from slidestat.declare.referee import Referee
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.base import Promise, ValueStatistic
from slidestat.declare.topology import Topology
from slidestat.schemas.emission import Figure

FILE = Path(__file__).parents[1] / "docs" / "reference.md"

_HEAD = """\
# Reference of declarations

All that a topology, a referee and a statistic can be told; `make reference` writes this page from
the code. How to declare them, in Python, TOML or flags: [declare a topology](declare-a-topology.md)
and [many parties](many-parties.md). What to take: [which statistic, what it
costs](choose-a-statistic.md).

- A **length** is a text: `"250ms"`, `"90s"`, `"5m"`, `"1h"` or `"7d"`, or `"1000 events"`.
- A **path** is a text, `"bytes"`, or `"request.bytes"` for a field of a nested object; names that
  have a dot are written as a list: `["http.bytes"]`, on a command line `--key '["http.bytes"]'`.
- What cannot be is refused before anything runs, with the field and what would be right.
"""
_STATISTICS = """\
## Statistics

In Python they are classes of `slidestat`: `Count(epsilon=0.001)`. In TOML each is a table
`[[statistics]]` with its `kind`, in flags `--statistic KIND[:FIELD][:NAME=VALUE]...`. All
parameters have defaults.

Each figure has `lower <= exact <= upper`, and tells how far off its estimate may be, in terms that
add up:

{terms}

**Numbers.** A value is the double nearest to the number in the record. Whole numbers are doubles
up to 2^53; beyond, several have one double. There `minimum`, `maximum`, `rank_quantile` and
`sample` have bounds of a double more on each side, so that they hold for the number as it was
written, and an estimate may be off by the distance to the next double. (`quantile`, sums, means
and spreads take no such values.) Edges and thresholds compare with numbers from 2^53 to 2^100 as
they were written, as conditions do; one that no double is, such as 9007199254740993, is refused. A
number with a fraction has 15 digits in its double for sure: bounds are those of the doubles. A
whole number beyond all doubles is a dead letter, `value-too-large`.

**Items.** An item is a text, or the text of a number or a truth value; so the number 1 and the
text "1" are one item. Numbers that are equal are one item: 1, 1.0 and 1e0 are "1", 0, 0.0 and
-0.0 are "0". A whole number is its digits, however large it is, and one with a fraction from 2^53
on is its first 60. Others are the shortest text of their double, 0.10 is "0.1"; so are those from
2^100 on that are written with a fraction or an exponent.

The promises "with the defaults" are the same for every span. All statistics have a `name` and a
`where`, and all but {without_field} a `field`:

"""
_ALERTS = """\
In TOML each is a table `[[alerts]]`, in flags `--alert NAME:WHEN[:NAME=VALUE]...`. What conditions
can say, and what becomes of them: [alerts](alerts.md).
"""
_RANKINGS = """\
In TOML each is a table `[[rankings]]`, in flags `--ranking NAME:BY:largest=N[:having=CONDITION]`.
What becomes of them: [rankings](rankings.md).
"""
_SLOS = """\
In TOML each is a table `[[slos]]`, in flags `--slo NAME:GOOD:objective=SHARE[:NAME=VALUE]...`. What
becomes of them: [service-level objectives](slos.md).
"""
_WORDS: dict[object, str] = {
    bool: "truth value",
    str: "text",
    int: "whole number",
    float: "number",
    Topology: "topology",
}
_LISTED = {Alert: "alerts", Ranking: "rankings", Slo: "objectives"}
_PROMISE, _UNION = "promise", "union"
# The parameters that are explained once for all statistics.
_COMMON = ("field", "name", "where")
# Long enough for any statistic; promises do not depend on it.
_SPAN_MS = 3_600_000


def entries(declared: type) -> dict[str, str]:
    """What a class's own docstring says of each name, in one line."""
    found: dict[str, str] = {}
    for paragraph in inspect.cleandoc(declared.__doc__ or "").split("\n\n"):
        name = ""
        for line in paragraph.splitlines():
            if entry := re.match(r"(\w+): (.*)", line):
                name, found[entry[1]] = entry[1], entry[2]
            elif name:
                found[name] += f" {line}"
    return found


def meaning(declared: type, name: str) -> str:
    """What is said of a name by the class, or by the nearest that it inherits from.

    Raises LookupError if none of them says anything.
    """
    for known in declared.__mro__:
        if name in (told := entries(known)):
            return told[name]
    raise LookupError(f"no docstring of {declared.__name__} tells what {name} is")


def about(declared: type) -> str:
    """The paragraphs of a class's docstring that are for everybody, without its entries."""
    paragraphs = inspect.cleandoc(declared.__doc__ or "").split("\n\n")
    told = [p for p in paragraphs if not re.match(r"\w+: |Raises ", p)]
    return "\n\n".join(told)


def type_text(hint: object) -> str:
    """A type, as a person says it."""
    if hint in _WORDS:
        return _WORDS[hint]
    if get_origin(hint) is Mapping:
        return "table of texts"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(type_text, get_args(hint)))
    (item,) = get_args(hint)
    if item in _LISTED:
        return f"list of {_LISTED[item]}"
    return "list of statistics" if item is Statistic else f"list of {type_text(item)}s"


def default_text(default: object) -> str:
    """A default, as TOML has it; statistics by their kinds."""
    if default is MISSING:
        return "required"
    if default == {}:
        return "`{}`"
    if isinstance(default, tuple) and default and isinstance(default[0], Statistic):
        return ", ".join(f"`{statistic.kind}`" for statistic in default)
    return f"`{json.dumps(default)}`"


def table(declared: type, names: Sequence[str], *, flags: bool = False) -> Iterator[str]:
    """A row for each of these fields of a dataclass."""
    columns = ["name", *(["flag"] if flags else []), "type", "default", "what it is"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    hints = get_type_hints(declared)
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(declared)
    }
    for name in names:
        cells = [
            f"`{name}`",
            *([f"`{flag_of(name)}`"] if flags else []),
            type_text(hints[name]),
            default_text(defaults[name]),
            _sentence(meaning(declared, name)),
        ]
        yield f"| {' | '.join(cells)} |"


def promise_text(promise: Promise) -> str:
    """The terms of a promise that are not those of an exact figure."""
    terms = [
        f"`{field.name}` {value:.4g}"
        for field in fields(Promise)
        if (value := getattr(promise, field.name)) != field.default
    ]
    return ", ".join(terms) or "none, it is exact"


def statistic_section(statistic: type[Statistic]) -> Iterator[str]:
    """What there is to say of one statistic."""
    yield f"### {statistic.__name__}: `{statistic.kind}`\n"
    yield about(statistic) + "\n"
    if own := [name for name in names_of(statistic) if name not in _COMMON]:
        yield from table(statistic, own)
        yield ""
    yield f"**Promise:** {meaning(statistic, _PROMISE)}\n"
    yield f"With the defaults: {promise_text(example(statistic).promise(_SPAN_MS))}.\n"
    if statistic.can_be_united:
        yield f"**Over many parties:** {meaning(statistic, _UNION)}\n"
    if notes := list(_notes(statistic)):
        yield " ".join(notes) + "\n"


def names_of(declared: type) -> list[str]:
    """The names of a dataclass's fields."""
    return [field.name for field in fields(declared)]


def _notes(statistic: type[Statistic]) -> Iterator[str]:
    if columns := example(statistic).columns(("value",)):
        number = "a number" if columns[0].is_number else "a text, a number or a truth value"
        yield f"Reads {number}."
    if statistic.needs_time:
        yield "Not of windows of events."
    if statistic.is_landmark:
        yield (
            "Of all events since the key's first, whatever the windows; keys are kept for ever, or"
            " for `forget_after`."
        )
    if not statistic.can_be_united:
        yield "Not in a topology that publishes: it has no answer over many parties."


def _terms() -> Iterator[str]:
    """What the terms of a promise are, as the schema of emissions says it."""
    hints = get_type_hints(Figure, include_extras=True)
    for name in names_of(Promise):
        (meta,) = hints[name].__metadata__
        yield f"- `{name}`: {meta.description}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def render() -> str:
    """The whole page."""
    lines = [_HEAD]
    for declared, flags in ((Topology, True), (Referee, False)):
        lines += [f"## {declared.__name__}\n", about(declared) + "\n"]
        lines += [*table(declared, names_of(declared), flags=flags), ""]
    lines += ["## Alert\n", about(Alert) + "\n", _ALERTS, *table(Alert, names_of(Alert)), ""]
    lines += ["## Ranking\n", about(Ranking) + "\n", _RANKINGS]
    lines += [*table(Ranking, names_of(Ranking)), ""]
    lines += ["## Slo\n", about(Slo) + "\n", _SLOS, *table(Slo, names_of(Slo)), ""]
    without_field = [f"`{kind}`" for kind, s in KINDS.items() if "field" not in names_of(s)]
    *others, last = without_field
    listed = f"{', '.join(others)} and {last}"
    lines.append(_STATISTICS.format(terms="\n".join(_terms()), without_field=listed).rstrip("\n"))
    lines += ["", *table(ValueStatistic, _COMMON), ""]
    for statistic in KINDS.values():
        lines += statistic_section(statistic)
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), "utf-8")
    print(f"written: {FILE.name}")
