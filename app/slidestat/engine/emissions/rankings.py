"""Places of keys in the order of a figure with bounds, and between which places each may be.

The exact figure of a key is anywhere in its bounds, whatever those of others are. A key is surely
before another one if its lower bound is above the other's upper bound, or equal to it and the key's
text comes first. So the first place that a key may have is 1 and the number of keys that are surely
before it; the last one is that of all keys but those that are surely behind it. Both are reached by
some figures within the bounds: no narrower places hold.

Few keys decide n places: those n with the largest estimates, and among the others those n with the
largest upper bounds (`leading`).

- Whoever is surely before one of the n places has at least its estimate, and so one of the n, too.
- If a key that is left out may be before one of them, each of the n with the largest upper bounds
  may be, too: then the last place is beyond n, however many more there are.

All leading keys of the whole are among the leading ones of its parts. So partitions and
workers send what leads there, and the places are those of all keys together.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from slidestat.declare.expressions.intervals import Numbers, Truths
from slidestat.schemas.alert import Certainty
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import Contender, RankedKey, RankingPart
from slidestat.synopses.core.arrays import Bools, Floats, Integers

NO_PLACE = 0
"""In place of a last place: it may be behind all places that are asked for, or have none."""

_ANYTHING = (math.nan, -math.inf, math.inf)


class Places(NamedTuple):
    """The keys at the places 1, 2 and so on: `rows` int64[k], where each is among those that were
    given; the first place that each may have, int64[k], and the last one, or NO_PLACE.
    """

    rows: Integers
    first: Integers
    last: Integers


def leading(figures: Floats, size: int) -> Integers:
    """Return the rows, rising, that decide who has the first `size` places, and how certainly;
    `figures` are those of keys in their order, as `places` takes them.
    """
    estimates, _, uppers = figures.T
    best = _largest(estimates, np.flatnonzero(~np.isnan(estimates)), size)
    is_other = np.ones(len(figures), bool)
    is_other[best] = False
    return np.sort(np.concatenate((best, _largest(uppers, np.flatnonzero(is_other), size))))


def that_may_lead(figures: Floats, size: int) -> Integers:
    """Return rows, rising, among which those that `leading` would choose are, whatever the order of
    the keys is: cheaper than to sort them all. There are few more, but for equal figures.
    """
    if len(figures) <= 2 * size:
        return np.arange(len(figures))
    estimates, _, uppers = figures.T
    falling = np.where(np.isnan(estimates), math.inf, -estimates)
    is_best = falling <= np.partition(falling, size - 1)[size - 1]
    most = -uppers
    # At most `size` of those with larger upper bounds are among the best.
    return np.flatnonzero(is_best | (most <= np.partition(most, 2 * size - 1)[2 * size - 1]))


def places(figures: Floats, are_sure: Bools, size: int) -> Places:
    """Return who has the first `size` places, the largest figure first, and equal ones in the order
    in which they are given, which is that of the keys.

    `figures` float64[n, 3] are estimates, lowers and uppers: an estimate is in its bounds, or NaN
    for a key that has no place by its estimate and may have one by its exact figure. Keys that are
    not sure, bool[n], may have no place at all.
    """
    chosen = leading(figures, size)
    estimates, lowers, uppers = figures[chosen].T
    are_sure = are_sure[chosen] & ~np.isnan(estimates)
    rows = _largest(estimates, np.flatnonzero(~np.isnan(estimates)), size)
    sure = np.flatnonzero(are_sure)
    first = 1 + _before(lowers[sure], sure, uppers[rows], rows)
    behind_itself = uppers[rows] > lowers[rows]
    last = 1 + _before(uppers, np.arange(len(chosen)), lowers[rows], rows) - behind_itself
    last[(last > size) | ~are_sure[rows]] = NO_PLACE
    return Places(chosen[rows], first, last)


def _largest(values: Floats, rows: Integers, size: int) -> Integers:
    """Return the `size` rows of the largest values, largest first; of equal ones the first."""
    found = values[rows]
    if len(rows) > size:
        least = np.partition(found, len(rows) - size)[len(rows) - size]
        rows = rows[found >= least]
        found = values[rows]
    largest: Integers = rows[np.argsort(-found, kind="stable")[:size]]
    return largest


def _before(values: Floats, rows: Integers, limits: Floats, of: Integers) -> Integers:
    """Return, for the limit of each row `of`, how many of the values, of rising `rows`, are larger,
    or are equal and of a row before it.
    """
    order = np.argsort(-values, kind="stable")
    falling, rows = -values[order], rows[order]
    start = np.searchsorted(falling, -limits)
    end = np.searchsorted(falling, -limits, "right")
    equal = [
        np.searchsorted(rows[low:high], row)
        for low, high, row in zip(start.tolist(), end.tolist(), of.tolist(), strict=True)
    ]
    return start + np.array(equal, np.int64)


def that_may_have_places(
    numbers: Numbers, condition: Truths | None, *, smallest: bool
) -> tuple[Integers, Floats, Bools]:
    """Return the rows that may have a place by the numbers of a figure, where a condition may hold;
    their figures as `places` takes them, turned round where the smallest comes first; and which of
    them surely have one.
    """
    may, are_sure = numbers.values, ~numbers.nulls
    if condition is not None:
        may, are_sure = may & condition.may_be_true, are_sure & condition.surely_true
    rows = np.flatnonzero(may)
    figures = np.stack((numbers.estimates, numbers.lowers, numbers.uppers), axis=1)[rows]
    # Without an estimate nothing is claimed.
    figures[np.isnan(figures[:, 0])] = _ANYTHING
    return rows, turned(figures) if smallest else figures, are_sure[rows]


def turned(figures: Floats) -> Floats:
    """Return figures in the opposite order: estimates, lowers and uppers of negative numbers."""
    found: Floats = -figures[:, [0, 2, 1]]
    return found


class Ranked(NamedTuple):
    """An order of contenders, with so many places: the largest figure first, or the smallest."""

    size: int
    smallest: bool

    def leading(self, contenders: Iterable[Contender]) -> list[Contender]:
        """Return those of the contenders that decide, in order of their keys."""
        of = sorted(contenders, key=_place_of)
        return [of[row] for row in leading(self._figures(of), self.size).tolist()]

    def joined(self, parts: Iterable[RankingPart]) -> RankingPart:
        """Return the part of all keys of some parts."""
        known = list(parts)
        contenders = self.leading(it for part in known for it in part.contenders)
        return RankingPart(sum(part.keys for part in known), contenders)

    def places(self, of: Sequence[Contender]) -> Iterator[tuple[Contender, int, int | None]]:
        """Yield who has the places, from contenders in order of their keys, with the first and the
        last place that each may have; None for a last one that is not known.
        """
        are_sure = np.array([it.is_sure for it in of], bool)
        found = places(self._figures(of), are_sure, self.size)
        for row, first, last in zip(*(it.tolist() for it in found), strict=True):
            yield of[row], first, None if last == NO_PLACE else last

    def keys(self, of: Sequence[Contender], kind: type[RankedKey] = RankedKey) -> list[RankedKey]:
        """Return the keys at the places, as records of a kind, as `places` does."""
        return [
            kind(
                place=place,
                first_place=first,
                last_place=last,
                certainty=Certainty.CERTAIN if first == last else Certainty.LIKELY,
                membership=Certainty.LIKELY if last is None else Certainty.CERTAIN,
                key=it.key,
                figure=it.figure,
                window_end_ms=it.window_end_ms,
                source_partition=it.source_partition,
                lost=it.lost,
            )
            for place, (it, first, last) in enumerate(self.places(of), 1)
        ]

    def _figures(self, of: Sequence[Contender]) -> Floats:
        found = np.array([_numbers(it.figure) for it in of], float).reshape(-1, 3)
        return turned(found) if self.smallest else found


def keys_in_two_places(contenders: Iterable[Contender]) -> Iterator[tuple[str, list[int]]]:
    """Yield each key that is there more than once, and its partitions."""
    of = sorted(contenders, key=_place_of)
    for key, same in groupby(of, lambda it: it.key):
        partitions = [it.source_partition for it in same]
        if len(partitions) > 1:
            yield key, partitions


def _place_of(contender: Contender) -> tuple[str, int]:
    return contender.key, contender.source_partition


def _numbers(figure: Figure) -> tuple[float, float, float]:
    if figure.estimate is None:
        return _ANYTHING
    lower = -math.inf if figure.lower is None else figure.lower
    return figure.estimate, lower, math.inf if figure.upper is None else figure.upper
