"""Figures that are computed from others: "errors_5m / count_5m as error_rate"."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from slidestat.declare.alerts import check_computable, figure_name
from slidestat.declare.expressions.expression import Expression, sorts_of
from slidestat.declare.expressions.intervals import Numbers
from slidestat.declare.expressions.known_intervals import Facts, Known, KnownIntervals
from slidestat.declare.expressions.nodes import (
    Call,
    FieldValue,
    Node,
    Sort,
    calls_of,
    fields_of,
    text_of,
)
from slidestat.declare.expressions.parsing import parsed_with_name
from slidestat.declare.fields import FieldPath
from slidestat.declare.figure_names import FigureSource, place_over_windows
from slidestat.errors import SlidestatError, shown
from slidestat.synopses.core.arrays import Floats

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_MOST = 100
# Each reads the bounds of its operands, and a figure that is read twice is written out twice.
_MOST_OPERATORS = 200
_ADVICE = 'Write an expression over figures as a name: "errors_5m / count_5m as error_rate".'


@dataclass(frozen=True)
class DerivedFigure:
    """A figure by its name: an expression over figures of statistics, at these `places`."""

    name: str
    node: Node
    places: tuple[tuple[FieldPath, int], ...]

    @cached_property
    def text(self) -> str:
        """The expression over figures of statistics as SQL, always written the same way."""
        named = {path: FieldValue(path[1:]) for path, _ in self.places}
        return text_of(_with(self.node, named))

    @property
    def numbered_text(self) -> str:
        """Return the expression with the numbers of its parts, from 0, in place of their names."""
        number = {place: str(number) for number, place in enumerate(self.parts)}
        named = {path: FieldValue((number[place],)) for path, place in self.places}
        return text_of(_with(self.node, named))

    @property
    def parts(self) -> tuple[int, ...]:
        """Return the places of the figures that it is of, each once."""
        return tuple(dict.fromkeys(place for _, place in self.places))

    def numbers(self, rows: int, figure: Callable[[int], Numbers], facts: Facts) -> Numbers:
        """Return its numbers in so many rows; `figure` returns those of the figure at a place.

        Where estimates agree with what is known of exact figures, so does this one: else it is
        moved to the nearest end of its bounds.
        """
        figures = {path: figure(place) for path, place in self.places}
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
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise SlidestatError(
            f"derived is {texts!r}, which is not a list.",
            'Write a list, also of a single one: ["errors_5m / count_5m as error_rate"].',
        )
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
        places: dict[FieldPath, int] = {}
        nodes: dict[FieldPath, Node] = {}
        for path in expression.paths:
            read = figure_name(path)
            what = f"derived has {text!r}, and reads {read!r}"
            if read in found:
                nodes[path] = found[read].node
                places |= dict(found[read].places)
            else:
                place = place_over_windows(read, over_windows, what, found)
                # A figure has one path, however its window was written.
                nodes[path] = FieldValue((f"figure {place}", read))
                places[(f"figure {place}", read)] = place
        operators[name] = _operators(text, expression.node, operators)
        found[name] = DerivedFigure(name, _with(expression.node, nodes), tuple(places.items()))
    return tuple(found.values())


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> tuple[Expression, str]:
    node, name = parsed_with_name(text, "derived")
    what = f"{name} in derived"
    if not any(fields_of(node)):
        raise SlidestatError(f"derived has {text!r}, which reads no figure.", _ADVICE)
    _ = _operators(text, node, {})
    past = next(calls_of(node, "ago"), None)
    if past is not None:
        raise SlidestatError(
            f"derived has {text!r}, and reads {text_of(past)}: conditions alone read the past.",
            "Compare with it in having or in an alert; compute with windows that end now.",
        )
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


def _with(node: Node, nodes: Mapping[FieldPath, Node]) -> Node:
    """Return an expression with others in place of its figures."""
    match node:
        case FieldValue(path):
            return nodes[path]
        case Call(operator, operands):
            return Call(operator, tuple(_with(operand, nodes) for operand in operands))
    return node


def facts_of(
    derived: Sequence[DerivedFigure],
    sources: Sequence[FigureSource],
    starts: Mapping[str, int],
) -> Facts:
    """Return what is known of the figures that derived ones are of, which have these `sources`;
    `starts` maps labels to the times from which they are counted.
    """
    places = {path: place for figure in derived for path, place in figure.places}
    read = {path: sources[place] for path, place in places.items()}
    return Facts(
        Known(
            frozenset(path for path, it in read.items() if it.statistic.least_figure >= 0),
            frozenset(
                (one, other)
                for (one, small), (other, large) in product(read.items(), read.items())
                if one != other and _is_at_most(small, large, starts)
            ),
        )
    )


def _is_at_most(small: FigureSource, large: FigureSource, starts: Mapping[str, int]) -> bool:
    """Return whether a figure is never more than another one: both are counts or sums of the same,
    of fewer events, or values of which one ranks before the other.
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
        (small.window or 0) <= (large.window or 0)
        and (since[1] is None or (since[0] is not None and since[1] <= since[0]))
        and _conditions(large) <= _conditions(small)
    )
    counts = one.kind in _COUNTS and other.kind == "count"
    same = one.kind == other.kind and one.kind in ("count", "sum") and small.path == large.path
    return is_of_fewer and (counts or same)


# Their figures are numbers of events, as those of a count.
_COUNTS = frozenset(("count", "histogram", "above", "items"))


def _rank(source: FigureSource) -> float | None:
    """Return where a value is among those of its window: 0 for the least, 1 for the largest."""
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
