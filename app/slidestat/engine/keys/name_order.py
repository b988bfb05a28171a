"""Names of keys in order, and their places there."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def ranked(names: list[str]) -> tuple[list[str], Int64s]:
    """Return the names in order, and the place of each there. Costs little where they are so."""
    in_order = sorted(names)
    if in_order == names:
        return names, np.arange(len(names))
    return in_order, places_in(in_order, names)


def places_in(in_order: list[str], names: Iterable[str]) -> Int64s:
    """Return the places of names among others, all of which differ."""
    place_of = {name: place for place, name in enumerate(in_order)}
    return np.fromiter(map(place_of.__getitem__, names), np.int64)
