"""Derived figures recomputed from the exact figures that they are of, in fractions.

An audit shares no code with the workers: sqlglot's tree of the declared expression is gone through
as it is, with None for NULL, and nothing is rounded.
"""

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sqlglot import exp, parse_one

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import DeclaredDerived, DeclaredPart
from slidestat.spark.audit.exact_key import Exact
from slidestat.spark.audit.verdict import Verdict, nearest

_COMPUTE: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}
# Of exact figures that are recomputed in doubles, or with 80 digits.
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
            # A literal with a fraction is the double next to it, as elsewhere in declarations.
            whole = tree.this.isdigit()
            return Fraction(int(tree.this)) if whole else Fraction(float(tree.this))
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
    told: Sequence[Figure | None],
    figure: Figure,
) -> Verdict:
    """Compare a derived figure with the exact one; `kinds` are those of its parts, `parts` exact
    and `told` as they are in the emission.
    """
    exact = computed(declared.expression, parts)
    estimates = [None if one is None else one.estimate for one in told]
    unit, violation, observed = "of its bounds", "", 0.0
    if figure.estimate is None:
        # NULL of the estimates, whatever the exact one is; those of the past are not told.
        is_null = exact is None or computed(declared.expression, estimates) is None
        violation = "" if is_null else "no figure"
    elif exact is None:
        # The estimates say that there is one, and their bounds that there may be none.
        is_sure = not any(part.ago for part in declared.parts) and all(
            one is None or one.lower == one.upper for one in told
        )
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
    return Verdict(shown, 0, unit, 1.0, observed, violation)


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
    return Figure(
        *(source.label, None, None, None),
        window_ms=None if of_events else source.window,
        window_events=source.window if of_events else None,
        quantile=series.quantile,
        at_least=series.at_least,
        below=series.below,
        item=series.item,
    )
