"""Each statistic of a window's values, exactly: what its name says, from all values."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, lcm

from slidestat.declare.statistics import (
    Above,
    Histogram,
    Items,
    MeanHistogram,
    Rate,
    Statistic,
    SumHistogram,
)
from slidestat.declare.statistics.base import Series
from slidestat.declare.statistics.quantiles import QuantileStatistic
from slidestat.schemas.emission import Figure

Values = Sequence[Fraction]

_PRECISE = Context(prec=80)
# From there on a whole number may be no double.
EXACT = 2**53


def root(number: Fraction) -> Fraction:
    """The square root, to 80 digits."""
    quotient = _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(_PRECISE.sqrt(quotient))


def taken(value: Fraction) -> Fraction:
    """The number that extremes and quantiles take a decimal for: a whole one below 2^100 as it is,
    others as their doubles.
    """
    is_whole = value.denominator == 1 and abs(value) < 2**100
    return value if is_whole else Fraction(float(value))


def total(values: Iterable[Fraction]) -> Fraction:
    """The sum, added up over one denominator: as exact as fraction by fraction, and quicker."""
    values = list(values)
    common = lcm(*(value.denominator for value in values))
    return Fraction(sum(v.numerator * (common // v.denominator) for v in values), common)


def variance(values: Values) -> Fraction:
    """(n sum v^2 - (sum v)^2) / n^2, over one denominator."""
    common = lcm(*(value.denominator for value in values))
    wholes = [value.numerator * (common // value.denominator) for value in values]
    squares = len(wholes) * sum(whole * whole for whole in wholes)
    return Fraction(squares - sum(wholes) ** 2, (len(wholes) * common) ** 2)


def in_order(values: Values) -> list[float] | list[Fraction]:
    """The numbers that decimals are taken for; doubles where they are such, which compare exactly
    with each other and with fractions, and are sorted much faster than these.
    """
    if any(abs(value) >= EXACT for value in values):
        return sorted(map(taken, values))
    return sorted(map(float, values))


_OF_SOME: dict[str, Callable[[Values], Fraction]] = {
    "mean": lambda values: total(values) / len(values),
    "variance": variance,
    "deviation": lambda values: root(variance(values)),
    "minimum": lambda values: Fraction(in_order(values)[0]),
    "maximum": lambda values: Fraction(in_order(values)[-1]),
}

_OF_ANY: dict[str, Callable[[Values], Fraction]] = {
    "count": lambda values: Fraction(len(values)),
    "sum": total,
    "net_sum": total,
    "distinct": lambda values: Fraction(len(set(values))),
    "lean_distinct": lambda values: Fraction(len(set(values))),
    "norm": lambda values: root(Fraction(sum(n * n for n in Counter(values).values()))),
    "landmark_count": lambda values: Fraction(len(values)),
    "landmark_sum": total,
}


def between(figure: Figure | Series, values: Values) -> Values:
    """The values that a figure is of."""
    return [
        value
        for value in values
        if (figure.at_least is None or _comparable(value) >= figure.at_least)
        and (figure.below is None or _comparable(value) < figure.below)
    ]


def _comparable(value: Fraction) -> float | Fraction:
    return float(value) if abs(value) < EXACT else taken(value)


def exact(statistic: Statistic, values: Values, window: int) -> list[Fraction | None]:
    """The exact figure of each series, in the order of `statistic.series()`; None where there is
    none.
    """
    if isinstance(statistic, QuantileStatistic):
        ordered = in_order(values)
        if not ordered:
            return [None] * len(statistic.quantiles)
        ranks = (max(1, ceil(Fraction(repr(p)) * len(ordered))) for p in statistic.quantiles)
        return [Fraction(ordered[rank - 1]) for rank in ranks]
    if isinstance(statistic, Rate):
        return [Fraction(1_000 * len(values), window)]
    if isinstance(statistic, Histogram | Above):
        return [Fraction(len(between(series, values))) for series in statistic.series()]
    if isinstance(statistic, Items):
        named = [None if item == "never" else Fraction(item) for item in statistic.items]
        return [Fraction(sum(value == item for value in values)) for item in named]
    if isinstance(statistic, SumHistogram):
        return [total(between(series, values)) for series in statistic.series()]
    if isinstance(statistic, MeanHistogram):
        inside = [between(series, values) for series in statistic.series()]
        return [total(values) / len(values) if values else None for values in inside]
    if statistic.kind in _OF_ANY:
        return [_OF_ANY[statistic.kind](values)]
    return [_OF_SOME[statistic.kind](values) if values else None]
