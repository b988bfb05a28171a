"""One column of a key's events: the numbers or the items that a statistic reads."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.spark.audit.columns.exact_numbers import ExactNumbers
from slidestat.spark.audit.columns.growing import GrowingArray

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Fewer items than that are kept by name, whether they are in a window or not.
_FEW_ITEMS = 1_024
# Whole numbers from there on may be no doubles.
EXACT, _MOST_WHOLE = 2.0**53, 2.0**100


class Column:
    """A column of the values that events have in a field, in the order of their times; an event may
    have none.

    Memory: 8 bytes an event, and of each that has something 16 for a number, 8 for an item; each
    different item once.
    """

    def __init__(self, *, is_item: bool) -> None:
        self.is_item = is_item
        # How many there are before each event, and before the next one.
        self._before = GrowingArray(np.zeros(1, np.int64))
        self._doubles = GrowingArray(np.zeros(0, np.float64))
        self._numbers = ExactNumbers()
        self._codes = GrowingArray(np.zeros(0, np.int64))
        self._code_of: dict[str, int] = {}
        self._within: tuple[tuple[int, int], slice] | None = None

    def extend(self, texts: pa.Array) -> None:
        """Add events: a text each, or null."""
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        self._before.append(np.cumsum(there) + self._before.values[-1])
        texts = texts.drop_null()
        if self.is_item:
            self._codes.append(self._codes_of(texts))
        else:
            self._doubles.append(_doubles_of(texts))
            self._numbers.extend(texts)

    def drop(self, events: int) -> None:
        """Forget the first events."""
        count = self.within(slice(0, events)).stop
        self._within = None
        self._before.drop(events)
        if not self.is_item:
            self._doubles.drop(count)
            self._numbers.drop(count)
            return
        self._codes.drop(count)
        if len(self._code_of) > 2 * len(self.codes) + _FEW_ITEMS:
            self._renumber()

    def kept(self, events: Bools) -> "Column":
        """Return the column of some of the events."""
        some = Column(is_item=self.is_item)
        there = self.has(slice(0, len(events)))
        some._before.append(np.cumsum(there[events]))
        of_values = events[there]
        some._doubles = GrowingArray(self.doubles[of_values] if not self.is_item else self.doubles)
        some._numbers = self._numbers if self.is_item else self._numbers.kept(of_values)
        some._codes = GrowingArray(self.codes[of_values] if self.is_item else self.codes)
        some._code_of = self._code_of
        return some

    def within(self, window: slice) -> slice:
        """Return where the values of a window of events lie in `doubles` and `codes`."""
        place = window.start, window.stop
        if self._within is None or self._within[0] != place:  # It is asked for again and again.
            before = self._before.values
            first = before[0]
            values = slice(int(before[window.start] - first), int(before[window.stop] - first))
            self._within = place, values
        return self._within[1]

    def has(self, window: slice) -> Bools:
        """Return bool[n]: which events of a window have a value."""
        has: Bools = np.diff(self._before.values[window.start : window.stop + 1]) > 0
        return has

    @property
    def doubles(self) -> npt.NDArray[np.float64]:
        """Return the numbers, as JSON's are read."""
        return self._doubles.values

    @property
    def codes(self) -> Int64s:
        """Return the item of each event that has one, by its number."""
        return self._codes.values

    @property
    def items(self) -> list[str]:
        """Return the item of each number."""
        return list(self._code_of)

    def code_of(self, item: str) -> int | None:
        """Return the number of an item, None for one that did not come."""
        return self._code_of.get(item)

    def tallies(self, values: slice) -> Int64s:
        """Return how often each item came, by its number."""
        return np.bincount(self.codes[values], minlength=len(self._code_of))

    def value(self, place: int) -> Fraction:
        """Return what a statistic takes a number for: a whole one below 2^100 for itself, others
        for their double.
        """
        double = float(self.doubles[place])
        if not EXACT <= abs(double) < _MOST_WHOLE:
            return Fraction(double)
        exact = self._numbers.at(place)
        return exact if exact.denominator == 1 else Fraction(double)

    def in_order(self, values: slice, rank: int) -> Fraction:
        """Return the number of a rank, from 0, among some."""
        doubles = self.doubles[values]
        order = np.argsort(doubles, kind="stable")
        double = doubles[order[rank]]
        if abs(double) < EXACT:
            return Fraction(float(double))
        first = int(np.searchsorted(doubles, double, sorter=order))
        same = np.flatnonzero(doubles == double) + values.start
        return sorted(map(self.value, same.tolist()))[rank - first]

    def total(self, values: slice) -> Fraction:
        """Return the exact sum."""
        return Fraction(self._numbers.total(values), self._numbers.scale)

    def total_of(self, places: Int64s, *, of_magnitudes: bool) -> Fraction:
        """Return the exact sum of some numbers, or of their magnitudes."""
        total = self._numbers.total_of_magnitudes if of_magnitudes else self._numbers.total
        return Fraction(total(places), self._numbers.scale)

    def variance(self, places: slice | Int64s) -> Fraction:
        """Return the exact variance of a population, of one number at least."""
        n, s = len(self.doubles[places]), self._numbers.total(places)
        squares = self._numbers.total_of_squares(places)
        return Fraction(n * squares - s * s, (n * self._numbers.scale) ** 2)

    def _codes_of(self, texts: pa.Array) -> Int64s:
        encoded = pc.dictionary_encode(texts)
        names: Iterable[str] = encoded.dictionary.to_pylist()
        known = self._code_of
        numbers = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        codes: Int64s = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
        return codes

    def _renumber(self) -> None:
        present, codes = np.unique(self.codes, return_inverse=True)
        names = self.items
        self._code_of = {names[code]: place for place, code in enumerate(present.tolist())}
        self._codes = GrowingArray(codes.astype(np.int64))


def _doubles_of(texts: pa.Array) -> npt.NDArray[np.float64]:
    try:
        return pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    except pa.ArrowInvalid:  # Python reads some decimals that Arrow does not.
        return np.array([float(text) for text in texts.to_pylist()], np.float64)
