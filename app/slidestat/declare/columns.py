"""The fields that a topology reads besides key and time: numbers and items, each by its path."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.fields import FieldPath

_LARGEST = sys.float_info.max

# A window holds so many of the largest values, whatever the statistic.
MOST_LARGEST = 1 << 17

# Characters. Items travel in lists of output records: a bound keeps them readable.
MAX_ITEM_LENGTH = 256


@dataclass(frozen=True)
class Limits:
    """The numbers that can be taken in, least and most included."""

    least: float = -_LARGEST
    most: float = _LARGEST

    def within(self, other: "Limits") -> "Limits":
        """Return the limits that both keep."""
        return Limits(max(self.least, other.least), min(self.most, other.most))

    @property
    def are_any(self) -> bool:
        """Return whether every number is within the limits."""
        return self.most == _LARGEST

    def shared_by(self, events: int) -> "Limits":
        """Return limits for the values of windows of at most `events`: their sum is then at most
        that of `MOST_LARGEST` values within these limits.
        """
        share = min(1.0, MOST_LARGEST / events)
        return Limits(self.least * share, self.most * share)


@dataclass(frozen=True)
class Column:
    """A field that is read: as a number within limits, or, without them, as an item.

    An item is a text, or what a number or a truth value is as JSON text. If a number `rounds_down`,
    a value from 2^53 on that is no double becomes the double before it: so comparisons with doubles
    keep their results.
    """

    path: FieldPath
    limits: Limits | None
    rounds_down: bool = False

    @property
    def is_number(self) -> bool:
        """Return whether the field is read as a number."""
        return self.limits is not None


@dataclass(frozen=True)
class Columns:
    """The columns of a topology: each path once as a number, once as an item, where asked for; and
    of each condition by which statistics choose events, whether it holds.
    """

    numbers: tuple[Column, ...]
    items: tuple[Column, ...]
    conditions: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, wanted: Iterable[Column], conditions: Iterable[Expression] = ()) -> "Columns":
        """Return the columns that serve all of `wanted`; a path's limits hold for each reader."""
        numbers: dict[FieldPath, Limits] = {}
        items: dict[FieldPath, Column] = {}
        round_down: set[FieldPath] = set()
        for column in wanted:
            if column.limits is None:
                items[column.path] = column
            else:
                known = numbers.get(column.path, column.limits)
                numbers[column.path] = known.within(column.limits)
            if column.rounds_down:
                round_down.add(column.path)
        return cls(
            tuple(Column(path, limits, path in round_down) for path, limits in numbers.items()),
            tuple(items.values()),
            tuple(dict.fromkeys(conditions)),
        )

    def index(self, column: Column) -> int:
        """Return the index of a column among the numbers, or among the items."""
        columns = self.numbers if column.is_number else self.items
        return [known.path for known in columns].index(column.path)
