"""A figure on the output topic, and whether the values of its window bear it out."""

from fractions import Fraction
from math import ceil, floor

import msgspec
import numpy as np

from benchmarks.harness.exact import variance
from slidestat.synopses.core.arrays import Integers


class Figure(msgspec.Struct, gc=False):
    """What is compared of a figure; quicker to decode than all of it."""

    statistic: str
    window_ms: int
    estimate: float | None
    lower: float | None
    upper: float | None
    quantile: float | None = None
    relative_error: float = 0.0
    absolute_error: float = 0.0
    share_error: float = 0.0
    deviation_error: float = 0.0


def violation_of(figure: Figure, cents: Integers) -> str:
    """What is wrong with a deviation, an extreme or a quantile of these values (in cents,
    ascending); empty if bounds and promises hold. Exact but for the promise, compared in doubles.
    """
    if figure.estimate is None or figure.lower is None or figure.upper is None:
        return "the window is not empty" if len(cents) else ""
    if not len(cents):
        return "the window is empty"
    if figure.quantile is not None:
        answer = (figure.estimate, figure.lower, figure.upper)
        errors = (figure.share_error, figure.relative_error, figure.absolute_error)
        return _violation_of_quantile(answer, figure.quantile, errors, cents)
    spread = variance(cents)
    deviation = float(spread) ** 0.5
    if figure.statistic == "deviation":
        exact, holds = deviation, _square(figure.lower) <= spread <= _square(figure.upper)
    elif figure.statistic in ("minimum", "maximum"):
        exact = int(cents[0 if figure.statistic == "minimum" else -1]) / 100
        holds = figure.lower <= exact <= figure.upper
    else:
        return "nothing is known of this statistic"
    if not holds:
        return f"exactly {exact}, outside of its bounds"
    allowed = figure.relative_error * exact + figure.absolute_error
    allowed += figure.deviation_error * deviation
    if abs(figure.estimate - exact) > allowed * (1 + 1e-12):
        return f"exactly {exact}, further off than {allowed}"
    return ""


def _violation_of_quantile(
    answer: tuple[float, float, float],
    quantile: float,
    errors: tuple[float, float, float],
    cents: Integers,
) -> str:
    estimate, lower, upper = answer
    values = cents / 100  # As the events have them: the nearest doubles.
    count = len(values)
    # The quantile is the decimal that was declared, not the double next to it.
    rank = max(1, ceil(Fraction(repr(quantile)) * count))
    exact = float(values[rank - 1])
    if not lower <= exact <= upper:
        return f"exactly {exact}, outside of its bounds"
    share_error, relative_error, absolute_error = errors
    if relative_error:
        p, share = Fraction(repr(quantile)), Fraction(repr(share_error))
        low = float(values[max(1, ceil((p - share) * count)) - 1])
        high = float(values[min(count, floor((p + share) * count) + 1) - 1])
        nearest = min(max(estimate, low), high)
        beyond = abs(Fraction(estimate) - Fraction(nearest))
        if beyond > Fraction(relative_error) * abs(Fraction(nearest)) + Fraction(absolute_error):
            return f"off by more than promised of what lies between {low} and {high}"
        return ""
    # The ranks that the estimate has, or stands between.
    first = int(np.searchsorted(values, estimate, "left"))
    last = int(np.searchsorted(values, estimate, "right"))
    off = max(first + 1 - rank, rank - max(last, 1), 0)
    if off > share_error * count * (1 + 1e-12):
        return f"its rank is off by {off} of {count}, more than {share_error} of them"
    return ""


def _square(number: float) -> Fraction:
    return Fraction(number) ** 2
