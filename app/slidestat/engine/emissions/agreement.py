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

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from slidestat.declare.statistics import Maximum, Mean, Minimum, Quantiles, RankQuantiles
from slidestat.declare.statistics.base import Promise, Statistic
from slidestat.synopses.core.arrays import Floats, Integers

_ESTIMATE, _LOWER, _UPPER = range(3)


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
        """Return whether its estimates and those of extremes can be ordered, as the proof above has
        it.
        """
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


class Agreement:
    """The figures of one table that bound each other."""

    def __init__(self) -> None:
        self._figures: dict[Hashable, _FiguresOfValues] = {}

    def add(
        self, values: Hashable, statistic: Statistic, promise: Promise, columns: Integers
    ) -> None:
        """Take in the figures of a statistic, int64[windows, series]; those of equal `values`, a
        field and a condition, are of the same ones.
        """
        figures = self._figures.setdefault(values, _FiguresOfValues())
        figures.add(_Place(statistic, promise, columns))

    def settle(self, table: Floats) -> None:
        """Change estimates and bounds, float64[queries, figures, 3], to ones that agree.

        Figures that do not exist, NaN, stay so. Cost: some passes over the figures concerned.
        """
        for figures in self._figures.values():
            for small, large in figures.pairs():
                _cut(table, small, large)
                if small.is_ordered and large.is_ordered:
                    _order(table, small, large)


def _cut(table: Floats, small: _Place, large: _Place) -> None:
    """Cut the bounds of figures of which all `small` ones are at most the `large` ones.

    One of the two has one figure in each window.
    """
    below, above = table[:, small.columns], table[:, large.columns]
    lowers = below[..., _LOWER].max(axis=2, keepdims=True)
    uppers = above[..., _UPPER].min(axis=2, keepdims=True)
    for _ in range(small.units + large.units):
        lowers, uppers = np.nextafter(lowers, -np.inf), np.nextafter(uppers, np.inf)
    _raise(above, lowers)
    _lower(below, uppers)
    table[:, small.columns], table[:, large.columns] = below, above


def _raise(figures: Floats, lowers: Floats) -> None:
    """Raise estimates and lower bounds to at least `lowers`."""
    for number in (_ESTIMATE, _LOWER):
        numbers = figures[..., number]
        np.copyto(numbers, lowers, where=lowers > numbers)


def _lower(figures: Floats, uppers: Floats) -> None:
    """Lower estimates and upper bounds to at most `uppers`."""
    for number in (_ESTIMATE, _UPPER):
        numbers = figures[..., number]
        np.copyto(numbers, uppers, where=uppers < numbers)


def _order(table: Floats, small: _Place, large: _Place) -> None:
    """Order the estimates of two series so that no `small` one is above a `large` one.

    One of the two is an extreme, with one figure in each window, and no absolute error.
    """
    below, above = table[:, small.columns], table[:, large.columns]
    estimates_below, estimates_above = below[..., _ESTIMATE], above[..., _ESTIMATE]
    if _error(small) < _error(large):
        wanted = estimates_below.max(axis=2, keepdims=True)
        passed = (wanted > estimates_above) & _outweighs(above, large.promise, small.promise)
        np.copyto(estimates_above, wanted, where=passed)
    else:
        wanted = estimates_above.min(axis=2, keepdims=True)
        passed = (wanted < estimates_below) & _outweighs(below, small.promise, large.promise)
        np.copyto(estimates_below, wanted, where=passed)
    table[:, small.columns], table[:, large.columns] = below, above


def _error(place: _Place) -> tuple[float, float]:
    return place.promise.relative_error, place.promise.absolute_error


def _outweighs(figures: Floats, own: Promise, other: Promise) -> npt.NDArray[np.bool_]:
    """Return where the larger relative error of `figures` makes up for the other's absolute
    error.
    """
    lower, upper = figures[..., _LOWER], figures[..., _UPPER]
    magnitude = np.where(lower * upper > 0, np.minimum(np.abs(lower), np.abs(upper)), 0.0)
    spare: Floats = (own.relative_error - other.relative_error) * magnitude
    return spare >= other.absolute_error
