"""The clock of a partition as another reading of all its records has found it."""

import numpy as np
import numpy.typing as npt

from slidestat.engine.checkpoints.checkpoint import Checkpoint, Recent
from slidestat.engine.clock.event_clock import EventClock, Reading

Int64s = npt.NDArray[np.int64]


class GivenClock(EventClock):
    """A clock that is set from outside, for a reader of some records of a partition only."""

    def __init__(self, lateness: int) -> None:
        super().__init__(Checkpoint(next_offset=0), lateness)
        self._given = np.empty(0, np.int64)

    def give(self, clocks: Int64s) -> None:
        """Set the clock after each of the records that are read next, int64[n]."""
        self._given = clocks

    def read(self, offsets: Int64s, times: Int64s) -> Reading:  # noqa: ARG002  # It is known.
        """Return what was given; nothing is refused."""
        self._now.clock = int(self._given[-1])
        return Reading(self._given, ())

    def settle(self, next_offset: int) -> Recent:  # noqa: ARG002
        """Return no recent times: the clock continues with those that it is given."""
        return Recent()
