"""Derived figures recomputed from the exact figures that they are of, in fractions.

An audit shares no code with the workers: sqlglot's tree of the declared expression is gone through
as it is, with None for NULL, and nothing is rounded.
"""

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlglot import exp, parse_one

from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.audit.columns import EXACT
from slidestat.spark.audit.declaration import (
    Declaration,
    DeclaredDerived,
    DeclaredPart,
    DeclaredStatistic,
    Path,
    least_confidence,
)
from slidestat.spark.audit.events.conditions import MOST_WHOLE, NotComputableError, holds
from slidestat.spark.audit.exact_key import Exact, ExactKey
from slidestat.spark.audit.verdict import Verdict, nearest

_COMPUTE: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}
# The error of a derived figure as a share of its bounds.
OF_BOUNDS = "of its bounds"
# Exact figures that are recomputed in doubles, or with 80 digits.
_ROUNDED, _SLACK = frozenset(("norm", "deviation")), Fraction(1, 10**6)


def computed(expression: str, parts: Sequence[Exact]) -> Fraction | None:
    """Return the value of an expression over numbered parts, None for NULL."""
    return _value(_parsed(expression), parts)


@lru_cache(maxsize=1_000)
def _parsed(expression: str) -> Any:
    return parse_one(expression)


def _value(tree: Any, parts: Sequence[Exact]) -> Fraction | None:
    match tree:
        case exp.Paren():
            return _value(tree.this, parts)
        case exp.Null():
            return None
        case exp.Literal():
            # All declarations read the nearest double, but from 2^53 to 2^100 the number as
            # written.
            is_exact = tree.this.isdigit() or EXACT <= float(tree.this) < MOST_WHOLE
            return Fraction(tree.this if is_exact else float(tree.this))
        case exp.Column():
            part = parts[int(tree.name)]
            return None if part is None else Fraction(part)
        case exp.Neg():
            value = _value(tree.this, parts)
            return None if value is None else -value
        case exp.Coalesce():
            values = (_value(one, parts) for one in (tree.this, *tree.expressions))
            return next((value for value in values if value is not None), None)
    left, right = _value(tree.this, parts), _value(tree.expression, parts)
    if left is None or right is None or (isinstance(tree, exp.Div) and not right):
        return None
    return _COMPUTE[type(tree)](left, right)


def judge_derived(
    declared: DeclaredDerived,
    kinds: Sequence[str],
    parts: Sequence[Exact],
    told: Sequence[Figure | None] | None,
    figure: Figure,
) -> Verdict:
    """Compare a derived figure with the exact one; `kinds` are those of its parts, `parts` exact
    and `told` as they are in the emission, None if it has none of them.
    """
    exact = computed(declared.expression, parts)
    estimates = [None if one is None else one.estimate for one in told or [None] * len(parts)]
    violation, observed = "", 0.0
    if figure.estimate is None:
        # NULL of the estimates, whatever the exact one is; those of the past are not told.
        is_null = exact is None or computed(declared.expression, estimates) is None
        violation = "" if is_null else "no figure"
    elif exact is None:
        # The estimates say that there is one, and their bounds that there may be none.
        is_sure = told is not None and not any(part.ago for part in declared.parts)
        is_sure &= all(one is None or one.lower == one.upper for one in told or ())
        violation = "a figure of nothing" if is_sure else ""
    else:
        slack = _SLACK * abs(exact) if _ROUNDED.intersection(kinds) else Fraction(0)
        low = None if figure.lower is None else Fraction(figure.lower)
        high = None if figure.upper is None else Fraction(figure.upper)
        is_low = low is None or low <= exact + slack
        is_high = high is None or exact - slack <= high
        violation = "" if is_low and is_high else "outside its bounds"
        if low is not None and high is not None:
            estimate = Fraction(figure.estimate)
            reach, off = max(high - estimate, estimate - low), abs(exact - estimate)
            observed = nearest(off / reach) if reach else 0.0
    shown = None if exact is None else nearest(exact)
    return Verdict(shown, 0, OF_BOUNDS, 1.0, observed, violation)


def is_still_known(
    declared: DeclaredDerived, parts: Sequence[Exact], figure: Figure, tolerance: Fraction
) -> bool:
    """Return whether the bounds of a figure that was written earlier, widened by the tolerance,
    have the exact one; where that is NULL, or the figure has none, nothing is claimed.
    """
    exact = computed(declared.expression, parts)
    if exact is None or figure.estimate is None:
        return True
    for bound, sign in ((figure.lower, 1), (figure.upper, -1)):
        if bound is not None:
            end = Fraction(bound)
            if sign * (exact - end) < -tolerance * abs(end):
                return False
    return True


def figure_of(source: DeclaredPart, *, of_events: bool) -> Figure:
    """Return a part as an emission has it, without its numbers."""
    series = source.series
    return replace(
        figure_in(source.label, *((None, source.window) if of_events else (source.window, None))),
        quantile=series.quantile,
        at_least=series.at_least,
        below=series.below,
        item=series.item,
    )


def figure_in(label: str, window: int | str | None, window_events: int | str | None) -> Figure:
    """Return a figure of a window, by its place, without anything else."""
    return Figure(
        *(label, None, None, None),
        window_ms=None if isinstance(window, str) else window,
        window_events=None if isinstance(window_events, str) else window_events,
        window=window if isinstance(window, str) else None,
    )


# With more figures than this, not all combinations of bounds are tried.
_MOST_COMBINED = 6


class Truth(NamedTuple):
    """The outcome of a condition over exact figures: whether it holds, None if that is not known,
    and whether all of them are figures that are written without an error.
    """

    holds: bool | None
    is_certain: bool


class _Part(NamedTuple):
    """A figure of a statistic, without numbers; its window ended `ago` before the tick."""

    statistic: DeclaredStatistic
    figure: Figure
    ago: int


class _Read(NamedTuple):
    """A figure that the condition reads, by path, and what it is of: itself, or its parts."""

    path: Path
    figure: Figure
    parts: list[_Part]
    derived: DeclaredDerived | None

    def value(self, parts: Sequence[Exact]) -> float | None:
        """Return the value of the figure from the values of its parts."""
        one = parts[0] if self.derived is None else computed(self.derived.expression, parts)
        return None if one is None else nearest(one)


class Having:
    """The condition of a declaration that has one."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        statistics = {statistic.label: statistic for statistic in declaration.statistics}
        derived = {it.name: it for it in declaration.derived}
        self._read: list[_Read] = []
        for read in declaration.having_figures:
            parts = [
                _Part(
                    statistics[part.label],
                    figure_of(part, of_events=declaration.of_events),
                    part.ago,
                )
                for part in read.parts
            ]
            one = derived.get(read.derived)
            figure = parts[0].figure if one is None else Figure(one.name, None, None, None)
            self._read.append(_Read(read.path, figure, parts, one))
        self._parts = [part for one in self._read for part in one.parts]
        self._is_by_chance = any(least_confidence(one.statistic) < 1 for one in self._parts)
        self.reads_all = any(not one.statistic.is_windowed for one in self._parts)

    @property
    def may_hold_of_nothing(self) -> bool:
        """Return whether the condition may hold where a key has no event any more."""
        if self._declaration.of_events or any(
            not one.statistic.is_windowed or one.statistic.kind == "age_of_last"
            for one in self._parts
        ):
            return True
        nothing = [
            {one.value(parts) for parts in product((0, None), repeat=len(one.parts))}
            for one in self._read
        ]
        return any(map(self._holds, product(*nothing)))

    def at(self, key: ExactKey, tick: int) -> Truth:
        """Return what the condition is of the exact figures of a tick."""
        if self._is_by_chance:
            return Truth(None, is_certain=False)
        values: list[Exact] = []
        is_certain = True
        for statistic, figure, ago in self._parts:
            lengths = self._declaration.length_of(figure, tick - ago), figure.window_events
            if not statistic.has_windows:
                lengths = self._declaration.span_lengths
            window = key.window(tick - ago, *lengths, self._declaration.forget_ms)
            if statistic.kind == "age_of_last":
                exact: Exact = key.age(statistic, window, tick, beyond=False)
                if exact != key.age(statistic, window, tick, beyond=True):
                    return Truth(None, is_certain=False)
                is_certain = False
            else:
                exact = key.exact(statistic, figure, window)
            # Ends of a past window may cut what came before and after it, also of no events.
            is_certain = is_certain and not ago and _is_exact(key, statistic, window, exact)
            values.append(exact)
        found: list[float | None] = []
        for one in self._read:
            found.append(one.value(values[: len(one.parts)]))
            values = values[len(one.parts) :]
        return Truth(self._holds(found), is_certain)

    def may_hold(self, emission: Emission) -> bool | None:
        """Return whether the condition may hold in a record, by the bounds that it has; None if
        that does not follow from their ends alone.
        """
        told = {_identity(figure): figure for figure in emission.figures}
        ends: list[tuple[float | None, ...]] = []
        for one in self._read:
            figure = told.get(_identity(one.figure))
            if figure is None or any(part.ago for part in one.parts):
                return None
            if one.derived is not None and None in (figure.lower, figure.upper):
                return None
            known = (figure.lower, figure.upper, figure.estimate)
            values = {value for value in known if value is not None}
            ends.append(tuple(sorted(values)) or (None,))
        combined = product(*ends) if len(ends) <= _MOST_COMBINED else zip(*ends, strict=False)
        if any(map(self._holds, combined)):
            return True
        return None if any(len(values) > 1 for values in ends) else False

    def _holds(self, values: Sequence[float | None]) -> bool:
        """Return whether the condition holds of these values of the figures that it reads."""
        fields: dict[str, Any] = {}
        for read, value in zip(self._read, values, strict=True):
            inside = fields
            for name in read.path[:-1]:
                inside = inside.setdefault(name, {})
            inside[read.path[-1]] = value
        try:
            return holds(self._declaration.having, fields)
        except NotComputableError:
            return False


def _is_exact(key: ExactKey, statistic: DeclaredStatistic, window: slice, exact: Exact) -> bool:
    """Return whether a figure is written without an error: of no events, or an exact extreme."""
    if statistic.is_landmark:
        return False
    if key.taken(statistic, window) == 0:
        return True
    is_extreme = statistic.kind in ("minimum", "maximum")
    return (
        is_extreme
        and not statistic.parameters.get("epsilon")
        and exact is not None
        and abs(nearest(exact)) < EXACT
    )


def _identity(figure: Figure) -> tuple[object, ...]:
    # The windows of a sequence are lengths in its numbers, as the declaration has them.
    return (
        *(figure.statistic, figure.window or figure.window_ms or figure.window_events),
        *(figure.quantile, figure.at_least, figure.below, figure.item),
    )
