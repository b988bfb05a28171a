"""Each statistic of a window's values, exactly: what its name says, from all values."""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil

from app.streaming.statistics import Quantiles, Rate, Statistic

Values = Sequence[Fraction]

_PRECISE = Context(prec=80)


def root(number: Fraction) -> Fraction:
    """The square root, to 80 digits."""
    quotient = _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(_PRECISE.sqrt(quotient))


def double(value: Fraction) -> Fraction:
    """The double that a decimal is read as: what extremes and quantiles are picked from."""
    return Fraction(float(value))


def variance(values: Values) -> Fraction:
    mean = sum(values, Fraction()) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction()) / len(values)


_OF_SOME: dict[str, Callable[[Values], Fraction]] = {
    "mean": lambda values: sum(values, Fraction()) / len(values),
    "variance": variance,
    "deviation": lambda values: root(variance(values)),
    "minimum": lambda values: min(map(double, values)),
    "maximum": lambda values: max(map(double, values)),
}


def exact(statistic: Statistic, values: Values, window: int) -> list[Fraction | None]:
    """The exact figure of each series, in the order of `statistic.series()`; None where there is
    none.
    """
    if isinstance(statistic, Quantiles):
        ordered = sorted(map(double, values))
        if not ordered:
            return [None] * len(statistic.quantiles)
        ranks = (max(1, ceil(Fraction(repr(p)) * len(ordered))) for p in statistic.quantiles)
        return [ordered[rank - 1] for rank in ranks]
    if isinstance(statistic, Rate):
        return [Fraction(1_000 * len(values), window)]
    if statistic.kind == "count":
        return [Fraction(len(values))]
    if statistic.kind == "sum":
        return [sum(values, Fraction())]
    return [_OF_SOME[statistic.kind](values) if values else None]
