"""Columns of what is known of keys, in which a key's place is its number."""

from typing import Any

import numpy as np
import numpy.typing as npt

_FEWEST = 64


def fitted(column: npt.NDArray[Any], capacity: int, *, fill: object) -> npt.NDArray[Any]:
    """Return a column with room for so many numbers: itself, or a longer copy, filled up."""
    if len(column) >= capacity:
        return column
    longer = np.full(max(capacity, len(column) * 3 // 2, _FEWEST), fill, column.dtype)
    longer[: len(column)] = column
    return longer
