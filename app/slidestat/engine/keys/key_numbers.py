"""The keys of which a partition remembers something, by numbers."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.columns import fitted
from slidestat.engine.keys.unwritten import slot_of
from slidestat.synopses.core.arrays import Integers

UNKNOWN = -1


class KeyNumbers:
    """A register of numbers for keys: arrays hold by number what is remembered of keys, so that
    many keys are looked up in one step.

    A number that was given back is given to another key later.
    """

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self.slots = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self._number_of)

    @property
    def capacity(self) -> int:
        """The bound below which all numbers lie."""
        return len(self._names)

    def find(self, names: Sequence[str]) -> Integers:
        """Return the numbers of keys, UNKNOWN for one that has none."""
        found = map(self._number_of.get, names, repeat(UNKNOWN))
        return np.fromiter(found, np.int64, len(names))

    def of(self, names: Sequence[str]) -> Integers:
        """Return the numbers of keys; one that has none is given one."""
        numbers = self.find(names)
        new = np.flatnonzero(numbers == UNKNOWN).tolist()
        if new:
            added = [self._add(names[row]) for row in new]
            numbers[new] = added
            self.slots = fitted(self.slots, len(self._names), fill=0)
            self.slots[added] = [slot_of(names[row]) for row in new]
        return numbers

    def names(self, numbers: Integers) -> list[str]:
        """Return the keys that have these numbers."""
        names = self._names
        return [names[number] for number in numbers.tolist()]

    def release(self, numbers: Integers) -> None:
        """Take back the numbers of keys of which nothing is remembered any more."""
        for number in numbers.tolist():
            del self._number_of[self._names[number]]
            self._names[number] = ""
            self._free.append(number)

    def _add(self, name: str) -> int:
        number = self._number_of.get(name)
        if number is not None:  # It is among the same names twice.
            return number
        if self._free:
            number = self._free.pop()
            self._names[number] = name
        else:
            number = len(self._names)
            self._names.append(name)
        self._number_of[name] = number
        return number

    def unused(self, is_used: npt.NDArray[np.bool_]) -> Integers:
        """Return the numbers that are given and not used; bool[capacity] are those that are
        used.
        """
        is_given = np.ones(self.capacity, bool)
        is_given[self._free] = False
        return np.flatnonzero(is_given & ~is_used[: self.capacity])
