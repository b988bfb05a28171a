"""Which records of a partition are settled, and what its checkpoint is at any of them.

With a lateness, records wait in a buffer for the watermark, and reading after a restart must begin
at the oldest of them. Watermark and counters must then be known as they were at that record, not at
the end of the newest batch: the ledger keeps them, record by record, from the last checkpoint on.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.engine.checkpoint import Checkpoint, Counters

COUNTED, DEAD, LATE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Entry:
    offsets: npt.NDArray[np.int64]
    max_times: npt.NDArray[np.int64]
    outcomes: npt.NDArray[np.uint8]


class Ledger:
    """Outcomes of the records since a checkpoint. 17 bytes a record not yet settled."""

    def __init__(self, start: Checkpoint) -> None:
        self._checkpoint = start
        self._entries: deque[_Entry] = deque()

    def append(
        self,
        offsets: npt.NDArray[np.int64],
        max_times: npt.NDArray[np.int64],
        outcomes: npt.NDArray[np.uint8],
    ) -> None:
        """Note a batch: each record's offset, the largest time up to it, what became of it."""
        self._entries.append(_Entry(offsets, max_times, outcomes))

    def settle(self, next_offset: int) -> Checkpoint:
        """The checkpoint just before `next_offset`, which may not lie before the last one."""
        while self._entries:
            entry = self._entries[0]
            settled = int(np.searchsorted(entry.offsets, next_offset))
            if settled:
                self._fold(entry, settled)
            if settled < len(entry.offsets):
                self._entries[0] = _Entry(
                    entry.offsets[settled:], entry.max_times[settled:], entry.outcomes[settled:]
                )
                break
            self._entries.popleft()
        self._checkpoint = replace(self._checkpoint, next_offset=next_offset)
        return self._checkpoint

    def _fold(self, entry: _Entry, settled: int) -> None:
        counted, dead, late = np.bincount(entry.outcomes[:settled], minlength=3).tolist()
        before = self._checkpoint.counters
        self._checkpoint = replace(
            self._checkpoint,
            next_offset=int(entry.offsets[settled - 1]) + 1,
            max_time=int(entry.max_times[settled - 1]),
            counters=Counters(
                before.read + settled,
                before.counted + counted,
                before.dead + dead,
                before.late + late,
            ),
        )
