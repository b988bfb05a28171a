"""The keys by which a record takes its turn among those of other partitions.

It is the largest event time of its partition up to it, but for times that jump ahead alone: they
would hold back, for as long as they jump, all that follows them. Which do is decided as a
topology's clock decides it (event_clock.py): a time counts if the clock has reached it 15 records
with a time later, or 256 of any kind; else it is the clock at the record itself that counts. A
record without a readable time goes with the one before it. So keys never fall, and a record's own
time lies behind its key by no more than it lies behind the event time that its partition had
reached.
"""

import numpy as np
import numpy.typing as npt

from slidestat.engine.checkpoints.checkpoint import NO_TIME, Checkpoint
from slidestat.engine.clock.event_clock import RECORDS, EventClock

Int64s = npt.NDArray[np.int64]

_LATER = RECORDS - 1
# A run of records without a time must not keep anything undecided for ever.
_LATER_OF_ANY = 256
_NEVER = np.iinfo(np.int64).max


class KeysOfOrder:
    """The keys of a partition's records that wait. Those of the last 15 with a time, and of the
    others among the last 256, are provisional: they are settled by what follows.
    """

    def __init__(self, start: int, lateness: int) -> None:
        self._clock = EventClock(Checkpoint(start), lateness)
        self._keys = self._times = self._clocks = np.empty(0, np.int64)
        # How many have their keys for sure.
        self.settled = 0
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
        """Return the keys int64[count] of the first ones."""
        return self._keys[:count]

    def count_up_to(self, key: int, *, inclusive: bool, settled_alone: bool) -> int:
        """Return how many have keys less than `key`, or, with `inclusive`, equal to it; also
        provisional ones unless `settled_alone`.
        """
        count = int(np.searchsorted(self._keys, key, "right" if inclusive else "left"))
        return min(count, self.settled) if settled_alone else count

    def drop(self, count: int) -> None:
        """Drop the first ones, which no longer wait."""
        if count > self.settled:
            self.reached = max(self.reached, int(self._clocks[count - 1]))
        self.settled = max(0, self.settled - count)
        self._keys, self._times, self._clocks = (
            column[count:] for column in (self._keys, self._times, self._clocks)
        )

    def _settle(self) -> None:
        """Settle the keys that are decided by now."""
        times, clocks = self._times[self.settled :], self._clocks[self.settled :]
        timed = np.flatnonzero(times != NO_TIME)
        later = np.full(len(timed), _NEVER)
        later[:-_LATER] = timed[_LATER:]
        decided = np.minimum(later, timed + _LATER_OF_ANY)
        sure = int(np.searchsorted(decided, len(times)))
        jumps = timed[:sure][times[timed[:sure]] > clocks[decided[:sure]]]
        own = times.copy()
        own[jumps] = clocks[jumps]
        keys = np.maximum(np.maximum.accumulate(own), self.reached)
        newly = int(timed[sure]) if sure < len(timed) else len(times)
        if newly:
            self.reached = int(keys[newly - 1])
        self._keys = np.concatenate([self._keys[: self.settled], keys])
        self.settled += newly
