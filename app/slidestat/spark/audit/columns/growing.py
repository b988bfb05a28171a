"""An array that grows at its end and is cut at its beginning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
