"""Let the figures of the same values and window agree: each is as narrow as the others make it.

A quantile and a mean lie between the exact minimum and maximum. So [lower, upper] of each may be
cut to what the extremes allow, and the extremes' to what the others allow: what is left still
holds. An estimate that is moved to the nearest end of such an interval comes nearer to all that
lies in it, so its promise holds too. (A quantile's is of a value of the window, which the extremes
enclose.) A mean is of values as they were written, the others of the doubles nearest to them: one
unit in the last place is left between those two.

Inside the bounds of both, the estimate v of a quantile may still pass u, that of the maximum. Then
the one of the larger relative error gives way. Let x be the exact maximum, e and r the errors of
maximum and quantile, and y <= x the value for which v is within r |y|.

- r < e: u becomes v. If x >= v, that is nearer to x. Else v - x <= y - x + r |y| <= r |x|, as |y|
  is at most |x| + (x - y); so u is within e |x|, of which r |x| is the smaller.
- e <= r: v becomes u. If y <= u, that is nearer to y. Else u < y <= x. Where x > 0, u > 0, and
  (y - u) / y <= (x - u) / x <= e. Where x < 0, y - u <= x - u <= e |x| <= e |y|. x = 0 has u = 0.

Minimum and quantile likewise, mirrored; minimum and maximum as well, y being the exact minimum.
Quantiles by value have an absolute error near zero, which the extremes have not: u becomes v only
where the maximum is so far from zero that (e - r) |x| makes up for it.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from slidestat.declare.statistics import Maximum, Mean, Minimum, Quantiles, RankQuantiles
from slidestat.declare.statistics.base import Promise, Statistic
from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Floats, Integers

_ESTIMATE, _LOWER, _UPPER = 0, 1, 2
# The statistic of a pair whose estimates give way.
_NONE, _SMALL, _LARGE = 0, 1, 2


@dataclass
class _Place:
    """The columns of a statistic's figures, int64[windows, series], and what they promise."""

    statistic: Statistic
    promise: Promise
    columns: Integers

    @property
    def units(self) -> int:
        """Return by how many units in the last place its values may differ from the others'."""
        return int(isinstance(self.statistic, Mean))

    @property
    def is_ordered(self) -> bool:
        """Return whether its estimates and those of extremes can be ordered, as proved above."""
        return isinstance(self.statistic, Minimum | Maximum | Quantiles)


@dataclass
class _FiguresOfValues:
    """The figures of the same values that bound each other."""

    minima: list[_Place] = field(default_factory=list)
    maxima: list[_Place] = field(default_factory=list)
    between: list[_Place] = field(default_factory=list)

    def add(self, place: _Place) -> None:
        """Take in a statistic, if it bounds others."""
        match place.statistic:
            case Minimum():
                self.minima.append(place)
            case Maximum():
                self.maxima.append(place)
            case Quantiles() | RankQuantiles() | Mean():
                self.between.append(place)

    def pairs(self) -> Iterator[tuple[_Place, _Place]]:
        """Yield each two of which no figure of the first is above one of the second."""
        yield from product(self.minima, self.maxima)
        yield from product(self.between, self.maxima)
        yield from product(self.minima, self.between)


class _Plan(NamedTuple):
    """All pairs of figures that bound each other, as the kernel takes them.

    `columns` are those of all pairs, one after another: of each, int64[windows, small] and then
    int64[windows, large]. `pairs` has for each the numbers of windows, small and large ones, by how
    many units in the last place the values of both may differ, and whose estimates give way.
    `errors` has for each by how much the relative error of those that give way is the larger, and
    the absolute error of the others.
    """

    columns: Integers
    pairs: Integers
    errors: Floats


class Agreement:
    """The figures of one table that bound each other."""

    def __init__(self) -> None:
        self._figures: dict[Hashable, _FiguresOfValues] = {}
        self._plan: _Plan | None = None

    def add(
        self, values: Hashable, statistic: Statistic, promise: Promise, columns: Integers
    ) -> None:
        """Take in the figures of a statistic, int64[windows, series]; those of equal `values`, a
        field and a condition, are of the same ones.
        """
        figures = self._figures.setdefault(values, _FiguresOfValues())
        figures.add(_Place(statistic, promise, columns))
        self._plan = None

    def settle(self, table: Floats) -> None:
        """Change estimates and bounds, float64[queries, figures, 3], to ones that agree.

        Figures that do not exist, NaN, stay so. Cost: a pass over the figures concerned.
        """
        if self._plan is None:
            pairs = [pair for figures in self._figures.values() for pair in figures.pairs()]
            self._plan = _planned(pairs)
        if len(self._plan.pairs):
            _settle(table, *self._plan)


def _planned(pairs: Sequence[tuple[_Place, _Place]]) -> _Plan:
    columns: list[Integers] = [np.empty(0, np.int64)]
    numbers, errors = [], []
    for small, large in pairs:
        columns += small.columns.ravel(), large.columns.ravel()
        windows, gives_way, own, other = len(small.columns), _NONE, large.promise, small.promise
        if small.is_ordered and large.is_ordered:
            gives_way = _LARGE
            if _error(small) >= _error(large):
                gives_way, own, other = _SMALL, other, own
        series = small.columns.shape[1], large.columns.shape[1]
        numbers.append((windows, *series, small.units + large.units, gives_way))
        errors.append((own.relative_error - other.relative_error, other.absolute_error))
    return _Plan(
        np.concatenate(columns),
        np.array(numbers, np.int64).reshape(-1, 5),
        np.array(errors, np.float64).reshape(-1, 2),
    )


def _error(place: _Place) -> tuple[float, float]:
    return place.promise.relative_error, place.promise.absolute_error


@borrowing_kernel
def _settle(table: Floats, columns: Integers, pairs: Integers, errors: Floats) -> None:
    for row in range(len(table)):
        figures = table[row]
        end = 0
        for pair in range(len(pairs)):
            windows, smalls, larges = pairs[pair, 0], pairs[pair, 1], pairs[pair, 2]
            start, middle = end, end + windows * smalls
            end = middle + windows * larges
            for window in range(windows):
                small = columns[start + window * smalls : start + (window + 1) * smalls]
                large = columns[middle + window * larges : middle + (window + 1) * larges]
                _cut(figures, small, large, pairs[pair, 3])
                if pairs[pair, 4] != _NONE:
                    _order(figures, small, large, pairs[pair, 4], errors[pair, 0], errors[pair, 1])


@borrowing_kernel
def _cut(figures: Floats, small: Integers, large: Integers, units: int) -> None:
    """Cut bounds of a window's figures of which each `small` one is at most each `large` one."""
    lower, upper = _largest(figures, small, _LOWER), _smallest(figures, large, _UPPER)
    for _ in range(units):
        lower, upper = np.nextafter(lower, -np.inf), np.nextafter(upper, np.inf)
    for place in large:
        for number in (_ESTIMATE, _LOWER):
            if lower > figures[place, number]:
                figures[place, number] = lower
    for place in small:
        for number in (_ESTIMATE, _UPPER):
            if upper < figures[place, number]:
                figures[place, number] = upper


@borrowing_kernel
def _order(
    figures: Floats, small: Integers, large: Integers, gives_way: int, spare: float, absolute: float
) -> None:
    """Order the estimates of two series so that no `small` one is above a `large` one.

    One of the two is an extreme, with one figure in each window, and no absolute error.
    """
    if gives_way == _LARGE:
        wanted = _largest(figures, small, _ESTIMATE)
        for place in large:
            if wanted > figures[place, _ESTIMATE] and _outweighs(figures, place, spare, absolute):
                figures[place, _ESTIMATE] = wanted
    else:
        wanted = _smallest(figures, large, _ESTIMATE)
        for place in small:
            if wanted < figures[place, _ESTIMATE] and _outweighs(figures, place, spare, absolute):
                figures[place, _ESTIMATE] = wanted


@borrowing_kernel
def _largest(figures: Floats, places: Integers, number: int) -> float:
    """Return the largest of some numbers, NaN if one is."""
    found: float = figures[places[0], number]
    for place in places[1:]:
        one = figures[place, number]
        if one >= found or np.isnan(one):
            found = one
    return found


@borrowing_kernel
def _smallest(figures: Floats, places: Integers, number: int) -> float:
    """Return the smallest of some numbers, NaN if one is."""
    found: float = figures[places[0], number]
    for place in places[1:]:
        one = figures[place, number]
        if one <= found or np.isnan(one):
            found = one
    return found


@borrowing_kernel
def _outweighs(figures: Floats, place: int, spare: float, absolute: float) -> bool:
    """Return whether a figure's larger relative error outweighs the other's absolute error."""
    lower, upper = figures[place, _LOWER], figures[place, _UPPER]
    magnitude = min(abs(lower), abs(upper)) if lower * upper > 0 else 0.0
    return bool(spare * magnitude >= absolute)
