"""Decimal numbers as whole numbers of one unit: their sums and squares, nothing rounded.

The unit is the finest decimal place that has come. While all are less than 2^53 units they take 8
bytes each; beyond that they are Python's whole numbers.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.spark.audit.columns.growing import GrowingArray

Units = npt.NDArray[Any]

_LARGEST = 2**53
# Half of the smallest double is 2.5e-324.
_READ_AS_ZERO = -325
# As many digits are less than 2^53 units.
_DIGITS = 15
_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
# So many numbers below 2^53, and so many products of halves of 27 bits, add up below 2^63.
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
        """Return the number at a place."""
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
    """Return the sum of numbers of which no `_TOGETHER` overflow."""
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
        * int(Decimal((0, decimal.digits, 0)))  # Of any number of digits, as no text is read.
        * 10 ** (places + int(decimal.exponent))
        for decimal in decimals
    ]
    is_small = max(map(abs, units)) < _LARGEST
    return np.array(units, np.int64 if is_small else object), places
