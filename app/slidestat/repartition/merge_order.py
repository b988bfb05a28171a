"""The order in which the records of several partitions are moved: the order of event time. A worker
that is behind fetches much of one partition before it fetches from the next. If they were moved as
they come, records of the second would arrive behind hours of the first, late for every topology. So
of all partitions the record goes first whose key of order is least (below: its event time, or a
later one of its partition before it), and a partition of which more is to come holds the others
back at the event time that it has reached. (Kafka Streams takes the least timestamp at the heads of
its partitions in the same way.)

So while no partition is at its end, a record comes no later behind the times of those before it
than it lay behind those of its own partition: merging makes no record late. And the order is a
function of the partitions alone, however they are fetched. A partition at its end holds up no
other; what it gets later than others get theirs, lateness must cover.
"""

from typing import Generic, TypeVar

import numpy as np

from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.clock import RECORDS, EventClock
from slidestat.engine.records import NO_TIME
from slidestat.synopses.core.arrays import Integers

# The keys by which a record takes its turn among those of other partitions.
#
# It is the largest event time of its partition up to it, but for times that jump ahead alone: they
# would hold back, for as long as they jump, all that follows them. Which do is decided as a
# topology's clock decides it (clock.py): a time counts if the clock has reached it 15 records
# with a time later, or 256 of any kind; else it is the clock at the record itself that counts. A
# record without a readable time goes with the one before it. So keys never fall, and a record's own
# time lies behind its key by no more than it lies behind the event time that its partition had
# reached.

_LATER = RECORDS - 1
# A run of records without a time must not keep anything undecided for ever.
_LATER_OF_ANY = 256
_NEVER = int(np.iinfo(np.int64).max)


class KeysOfOrder:
    """The keys of a partition's records that wait. Keys of the last 15 records with a time, and of
    the others among the last 256, are provisional: the following records settle them.
    """

    def __init__(self, start: int, lateness: int) -> None:
        self._clock = EventClock(Checkpoint(start), lateness)
        self._keys = self._times = self._clocks = np.empty(0, np.int64)
        # The number of records whose keys are sure.
        self.settled = 0
        # No later record's key is less.
        self.reached = NO_TIME

    def add(self, offsets: Integers, times: Integers) -> None:
        """Take in records: `offsets` int64[n] rising, `times` int64[n]."""
        clocks = self._clock.read(offsets, times).clocks
        self._clock.settle(int(offsets[-1]) + 1)
        self._times = np.concatenate([self._times, times])
        self._clocks = np.concatenate([self._clocks, clocks])
        self._settle()

    def first(self, count: int) -> Integers:
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


_Record = TypeVar("_Record")


class MergeOrder(Generic[_Record]):
    """A merge of the records of some partitions in order; each record waits for its turn.

    About 0.2 us a record. `starts` are the offsets from which on each partition is read, `lateness`
    is the topology's, in milliseconds or numbers of a sequence.
    """

    def __init__(self, starts: dict[int, int], lateness: int) -> None:
        self._queues = {p: _Queue[_Record](starts[p], lateness) for p in sorted(starts)}

    def add(
        self,
        partition: int,
        offsets: Integers,
        times: Integers,
        sizes: Integers,
        records: list[_Record],
    ) -> None:
        """Add n records that were fetched, one at least: `offsets` int64[n] rising, event `times`
        int64[n], NO_TIME for unreadable, `sizes` int64[n] in bytes.
        """
        self._queues[partition].add(offsets, times, sizes, records)

    def reach_end(self, partition: int, offset: int) -> None:
        """Note that the partition has no more records before `offset`, which comes next.

        It holds no other partition back until more is added.
        """
        queue = self._queues[partition]
        queue.holds_back = False
        queue.next_offset = max(queue.next_offset, offset)

    def await_more(self, partition: int) -> None:
        """Note that the partition has more records than it seemed: it holds others back."""
        self._queues[partition].holds_back = True

    def take(self) -> list[_Record]:
        """Return those whose turn it is, in order; they wait no longer."""
        limits = [(queue.keys.reached, p) for p, queue in self._queues.items() if queue.holds_back]
        limit = min(limits, default=(_NEVER, 0))
        each = [(queue, queue.count_before(p, limit)) for p, queue in self._queues.items()]
        each = [(queue, count) for queue, count in each if count]
        if not each:
            return []
        keys = np.concatenate([queue.keys.first(count) for queue, count in each])
        records = [record for queue, count in each for record in queue.records[:count]]
        for queue, count in each:
            queue.drop(count)
        return [records[place] for place in np.argsort(keys, kind="stable").tolist()]

    def waiting(self, partition: int) -> tuple[int, int]:
        """Return how many records of a partition wait, and their bytes."""
        queue = self._queues[partition]
        return len(queue.records), int(queue.sizes.sum())

    def needs_more(self, partition: int) -> bool:
        """Return whether no record of a partition can take its turn before more of it is added."""
        queue = self._queues[partition]
        return queue.holds_back and not queue.keys.settled

    def position(self, partition: int) -> int:
        """Return the offset of the first record that was not taken."""
        queue = self._queues[partition]
        return int(queue.offsets[0]) if queue.records else queue.next_offset

    def first(self, partition: int) -> _Record | None:
        """Return the record of a partition that was fetched first of those that wait."""
        records = self._queues[partition].records
        return records[0] if records else None

    @property
    def awaited(self) -> list[int]:
        """Return the partitions that others wait for: none of them is here, and more is to come."""
        return [p for p, queue in self._queues.items() if queue.holds_back and not queue.records]


class _Queue(Generic[_Record]):
    """The records of one partition that wait."""

    def __init__(self, start: int, lateness: int) -> None:
        self.keys = KeysOfOrder(start, lateness)
        self.next_offset = start
        # Others wait for it until it is at its end.
        self.holds_back = True
        self.records: list[_Record] = []
        self.offsets = self.sizes = np.empty(0, np.int64)

    def count_before(self, own: int, limit: tuple[int, int]) -> int:
        """Return how many records come before any that the partition of the limit may still bring;
        among equal ones, the smaller partition's go first.
        """
        key, partition = limit
        return self.keys.count_up_to(key, inclusive=own <= partition, settled_alone=self.holds_back)

    def add(
        self, offsets: Integers, times: Integers, sizes: Integers, records: list[_Record]
    ) -> None:
        self.keys.add(offsets, times)
        self.holds_back = True
        self.next_offset = int(offsets[-1]) + 1
        self.records += records
        self.offsets = np.concatenate([self.offsets, offsets])
        self.sizes = np.concatenate([self.sizes, sizes])

    def drop(self, count: int) -> None:
        self.keys.drop(count)
        del self.records[:count]
        self.offsets, self.sizes = self.offsets[count:], self.sizes[count:]
