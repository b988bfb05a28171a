"""By what a record takes its turn among those of other partitions.

It is the largest event time of its partition up to it, but for times that jump ahead alone: they
would hold back, for as long as they jump, all that follows them. Which do is decided as a
topology's clock decides it (event_clock.py): a time counts if the clock has come as far 15 records
later; else it is the clock at the record itself that counts. A record without a readable time goes
with the one before it. So keys never fall, and a record's own time lies behind its key by no more
than it lies behind what its partition had come to.
"""

import numpy as np
import numpy.typing as npt

from slidestat.engine.checkpoints.checkpoint import NO_TIME, Checkpoint
from slidestat.engine.clock.event_clock import RECORDS, EventClock

Int64s = npt.NDArray[np.int64]

_LATER = RECORDS - 1


class KeysOfOrder:
    """The keys of a partition's records that wait. Those of the last 15 are provisional: they are
    settled by what follows.
    """

    def __init__(self, start: int, lateness: int) -> None:
        self._clock = EventClock(Checkpoint(start), lateness)
        self._keys = self._times = self._clocks = np.empty(0, np.int64)
        self._settled = 0
        # No later record's key is less.
        self.reached = NO_TIME

    def add(self, offsets: Int64s, times: Int64s) -> None:
        """Take in records: `offsets` int64[n] rising, `times` int64[n]."""
        clocks = self._clock.read(offsets, times).clocks
        self._clock.settle(int(offsets[-1]) + 1)
        self._times = np.concatenate([self._times, times])
        self._clocks = np.concatenate([self._clocks, clocks])
        self._settle()

    def first(self, count: int) -> Int64s:
        """The keys int64[count] of the first ones."""
        return self._keys[:count]

    def count_up_to(self, key: int, *, inclusive: bool, settled_alone: bool) -> int:
        """How many have keys less than that, or as large; also provisional ones unless
        `settled_alone`.
        """
        count = int(np.searchsorted(self._keys, key, "right" if inclusive else "left"))
        return min(count, self._settled) if settled_alone else count

    def drop(self, count: int) -> None:
        """The first ones wait no longer."""
        if count > self._settled:
            self.reached = max(self.reached, int(self._clocks[count - 1]))
        self._settled = max(0, self._settled - count)
        self._keys, self._times, self._clocks = (
            column[count:] for column in (self._keys, self._times, self._clocks)
        )

    def _settle(self) -> None:
        """Give keys to what has none for sure."""
        times, clocks = self._times[self._settled :], self._clocks[self._settled :]
        timed = np.flatnonzero(times != NO_TIME)
        sure = max(0, len(timed) - _LATER)
        jumps = timed[:sure][times[timed[:sure]] > clocks[timed[_LATER:]]]
        own = times.copy()
        own[jumps] = clocks[jumps]
        keys = np.maximum(np.maximum.accumulate(own), self.reached)
        newly = int(timed[sure]) if sure < len(timed) else len(times)
        if newly:
            self.reached = int(keys[newly - 1])
        self._keys = np.concatenate([self._keys[: self._settled], keys])
        self._settled += newly
