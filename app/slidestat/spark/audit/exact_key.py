"""The exact figures of one key over any window, recomputed from its events.

Sums are of integers, in units of the smallest decimal place that occurs, so nothing is rounded; a
mean, a variance and a root are fractions. Extremes and quantiles are picked from the doubles of the
values, as JSON numbers are read.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, floor, inf, nextafter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.columns import EXACT, Bygone, Column, GrowingArray, Totals
from slidestat.spark.audit.declaration import ColumnName, Declaration, DeclaredStatistic
from slidestat.synopses.core.arrays import Integers

Exact = int | Fraction | float | None

# The kinds of statistics that can be recomputed here.
KINDS = frozenset(
    {
        *("count", "rate", "sum", "net_sum", "landmark_count", "landmark_sum"),
        *("mean", "variance", "deviation", "rms", "minimum", "maximum"),
        *("quantile", "rank_quantile", "distinct", "lean_distinct", "norm", "age_of_last"),
        *("histogram", "sum_histogram", "mean_histogram", "above"),
        *("top", "items", "item_counts", "sample"),
    }
)
_PRECISE = Context(prec=80)


# The place of an event of a referee's stream has the partition above so many bits of the offset:
# more records than a partition ever has, in more partitions than there are parties.
_OFFSET_BITS = 44


def places_in(partition: int, offsets: Integers) -> Integers:
    """Return the places of events in a partition, for a stream that is in all of them."""
    return (partition << _OFFSET_BITS) + offsets


class ExactKey:
    """The counted events of one key: `times` rising, `places` as they came, texts by column. The
    place of an event is its offset; of a referee's, its partition and offset (`places_in`).

    All of them, or those that windows still have: events are added at the end and dropped at the
    beginning, and what is asked of the dropped ones is kept (`Bygone`). Memory: 16 bytes an event
    and what its columns take.
    """

    def __init__(
        self,
        times: Integers,
        places: Integers,
        columns: Mapping[ColumnName, Sequence[str | None] | pa.Array],
        *,
        of_events: bool = False,
    ) -> None:
        # Ages are counted in events: in place of their times, events have numbers.
        self._of_events = of_events
        self._dropped = 0
        self._times = GrowingArray(np.zeros(0, np.int64))
        self._places = GrowingArray(np.zeros(0, np.int64))
        # A column without fields has for each event whether its condition holds.
        self._columns = {
            (paths, is_item, where): Column(
                is_item=is_item or not paths, is_pair=not is_item and len(paths) > 1
            )
            for paths, is_item, where in columns
        }
        self._tallied: tuple[ColumnName, int, int] | None = None
        self._tallies = np.zeros(0, np.int64)
        self._weighed: tuple[str, int, int] | None = None
        self._weights: dict[str, Fraction] = {}
        self._ranked: tuple[ColumnName, int, int] | None = None
        self._in_rank = np.zeros(0, np.float64)
        self.bygone = Bygone()
        self.extend(times, places, columns)

    @classmethod
    def without_events(cls, declaration: Declaration) -> "ExactKey":
        """Return a key that has had no events, with the columns that a declaration reads."""
        nothing = np.zeros(0, np.int64)
        columns: dict[ColumnName, Sequence[str | None]] = {it: [] for it in declaration.columns}
        return cls(nothing, nothing, columns, of_events=declaration.of_events)

    @property
    def times(self) -> Integers:
        """Return the times of the events that are here."""
        return self._times.values

    def extend(
        self,
        times: Integers,
        places: Integers,
        columns: Mapping[ColumnName, Sequence[str | None] | pa.Array],
    ) -> None:
        """Add events that are no earlier than those that are here."""
        if not len(times):
            return
        self._times.append(times)
        self._places.append(places)
        for name, texts in columns.items():
            self._columns[name].extend(
                texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
            )
        self._tallied = self._ranked = self._weighed = None

    def drop(self, count: int, declaration: Declaration) -> None:
        """Forget the first `count` events, never the last, and keep what `declaration` needs."""
        gone, bygone = slice(0, count), self.bygone
        bygone.last_offset = max(bygone.last_offset, int(self._places.values[gone].max()))
        since = self._since(count + 1, declaration.forget_ms)
        for statistic in declaration.statistics:
            label = statistic.label
            if statistic.is_landmark:
                before = Totals() if since else bygone.totals_of(label)
                more = self._totals(statistic, slice(min(since, count), count))
                bygone.totals[label] = before.plus(more)
            elif statistic.kind == "age_of_last":
                times = np.append(bygone.times_of(label), self._times_of(statistic, gone))
                bygone.times[label] = times[-statistic.parameters["number"] :]
        for column in self._columns.values():
            column.drop(count)
        self._times.drop(count)
        self._places.drop(count)
        self._dropped += count
        self._tallied = self._ranked = self._weighed = None

    def until(self, offset: int) -> "ExactKey":
        """Return the key as it was just after the record at `offset`: for provisional figures."""
        return self._kept(self._places.values <= offset)

    def in_partitions(self, partitions: Sequence[int]) -> "ExactKey":
        """Return the key as it is in some partitions, of a referee's."""
        kept = np.isin(self._partitions, partitions)
        return self if kept.all() else self._kept(kept)

    def last_of_each(self, events: int, end_ms: int, *, and_later: bool = False) -> "ExactKey":
        """Return a referee's key with the last `events` before a time of each partition; with
        `and_later`, also with those from then on.
        """
        stop = int(np.searchsorted(self.times, end_ms))
        partitions = self._partitions[:stop]
        kept = np.zeros(len(self.times), bool)
        kept[stop:] = and_later
        for partition in np.unique(partitions).tolist():
            kept[np.flatnonzero(partitions == partition)[-events:]] = True
        return self._kept(kept)

    @property
    def _partitions(self) -> Integers:
        return self._places.values >> _OFFSET_BITS

    def _kept(self, kept: npt.NDArray[np.bool_]) -> "ExactKey":
        times, places = self.times[kept], self._places.values[kept]
        key = ExactKey(times, places, {}, of_events=self._of_events)
        key._dropped = self._dropped
        key._columns = {name: column.kept(kept) for name, column in self._columns.items()}
        key.bygone = self.bygone
        return key

    def since(self, time_ms: int | None, window: slice) -> slice:
        """Return the part of a window from a time on, all of it for None: of later statistics."""
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
        """Return the place of the events of a window: [end - n, end), the last n before end, or
        all; only those since the key was last forgotten, if keys are forgotten.
        """
        stop = int(np.searchsorted(self.times, end_ms))
        if window_ms is not None:
            return slice(int(np.searchsorted(self.times, end_ms - window_ms)), stop)
        first = self._since(stop, forget_ms)
        if window_events is not None:
            first = max(first, stop - window_events)
        return slice(first, stop)

    def _since(self, stop: int, forget_ms: int | None) -> int:
        """Return the place of the first event before `stop` since the key was forgotten."""
        if forget_ms is None:
            return 0
        gaps = np.flatnonzero(np.diff(self.times[:stop]) >= forget_ms)
        return int(gaps[-1]) + 1 if len(gaps) else 0

    def taken(self, statistic: DeclaredStatistic, window: slice) -> int:
        """Return how many of a window's events a statistic takes in."""
        if statistic.is_landmark:
            return self._totals_since(statistic, window).taken
        values = self._values(statistic, window)
        taken: int = values.stop - values.start
        return taken

    def _values(self, statistic: DeclaredStatistic, window: slice) -> slice:
        if statistic.takes_all:
            return window
        return self._columns[statistic.column].within(window)

    def _totals(self, statistic: DeclaredStatistic, window: slice) -> Totals:
        values = self._values(statistic, window)
        total = Fraction()
        if statistic.kind == "landmark_sum":
            total = self._columns[statistic.column].total(values)
        return Totals(values.stop - values.start, total)

    def _totals_since(self, statistic: DeclaredStatistic, window: slice) -> Totals:
        """Return the totals since the key's first event, where the window begins with the first."""
        here = self._totals(statistic, window)
        return here if window.start else here.plus(self.bygone.totals_of(statistic.label))

    def age(
        self, statistic: DeclaredStatistic, window: slice, end_ms: int, *, beyond: bool
    ) -> int | None:
        """Return how long before `end_ms` the nth last event was that a statistic takes in, or its
        place among the last events, where the last one is at 1; None if the window has fewer. With
        `beyond`, events before the window count, too.
        """
        number = statistic.parameters["number"]
        seen = slice(0, window.stop) if beyond else window
        times = self._times_of(statistic, seen)
        if beyond and number > len(times):
            times = np.append(self.bygone.times_of(statistic.label), times)
        end = self._dropped + window.stop if self._of_events else end_ms
        return end - int(times[-number]) if number <= len(times) else None

    def _times_of(self, statistic: DeclaredStatistic, window: slice) -> Integers:
        times = self.times[window]
        if self._of_events:
            times = np.arange(len(self.times), dtype=np.int64)[window] + self._dropped
        if not statistic.takes_all:
            times = times[self._columns[statistic.column].has(window)]
        return times

    def exact(self, statistic: DeclaredStatistic, figure: Figure, window: slice) -> Exact:
        """Return the exact figure; None where there is none, as the mean of no events."""
        n = self.taken(statistic, window)
        match statistic.kind:
            case "count" | "landmark_count":
                return n
            case "rate":
                return Fraction(1_000 * n, figure.window_ms or 1)
            case "landmark_sum":
                return self._totals_since(statistic, window).total
        column = self._columns[statistic.column]
        values = column.within(window)
        match statistic.kind:
            case "sum":
                return column.total(values)
            case "net_sum" | "sum_histogram":
                return self.sum_between(statistic.column, figure, window)
            case "mean_histogram":
                return self.mean_between(statistic.column, figure, window)
            case "histogram" | "above":
                return len(self._inside(statistic.column, figure, window))
            case "top" if len(statistic.paths) > 1:
                return self.weights(statistic, window).get(figure.item or "", 0)
            case "top" | "items" | "item_counts":
                code = column.code_of(figure.item or "")
                return 0 if code is None else int(self.tallies(statistic.column, window)[code])
            case "sample":
                # The figure is one of the values: whether it was there.
                return _drawn(column, values, figure.estimate or 0.0)
            case "distinct" | "lean_distinct":
                return int(np.count_nonzero(self.tallies(statistic.column, window)))
            case "norm":
                p = float(statistic.parameters["p"])
                return float(float((self._sizes(statistic, window) ** p).sum()) ** (1 / p))
        if n == 0:
            return None
        match statistic.kind:
            case "mean":
                return column.total(values) / n
            case "variance":
                return column.variance(values)
            case "deviation":
                return root(column.variance(values))
            case "rms":
                return root(column.variance(values) + (column.total(values) / n) ** 2)
            case "minimum":
                least = float(column.doubles[values].min())
                return least if abs(least) < EXACT else column.in_order(values, 0)
            case "maximum":
                most = float(column.doubles[values].max())
                return most if abs(most) < EXACT else column.in_order(values, n - 1)
            case "quantile" | "rank_quantile":
                rank = rank_of(figure.quantile or 0.0, n)
                double = float(self._by_rank(statistic.column, window)[rank - 1])
                return double if abs(double) < EXACT else column.in_order(values, rank - 1)
        raise NotImplementedError(statistic.kind)  # An audit asks for KINDS alone.

    def rank_error(self, name: ColumnName, quantile: float, estimate: float, window: slice) -> int:
        """Return by how many places a quantile's estimate is off; 0 if it is at its own rank, as
        the double next to it may be from 2^53 on.
        """
        values = self._by_rank(name, window)
        rank = rank_of(quantile, len(values))
        least, most = _near(estimate)
        below = int(np.searchsorted(values, least, "left"))
        not_above = int(np.searchsorted(values, most, "right"))
        return max(0, below + 1 - rank, rank - not_above)

    def quantiles_near(
        self, name: ColumnName, quantile: float, share: float, window: slice
    ) -> tuple[float, float]:
        """Return the least and the largest number that is a quantile within `share` of this one."""
        values = self._by_rank(name, window)
        p, share_error = Fraction(repr(float(quantile))), Fraction(repr(float(share)))
        first = max(1, ceil((p - share_error) * len(values)))
        last = min(len(values), floor((p + share_error) * len(values)) + 1)
        return float(values[first - 1]), float(values[last - 1])

    def _by_rank(self, name: ColumnName, window: slice) -> npt.NDArray[np.float64]:
        """Return a window's values, rising."""
        place = (name, window.start, window.stop)
        if place != self._ranked:
            self._in_rank = np.sort(self.doubles(name, window))
            self._ranked = place
        return self._in_rank

    def sum_between(
        self, name: ColumnName, figure: Figure, window: slice, *, of_magnitudes: bool = False
    ) -> Fraction:
        """Return the sum of a window's values, or of their magnitudes, that a figure is of."""
        inside = self._inside(name, figure, window)
        return self._columns[name].total_of(inside, of_magnitudes=of_magnitudes)

    def mean_between(self, name: ColumnName, figure: Figure, window: slice) -> Fraction | None:
        """Return the mean of the window's values that a figure covers; None without values."""
        inside = self._inside(name, figure, window)
        if not len(inside):
            return None
        return self._columns[name].total_of(inside, of_magnitudes=False) / len(inside)

    def deviation(self, name: ColumnName, figure: Figure, window: slice) -> Fraction:
        """Return the deviation of the window's values that a figure covers; 0 without values."""
        column = self._columns[name]
        if figure.at_least is None and figure.below is None:
            inside: slice | Integers = column.within(window)
        else:
            inside = self._inside(name, figure, window)
        return root(column.variance(inside)) if len(column.doubles[inside]) else Fraction()

    def _inside(self, name: ColumnName, figure: Figure, window: slice) -> Integers:
        """Return the places, in the column, of a window's values that a figure is of."""
        column = self._columns[name]
        values = column.within(window)
        is_inside = _is_of(figure, column.by or column, values)
        inside: Integers = np.flatnonzero(is_inside) + values.start
        return inside

    def tallies(self, name: ColumnName, window: slice) -> Integers:
        """Return how often each item came in a window, by its code."""
        place = (name, window.start, window.stop)
        if place != self._tallied:
            column = self._columns[name]
            self._tallies = column.tallies(column.within(window))
            self._tallied = place
        return self._tallies

    def _sizes(self, statistic: DeclaredStatistic, window: slice) -> npt.NDArray[np.float64]:
        """Return the total weight of each item; for a norm without weights, how often it came."""
        if len(statistic.paths) == 1:
            return self.tallies(statistic.column, window).astype(np.float64)
        return np.array(list(self.weights(statistic, window).values()), np.float64)

    def weights(self, statistic: DeclaredStatistic, window: slice) -> dict[str, Fraction]:
        """Return how much came of each item of a window, of a statistic with weights."""
        place = (statistic.label, window.start, window.stop)
        if place != self._weighed:
            unit = 10 ** statistic.parameters.get("decimals", 0)
            least = 1 if statistic.kind == "norm" else 0
            found: defaultdict[str, int] = defaultdict(int)
            tallies = self.tallies(statistic.column, window)
            for code in np.flatnonzero(tallies).tolist():
                item, weight = json.loads(self.items(statistic.column)[code])
                found[item] += int(tallies[code]) * max(least, round(float(weight) * unit))
            self._weights = {item: Fraction(units, unit) for item, units in found.items()}
            self._weighed = place
        return self._weights

    def shared(self, statistic: DeclaredStatistic, window: slice) -> Fraction | int:
        """Return what shares of a window are of: its events, or all that they weigh."""
        if statistic.kind == "top" and len(statistic.paths) > 1:
            return sum(self.weights(statistic, window).values())
        return self.taken(statistic, window)

    def items(self, name: ColumnName) -> list[str]:
        """Return the item of each code."""
        return self._columns[name].items

    def doubles(self, name: ColumnName, window: slice) -> npt.NDArray[np.float64]:
        """Return a window's values."""
        column = self._columns[name]
        return column.doubles[column.within(window)]

    def as_drawn(self, name: ColumnName, window: slice) -> tuple[list[float], list[float]]:
        """Return values as doubles: the nearest; from 2^53 on, such as are not above the value."""
        column = self._columns[name]
        values = column.within(window)
        doubles = column.doubles[values]
        below = doubles.copy()
        for place in np.flatnonzero(np.abs(doubles) >= EXACT).tolist():
            if column.value(values.start + place) < Fraction(float(doubles[place])):
                below[place] = nextafter(doubles[place], -inf)
        return doubles.tolist(), below.tolist()


def _near(estimate: float) -> tuple[float, float]:
    """Return the least and the largest double that may be given in place of each other."""
    if abs(estimate) < EXACT:
        return estimate, estimate
    return nextafter(estimate, -inf), nextafter(estimate, inf)


def _drawn(column: Column, values: slice, estimate: float) -> Fraction | None:
    """Return the number whose double, or one next to it from 2^53 on, was drawn; of several the
    nearest, None if there is none.
    """
    doubles = column.doubles[values]
    least, most = _near(estimate)
    there = np.flatnonzero((least <= doubles) & (doubles <= most)) + values.start
    found = (column.value(place) for place in there.tolist())
    return min(found, key=lambda value: abs(value - Fraction(estimate)), default=None)


def _is_of(figure: Figure, column: Column, values: slice) -> npt.NDArray[np.bool_]:
    """Return bool[n]: which of some values of a column lie in the range of a figure."""
    doubles = column.doubles[values]
    inside = np.ones(len(doubles), bool)
    if figure.at_least is not None:
        inside &= doubles >= figure.at_least
    if figure.below is not None:
        inside &= doubles < figure.below
    for edge, holds in ((figure.at_least, True), (figure.below, False)):
        if edge is None or abs(edge) < EXACT:
            continue
        # Values whose double is the edge may lie below it.
        for place in np.flatnonzero(doubles == edge).tolist():
            inside[place] = (column.value(values.start + place) >= edge) is holds
    return inside


def rank_of(quantile: float, events: int) -> int:
    """Return the rank, from 1, of the value that is the quantile of this many."""
    return max(1, ceil(Fraction(repr(float(quantile))) * events))


def root(number: Fraction) -> Fraction:
    """Return the square root, to 80 digits."""
    quotient = _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(_PRECISE.sqrt(quotient))
