"""The part that synopses of one key's values share."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.stored import Stored

NO_VALUES: Floats = np.empty(0, np.float64)

P = TypeVar("P")


class StoredSynopsis(Stored[P]):
    """A synopsis of one stream of events with values, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept.
    """

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a value for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or a value cannot be taken.
        """
        self._insert(times, np.atleast_1d(np.asarray(values, np.float64)))

    def _no_values(self) -> Floats:
        return NO_VALUES
