"""Figures that are computed from others: "errors_5m / count_5m as error_rate"."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from slidestat.declare.alerts import check_computable, figure_name
from slidestat.declare.expressions.expression import Expression, sorts_of
from slidestat.declare.expressions.intervals import Numbers
from slidestat.declare.expressions.known_intervals import Facts, Known, KnownIntervals
from slidestat.declare.expressions.nodes import (
    Call,
    FieldValue,
    Literal,
    Node,
    Sort,
    fields_of,
    text_of,
)
from slidestat.declare.expressions.parsing import parsed_with_name
from slidestat.declare.fields import FieldPath
from slidestat.declare.figure_names import FigureSource, place_over_windows
from slidestat.declare.times.calendar_windows import is_within
from slidestat.declare.values import require_list
from slidestat.errors import SlidestatError, shown
from slidestat.synopses.core.arrays import Floats

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_MOST = 100
# Each reads the bounds of its operands, and a figure that is read twice is written out twice.
_MOST_OPERATORS = 200
_ADVICE = 'Write an expression over figures as a name: "errors_5m / count_5m as error_rate".'


class Part(NamedTuple):
    """A figure of a statistic that is read: its place, and which call of `ago` reads its past."""

    place: int
    past: Call | None = None


@dataclass(frozen=True)
class DerivedFigure:
    """A figure by its name: an expression over figures of statistics, `read` by their paths."""

    name: str
    node: Node
    read: tuple[tuple[FieldPath, Part], ...]

    @cached_property
    def text(self) -> str:
        """The expression over figures of statistics as SQL, always written the same way."""
        named = {path: part.past or FieldValue(path[1:]) for path, part in self.read}
        return text_of(_with(self.node, named))

    @property
    def numbered_text(self) -> str:
        """Return the expression with the numbers of what is read, from 0, in place of names."""
        named = {path: FieldValue((str(number),)) for number, (path, _) in enumerate(self.read)}
        return text_of(_with(self.node, named))

    @property
    def parts(self) -> tuple[int, ...]:
        """Return the places of the figures that it is of, now or in the past, each once."""
        return tuple(dict.fromkeys(part.place for _, part in self.read))

    @property
    def calls(self) -> list[Call]:
        """Return its calls of `ago`, each once."""
        return [part.past for _, part in self.read if part.past is not None]

    def numbers(
        self,
        rows: int,
        figure: Callable[[int], Numbers],
        facts: Facts,
        past: Mapping[Node, Numbers],
    ) -> Numbers:
        """Return its numbers in so many rows; `figure` returns those of the figure at a place, and
        `past` has those of its calls of `ago`: of one that it has not, nothing is known.

        Where estimates agree with what is known of exact figures, so does this one: else it is
        moved to the nearest end of its bounds.
        """
        unknown = Numbers.within(np.inf, rows)
        figures = {
            path: figure(part.place) if part.past is None else past.get(part.past, unknown)
            for path, part in self.read
        }
        found = KnownIntervals(rows, figures, facts).numbers(self.node)
        # Bounds that hold with a probability may contradict each other.
        lowers = np.minimum(found.lowers, found.uppers)
        estimates = np.clip(found.estimates, lowers, found.uppers)
        estimates[~np.isfinite(estimates)] = np.nan
        return replace(found, estimates=estimates, lowers=lowers)


def columns_of(numbers: Numbers) -> Floats:
    """Return the numbers of a derived figure as float64[n, 3]: NaN for a bound that there is not,
    and for all three where the estimate is NULL.
    """
    table = np.stack((numbers.estimates, numbers.lowers, numbers.uppers), axis=1)
    table[~np.isfinite(table)] = np.nan
    table[np.isnan(numbers.estimates)] = np.nan
    return table


def derived_figures(
    texts: object, over_windows: Mapping[str, Sequence[int]], taken: Iterable[str]
) -> tuple[DerivedFigure, ...]:
    """Return the derived figures that texts declare, over the figures of statistics by their names
    with a window, and over derived ones before them; `taken` are names that others have.

    Raises SlidestatError for a text that is none, for names that no figure has, or several have.
    """
    advice = 'Write a list, also of a single one: ["errors_5m / count_5m as error_rate"].'
    texts = require_list("derived", texts, advice)
    if len(texts) > _MOST:
        raise SlidestatError(f"derived has {len(texts):,} figures.", f"Give at most {_MOST}.")
    found: dict[str, DerivedFigure] = {}
    operators: dict[str, int] = {}
    others = {*taken, *over_windows}
    for text in texts:
        if not isinstance(text, str):
            raise SlidestatError(f"derived has {text!r}, which is no text.", _ADVICE)
        expression, name = _parsed(text)
        if not _NAME.fullmatch(name):
            raise SlidestatError(
                f"derived has the name {name!r}.",
                "Use 1 to 100 letters, digits and '_', the first no digit.",
            )
        if name in found or name in others:
            raise SlidestatError(
                f"derived has {name!r}, the name of another figure.",
                "Give each derived figure a name of its own.",
            )
        nodes: dict[FieldPath, Node] = {}
        parts: dict[FieldPath, Part] = {}
        for path in expression.paths:
            read = figure_name(path)
            what = f"derived has {text!r}, and reads {read!r}"
            if read in found:
                nodes[path] = found[read].node
                parts |= dict(found[read].read)
            else:
                place = place_over_windows(read, over_windows, what, found)
                # A figure has one path, however its window was written.
                nodes[path] = FieldValue((f"figure {place}", read))
                parts[(f"figure {place}", read)] = Part(place)
        operators[name] = _operators(text, expression.node, operators)
        node = _with(expression.node, nodes, partial(_before, text, parts))
        used = set(fields_of(node))
        read_parts = tuple((path, part) for path, part in parts.items() if path in used)
        found[name] = DerivedFigure(name, node, read_parts)
    return tuple(found.values())


def _before(text: str, parts: dict[FieldPath, Part], path: FieldPath, ago: Literal) -> Node:
    """Return the figure at a path as it was that long before, and add it to `parts`. Raises
    SlidestatError for a figure that is already of the past.
    """
    part = parts[path]
    if part.past is not None:
        raise SlidestatError(
            f"derived has {text!r}, and reads the past of a figure that reads the past itself.",
            "Write the expression out, with each figure as long ago as it is meant to be.",
        )
    past = Call("ago", (FieldValue(path[1:]), ago))
    before = (*path, text_of(past))
    parts[before] = Part(part.place, past)
    return FieldValue(before)


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> tuple[Expression, str]:
    node, name = parsed_with_name(text, "derived", "errors_5m / count_5m as error_rate")
    what = f"{name} in derived"
    if not any(fields_of(node)):
        raise SlidestatError(f"derived has {text!r}, which reads no figure.", _ADVICE)
    _ = _operators(text, node, {})
    sorts = sorts_of(node, Sort.NUMBER, text, what, Sort.NUMBER)
    check_computable(node, text, what)
    return Expression(node, tuple(sorts.items())), name


def _operators(text: str, node: Node, of_derived: Mapping[str, int]) -> int:
    """Return how many operators an expression has, with those of the derived figures that it reads.

    Raises SlidestatError, naming its text, for too many.
    """
    found, rest = 0, [node]
    while rest:
        match rest.pop():
            case FieldValue(path):
                found += of_derived.get(figure_name(path), 0)
            case Call(_, operands):
                found += 1
                rest += operands
    if found > _MOST_OPERATORS:
        raise SlidestatError(
            f"derived has {shown(text)}, of {found:,} operators with those of the derived figures"
            " that it reads.",
            f"Write it with at most {_MOST_OPERATORS}.",
        )
    return found


_Before = Callable[[FieldPath, Literal], Node]


def _with(node: Node, nodes: Mapping[FieldPath, Node], before: _Before | None = None) -> Node:
    """Return an expression with others in place of its figures; `before` returns the one that
    replaces a figure of the past.
    """
    match node:
        case FieldValue(path):
            return nodes[path]
        case Call("ago", (FieldValue(path), Literal() as ago)) if before is not None:
            return _each(nodes[path], lambda found: before(found, ago))
        case Call(operator, operands):
            return Call(operator, tuple(_with(operand, nodes, before) for operand in operands))
    return node


def _each(node: Node, changed: Callable[[FieldPath], Node]) -> Node:
    """Return an expression with each of its figures changed."""
    return _with(node, {path: changed(path) for path in fields_of(node)})


def facts_of(
    read: Mapping[FieldPath, FigureSource],
    starts: Mapping[str, int] = MappingProxyType({}),
    parts: Mapping[FieldPath, Part] = MappingProxyType({}),
) -> Facts:
    """Return what is known of figures that are read by these paths; `starts` maps labels to the
    times from which they are counted, `parts` those that may be of the past to what they are.
    """
    return Facts(
        Known(
            frozenset(path for path, it in read.items() if it.statistic.least_figure >= 0),
            frozenset(
                (one, other)
                for (one, small), (other, large) in product(read.items(), read.items())
                # Windows that ended at different times have not the same events.
                if one != other
                and _ended(parts.get(one)) == _ended(parts.get(other))
                and is_at_most(small, large, starts)
            ),
        )
    )


def _ended(part: Part | None) -> Node | None:
    """Return how long ago the window of a part ended, as it was written; None for one of now."""
    return None if part is None or part.past is None else part.past.operands[1]


def is_at_most(small: FigureSource, large: FigureSource, starts: Mapping[str, int]) -> bool:
    """Return whether a figure is never more than another one: it counts or adds up the same over
    fewer events, or is a value of lower rank.
    """
    one, other = small.statistic, large.statistic
    since = starts.get(small.label), starts.get(large.label)
    if (small.window is None) != (large.window is None):
        return False
    is_ranked = small.window == large.window and since[0] == since[1]
    if is_ranked and one.where == other.where and small.path == large.path:
        before, behind = _rank(small), _rank(large)
        if before is not None and behind is not None:
            is_own = one is other or one.kind == "minimum" or other.kind == "maximum"
            if is_own and before <= behind:
                return True
    is_of_fewer = (
        is_within(small.window or 0, large.window or 0)
        and (since[1] is None or (since[0] is not None and since[1] <= since[0]))
        and _conditions(large) <= _conditions(small)
    )
    counts = one.kind in _COUNTS and other.kind == "count"
    same = one.kind == other.kind and one.kind in ("count", "sum") and small.path == large.path
    return is_of_fewer and (counts or same)


# Their figures are numbers of events, as those of a count.
_COUNTS = frozenset(("count", "histogram", "above", "items", "item_counts"))


def _rank(source: FigureSource) -> float | None:
    """Return the rank of a value in its window: 0 for the least value, 1 for the largest."""
    if source.statistic.kind in ("minimum", "maximum"):
        return float(source.statistic.kind == "maximum")
    return source.series.quantile


def _conditions(source: FigureSource) -> frozenset[Node]:
    """Return the conditions that all events of a figure meet."""
    condition = source.statistic.condition
    if condition is None:
        return frozenset()
    node = condition.node
    is_and = isinstance(node, Call) and node.operator == "and"
    return frozenset(node.operands if is_and and isinstance(node, Call) else (node,))
