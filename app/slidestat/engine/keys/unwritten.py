"""Which keys' states are not durable yet, and from where the source makes them again.

Keys are dealt out to slots, and a slot's states become durable together. Each slot keeps the least
offset whose event one of its states has absorbed since it was written: read from there on, the
source brings every event that the stored states of the slot do not have.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.columns import fitted
from slidestat.synopses.core.arrays import Bools, Integers

Slots = npt.NDArray[np.uint8]

SLOTS = 64

NOTHING_NEEDED = 2**63 - 1


def slot_of(key: str) -> int:
    """Return a key's slot; it differs between processes, as Python's hashes of texts do."""
    return hash(key) % SLOTS


def slots_of(keys: Sequence[str]) -> Slots:
    hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
    return (hashes % SLOTS).astype(np.uint8)


class Unwritten:
    """The numbers of keys with changes."""

    def __init__(self) -> None:
        # The first by key number, the second by slot.
        self._is_changed = np.empty(0, bool)
        self._first_offsets = np.full(SLOTS, NOTHING_NEEDED)

    def fit(self, capacity: int) -> None:
        """Make room for so many numbers."""
        self._is_changed = fitted(self._is_changed, capacity, fill=False)

    def has(self, numbers: Integers | slice) -> Bools:
        """Return whether the states of these numbers have changes."""
        return self._is_changed[numbers]

    def add(self, numbers: Integers, slots: Slots, first_offsets: Integers | int) -> None:
        """Note changes of the states of these numbers, in these slots; `first_offsets` are those of
        the first new event of each, NOTHING_NEEDED for a change without events.
        """
        self._is_changed[numbers] = True
        np.minimum.at(self._first_offsets, slots, first_offsets)

    def take(self, slots: Iterable[int], slots_of: Slots) -> Integers:
        """Return the numbers of these slots, which are about to be written; `slots_of` uint8 are
        the slots of all numbers.
        """
        is_wanted = np.zeros(SLOTS, bool)
        is_wanted[list(slots)] = True
        changed = np.flatnonzero(self._is_changed)
        taken = changed[is_wanted[slots_of[changed]]]
        self._is_changed[taken] = False
        self._first_offsets[is_wanted] = NOTHING_NEEDED
        return taken

    def first_offset(self) -> int | None:
        """Return the least offset that the other changes need, None if they need none."""
        least = int(self._first_offsets.min())
        return None if least == NOTHING_NEEDED else least
