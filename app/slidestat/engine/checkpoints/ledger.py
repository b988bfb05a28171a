"""Which records of a partition are settled, and what its checkpoint is at any of them.

With a lateness, records wait in a buffer for the watermark, and reading after a restart must begin
at the oldest of them. Watermark and counters must then be known as they were at that record, not at
the end of the newest batch: the ledger keeps them, record by record, from the last checkpoint on.
Status and metrics are of all that was read, up to the newest record.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.engine.checkpoints.checkpoint import Checkpoint, Counters, with_counts
from slidestat.engine.checkpoints.loss import Loss

COUNTED, DEAD, LATE = 0, 1, 2
# Not a record, but the place of those that are gone.
_LOST = 3
PASSED_OVER = 4


@dataclass(frozen=True, slots=True)
class _Entry:
    offsets: npt.NDArray[np.int64]
    max_times: npt.NDArray[np.int64]
    outcomes: npt.NDArray[np.uint8]
    loss: Loss | None
    # Of records before the first one here.
    lost: int = 0
    # The rows, rising, that each statistic leaves out if they are counted, by its label.
    left_out: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def left_out_at(self, row: int) -> dict[str, int]:
        """Return 1 for each statistic that leaves a row out, by its label."""
        return {
            label: 1
            for label, rows in self.left_out.items()
            if (place := np.searchsorted(rows, row)) < len(rows) and rows[place] == row
        }

    def left_out_before(self, end: int) -> dict[str, int]:
        """Return by label how many of the counted records before a row each statistic leaves
        out.
        """
        found = {}
        for label, rows in self.left_out.items():
            before = rows[: np.searchsorted(rows, end)]
            found[label] = int(np.count_nonzero(self.outcomes[before] == COUNTED))
        return found


class Ledger:
    """Outcomes of the records since a checkpoint. 17 bytes a record not yet settled, and 8 for each
    field that it lacks.
    """

    def __init__(self, start: Checkpoint) -> None:
        self._checkpoint = self._reached = start
        self._entries: deque[_Entry] = deque()

    @property
    def reached(self) -> Checkpoint:
        """The position of reading: the checkpoint that there will be once all that was read is
        settled, including events that still wait for the watermark.
        """
        return self._reached

    def append(
        self,
        offsets: npt.NDArray[np.int64],
        max_times: npt.NDArray[np.int64],
        outcomes: npt.NDArray[np.uint8],
        loss: Loss | None = None,
        left_out: Mapping[str, npt.NDArray[np.int64]] | None = None,
    ) -> None:
        """Note a batch: each record's offset, the largest time up to it, its outcome; the newest
        loss before it; and the rows that each statistic leaves out.
        """
        self._append(_Entry(offsets, max_times, outcomes, loss, left_out=left_out or {}))

    def lose(self, next_offset: int, max_time: int, loss: Loss, lost: int) -> None:
        """Note that the records up to `next_offset`, `lost` of them, are gone."""
        offsets, max_times = np.array([next_offset - 1]), np.array([max_time])
        self._append(_Entry(offsets, max_times, np.array([_LOST], np.uint8), loss, lost))

    def refuse(self, offset: int) -> None:
        """Move the record at `offset`, counted but not settled, to the dead ones."""
        left_out = self._left_out_at(offset)
        for entry in reversed(self._entries):
            if entry.offsets[0] <= offset:
                entry.outcomes[np.searchsorted(entry.offsets, offset)] = DEAD
                break
        counters = self._reached.counters
        self._reached = replace(
            self._reached,
            counters=replace(
                counters,
                counted=counters.counted - 1,
                dead=counters.dead + 1,
                left_out=with_counts(counters.left_out, left_out, -1),
            ),
        )

    def reached_without(self, undecided: Iterable[int]) -> Checkpoint:
        """Return the position of reading; counted records at these offsets are taken as not
        read.
        """
        counters = self._reached.counters
        for offset in undecided:
            one = Counters(read=1, counted=1, left_out=self._left_out_at(offset))
            counters = counters.since(one)
        return replace(self._reached, counters=counters)

    def _left_out_at(self, offset: int) -> dict[str, int]:
        for entry in reversed(self._entries):
            if entry.offsets[0] <= offset:
                return entry.left_out_at(int(np.searchsorted(entry.offsets, offset)))
        return {}

    def settle(self, next_offset: int) -> Checkpoint:
        """Return the checkpoint just before `next_offset`, which must not lie before the last
        one.
        """
        while self._entries:
            entry = self._entries[0]
            settled = int(np.searchsorted(entry.offsets, next_offset))
            if settled:
                self._checkpoint = _after(self._checkpoint, entry, settled)
            if settled < len(entry.offsets):
                self._entries[0] = _Entry(
                    entry.offsets[settled:],
                    entry.max_times[settled:],
                    entry.outcomes[settled:],
                    entry.loss,
                    left_out={
                        label: rows[np.searchsorted(rows, settled) :] - settled
                        for label, rows in entry.left_out.items()
                    },
                )
                break
            self._entries.popleft()
        self._checkpoint = replace(self._checkpoint, next_offset=next_offset)
        return self._checkpoint

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._reached = _after(self._reached, entry, len(entry.offsets))


def _after(before: Checkpoint, entry: _Entry, count: int) -> Checkpoint:
    """Return the checkpoint after the first `count` records of an entry, at least one."""
    outcomes = np.bincount(entry.outcomes[:count], minlength=5).tolist()
    counted, dead, late, gone, passed_over = outcomes
    counters = before.counters
    return replace(
        before,
        next_offset=int(entry.offsets[count - 1]) + 1,
        max_time=int(entry.max_times[count - 1]),
        counters=Counters(
            counters.read + count - gone,
            counters.counted + counted,
            counters.dead + dead,
            counters.late + late,
            counters.lost + entry.lost,
            counters.passed_over + passed_over,
            with_counts(counters.left_out, entry.left_out_before(count)),
        ),
        loss=entry.loss,
    )
