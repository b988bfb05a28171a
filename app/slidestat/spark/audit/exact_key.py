"""The exact figures of one key over any window, recomputed from all of its events.

Sums are of integers, in units of the smallest decimal place that occurs, so nothing is rounded; a
mean, a variance and a root are fractions. What is picked from the values (extremes, quantiles) is
of their doubles, as JSON numbers are read.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import ColumnName, DeclaredStatistic

Int64s = npt.NDArray[np.int64]
Exact = int | Fraction | float | None

# The kinds of statistics that can be recomputed here.
KINDS = frozenset(
    {
        *("count", "rate", "sum", "net_sum", "landmark_count", "landmark_sum"),
        *("mean", "variance", "deviation", "minimum", "maximum"),
        *("quantile", "rank_quantile"),
        *(
            "histogram",
            "sum_histogram",
            "above",
            "top",
            "distinct",
            "lean_distinct",
            "norm",
            "age_of_last",
            "items",
            "sample",
        ),
    }
)
_PRECISE = Context(prec=80)


class Column:
    """A column of a key's events, in the order of their times; `of_events` has None
    where an event lacks it, `texts` those that are there.
    """

    def __init__(self, of_events: Sequence[str | None]) -> None:
        self.of_events = of_events
        self.texts = [text for text in of_events if text is not None]
        # How many there are before each event.
        self._before = np.cumsum([0, *(text is not None for text in of_events)])

    def within(self, window: slice) -> slice:
        """Where the texts of a window of events lie."""
        return slice(int(self._before[window.start]), int(self._before[window.stop]))

    @cached_property
    def doubles(self) -> npt.NDArray[np.float64]:
        return np.array([float(text) for text in self.texts], np.float64)

    @cached_property
    def code_of(self) -> dict[str, int]:
        """A number for each item, by first appearance."""
        return {text: code for code, text in enumerate(dict.fromkeys(self.texts))}

    @cached_property
    def codes(self) -> Int64s:
        """The item of each event."""
        return np.array([self.code_of[text] for text in self.texts], np.int64)

    @cached_property
    def _units(self) -> tuple[int, list[int]]:
        decimals = [Decimal(text) for text in self.texts]
        places = max((-d.as_tuple().exponent for d in decimals), default=0)  # type: ignore[operator]
        scale = 10 ** max(0, places)
        return scale, [int(Fraction(d) * scale) for d in decimals]

    @cached_property
    def _totals(self) -> tuple[list[int], list[int]]:
        sums, squares = [0], [0]
        for unit in self._units[1]:
            sums.append(sums[-1] + unit)
            squares.append(squares[-1] + unit * unit)
        return sums, squares

    def total(self, start: int, stop: int) -> Fraction:
        sums, _ = self._totals
        return Fraction(sums[stop] - sums[start], self._units[0])

    def total_of(self, places: Sequence[int], *, of_magnitudes: bool) -> Fraction:
        scale, units = self._units
        chosen = (units[place] for place in places)
        return Fraction(sum(map(abs, chosen) if of_magnitudes else chosen), scale)

    def variance(self, start: int, stop: int) -> Fraction:
        """Of the population, at least one."""
        sums, squares = self._totals
        n, s = stop - start, sums[stop] - sums[start]
        return Fraction(n * (squares[stop] - squares[start]) - s * s, (n * self._units[0]) ** 2)


class ExactKey:
    """All counted events of one key: `times` rising, `offsets` as they came, texts by column."""

    def __init__(
        self, times: Int64s, offsets: Int64s, columns: Mapping[ColumnName, Sequence[str | None]]
    ) -> None:
        self.times = times
        self.offsets = offsets
        self._columns = {name: Column(texts) for name, texts in columns.items()}
        self._tallied: tuple[ColumnName, int, int] | None = None
        self._tallies = np.zeros(0, np.int64)

    def until(self, offset: int) -> "ExactKey":
        """The key as it was when the record at `offset` had come: for provisional figures."""
        kept = np.flatnonzero(self.offsets <= offset)
        columns = {
            name: [column.of_events[i] for i in kept.tolist()]
            for name, column in self._columns.items()
        }
        return ExactKey(self.times[kept], self.offsets[kept], columns)

    def since(self, time_ms: int | None, window: slice) -> slice:
        """The part of a window from a time on, or all of it for None: of what was added later."""
        if time_ms is None:
            return window
        start = max(window.start, int(np.searchsorted(self.times, time_ms)))
        return slice(min(start, window.stop), window.stop)

    def window(
        self,
        end_ms: int,
        window_ms: int | None,
        window_events: int | None,
        forget_ms: int | None = None,
    ) -> slice:
        """Where the events of a window lie: [end - n, end), the last n before end, or all; since
        the key was forgotten last, if it is after so long without an event.
        """
        stop = int(np.searchsorted(self.times, end_ms))
        if window_ms is not None:
            return slice(int(np.searchsorted(self.times, end_ms - window_ms)), stop)
        first = 0
        if forget_ms is not None:
            gaps = np.flatnonzero(np.diff(self.times[:stop]) >= forget_ms)
            first = int(gaps[-1]) + 1 if len(gaps) else 0
        if window_events is not None:
            first = max(first, stop - window_events)
        return slice(first, stop)

    def taken(self, statistic: DeclaredStatistic, window: slice) -> int:
        """How many of a window's events a statistic takes in."""
        if not statistic.takes_all:
            window = self._columns[statistic.column].within(window)
        taken: int = window.stop - window.start
        return taken

    def age(self, statistic: DeclaredStatistic, window: slice, end_ms: int) -> int | None:
        """How long before `end_ms` the nth last event was of those that a statistic takes in, None
        if the window has not so many.
        """
        times = self.times[window]
        if not statistic.takes_all:
            of_events = self._columns[statistic.column].of_events[window]
            times = times[np.array([text is not None for text in of_events], bool)]
        number = statistic.parameters["number"]
        return end_ms - int(times[-number]) if number <= len(times) else None

    def exact(self, statistic: DeclaredStatistic, figure: Figure, window: slice) -> Exact:
        """The exact figure; None where there is none, as the mean of no events."""
        n = self.taken(statistic, window)
        match statistic.kind:
            case "count" | "landmark_count":
                return n
            case "rate":
                return Fraction(1_000 * n, figure.window_ms or 1)
        column = self._columns[statistic.column]
        values = column.within(window)
        start, stop = values.start, values.stop
        match statistic.kind:
            case "sum" | "landmark_sum":
                return column.total(start, stop)
            case "net_sum" | "sum_histogram":
                return self.sum_between(statistic.column, figure, window)
            case "histogram" | "above":
                return self._between(column, figure, window)
            case "top" | "items":
                code = column.code_of.get(figure.item or "")
                return 0 if code is None else int(self.tallies(statistic.column, window)[code])
            case "sample":
                # What is told is a value, as it was: whether it was there.
                is_there = column.doubles[values] == figure.estimate
                return figure.estimate if is_there.any() else None
            case "distinct" | "lean_distinct":
                return int(np.count_nonzero(self.tallies(statistic.column, window)))
            case "norm":
                p = float(statistic.parameters["p"])
                return float(float((self._weights(statistic, window) ** p).sum()) ** (1 / p))
        if n == 0:
            return None
        match statistic.kind:
            case "mean":
                return column.total(start, stop) / n
            case "variance":
                return column.variance(start, stop)
            case "deviation":
                return root(column.variance(start, stop))
            case "minimum":
                return float(column.doubles[values].min())
            case "maximum":
                return float(column.doubles[values].max())
            case "quantile" | "rank_quantile":
                rank = rank_of(figure.quantile or 0.0, n)
                return float(np.partition(column.doubles[values], rank - 1)[rank - 1])
        raise NotImplementedError(statistic.kind)  # An audit asks for KINDS alone.

    def rank_error(self, name: ColumnName, quantile: float, estimate: float, window: slice) -> int:
        """By how many places a quantile's estimate is off; 0 if it stands at its own rank."""
        values = self.doubles(name, window)
        rank = rank_of(quantile, len(values))
        below = int(np.count_nonzero(values < estimate))
        not_above = int(np.count_nonzero(values <= estimate))
        return max(0, below + 1 - rank, rank - not_above)

    def quantiles_near(
        self, name: ColumnName, quantile: float, share: float, window: slice
    ) -> tuple[float, float]:
        """The least and the largest number that is a quantile within `share` of this one."""
        values = np.sort(self.doubles(name, window))
        p, share_error = Fraction(repr(float(quantile))), Fraction(repr(float(share)))
        first = max(1, ceil((p - share_error) * len(values)))
        last = min(len(values), floor((p + share_error) * len(values)) + 1)
        return float(values[first - 1]), float(values[last - 1])

    def sum_between(
        self, name: ColumnName, figure: Figure, window: slice, *, of_magnitudes: bool = False
    ) -> Fraction:
        """The sum of a window's values, or of their magnitudes, that a figure is of."""
        column = self._columns[name]
        values = column.within(window)
        inside = np.flatnonzero(_is_of(figure, column.doubles[values])) + values.start
        return column.total_of(inside.tolist(), of_magnitudes=of_magnitudes)

    def deviation(self, name: ColumnName, window: slice) -> Fraction:
        """The standard deviation of a window's values; 0 of none."""
        column = self._columns[name]
        values = column.within(window)
        if values.stop == values.start:
            return Fraction()
        return root(column.variance(values.start, values.stop))

    def tallies(self, name: ColumnName, window: slice) -> Int64s:
        """How often each item came in a window, by its code."""
        place = (name, window.start, window.stop)
        if place != self._tallied:
            column = self._columns[name]
            codes = column.codes[column.within(window)]
            self._tallies = np.bincount(codes, minlength=len(column.code_of))
            self._tallied = place
        return self._tallies

    def _weights(self, statistic: DeclaredStatistic, window: slice) -> npt.NDArray[np.float64]:
        """How much came of each item; how often, of a norm without weights."""
        tallies = self.tallies(statistic.column, window)
        if len(statistic.paths) == 1:
            return tallies.astype(np.float64)
        found: dict[str, float] = {}
        for text, tally in zip(self.items(statistic.column), tallies.tolist(), strict=True):
            item, weight = json.loads(text)
            found[item] = found.get(item, 0.0) + tally * max(1, round(float(weight)))
        return np.array(list(found.values()), np.float64)

    def items(self, name: ColumnName) -> list[str]:
        """The item of each code."""
        return list(self._columns[name].code_of)

    def doubles(self, name: ColumnName, window: slice) -> npt.NDArray[np.float64]:
        """A window's values."""
        column = self._columns[name]
        return column.doubles[column.within(window)]

    @staticmethod
    def _between(column: Column, figure: Figure, window: slice) -> int:
        return int(np.count_nonzero(_is_of(figure, column.doubles[column.within(window)])))


def _is_of(figure: Figure, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which values a figure is of."""
    inside = np.ones(len(values), bool)
    if figure.at_least is not None:
        inside &= values >= figure.at_least
    if figure.below is not None:
        inside &= values < figure.below
    return inside


def rank_of(quantile: float, events: int) -> int:
    """The rank, from 1, of the value that is the quantile of so many."""
    return max(1, ceil(Fraction(repr(float(quantile))) * events))


def root(number: Fraction) -> Fraction:
    """The square root, to 80 digits."""
    quotient = _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(_PRECISE.sqrt(quotient))
