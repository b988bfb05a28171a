"""From a batch of records to events that wait: each record counts, is late or refused, or is passed
over, and the ledger notes which.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine import clock
from slidestat.engine.checkpoints.checkpoint import Checkpoint, Loss, joined
from slidestat.engine.checkpoints.ledger import COUNTED, DEAD, LATE, PASSED_OVER, Ledger
from slidestat.engine.clock import EventClock, Refused
from slidestat.engine.decoding.conditions import LackedFields
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns, Refusal, refuse_future
from slidestat.engine.events import Events, texts
from slidestat.engine.intake.letters import Decided, Letter, as_decided, letter_of
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.quota import Quota
from slidestat.engine.records import NO_TIME, RecordBatch
from slidestat.engine.waiting import EventStore
from slidestat.schemas.dead_letter import Reason
from slidestat.synopses.core.arrays import Integers

# Records that wait and may yet be refused: those that lie ahead of the records around them.


class Suspects:
    """The suspects of a partition's clock, whole: a letter would have them."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._records: dict[int, Letter] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def offsets(self) -> Iterable[int]:
        return self._records

    def refuse(
        self,
        events: Events,
        waiting: EventStore,
        batch: RecordBatch,
        clock: EventClock,
        refused: Sequence[Refused],
    ) -> tuple[Events, list[Decided]]:
        """Return those left of `events`, which are on time, and the letters of the suspects that
        were refused, if they are among those or wait, each with the offset at which that was
        decided; what may be refused later is kept whole.
        """
        if not refused and not self._records and not clock.suspects:
            return events, []
        known = dict.fromkeys(events.offsets.tolist()) | self._records
        letters: list[Decided] = []
        for suspect in refused:
            if suspect.offset in known:
                letter = known[suspect.offset] or _suspect(batch, suspect.offset)
                detail = f"{suspect.ahead} {self._unit} ahead of the records around it"
                letters.append((suspect.decided_at, letter._replace(detail=detail)))
        offsets = [letter.offset for _, letter in letters]
        waiting.discard(offsets)
        self._records = {
            offset: known[offset] or _suspect(batch, offset)
            for offset in clock.suspects
            if offset in known
        }
        return events.take(np.flatnonzero(~np.isin(events.offsets, offsets))), letters


def _suspect(batch: RecordBatch, offset: int) -> Letter:
    row = int(np.searchsorted(batch.offsets, offset))
    return letter_of(batch, Refusal(row, Reason.FROM_THE_FUTURE, ""))


@dataclass(slots=True)
class Taken:
    """A batch that was taken in: watermarks before it and after each record, events, letters."""

    before: int
    offsets: Integers
    watermarks: Integers
    events: Events
    dead_letters: list[Letter] = field(default_factory=list)
    late: list[Letter] = field(default_factory=list)


class Intake:
    """The intake of the records of one partition, in the order of their offsets."""

    def __init__(
        self,
        topology: Topology,
        decoder: EventDecoder,
        whole_key: str | None,
        start: Checkpoint,
        keys: HeldKeys,
        waiting: EventStore,
        clock: EventClock | None = None,
    ) -> None:
        """Create the intake; `whole_key` is the key of all events, where a state is of the whole
        partition; `clock` is the partition's own, if its records cannot determine it.
        """
        self._lateness = topology.lateness_ms
        self._ahead = topology.ahead_ms
        self._times = topology.times
        self._span = topology.span_length.length if topology.sees_span_alone else None
        self._columns = topology.columns
        self._decoder = decoder
        self._whole_key = whole_key
        self._keys = keys
        self._waiting = waiting
        self._lacked = LackedFields(topology)
        self._quota = Quota(topology)
        self.suspects = Suspects(topology.times.unit)
        self.clock = clock or EventClock(start, topology.lateness_ms)
        self.ledger = Ledger(start)
        # The newest records that were gone before they were read.
        self.loss = start.loss
        self.next_offset = start.next_offset

    @property
    def watermark(self) -> int:
        """The event time reached so far, less the lateness."""
        return self.clock.time - self._lateness

    def take(
        self,
        batch: RecordBatch,
        decoded: EventColumns | None,
        unread_offset: int,
        quota: Quota | None = None,
    ) -> Taken | None:
        """Take in a batch; what counts of it waits from now on. None if all was read before; what
        lies before `unread_offset` leads to no letters. `quota` charges records that were judged
        by other statistics.
        """
        quota = quota or self._quota
        batch = batch.since(self.next_offset)
        if not len(batch):
            return None
        columns = decoded or self._decoder.decode_batch(batch)
        if not self._times.is_sequence:
            columns = refuse_future(columns, batch.timestamps, self._ahead)
        rows = columns.rows
        times = np.full(len(batch), NO_TIME, dtype=np.int64)
        times[rows] = columns.times
        times[columns.passed_over] = columns.passed_over_times
        started_at, before = self.clock.time, self.watermark
        clocks, unconfirmed = self.clock.read(batch.offsets, times)
        taken = Taken(before, batch.offsets, clocks - self._lateness, Events.none(self._columns))
        taken.dead_letters += (letter_of(batch, refusal) for refusal in columns.refusals)
        late_by = clock.late_by(times, clocks, started_at, self._lateness)[rows]
        on_time = late_by <= 0
        for row, by in zip(rows[~on_time].tolist(), late_by[~on_time].tolist(), strict=True):
            detail = f"{by} {self._times.unit} behind the watermark"
            taken.late.append(letter_of(batch, Refusal(row, Reason.LATE, detail)))

        events = self._events(batch, columns)
        if not on_time.all():
            events = events.take(np.flatnonzero(on_time))
        outcomes = np.full(len(batch), DEAD, dtype=np.uint8)
        outcomes[rows] = np.where(on_time, COUNTED, LATE)
        outcomes[columns.passed_over] = PASSED_OVER
        refused = self._charge(quota, events, int(taken.watermarks[-1]))
        if len(refused):
            full = rows[on_time][refused]
            for row, time in zip(full.tolist(), events.times[refused].tolist(), strict=True):
                refusal = Refusal(row, Reason.WINDOW_FULL, quota.refusal(time))
                taken.dead_letters.append(letter_of(batch, refusal))
            outcomes[full] = DEAD
            events = events.take(np.delete(np.arange(len(events)), refused))
        self.loss = self._after_loss(times, batch.timestamps, started_at)
        lacked = self._lacked.left_out(events.numbers, events.items, events.conditions)
        left_out = {
            label: np.searchsorted(batch.offsets, events.offsets[lacking])
            for label, lacking in lacked.items()
        }
        self.ledger.append(batch.offsets, clocks, outcomes, self.loss, left_out)
        events, letters = self.suspects.refuse(
            events, self._waiting, batch, self.clock, unconfirmed
        )
        for _, letter in letters:
            self.ledger.refuse(letter.offset)
        if batch.offsets[0] < unread_offset:
            taken.dead_letters = [it for it in taken.dead_letters if it.offset >= unread_offset]
            taken.late = [it for it in taken.late if it.offset >= unread_offset]
            letters = [it for it in letters if it[0] >= unread_offset]
        taken.dead_letters = as_decided(taken.dead_letters, letters)

        self.next_offset = int(batch.offsets[-1]) + 1
        self._waiting.add(events)
        taken.events = events
        return taken

    def lose(self, first_offset: int, next_offset: int) -> None:
        """Continue at `next_offset`: the records from `first_offset` up to it are gone. Windows
        that may lack them are marked.
        """
        records = next_offset - first_offset
        first = max(self.watermark, self._times.earliest)
        self.loss = joined(self.loss, records, first, self.watermark, self._span)
        self.ledger.lose(next_offset, self.clock.time, self.loss, records)
        self.next_offset = next_offset

    def _events(self, batch: RecordBatch, columns: EventColumns) -> Events:
        keys = columns.keys
        if self._whole_key is not None:
            keys = [self._whole_key] * len(keys)
        return Events(
            batch.offsets[columns.rows],
            columns.times,
            texts(keys),
            columns.numbers,
            tuple(map(texts, columns.items)),
            columns.conditions,
        )

    def _charge(self, quota: Quota, events: Events, watermark: int) -> Integers:
        """Charge new events on time to their keys' quotas; the rows of those that are refused."""
        refused, used = quota.judge(events, self._keys.read_with_used, watermark)
        self._keys.used |= used
        return refused

    def _after_loss(
        self, times: Integers, timestamps: Sequence[int] | Integers, clock: int
    ) -> Loss | None:
        """Return the newest loss, closed by the first of the records that is on time, if one is;
        `clock` is the event time before them.
        """
        if self.loss is None or not self.loss.is_open:
            return self.loss
        earliest = max(clock - self._lateness, self._times.earliest)
        on_time = np.flatnonzero(times >= earliest)
        if not len(on_time):
            return self.loss
        row = int(on_time[0])
        stamp, newest = int(timestamps[row]), max(int(times[row]), clock)
        if not self._times.is_sequence:
            # Without a timestamp nothing bounds how far ahead a lost event may have been.
            newest = max(newest, stamp + self._ahead if stamp > 0 else self._times.latest)
        last = newest + self._lateness + self.clock.least_step
        return self.loss.closed(min(last, self._times.latest))
