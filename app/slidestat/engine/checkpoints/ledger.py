"""Which records of a partition are settled, and what its checkpoint is at any of them.

With a lateness, records wait in a buffer for the watermark, and reading after a restart must begin
at the oldest of them. Watermark and counters must then be known as they were at that record, not at
the end of the newest batch: the ledger keeps them, record by record, from the last checkpoint on.
Whoever watches is told of all that was read, up to the newest record.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.engine.checkpoints.checkpoint import Checkpoint, Counters
from slidestat.engine.checkpoints.loss import Loss

COUNTED, DEAD, LATE = 0, 1, 2
# Not a record, but the place of those that are gone.
_LOST = 3


@dataclass(frozen=True, slots=True)
class _Entry:
    offsets: npt.NDArray[np.int64]
    max_times: npt.NDArray[np.int64]
    outcomes: npt.NDArray[np.uint8]
    loss: Loss | None
    # Of records before the first one here.
    lost: int = 0


class Ledger:
    """Outcomes of the records since a checkpoint. 17 bytes a record not yet settled."""

    def __init__(self, start: Checkpoint) -> None:
        self._checkpoint = self._reached = start
        self._entries: deque[_Entry] = deque()

    @property
    def reached(self) -> Checkpoint:
        """Where reading has come: the checkpoint that there will be once all that was read is
        settled, whatever waits for the watermark meanwhile.
        """
        return self._reached

    def append(
        self,
        offsets: npt.NDArray[np.int64],
        max_times: npt.NDArray[np.int64],
        outcomes: npt.NDArray[np.uint8],
        loss: Loss | None = None,
    ) -> None:
        """Note a batch: each record's offset, the largest time up to it, what became of it; and the
        newest loss before it.
        """
        self._append(_Entry(offsets, max_times, outcomes, loss))

    def lose(self, next_offset: int, max_time: int, loss: Loss, lost: int) -> None:
        """Note that the records up to `next_offset`, `lost` of them, are gone."""
        offsets, max_times = np.array([next_offset - 1]), np.array([max_time])
        self._append(_Entry(offsets, max_times, np.array([_LOST], np.uint8), loss, lost))

    def refuse(self, offset: int) -> None:
        """Move the record at `offset`, counted but not settled, to the dead ones."""
        for entry in reversed(self._entries):
            if entry.offsets[0] <= offset:
                entry.outcomes[np.searchsorted(entry.offsets, offset)] = DEAD
                break
        counters = self._reached.counters
        self._reached = replace(
            self._reached,
            counters=replace(counters, counted=counters.counted - 1, dead=counters.dead + 1),
        )

    def settle(self, next_offset: int) -> Checkpoint:
        """The checkpoint just before `next_offset`, which may not lie before the last one."""
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
                )
                break
            self._entries.popleft()
        self._checkpoint = replace(self._checkpoint, next_offset=next_offset)
        return self._checkpoint

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._reached = _after(self._reached, entry, len(entry.offsets))


def _after(before: Checkpoint, entry: _Entry, count: int) -> Checkpoint:
    """The checkpoint after the first `count` records of an entry, at least one."""
    counted, dead, late, gone = np.bincount(entry.outcomes[:count], minlength=4).tolist()
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
        ),
        loss=entry.loss,
    )
