"""One column of a key's events: the numbers or the items that a statistic reads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.synopses.core.arrays import Bools, Integers

# An array that grows at its end and is cut at its beginning.

Array = npt.NDArray[Any]


class GrowingArray:
    """An array with room for at most half as many elements again as there are; each element is
    moved a constant number of times, however it grows and is cut.
    """

    def __init__(self, values: Array) -> None:
        self._store = values
        self._start, self._stop = 0, len(values)

    @property
    def values(self) -> Array:
        """Return what is there, as a view."""
        return self._store[self._start : self._stop]

    def append(self, values: Array | Sequence[object]) -> None:
        """Add elements at the end."""
        stop = self._stop + len(values)
        if stop > len(self._store):
            kept = self.values
            self._store = np.empty((len(kept) + len(values)) * 3 // 2, self._store.dtype)
            self._store[: len(kept)] = kept
            self._start, stop = 0, len(kept) + len(values)
        self._store[stop - len(values) : stop] = values
        self._stop = stop

    def drop(self, count: int) -> None:
        """Cut the first elements off."""
        self._start += count


# Decimal numbers as whole numbers of one unit: their sums and squares, nothing rounded.
#
# The unit is the finest decimal place that has come. While all are less than 2^53 units they take 8
# bytes each; beyond that they are Python's whole numbers.

Units = npt.NDArray[Any]

_LARGEST = 2**53
# Half of the smallest double is 2.5e-324.
_READ_AS_ZERO = -325
# Numbers of this many digits are less than 2^53 units.
_DIGITS = 15
_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
# This many numbers below 2^53, and this many products of halves of 27 bits, add up below 2^63.
_TOGETHER = 256
_HALF = 27


class ExactNumbers:
    """A sequence of exact numbers, in the order in which they came."""

    def __init__(self) -> None:
        self._places = 0
        self._units = GrowingArray(np.zeros(0, np.int64))

    @property
    def scale(self) -> int:
        """The number of units in 1."""
        scale: int = 10**self._places
        return scale

    def extend(self, texts: pa.Array) -> None:
        """Add decimal numbers, as texts without nulls."""
        units, places = _units_of(texts)
        common = max(places, self._places)
        if common > self._places:
            self._units = GrowingArray(_scaled(self._units.values, common - self._places))
            self._places = common
        units = _scaled(units, common - places)
        if units.dtype == object and self._units.values.dtype != object:
            self._units = GrowingArray(self._units.values.astype(object))
        self._units.append(units)

    def drop(self, count: int) -> None:
        """Cut the first numbers off."""
        self._units.drop(count)

    def kept(self, places: npt.NDArray[np.bool_]) -> "ExactNumbers":
        """Return some of the numbers, by a mask."""
        some = ExactNumbers()
        some._places = self._places
        some._units = GrowingArray(self._units.values[places])
        return some

    def at(self, place: int) -> Fraction:
        return Fraction(int(self._units.values[place]), self.scale)

    def total(self, places: slice | npt.NDArray[np.int64]) -> int:
        """Return the sum of some numbers, in units."""
        return _sum(self._units.values[places])

    def total_of_magnitudes(self, places: slice | npt.NDArray[np.int64]) -> int:
        """Return the sum without signs, in units."""
        return _sum(np.abs(self._units.values[places]))

    def total_of_squares(self, places: slice | npt.NDArray[np.int64]) -> int:
        """Return the sum of squares, in squares of units."""
        units = self._units.values[places]
        if units.dtype == object:
            return sum(unit * unit for unit in units.tolist())
        if not len(units):
            return 0
        high, low = units >> _HALF, units & ((1 << _HALF) - 1)
        parts = (_summed(high * high), _summed(high * low), _summed(low * low))
        return (parts[0] << 2 * _HALF) + (parts[1] << _HALF + 1) + parts[2]


def _sum(units: Units) -> int:
    if units.dtype == object:
        return sum(units.tolist())
    return _summed(units) if len(units) else 0


def _summed(numbers: npt.NDArray[np.int64]) -> int:
    """Return the sum of numbers; `_TOGETHER` of them never overflow."""
    return sum(np.add.reduceat(numbers, np.arange(0, len(numbers), _TOGETHER)).tolist())


def _scaled(units: Units, places: int) -> Units:
    if not places or not units.any():
        return units
    if units.dtype != object:
        if int(np.abs(units).max()) * 10**places < _LARGEST:
            small: Units = units * np.int64(10**places)
            return small
        units = units.astype(object)
    scaled: Units = units * 10**places
    return scaled


def _units_of(texts: pa.Array) -> tuple[Units, int]:
    """Return whole numbers of a unit, and its decimal place."""
    if not len(texts):
        return np.zeros(0, np.int64), 0
    if pc.all(pc.match_substring_regex(texts, _PLAIN)).as_py():
        points = pc.find_substring(texts, ".").to_numpy(zero_copy_only=False)
        lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
        places = np.where(points < 0, 0, lengths - points - 1)
        finest = int(places.max())
        digits = lengths - (points >= 0) + (finest - places)
        if int(digits.max()) <= _DIGITS:
            numbers = pc.cast(pc.replace_substring(texts, ".", ""), pa.int64())
            scales = 10 ** (finest - places).astype(np.int64)
            units: Units = numbers.to_numpy(zero_copy_only=False) * scales
            return units, finest
    return _units_of_any(texts.to_pylist())


def _read(text: str) -> Decimal:
    """Return the number, or 0 for one so small that every double reads it as 0: to have it exactly
    would take as many digits as its exponent.
    """
    number = Decimal(text)
    return number if number and number.adjusted() > _READ_AS_ZERO else Decimal(0)


def _units_of_any(texts: list[str]) -> tuple[Units, int]:
    decimals = [_read(text).as_tuple() for text in texts]
    places = max(0, *(-int(decimal.exponent) for decimal in decimals))
    units = [
        (-1 if decimal.sign else 1)
        * int(Decimal((0, decimal.digits, 0)))  # Any number of digits, as no text is parsed.
        * 10 ** (places + int(decimal.exponent))
        for decimal in decimals
    ]
    is_small = max(map(abs, units)) < _LARGEST
    return np.array(units, np.int64 if is_small else object), places


# Numbers are written without quotes or escapes.
_PAIR = r'^\["(?P<value>[^"]*)", "(?P<by>[^"]*)"\]$'

# Fewer items than that are kept by name, whether they are in a window or not.
_FEW_ITEMS = 1_024
# Whole numbers from there on may be no doubles.
EXACT, _MOST_WHOLE = 2.0**53, 2.0**100


class Column:
    """A column of the values that events have in a field, in the order of their times; an event may
    have none.

    For a pair of numbers it has the first, and `by` is the column of the second, of the same
    events.

    Memory: 8 bytes an event, and of each that has something 16 for a number, 8 for an item, 40 for
    a pair; each different item once.
    """

    def __init__(self, *, is_item: bool, is_pair: bool = False) -> None:
        self.is_item = is_item
        self.by = Column(is_item=False) if is_pair else None
        # The number of values before each event, and before the next one.
        self._before = GrowingArray(np.zeros(1, np.int64))
        self._doubles = GrowingArray(np.zeros(0, np.float64))
        self._numbers = ExactNumbers()
        self._codes = GrowingArray(np.zeros(0, np.int64))
        self._code_of: dict[str, int] = {}
        self._within: tuple[tuple[int, int], slice] | None = None

    def extend(self, texts: pa.Array) -> None:
        """Add events: a text each, a list of two as JSON for a pair, or null."""
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        self._before.append(np.cumsum(there) + self._before.values[-1])
        texts = texts.drop_null()
        if self.by is not None:
            pairs = pc.extract_regex(texts, _PAIR)
            self.by.extend(pc.struct_field(pairs, "by"))
            texts = pc.struct_field(pairs, "value")
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
        if self.by is not None:
            self.by.drop(count)
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
        some.by = None if self.by is None else self.by.kept(of_values)
        some._doubles = GrowingArray(self.doubles[of_values] if not self.is_item else self.doubles)
        some._numbers = self._numbers if self.is_item else self._numbers.kept(of_values)
        some._codes = GrowingArray(self.codes[of_values] if self.is_item else self.codes)
        some._code_of = self._code_of
        if self.is_item and len(self._code_of) > 2 * len(some.codes) + _FEW_ITEMS:
            some._renumber()
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
    def codes(self) -> Integers:
        """Return the item of each event that has one, by its number."""
        return self._codes.values

    @property
    def items(self) -> list[str]:
        """Return the item of each number."""
        return list(self._code_of)

    def code_of(self, item: str) -> int | None:
        """Return the number of an item, None for one that did not come."""
        return self._code_of.get(item)

    def tallies(self, values: slice) -> Integers:
        """Return how often each item came, by its number."""
        return np.bincount(self.codes[values], minlength=len(self._code_of))

    def value(self, place: int) -> Fraction:
        """Return what a statistic takes a number for: one from 2^53 on, below 2^100, for itself,
        others for their double.
        """
        double = float(self.doubles[place])
        if not EXACT <= abs(double) < _MOST_WHOLE:
            return Fraction(double)
        return self._numbers.at(place)

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

    def total_of(self, places: Integers, *, of_magnitudes: bool) -> Fraction:
        """Return the exact sum of some numbers, or of their magnitudes."""
        total = self._numbers.total_of_magnitudes if of_magnitudes else self._numbers.total
        return Fraction(total(places), self._numbers.scale)

    def variance(self, places: slice | Integers) -> Fraction:
        """Return the exact variance of a population, of one number at least."""
        n, s = len(self.doubles[places]), self._numbers.total(places)
        squares = self._numbers.total_of_squares(places)
        return Fraction(n * squares - s * s, (n * self._numbers.scale) ** 2)

    def _codes_of(self, texts: pa.Array) -> Integers:
        encoded = pc.dictionary_encode(texts)
        names: Iterable[str] = encoded.dictionary.to_pylist()
        known = self._code_of
        numbers = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        codes: Integers = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
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


# Events that no window of a key has any more: what is still asked of them.


class Totals(NamedTuple):
    """The totals of a statistic since the key's first event: the number taken in, and its sum."""

    taken: int = 0
    total: Fraction = Fraction()

    def plus(self, other: "Totals") -> "Totals":
        """Return the sum of both."""
        return Totals(self.taken + other.taken, self.total + other.total)


@dataclass
class Bygone:
    """The state of dropped events, by the label of a statistic: totals since the key's first event,
    or since it was forgotten last; and the times of the last events that were taken in, as many as
    an age may go back.

    `last_offset` is the largest of any event.
    """

    last_offset: int = -1
    totals: dict[str, Totals] = field(default_factory=dict)
    times: dict[str, Integers] = field(default_factory=dict)

    def totals_of(self, label: str) -> Totals:
        """Return the totals of a statistic; zeros for one that has none."""
        return self.totals.get(label, Totals())

    def times_of(self, label: str) -> Integers:
        """Return the kept times of a statistic, rising."""
        return self.times.get(label, np.zeros(0, np.int64))
