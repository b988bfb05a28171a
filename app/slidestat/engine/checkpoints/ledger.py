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

from slidestat.declare.alerts import ALERTS_LABEL
from slidestat.declare.derived import EMIT_LABEL
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    Loss,
    Recent,
    Snapshot,
    claims,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    of_topic,
    stored_mark,
    stored_meaning,
)
from slidestat.engine.checkpoints.kept_statistics import AS_STORED, KeptStatistics
from slidestat.engine.clock import EventClock, tick_after
from slidestat.engine.keys.key_states import KeyStates
from slidestat.engine.records import NO_TIME, LogMark

COUNTED, DEAD, LATE = 0, 1, 2
# No record: it marks the place of records that are gone.
_LOST = 3
# Entry of a stored meaning: the tick at which added alerts judge all keys, until that is done.
_JUDGE_ALL_AT = "alerts judge all keys at"
PASSED_OVER = 4


@dataclass(frozen=True, slots=True)
class _Entry:
    offsets: npt.NDArray[np.int64]
    max_times: npt.NDArray[np.int64]
    outcomes: npt.NDArray[np.uint8]
    loss: Loss | None
    # Records that were lost before the first one here.
    lost: int = 0
    # The rows, rising, that each statistic leaves out if they are counted, by its label.
    left_out: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def left_out_before(self, end: int) -> dict[str, int]:
        """Return by label how many counted records before a row each statistic leaves out."""
        found = {}
        for label, rows in self.left_out.items():
            before = rows[: np.searchsorted(rows, end)]
            found[label] = int(np.count_nonzero(self.outcomes[before] == COUNTED))
        return found


class Ledger:
    """Outcomes since a checkpoint: 17 bytes an unsettled record, 8 more for a field it lacks."""

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
        moved = Counters(counted=1, dead=-1, left_out=left_out)
        self._reached = replace(self._reached, counters=self._reached.counters.since(moved))

    def reached_without(self, undecided: Iterable[int]) -> Checkpoint:
        """Return the position of reading; counted records at these offsets count as not read."""
        counters = self._reached.counters
        for offset in undecided:
            one = Counters(read=1, counted=1, left_out=self._left_out_at(offset))
            counters = counters.since(one)
        return replace(self._reached, counters=counters)

    def _left_out_at(self, offset: int) -> dict[str, int]:
        """Return 1 for each statistic that leaves the record at an offset out, by its label."""
        for entry in reversed(self._entries):
            if entry.offsets[0] <= offset:
                row = int(np.searchsorted(entry.offsets, offset))
                return {
                    label: 1
                    for label, rows in entry.left_out.items()
                    if (place := np.searchsorted(rows, row)) < len(rows) and rows[place] == row
                }
        return {}

    def settle(self, next_offset: int) -> Checkpoint:
        """Return the checkpoint just before `next_offset`, which is not before the last one."""
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
    return replace(
        before,
        next_offset=int(entry.offsets[count - 1]) + 1,
        max_time=int(entry.max_times[count - 1]),
        counters=before.counters
        + Counters(
            count - gone, counted, dead, late, entry.lost, passed_over, entry.left_out_before(count)
        ),
        loss=entry.loss,
    )


# The place up to which a partition is durable, and the place up to which everything was emitted.


class Durability:
    """The newest checkpoint of a partition, and the snapshot that is being written."""

    def __init__(
        self,
        topology: Topology,
        stored: bytes | None,
        topic_id: str,
        kept: KeptStatistics = AS_STORED,
    ) -> None:
        """Restore from `stored`, the checkpoint's bytes, None for a partition never seen.
        `topic_id` is that of the source, which a checkpoint without one takes for its own; `kept`
        holds the statistics that the states have.
        """
        self._slots = kept.slots
        # Stored at once, before anything is emitted by it.
        self.is_changed = kept.is_changed
        self._label = topology.state_label
        self._lateness = topology.lateness_ms
        self.is_stored = stored is not None
        self.checkpoint = decode_checkpoint(
            stored, topology.state_meaning, statistics_change=kept.is_changed
        )
        # Whether the same alerts were declared when the last ticks were emitted: new ones did not.
        before = {} if stored is None else stored_meaning(stored)
        self.has_same_alerts = before.get(ALERTS_LABEL) == self._label.get(ALERTS_LABEL)
        # Whether figures chose what was emitted by the same rule.
        self.has_same_emit = before.get(EMIT_LABEL) == self._label.get(EMIT_LABEL)
        # The alerts that have judged all that was emitted, and the rule that chose it: the stored
        # ones, until the new ones have.
        judges = (ALERTS_LABEL, EMIT_LABEL, _JUDGE_ALL_AT)
        others = {name: text for name, text in self._label.items() if name not in judges}
        self._judged_by = others | {name: before[name] for name in judges if name in before}
        # Stored at once: until then, the topic could be deleted and created again unnoticed.
        self._claims_source = self.is_stored and claims(self.checkpoint, topic_id)
        self.checkpoint = of_topic(self.checkpoint, topic_id)
        # The place up to which all emissions and letters are acknowledged, or will be before a
        # state is written; and the watermark there.
        self.emitted = decode_emitted(stored, self.checkpoint)
        self.emitted_watermark = self.emitted.max_time - self._lateness
        # The first tick of other alerts than before, at which they judge all keys.
        self.judge_all_at: int | None = None
        if self.has_same_alerts and _JUDGE_ALL_AT in before:
            self.judge_all_at = int(before[_JUDGE_ALL_AT])
        elif topology.alerts and not self.has_same_alerts and self.emitted.max_time != NO_TIME:
            self.judge_all_at = tick_after(self.emitted_watermark, topology.every_ms)
        # The counters when this worker began, undecided records included.
        self._least = self.emitted.counters
        # A restarted worker reads from here on, or from further on, if it reads at all.
        self.durable_offset = self.checkpoint.next_offset if self.is_stored else 0
        # The last record read, also by the worker before: a restart reads some records again.
        self.mark = stored_mark(stored)
        self._has_lost = False
        self._snapshot: Snapshot | None = None

    def read(self, mark: LogMark) -> None:
        """Note the last record read; one before it is read again."""
        if not mark.is_before(self.mark):
            self.mark = mark

    def lost(self) -> None:
        """Note that records are gone: the next snapshot stores it; no mark until one is read."""
        self.mark, self._has_lost = None, True

    def reached(self, ledger: Ledger, undecided: Iterable[int]) -> Checkpoint:
        """Return the position of reading; the records at the offsets `undecided` are taken as not
        read. No counter goes back, as monitors take that for a restart: where a record that was
        counted before a restart is refused after it, the next one counted is not added.
        """
        if ledger.reached.next_offset < self.emitted.next_offset:
            return self.emitted  # Records that were read before a restart are being read again.
        reached = ledger.reached_without(undecided)
        return replace(reached, counters=reached.counters.at_least(self._least))

    def snapshot(
        self,
        keys: KeyStates,
        slots: Iterable[int],
        ledger: Ledger,
        clock: EventClock,
        next_offset: int,
        waiting_offset: int | None,
        told: Mapping[str, bytes | None],
    ) -> Snapshot | None:
        """Return the states of these slots that changed since they were last taken, and the
        checkpoint with them; None if nothing has changed.

        `waiting_offset` is the least offset of an event that waits; `told` are the notes of
        provisional alerts that changed.
        """
        states = keys.take_changes(slots)
        needed = needed_offset(keys, next_offset, waiting_offset)
        end = ledger.reached
        is_known = self.is_stored or not next_offset
        is_known = is_known and needed <= self.checkpoint.next_offset
        if (
            is_known
            and not states
            and not told
            and end.next_offset <= self.emitted.next_offset
            and not self._claims_source
            and not self.is_changed
            and not self._has_lost
        ):
            return None
        self.is_stored, self._claims_source, self.is_changed = True, False, False
        self.checkpoint = replace(ledger.settle(needed), recent=clock.settle(needed))
        if end.next_offset > self.emitted.next_offset or self._has_lost:
            self.emitted = replace(end, recent=Recent(), topic_id="", loss=None)
            self.emitted_watermark = end.max_time - self._lateness
        if end.next_offset >= self.emitted.next_offset:
            self._judged_by = self._label
            tick, watermark = self.judge_all_at, self.checkpoint.max_time - self._lateness
            if tick is not None and watermark < tick:
                # A restart judges those keys again whose states are not durable by then.
                self._judged_by = {**self._label, _JUDGE_ALL_AT: str(tick)}
        self._has_lost = False
        encoded = encode_checkpoint(
            self.checkpoint, self._judged_by, self.emitted, self._slots, self.mark
        )
        self._snapshot = Snapshot(states, encoded, needed, told)
        return self._snapshot

    def written(self, keys: KeyStates) -> None:
        """Note that the last snapshot is durable."""
        if self._snapshot is not None:
            self.durable_offset = self._snapshot.next_offset
            keys.written()
            self._snapshot = None


def needed_offset(keys: KeyStates, next_offset: int, waiting_offset: int | None) -> int:
    """Return the first offset to read again for events that wait and states not in a snapshot."""
    needed = (next_offset, waiting_offset, keys.first_offset())
    return min(offset for offset in needed if offset is not None)
