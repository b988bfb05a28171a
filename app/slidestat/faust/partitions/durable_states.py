"""Make the states of the partitions that are held durable, slot by slot."""

import time
from collections.abc import Mapping, Sequence
from math import ceil

from faust.types import TP

from slidestat.engine.checkpoints.checkpoint import Counters, Snapshot
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.faust.partitions.held_partitions import HeldPartitions
from slidestat.faust.progress import Progress
from slidestat.faust.table import StateTable, TablePartition

# When which slot of keys has its turn to become durable: each once in a checkpoint interval.
#
# A flush takes the slots whose turn has come since the last one, so that writing is spread evenly.
# It takes more of them where more is unwritten than memory and a restart should bear: the round is
# then shorter than the interval, and what is unwritten stays bounded.


class CheckpointTurns:
    """A round through the slots in `interval_s` seconds; with 0, each flush is a whole round."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._turn_s = interval_s / SLOTS
        self._given_until = now
        self._next = 0

    def due(self, now: float, share: float = 0.0) -> Sequence[int]:
        """Return the slots that are due at `now` (of time.monotonic), at least a `share` of all."""
        turns = SLOTS
        if self._turn_s:
            turns = int((now - self._given_until) / self._turn_s)
        if turns >= SLOTS or share > turns / SLOTS:
            turns = min(SLOTS, max(turns, ceil(share * SLOTS)))
            self._given_until = now
        else:
            self._given_until += turns * self._turn_s
        slots = [(self._next + turn) % SLOTS for turn in range(turns)]
        self._next = (self._next + turns) % SLOTS
        return slots


# The limit of a worker's states that are not durable: in memory, and in records that a restarted
# one would read again, whose outcomes are in memory as well.
_UNWRITTEN_BYTES = 128 * 2**20
_UNWRITTEN_RECORDS = 4_000_000
# This many bytes are written in some tens of milliseconds.
_FEW_BYTES = 8 * 2**20


class DurableStates:
    """A writer of the states that changed since the last write."""

    def __init__(
        self,
        held: HeldPartitions,
        table: StateTable,
        progress: Progress,
        checkpoint_interval_s: float,
    ) -> None:
        self._held = held
        self._table = table
        self._progress = progress
        self._turns = CheckpointTurns(checkpoint_interval_s, time.monotonic())

    def snapshots(self, *, whole: bool) -> dict[TablePartition, Snapshot]:
        """Return the changes since the last write, of the keys whose turn it is, or of all. Earlier
        emissions must be acknowledged before `write`.
        """
        due = self._turns.due(time.monotonic(), self._pressure())
        slots = range(SLOTS) if whole else due
        found = {}
        for partition, processor in self._held.processors.items():
            if processor.has_new_statistics:
                continue  # `store_changes` does it, before anything else.
            snapshot = processor.snapshot(slots)
            if snapshot is not None:
                found[self._held.stores[partition]] = snapshot
        return found

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Make snapshots durable, also of partitions that were given up since they were taken."""
        processors = self._held.processors
        if snapshots:
            await self._table.write(snapshots)
            for store in snapshots:
                if store.partition in processors:
                    processors[store.partition].written()
        if processors:
            reached = [processor.reached for processor in processors.values()]
            counters = sum((one.counters for one in reached), Counters())
            self._progress.flushed(counters, max(one.max_time for one in reached))

    @property
    def are_few(self) -> bool:
        """Return whether all states that are not durable can be written at once."""
        return self._unwritten_bytes <= _FEW_BYTES

    @property
    def are_changed(self) -> bool:
        """Return whether a partition has other statistics than are stored."""
        return any(it.has_new_statistics for it in self._held.processors.values())

    async def store_changes(self) -> None:
        """Store which statistics partitions have now: starts must be durable before emissions."""
        changed = {}
        for partition, processor in self._held.processors.items():
            if processor.has_new_statistics:
                snapshot = processor.snapshot(())
                if snapshot is not None:
                    changed[self._held.stores[partition]] = snapshot
        await self.write(changed)

    def durable(self, source: str) -> dict[TP, int]:
        """Return the offset up to which each partition is durable, if the last snapshots are.

        Unchanged partitions are included, so that a commit that failed or was refused, and offsets
        that were set back, are corrected.
        """
        return {
            TP(source, partition): processor.checkpoint.next_offset
            for partition, processor in self._held.processors.items()
        }

    def _pressure(self) -> float:
        """Return the share of the unwritten states that exceeds the limits."""
        processors = self._held.processors.values()
        records = sum(processor.unwritten_records for processor in processors)
        return max(
            1 - _UNWRITTEN_BYTES / max(self._unwritten_bytes, 1),
            1 - _UNWRITTEN_RECORDS / max(records, 1),
            0.0,
        )

    @property
    def _unwritten_bytes(self) -> int:
        return sum(processor.unwritten_bytes for processor in self._held.processors.values())
