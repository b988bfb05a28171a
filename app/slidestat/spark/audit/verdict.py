"""One figure compared with the exact one: does it hold, and how much of its promise did it use?"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.columns import EXACT
from slidestat.spark.audit.declaration import DeclaredStatistic
from slidestat.spark.audit.exact_key import Exact, ExactKey

# Exact quotients of whole numbers that are only compared: nothing is reduced, nothing rounded.
#
# An audit makes a dozen of them for each figure; Python's Fraction takes ten times as long, as it
# looks for the greatest common divisor each time.

Ratio = tuple[int, int]
"""A numerator, and a denominator above 0."""


def ratio(number: int | float | Fraction) -> Ratio:
    """Return the exact value of a number; for a float, the exact value of the double."""
    return number.as_integer_ratio()


def absolute(one: Ratio) -> Ratio:
    """Return the ratio without its sign."""
    return abs(one[0]), one[1]


def plus(one: Ratio, other: Ratio) -> Ratio:
    """Return the sum."""
    if one[1] == other[1]:
        return one[0] + other[0], one[1]
    return one[0] * other[1] + other[0] * one[1], one[1] * other[1]


def minus(one: Ratio, other: Ratio) -> Ratio:
    """Return the difference."""
    return plus(one, (-other[0], other[1]))


def times(factor: float | Fraction, one: Ratio) -> Ratio:
    numerator, denominator = factor.as_integer_ratio()
    return numerator * one[0], denominator * one[1]


def is_at_most(one: Ratio, other: Ratio) -> bool:
    """Return whether the first is no larger than the second."""
    return one[0] * other[1] <= other[0] * one[1]


def quotient(one: Ratio, other: Ratio) -> float:
    """Return the double nearest to the first divided by the second, which are not negative;
    infinity if that is beyond all doubles.
    """
    try:
        return one[0] * other[1] / (one[1] * other[0])
    except OverflowError:
        return math.inf


def nearest(number: int | float | Fraction) -> float:
    """Return the nearest double; the largest double for what is beyond all."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


_OUTSIDE, _OFF = "outside its bounds", "more off than promised"
BY_CHANCE = (_OUTSIDE, _OFF)
"""The misses that a statistic of chance is allowed."""

_MOST_TIMES = 1e100
# Values of these kinds may be whole numbers from 2^53 on.
_OF_VALUES = frozenset(("minimum", "maximum", "sample"))
_EXACT = ratio(EXACT)
# The 80 digits of a root, and the doubles that a norm is recomputed in.
_ROUNDING = {"deviation": Fraction(1, 10**70), "norm": Fraction(1, 10**9)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a figure; `violation` is empty if the figure holds.

    `promised` is its main error term, in `unit`; `observed` the error in the same unit: the share
    used of all that its terms allow, times `promised`. So the error is kept exactly if observed <=
    promised, whatever the terms; it is None where that share does not exist.
    """

    exact: Exact
    events: int
    unit: str
    promised: float
    observed: float | None
    violation: str


def judge(
    key: ExactKey, statistic: DeclaredStatistic, figure: Figure, window: slice, end_ms: int
) -> Verdict:
    """Compare a figure with its window's events, up to `end_ms`, exactly, with no slack."""
    events = key.taken(statistic, window)
    exact = _exact(key, statistic, figure, window, end_ms)
    unit, promised = _main_term(figure)
    if exact is None or figure.estimate is None or figure.lower is None or figure.upper is None:
        nothing = exact is None and (figure.estimate, figure.lower, figure.upper) == (None,) * 3
        violation = "" if nothing else "a figure of nothing" if exact is None else "no figure"
        return Verdict(exact, events, unit, promised, 0.0 if nothing else None, violation)
    right = ratio(exact)
    slack = times(_ROUNDING.get(statistic.kind, 0), absolute(right))
    inside = is_at_most(ratio(figure.lower), plus(right, slack)) and is_at_most(
        right, plus(ratio(figure.upper), slack)
    )
    violation = "" if inside else _OUTSIDE
    off, nearest = _off(key, statistic, figure, window, right, slack)
    observed: float | None = 0.0
    if off[0]:
        allowed = _allowed(key, statistic, figure, window, nearest, events)
        if not is_at_most(off, allowed):
            violation = _OFF
        # At most this many times the promise is reported.
        used = min(quotient(off, allowed), _MOST_TIMES) if allowed[0] else None
        observed = None if used is None else used * promised
    return Verdict(exact, events, unit, promised, observed, violation)


def is_known(
    key: ExactKey,
    statistic: DeclaredStatistic,
    figure: Figure,
    window: slice,
    end_ms: int,
    tolerance: Fraction,
) -> bool:
    """Return whether a figure that was written earlier holds of the window that ends at `end_ms`:
    its bounds, widened by the tolerance, have the exact figure, and it is null with it.
    """
    exact = _exact(key, statistic, figure, window, end_ms)
    if exact is None or figure.estimate is None or figure.lower is None or figure.upper is None:
        return (exact is None) == (figure.estimate is None)
    right = ratio(exact)
    slack = times(_ROUNDING.get(statistic.kind, 0), absolute(right))
    low, high = ratio(figure.lower), ratio(figure.upper)
    return is_at_most(minus(low, times(tolerance, absolute(low))), plus(right, slack)) and (
        is_at_most(right, plus(plus(high, times(tolerance, absolute(high))), slack))
    )


def _exact(
    key: ExactKey, statistic: DeclaredStatistic, figure: Figure, window: slice, end_ms: int
) -> Exact:
    if statistic.kind != "age_of_last":
        return key.exact(statistic, figure, window)
    # The event before the window may be given, too.
    return key.age(statistic, window, end_ms, beyond=figure.estimate is not None)


def _off(
    key: ExactKey,
    statistic: DeclaredStatistic,
    figure: Figure,
    window: slice,
    right: Ratio,
    slack: Ratio,
) -> tuple[Ratio, Ratio]:
    """Return by how much an estimate is off, and from what: a quantile by value from the nearest
    value that is one; a quantile by rank is off by places.
    """
    estimate = ratio(figure.estimate or 0)
    if statistic.kind == "quantile":
        near = key.quantiles_near(
            statistic.column, figure.quantile or 0.0, figure.share_error, window
        )
        low, high = map(ratio, near)
        nearest = low if is_at_most(estimate, low) else estimate
        nearest = high if is_at_most(high, nearest) else nearest
        return absolute(minus(estimate, nearest)), nearest
    if figure.quantile is not None:
        places = key.rank_error(statistic.column, figure.quantile, figure.estimate or 0.0, window)
        return ratio(places), right
    off = minus(absolute(minus(estimate, right)), slack)
    return (off if off[0] > 0 else ratio(0)), right


def _allowed(
    key: ExactKey,
    statistic: DeclaredStatistic,
    figure: Figure,
    window: slice,
    of: Ratio,
    events: int,
) -> Ratio:
    """Return how far an estimate may be off: the sum of all that the figure promises."""
    if statistic.kind != "quantile" and figure.quantile is not None:
        return times(figure.share_error, ratio(events))
    allowed = ratio(figure.absolute_error)
    if statistic.kind in _OF_VALUES and is_at_most(_EXACT, absolute(of)):
        # An estimate is a double, and the value that it is of may be none.
        allowed = plus(allowed, ratio(math.ulp(of[0] / of[1])))
    if figure.relative_error:
        allowed = plus(allowed, times(figure.relative_error, absolute(of)))
    if statistic.kind == "quantile":
        return allowed
    if figure.share_error:
        allowed = plus(allowed, times(figure.share_error, ratio(key.shared(statistic, window))))
    if figure.deviation_error:
        spread = key.deviation(statistic.column, figure, window)
        allowed = plus(allowed, times(figure.deviation_error, ratio(spread)))
    if figure.magnitude_error:
        magnitudes = key.sum_between(statistic.column, figure, window, of_magnitudes=True)
        allowed = plus(allowed, times(figure.magnitude_error, ratio(magnitudes)))
    return allowed


def violation_of_sample(
    key: ExactKey, statistic: DeclaredStatistic, figures: Sequence[Figure], window: slice
) -> str:
    """Return what is wrong with a sample as a whole, "" if nothing is: it has as many of the
    window's values as it may, none of them more often than the window has it, and no event twice.
    """
    wanted = min(statistic.parameters["size"], key.taken(statistic, window))
    if len(figures) != wanted:
        return f"a sample of {len(figures)}, not {wanted}"
    if len({figure.item for figure in figures}) < wanted:
        return "an event drawn twice"
    drawn = Counter(figure.estimate for figure in figures)
    # Whole numbers from 2^53 on may have been rounded down.
    if all(drawn - Counter(there) for there in key.as_drawn(statistic.column, window)):
        return "a value drawn more often than it came"
    return ""


def _main_term(figure: Figure) -> tuple[str, float]:
    if figure.quantile is not None:
        if figure.relative_error:
            return "of value", figure.relative_error
        return "of rank", figure.share_error
    if figure.share_error:
        return "of events", figure.share_error
    # A variance has a little of it, for the decimals that it keeps.
    if figure.deviation_error > figure.relative_error:
        return "of a deviation", figure.deviation_error
    if figure.magnitude_error:
        return "of magnitudes", figure.magnitude_error
    return "relative", figure.relative_error
