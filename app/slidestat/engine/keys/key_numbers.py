"""The keys of which a partition remembers something, by numbers."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.columns import fitted
from slidestat.engine.keys.unwritten import slots_of
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
        new = np.flatnonzero(numbers == UNKNOWN)
        if len(new):
            added = [names[row] for row in new.tolist()]
            # A name may be among them twice.
            self._add(list(dict.fromkeys(added)))
            numbers[new] = self.find(added)
        return numbers

    def names(self, numbers: Integers) -> list[str]:
        """Return the keys that have these numbers."""
        return list(map(self._names.__getitem__, numbers.tolist()))

    def release(self, numbers: Integers) -> None:
        """Take back the numbers of keys of which nothing is remembered any more."""
        for number in numbers.tolist():
            del self._number_of[self._names[number]]
            self._names[number] = ""
            self._free.append(number)

    def _add(self, names: Sequence[str]) -> None:
        """Give numbers to keys that have none."""
        count = min(len(self._free), len(names))
        used_before = [self._free.pop() for _ in range(count)]
        for number, name in zip(used_before, names, strict=False):
            self._names[number] = name
        numbers = [*used_before, *range(len(self._names), len(self._names) + len(names) - count)]
        self._names += names[count:]
        self._number_of.update(zip(names, numbers, strict=True))
        self.slots = fitted(self.slots, len(self._names), fill=0)
        self.slots[numbers] = slots_of(names)

    def unused(self, is_used: npt.NDArray[np.bool_]) -> Integers:
        """Return the numbers that are given and not used; bool[capacity] are those in use."""
        is_given = np.ones(self.capacity, bool)
        is_given[self._free] = False
        return np.flatnonzero(is_given & ~is_used[: self.capacity])
