"""Each statistic as the laws of a partition ask for it, and its exact figures, from all values."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, lcm

from slidestat.declare.statistics import (
    Above,
    AgeOfLast,
    Count,
    Deviation,
    Distinct,
    Histogram,
    ItemCounts,
    Items,
    LeanDistinct,
    Maximum,
    Mean,
    MeanHistogram,
    Minimum,
    NetSum,
    Quantiles,
    RankQuantiles,
    Rate,
    RootMeanSquare,
    Sample,
    Statistic,
    Sum,
    SumHistogram,
    TopItems,
    Variance,
)
from slidestat.declare.statistics.base import Series
from slidestat.declare.statistics.quantiles import QuantileStatistic
from slidestat.schemas.emission import Figure
from tests.engine.meant import CONDITIONS

Values = Sequence[Fraction]

_PRECISE = Context(prec=80)
# From there on a whole number may be no double.
EXACT = 2**53

EVERY_STATISTIC = (
    Count(epsilon=0.2),
    Rate(epsilon=0.2),
    Sum(),
    Mean(epsilon=0.2, decimals=1),
    Variance(epsilon=0.2, decimals=1),
    Deviation(epsilon=0.2, decimals=1),
    RootMeanSquare(epsilon=0.2, decimals=1),
    Minimum(epsilon=0),
    Maximum(epsilon=0.3),
    Quantiles(relative_error=0.1, epsilon=0.4, quantiles=(0, 0.25, 0.5, 1)),
    RankQuantiles(epsilon=0.4, quantiles=(0, 0.25, 0.5, 1)),
    Histogram(epsilon=0.3, edges=(0.5, 3.25, 1e6)),
    Above(epsilon=0.3, thresholds=(1, 50)),
    # Such windows are counted exactly.
    Distinct(epsilon=0.2, delta=1e-6),
    TopItems(epsilon=0.3, limit=4),
    Items(items=("3.25", "0.3333333333333333", "never"), epsilon=0.3),
    LeanDistinct(epsilon=0.2, delta=1e-6),
    ItemCounts(items=("3.25", "0.3333333333333333", "never"), epsilon=0.05, delta=1e-9, seed=5),
)

AGES = (
    AgeOfLast(),
    AgeOfLast(number=2),
    AgeOfLast(number=9, epsilon=0.3),
    AgeOfLast(number=40, epsilon=1),
    AgeOfLast(number=3, epsilon=1),
    AgeOfLast(number=2, epsilon=0.5, name="some", where=CONDITIONS[1]),
)

# Values of both signs are in test_signed_sums.py.
PARTS = (
    Sum(),
    NetSum(epsilon=0.3),
    NetSum(decimals=0, name="whole"),
    SumHistogram(edges=(-1, 0.5, 3.25, 50), epsilon=0.5),
    MeanHistogram(edges=(-1, 0.5, 3.25, 50), epsilon=0.5, decimals=1),
    MeanHistogram(edges=(3.25,), decimals=0, name="rough_means"),
    Sample(size=3, seed=7),
    Sample(size=40, where=CONDITIONS[1], name="some"),
)


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
    ratios = [value.as_integer_ratio() for value in values]
    if any(abs(numerator) >= EXACT * denominator for numerator, denominator in ratios):
        return sorted(map(taken, values))
    return sorted(numerator / denominator for numerator, denominator in ratios)


_OF_SOME: dict[str, Callable[[Values], Fraction]] = {
    "mean": lambda values: total(values) / len(values),
    "variance": variance,
    "deviation": lambda values: root(variance(values)),
    "rms": lambda values: root(total(value * value for value in values) / len(values)),
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
    if figure.at_least is None and figure.below is None:
        return values
    return [
        value
        for value in values
        if (figure.at_least is None or _comparable(value) >= figure.at_least)
        and (figure.below is None or _comparable(value) < figure.below)
    ]


def _comparable(value: Fraction) -> float | Fraction:
    # What Fraction does for abs, < and float takes eight times as long.
    numerator, denominator = value.as_integer_ratio()
    return numerator / denominator if abs(numerator) < EXACT * denominator else taken(value)


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
    if isinstance(statistic, Items | ItemCounts):
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
