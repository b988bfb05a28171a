"""One partition of one topology, from record batches to key states, emissions and dead letters.

Pure: it reads a store, and returns what is to be written; it never talks to Kafka. The result is a
function of the records' order alone, whatever the batches, the workers or the restarts:

1. records before the next expected offset are passed over (they were seen);
2. unreadable ones are refused, late ones (behind the watermark) set aside, and what would outgrow
   its key's windows is refused, all as letters; so is, once that is clear, what lies far ahead of
   the records around it (`event_clock.py`);
3. the others wait, and are absorbed in order of (time, offset) when the watermark has reached them
   and there is something to say: all of them in one go when a tick has passed, those of some keys
   when it is their turn to be written, and all once they have become many;
4. a tick is emitted in the batch in which the watermark passes it, for the keys with events since
   the tick before, in order of (tick, key); synopses see exactly the events before the tick;
5. a key whose last event has left the span is emitted once more, at the first tick that says so,
   and its state is deleted.

States become durable slot by slot (`unwritten.py`), so that after a crash some are far ahead of the
checkpoint. What a key's state has absorbed already is not inserted again, and a tick that its
watermark has passed is not emitted again: its emission was acknowledged before that state was
written. Nor is what was emitted before the last flush: the checkpoint says up to where that was.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from slidestat.declare.runners import Answered, ItemColumn, Runner, Work
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import Alerting, AlertRecord, Emitted
from slidestat.engine.checkpoints.checkpoint import (
    NO_TIME,
    Checkpoint,
    Recent,
    claims,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    of_topic,
)
from slidestat.engine.checkpoints.ledger import COUNTED, DEAD, LATE, PASSED_OVER, Ledger
from slidestat.engine.checkpoints.loss import Loss, joined
from slidestat.engine.clock import event_time
from slidestat.engine.clock.event_clock import EventClock, Refused
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns, Refusal, refuse_future
from slidestat.engine.decoding.lacked_fields import LackedFields
from slidestat.engine.emissions.emission import EmissionEncoder, OutputRecord
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.engine.emissions.in_order import LAST, Given, Placed, in_order, place_of
from slidestat.engine.event_store import EventStore
from slidestat.engine.events import Events, distinct_texts, texts
from slidestat.engine.keys.key_cache import KeyCache, PartitionStore
from slidestat.engine.keys.key_runs import KeyRuns, cut, gaps_of
from slidestat.engine.keys.key_sample import KeySample
from slidestat.engine.keys.key_state import (
    KeyState,
    decode_key_state,
    encode_key_state,
    may_have_alerts,
    read_clock,
)
from slidestat.engine.keys.key_timers import DueSlice, KeyTimers, Place, due_slices
from slidestat.engine.keys.unwritten import SLOTS, slot_of
from slidestat.engine.pace import Pace
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.publishing import Clock, Publication, Publisher, TickPublisher
from slidestat.engine.quota import Quota
from slidestat.engine.records import RecordBatch
from slidestat.engine.view import PartitionView
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError

Int64s = npt.NDArray[np.int64]


class Letter(NamedTuple):
    """A record that was not counted, with its position and why."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    reason: Reason
    detail: str


@dataclass(slots=True)
class Effects:
    """The outputs of a batch, beside the key states."""

    emissions: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[Letter] = field(default_factory=list)
    late: list[Letter] = field(default_factory=list)
    published: list[Publication | Clock] = field(default_factory=list)
    alerts: list[AlertRecord] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be sent."""
        said = self.emissions or self.dead_letters or self.late or self.published
        return not (said or self.alerts)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The states that must be durable before reading may start again at `next_offset`.

    The state of a key is None where it is to be deleted.
    """

    states: dict[str, bytes | None]
    checkpoint: bytes
    next_offset: int


# Of keys or events, before it is known how long they take.
_FIRST_SLICE = 500


class _DueKeys(NamedTuple):
    """Of keys with events, those of which something is due besides: at which tick, and which may
    fall silent.
    """

    opened: dict[str, int]
    closing: set[str]


class PartitionProcessor:
    """Statistics of the keys of one partition."""

    # States kept in memory in front of the store; least recently touched go first.
    CACHED_KEYS = 200_000
    # Of a tick's keys without events, of the events of the others, and of keys to delete, so many
    # at the most are in hand at a time.
    SLICE_KEYS = 5_000
    SLICE_EVENTS = 100_000
    DELETED_KEYS = 100_000
    # So many of the events that could be absorbed wait, and so many bytes, and a batch's.
    WAITING_EVENTS = 100_000
    WAITING_BYTES = 16 * 2**20

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        store: PartitionStore,
        decoder: EventDecoder | None = None,
        codec: EmissionWriter | None = None,
        work: PartitionWork | None = None,
        topic_id: str = "",
        publisher: TickPublisher | None = None,
    ) -> None:
        """`topic_id` is that of the source, which a checkpoint without one takes for its own;
        `publisher` says what is published tick by tick, by default what the topology does.
        """
        self._partition = partition
        self._observed = work or PartitionWork()
        self._every = topology.every_ms
        self._lateness = topology.lateness_ms
        self._ahead = topology.ahead_ms
        self._times = topology.times
        self._span = topology.span_length
        self._forgets_keys = topology.forgets_keys
        self._windows = np.array(topology.window_lengths, dtype=np.int64)
        self._runners = list(dict.fromkeys(topology.runners))
        self._columns = topology.columns
        self._label = topology.state_label
        self._decoder = decoder or EventDecoder(topology)
        self._encoder = EmissionEncoder(topology, topic, partition, codec or JsonCodec())
        self._publisher = publisher
        if topology.publish:
            self._publisher = Publisher(topology, topic, partition)
        self._alerting = Alerting(topology, topic, partition) if topology.alerts else None
        # They may be spread over partitions: what one of them knows is no answer.
        self._answered_by_referee = frozenset(
            () if topology.publishes_partitions else topology.publish
        )
        stored = store.checkpoint()
        self._has_checkpoint = stored is not None
        self._checkpoint = decode_checkpoint(stored, topology.state_meaning)
        # Stored at once: until it is, the topic could be made anew unnoticed.
        self._claims_source = self._has_checkpoint and claims(self._checkpoint, topic_id)
        self._checkpoint = of_topic(self._checkpoint, topic_id)
        self._next_offset = self._checkpoint.next_offset
        self._clock = EventClock(self._checkpoint, self._lateness)
        # Waiting records that may yet be refused, whole: a letter would have them.
        self._suspects: dict[int, Letter] = {}
        # Up to where everything that was emitted, or sent as a letter, is acknowledged or about to
        # be before a state is written; and the watermark there.
        self._emitted = decode_emitted(stored, self._checkpoint)
        self._emitted_watermark = self._emitted.max_time - self._lateness
        self._ledger = Ledger(self._checkpoint)
        # The newest records that were gone before they were read.
        self._loss = self._checkpoint.loss
        self._waiting = EventStore(self._columns)
        self._lacked = LackedFields(topology)
        self._quota = Quota(topology)
        # What keys have used of their quotas, where events that wait have changed it.
        self._used: dict[str, bytes] = {}
        self._cache = KeyCache(store, self.CACHED_KEYS, self._observed)
        # Keys whose newest event is in no emission yet; keys whose last emission is to come; and
        # keys that had it, with the offset up to which they have absorbed.
        self._open = KeyTimers()
        self._closing = KeyTimers()
        self._closed: dict[str, int] = {}
        # A restarted worker reads from here on, or from further on, if it reads at all.
        self._durable_offset = self._checkpoint.next_offset if self._has_checkpoint else 0
        self._snapshot: Snapshot | None = None
        # Up to where had been read when it was the turn of a slot of keys to be written.
        self._read_at_turn = [self._next_offset] * SLOTS
        self._events_pace = Pace(_FIRST_SLICE, self.SLICE_EVENTS)
        self._keys_pace = Pace(_FIRST_SLICE, self.SLICE_KEYS)
        # Whether a batch is half done: its ticks are not all emitted yet.
        self._is_amid = False
        # A copy that looks ahead is a trial; how far the last one looked since the last batch.
        self._is_trial = False
        self._looked_ahead = self._published_ahead = NO_TIME
        self._find_timers(store)

    @property
    def next_offset(self) -> int:
        """The first offset not yet read."""
        return self._next_offset

    @property
    def has_begun(self) -> bool:
        """Whether anything was ever read."""
        return self._has_checkpoint or self._next_offset > 0

    @property
    def unread_offset(self) -> int:
        """The first offset that nobody has read yet: what lies before it leads to no letters."""
        return max(self._next_offset, self._emitted.next_offset)

    @property
    def watermark(self) -> int:
        """How far event time has come, less the lateness."""
        return self._clock.time - self._lateness

    @property
    def newest_time(self) -> int:
        """The largest time of an event that is counted or waits, or how far event time has come."""
        return max(self._waiting.last_time(), self._clock.time)

    @property
    def firing(self) -> dict[str, int]:
        """For how many of its keys each alert fires."""
        return {} if self._alerting is None else self._alerting.firing

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint taken."""
        return self._checkpoint

    @property
    def key_sample(self) -> KeySample:
        """Some of its keys, those of least hash: to be compared with other partitions' keys."""
        return self._cache.sample

    @property
    def undecided(self) -> int:
        """How many records wait that may yet be refused."""
        return len(self._suspects)

    @property
    def reached(self) -> Checkpoint:
        """Where reading has come, for those who watch: records that wait for the watermark count,
        those of which it is not decided what they are do not.
        """
        if self._ledger.reached.next_offset < self._emitted.next_offset:
            return self._emitted  # What was read before a restart is being read again.
        return self._ledger.reached_without(self._suspects)

    @property
    def unwritten_bytes(self) -> int:
        """Bytes of the states that no snapshot has taken yet."""
        return self._cache.unwritten_bytes

    @property
    def unwritten_records(self) -> int:
        """How many offsets a restarted worker would read again for the states that no snapshot has
        taken yet.
        """
        waiting = self._waiting.first_offset() if self._lateness else None
        end = self._next_offset if waiting is None else waiting
        return max(0, end - self._needed_offset())

    def process(self, batch: RecordBatch) -> Effects:
        """Take in a batch; what it leads to is returned or kept for the next snapshot."""
        effects = Effects()
        for step in self.steps(batch):
            effects.emissions += step.emissions
            effects.dead_letters += step.dead_letters
            effects.late += step.late
            effects.published += step.published
            effects.alerts += step.alerts
        return effects

    def steps(self, batch: RecordBatch, decoded: EventColumns | None = None) -> Iterator[Effects]:
        """Take in a batch step by step: a tick of many keys leads to more than memory may hold.

        All events are read in the first step, so questions may be asked between any two. But
        this processor must be thrown away if it does not come to the last one: no snapshot is
        taken meanwhile. `decoded` are the columns of a batch's records, none of which was read
        before, where they are known already.
        """
        self._is_amid = True
        yield from self._steps(batch, decoded)
        self._is_amid = False

    def _steps(self, batch: RecordBatch, decoded: EventColumns | None) -> Iterator[Effects]:
        batch = batch.since(self._next_offset)
        if not len(batch):
            return
        effects = Effects()
        emitted = self._emitted.next_offset
        columns = decoded or self._decoder.decode(batch.values, batch.keys, batch.timestamps)
        if not self._times.is_sequence:
            columns = refuse_future(columns, batch.timestamps, self._ahead)
        rows = columns.rows
        for refusal in columns.refusals:
            effects.dead_letters.append(_letter(batch, refusal))

        times = np.full(len(batch), NO_TIME, dtype=np.int64)
        times[rows] = columns.times
        times[columns.passed_over] = columns.passed_over_times
        started_at, before = self._clock.time, self.watermark
        clocks, unconfirmed = self._clock.read(batch.offsets, times)
        late_by = event_time.late_by(times, clocks, started_at, self._lateness)[rows]
        on_time = late_by <= 0
        for row, by in zip(rows[~on_time].tolist(), late_by[~on_time].tolist(), strict=True):
            detail = f"{by} {self._times.unit} behind the watermark"
            effects.late.append(_letter(batch, Refusal(row, Reason.LATE, detail)))

        keys = columns.keys
        if self._publisher is not None and self._publisher.whole_key is not None:
            keys = [self._publisher.whole_key] * len(keys)
        events = Events(
            batch.offsets[rows],
            columns.times,
            texts(keys),
            columns.numbers,
            tuple(map(texts, columns.items)),
            columns.conditions,
        )
        if not on_time.all():
            events = events.take(np.flatnonzero(on_time))
        outcomes = np.full(len(batch), DEAD, dtype=np.uint8)
        outcomes[rows] = np.where(on_time, COUNTED, LATE)
        outcomes[columns.passed_over] = PASSED_OVER
        watermarks = clocks - self._lateness
        refused = self._charge(events, int(watermarks[-1]))
        if len(refused):
            full = rows[on_time][refused]
            for row, time in zip(full.tolist(), events.times[refused].tolist(), strict=True):
                refusal = Refusal(row, Reason.WINDOW_FULL, self._quota.refusal(time))
                effects.dead_letters.append(_letter(batch, refusal))
            outcomes[full] = DEAD
            events = events.take(np.delete(np.arange(len(events)), refused))
        self._loss = self._after_loss(times, batch.timestamps, started_at)
        lacked = self._lacked.left_out(events.numbers, events.items, events.conditions)
        left_out = {
            label: np.searchsorted(batch.offsets, events.offsets[lacking])
            for label, lacking in lacked.items()
        }
        self._ledger.append(batch.offsets, clocks, outcomes, self._loss, left_out)
        events, letters = self._refuse_suspects(events, batch, unconfirmed)
        if batch.offsets[0] < emitted:
            effects.dead_letters = [it for it in effects.dead_letters if it.offset >= emitted]
            effects.late = [it for it in effects.late if it.offset >= emitted]
            letters = [(decided, letter) for decided, letter in letters if decided >= emitted]
        effects.dead_letters = _in_order(effects.dead_letters, letters)

        self._looked_ahead = self._published_ahead = NO_TIME
        self._next_offset = int(batch.offsets[-1]) + 1
        self._waiting.add(events)
        if self.watermark // self._every > before // self._every:
            if self._publisher is None:
                yield effects
                touched = self._touched(before, batch.offsets, watermarks)
            else:
                events = self._waiting.take(self.watermark)
                placed, effects.published = self._insert_and_publish(
                    self._publisher, events, before, batch.offsets, watermarks
                )
                yield effects
                touched = iter([(placed, LAST)])
            untouched = self._untouched(batch.offsets, watermarks)
            yield from map(self._effects, in_order(touched, untouched))
            return
        if (
            self._waiting.added_events > self.WAITING_EVENTS
            or self._waiting.added_bytes > self.WAITING_BYTES
        ):
            yield effects
            yield from self._absorb_all()
            return
        yield effects

    def _effects(self, records: list[OutputRecord]) -> Effects:
        """Emissions, and the changes of alerts among them."""
        if self._alerting is None:
            return Effects(records)
        alerts = [record for record in records if isinstance(record, AlertRecord)]
        emissions = [record for record in records if not isinstance(record, AlertRecord)]
        return Effects(emissions, alerts=alerts)

    def _absorb_all(self) -> Iterator[Effects]:
        """Insert all events up to the watermark though no tick has passed, some keys at a time."""
        if self._publisher is not None:
            self._absorb(self._waiting.take(self.watermark))
            return
        last, watermarks = np.array([[self._next_offset - 1], [self.watermark]], np.int64)
        for _ in self._touched(self.watermark, last, watermarks):
            yield Effects()

    def _absorb(self, events: Events) -> None:
        """Insert events up to the watermark though no tick has passed: nothing is said."""
        if self._publisher is not None and not self._is_trial:
            self._publisher.absorbing(events)
        last = np.array([self._next_offset - 1], np.int64)
        self._insert(events, self.watermark, last, np.array([self.watermark], np.int64))

    def lose(self, first_offset: int, next_offset: int) -> None:
        """Go on at `next_offset`: the records from `first_offset` up to it are gone. Windows that
        may lack them say so.
        """
        records = next_offset - first_offset
        first = max(self.watermark, self._times.earliest)
        span = self._span.length if self._forgets_keys else None
        self._loss = joined(self._loss, records, first, self.watermark, span)
        self._ledger.lose(next_offset, self._clock.time, self._loss, records)
        self._next_offset = next_offset

    def _after_loss(self, times: Int64s, timestamps: Sequence[int], clock: int) -> Loss | None:
        """The newest loss, closed by the first of the records that is on time, if one is; `clock`
        is how far event time had come before them.
        """
        if self._loss is None or not self._loss.is_open:
            return self._loss
        earliest = max(clock - self._lateness, self._times.earliest)
        on_time = np.flatnonzero(times >= earliest)
        if not len(on_time):
            return self._loss
        row = int(on_time[0])
        latest = 0 if self._times.is_sequence else timestamps[row] + self._ahead
        newest = max(latest, int(times[row]), clock)
        return self._loss.closed(newest + self._lateness + self._clock.least_step)

    def _charge(self, events: Events, watermark: int) -> Int64s:
        """Charge new events on time to their keys' quotas; the rows of those that are refused."""
        refused, used = self._quota.judge(events, self._read_with_used, watermark)
        self._used |= used
        return refused

    def _read_with_used(self, keys: list[str]) -> list[KeyState]:
        """States of keys, with what their events that wait have used of their quotas."""
        return [
            state._replace(used=self._used.get(key, state.used))
            for key, state in zip(keys, self._cache.read(keys), strict=True)
        ]

    def _refuse_suspects(
        self, events: Events, batch: RecordBatch, refused: Sequence[Refused]
    ) -> tuple[Events, list[tuple[int, Letter]]]:
        """Return those left of `events`, which are on time, and the letters of the suspects that
        were refused, if they are among those or wait, each with the offset at which that was
        decided; what may be refused later is kept whole.
        """
        if not refused and not self._suspects and not self._clock.suspects:
            return events, []
        known = dict.fromkeys(events.offsets.tolist()) | self._suspects
        letters: list[tuple[int, Letter]] = []
        for suspect in refused:
            if suspect.offset in known:
                self._ledger.refuse(suspect.offset)
                letter = known[suspect.offset] or _suspect(batch, suspect.offset)
                detail = f"{suspect.ahead} {self._times.unit} ahead of the records around it"
                letters.append((suspect.decided_at, letter._replace(detail=detail)))
        offsets = [letter.offset for _, letter in letters]
        self._waiting.discard(offsets)
        self._suspects = {
            offset: known[offset] or _suspect(batch, offset)
            for offset in self._clock.suspects
            if offset in known
        }
        return events.take(np.flatnonzero(~np.isin(events.offsets, offsets))), letters

    def provisional(self, now: int) -> Iterator[list[OutputRecord]]:
        """Emissions to come, as they would be if nothing else came before the time `now`: for a
        partition that brings nothing new; slice by slice. Each is given once. They leave no trace,
        and those that replace them come all the same: a tick after events is sure to be emitted,
        but for an event that lies ahead of the others, not after `now`, and is refused in the end.
        """
        horizon = now - self._lateness
        every = self._every
        # The events whose next tick lies in between.
        waiting = self._waiting.has_between(
            self._looked_ahead // every * every, horizon // every * every
        )
        if not waiting and not any(
            self._looked_ahead < tick <= horizon for tick in self._open.ticks()
        ):
            return
        trial = self._trial()
        last = np.array([self._next_offset - 1], np.int64)
        looked_ahead, self._looked_ahead = self._looked_ahead, horizon
        horizons = np.array([horizon], np.int64)
        touched = trial._touched(self.watermark, last, horizons)
        for emissions in in_order(touched, trial._untouched(last, horizons)):
            yield [emission for emission in emissions if emission[2] > looked_ahead]

    def published_ahead(self, now: int) -> list[Publication | Clock]:
        """Return what this partition would publish if nothing else came before the time `now`: its
        synopses of ticks that are not passed yet, then its clock; for a partition that brings
        nothing new. Nothing, if there has been no further tick since it was asked last. No trace.
        """
        horizon = now - self._lateness
        tick = horizon // self._every * self._every
        if self._publisher is None or tick <= max(self._published_ahead, self.watermark):
            return []
        self._published_ahead = tick
        trial = self._trial()
        events = trial._waiting.take(horizon)
        last = np.array([self._next_offset - 1], np.int64)
        horizons = np.array([horizon], np.int64)
        return trial._insert_and_publish(self._publisher, events, self.watermark, last, horizons)[1]

    def _trial(self) -> "PartitionProcessor":
        """A copy that may be spoilt."""
        trial = copy(self)
        trial._is_trial = True
        trial._open, trial._closing = self._open.copy(), KeyTimers()
        trial._cache, trial._waiting = self._cache.copy(), self._waiting.copy()
        trial._used = dict(self._used)
        return trial

    def view(self) -> PartitionView:
        """Its keys, for questions."""
        return PartitionView(
            self._partition,
            self.watermark,
            self._next_offset,
            self._cache,
            self._loss,
            _Unabsorbed(self),
        )

    def waiting_keys(self) -> set[str]:
        """The keys of events up to the watermark that wait."""
        return self._waiting.keys(self.watermark)

    def state_with_waiting(self, key: str) -> bytes | None:
        """A key's state as it is when the events up to the watermark that wait are absorbed."""
        events = self._waiting.of_key(key, self.watermark)
        if not len(events):
            return self._cache.peek(key)
        trial = copy(self)
        trial._is_trial = True
        trial._open, trial._closing = KeyTimers(), KeyTimers()
        trial._cache, trial._used = self._cache.copy([key]), dict(self._used)
        trial._absorb(events)
        return trial._cache.peek(key)

    def snapshot(self, slots: Iterable[int] = range(SLOTS)) -> Snapshot | None:
        """Return the changes since the last snapshot, of the keys of these slots, or None if there
        are none; it must be made durable before the next one is taken, or this processor be thrown
        away. All that was emitted must be acknowledged before.
        """
        if self._is_amid:
            raise RuntimeError("a batch is half done: its emissions are not all known")
        self._delete_closed()
        slots = frozenset(slots)
        if len(slots) == SLOTS:
            self._absorb(self._waiting.take(self.watermark))
        else:
            self._absorb_old(slots)
        states = self._cache.take_changes(slots)
        next_offset = self._needed_offset()
        end = self._ledger.reached
        is_known = self._has_checkpoint or not self._next_offset
        is_known = is_known and next_offset <= self._checkpoint.next_offset
        if (
            is_known
            and not states
            and end.next_offset <= self._emitted.next_offset
            and not self._claims_source
        ):
            return None
        self._has_checkpoint, self._claims_source = True, False
        self._checkpoint = replace(
            self._ledger.settle(next_offset), recent=self._clock.settle(next_offset)
        )
        if end.next_offset > self._emitted.next_offset:
            self._emitted = replace(end, recent=Recent(), topic_id="", loss=None)
            self._emitted_watermark = end.max_time - self._lateness
        self._snapshot = Snapshot(
            states,
            encode_checkpoint(self._checkpoint, self._label, self._emitted),
            next_offset,
        )
        return self._snapshot

    def _absorb_old(self, slots: Iterable[int]) -> None:
        """Insert the events of slots whose turn it is, if one has waited since their turn before:
        most of what waits is absorbed by a tick before that, with all else of its key.
        """
        first = self._waiting.first_offset(self.watermark)
        old = {slot for slot in slots if first is not None and first < self._read_at_turn[slot]}
        if old:
            self._absorb(self._waiting.take_keys(self.watermark, lambda key: slot_of(key) in old))
        for slot in slots:
            self._read_at_turn[slot] = self._next_offset

    def _needed_offset(self) -> int:
        """From where the source must be read for what waits and for the states that no snapshot has
        taken.
        """
        needed = (self._next_offset, self._waiting.first_offset(), self._cache.first_offset())
        return min(offset for offset in needed if offset is not None)

    def written(self) -> None:
        """The last snapshot is durable."""
        if self._snapshot is not None:
            self._durable_offset = self._snapshot.next_offset
            self._cache.written(self._snapshot.states)
            self._snapshot = None

    def _find_timers(self, store: PartitionStore) -> None:
        """Arm the timers of the stored keys.

        A state may be ahead of the checkpoint, also in events that will not be read again: it is
        asked for the ticks of its own newest event, not for the checkpoint's next tick.
        """
        keys = 0
        for key, state in store.scan():
            keys += 1
            self._cache.sample.add(key)
            clock = read_clock(state)
            if self._alerting is not None and may_have_alerts(state):
                self._alerting.found(decode_key_state(state).alerts)
            passed = max(self.watermark, clock.watermark)
            tick = (clock.last_time // self._every + 1) * self._every
            if tick > passed:
                self._open.arm(key, tick)
            if self._span.of_events:
                continue
            closing = event_time.closing_tick(clock.last_time, self._span.length, self._every)
            if closing > passed:
                self._closing.arm(key, closing)
            elif self._forgets_keys:
                self._closed[key] = clock.offset
        self._cache.keys_held = keys

    def _delete_closed(self) -> None:
        """Delete the states of closed keys that a restarted worker would not come upon again: one
        that was deleted and had to absorb its last events anew would make another state of them.
        """
        durable = self._durable_offset
        settled = list(
            islice(
                (key for key, offset in self._closed.items() if offset < durable),
                self.DELETED_KEYS,
            )
        )
        for key in settled:
            del self._closed[key]
        self._cache.delete(settled)

    def _touched(self, before: int, offsets: Int64s, watermarks: Int64s) -> Iterator[Given]:
        """Insert the events that wait up to the watermark, some keys at a time; what these come to
        at the ticks that `watermarks` (after each of `offsets`) passed after `before`.
        """
        watermark = int(watermarks[-1])
        slices = self._waiting.slices(watermark)
        # Now, for all: what is due of keys without events is found meanwhile.
        due = self._take_due(slices.keys, watermark)
        tick = (before // self._every + 1) * self._every
        while slices.next_key is not None:
            events = slices.take(self._events_pace.size)
            with self._events_pace.doing(len(events)):
                placed = self._insert(events, before, offsets, watermarks, due)
            yield placed, LAST if slices.next_key is None else (tick, slices.next_key)

    def _untouched(self, offsets: Int64s, watermarks: Int64s) -> Iterator[Given]:
        """Yield the answers of keys without events at the ticks that `watermarks` passed, some at a
        time.
        """
        pace = self._keys_pace
        watermark = int(watermarks[-1])
        for due in due_slices(self._open, self._closing, watermark, lambda: pace.size):
            with pace.doing(len(due.opened) + len(due.closing)):
                placed = self._answer_untouched(due, offsets, watermarks)
            yield placed, due.end

    def _take_due(self, keys: list[str], watermark: int) -> _DueKeys:
        """Take the timers of keys that are due up to the watermark."""
        ticks = ((key, self._open.take(key, watermark)) for key in keys)
        return _DueKeys(
            {key: tick for key, tick in ticks if tick is not None},
            {key for key in keys if self._closing.take(key, watermark) is not None},
        )

    def _insert(
        self,
        events: Events,
        before: int,
        offsets: Int64s,
        watermarks: Int64s,
        taken: _DueKeys | None = None,
    ) -> list[Placed]:
        """Insert events; what their keys come to at the ticks that `watermarks` (after each of
        `offsets`) passed after `before`, in order. `taken` is what was due of these keys, or also
        of others, where that is known.
        """
        if not len(events):
            return []
        watermark = int(watermarks[-1])
        keys, groups = distinct_texts(events.keys)
        opened, closing = taken or self._take_due(keys, watermark)
        due = [(group, opened[key]) for group, key in enumerate(keys) if key in opened]
        silent = [group for group, key in enumerate(keys) if key in closing]

        states = self._cache.load(keys)
        absorbed_watermarks = np.array([s.watermark for s in states], dtype=np.int64)
        absorbed_offsets = np.array([s.offset for s in states], dtype=np.int64)
        last_times = np.array([s.last_time for s in states], dtype=np.int64)

        order, _ = event_time.group_rows(groups, len(keys))
        groups, times = groups[order], events.times[order]
        ticks = event_time.tick_after(times, self._every)
        first = np.ones(len(ticks), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] != ticks[:-1])
        query_groups = np.concatenate((_column(due, 0), groups[first]))
        query_times = np.concatenate((_column(due, 1), ticks[first]))
        still_open = query_times > watermark
        for group, tick in zip(
            query_groups[still_open].tolist(), query_times[still_open].tolist(), strict=True
        ):
            # An event read again may belong to an earlier tick than what its state is ahead by.
            self._open.arm(keys[group], tick)
        query_groups, query_times = query_groups[~still_open], query_times[~still_open]

        new = (events.offsets[order] > absorbed_offsets[groups]) | (
            times > absorbed_watermarks[groups]
        )
        if not new.all():
            groups, times, order = groups[new], times[new], order[new]
        gaps = np.zeros(len(times), dtype=bool)
        if not self._span.of_events:
            previous, gaps = gaps_of(groups, times, last_times, self._span.length)
            gaps &= self._forgets_keys
        # Whether a key falls silent is not sure yet in a trial.
        closings = groups[:0], times[:0]
        if not self._span.of_events and not self._is_trial:
            closings = self._close(keys, states, groups, times, previous, silent, before, watermark)
            query_groups = np.concatenate((query_groups, closings[0]))
            query_times = np.concatenate((query_times, closings[1]))

        wanted = query_times > self._passed(absorbed_watermarks)[query_groups]
        query_groups, query_times = _distinct_pairs(query_groups[wanted], query_times[wanted])
        runs = cut(groups, gaps, times, len(keys), query_groups, query_times)
        answered = self._run(
            keys, states, runs, events, order, groups, query_groups, query_times, watermark
        )
        source_offsets = offsets[np.searchsorted(watermarks, query_times)]
        placed = self._written(keys, query_groups, query_times, source_offsets, answered)
        if self._alerting is not None and not self._is_trial:
            emitted = Emitted(query_groups, query_times, source_offsets)
            silent_keys = [keys[group] for group in closings[0].tolist()]
            ends = zip(closings[1].tolist(), silent_keys, strict=True)
            placed += self._alerts(keys, states, answered, emitted, ends)
        return placed

    def _passed(self, absorbed_watermarks: Int64s) -> Int64s:
        """Up to where keys need no answers: their states have absorbed it, or it was emitted. But
        of what was emitted alerts must go on, where a state has not.
        """
        if self._alerting is not None:
            return absorbed_watermarks
        return np.maximum(absorbed_watermarks, self._emitted_watermark)

    def _alerts(
        self,
        keys: list[str],
        states: list[KeyState],
        answered: Mapping[Runner, Answered],
        emitted: Emitted,
        closings: Iterable[Place],
    ) -> list[Placed]:
        """Take the alerts of keys on by their emissions, of states as they were before; keep how
        they stand, and return what is to be told.
        """
        if self._alerting is None:
            return []
        ends = set(closings) if self._forgets_keys else frozenset()
        standings = [state.alerts for state in states]
        changed, records = self._alerting.follow(
            keys, standings, answered, emitted, ends, self._loss
        )
        kept = self._cache.read([change.key for change in changed])
        for change, state in zip(changed, kept, strict=True):
            # No event before the tick waits: the state may say that it has passed it.
            now = state._replace(
                watermark=max(state.watermark, change.tick),
                offset=self._next_offset - 1,
                alerts=change.standings,
            )
            self._cache.put(change.key, encode_key_state(*now), change.first_offset)
        return [(place, it) for place, it in records if it.timestamp > self._emitted_watermark]

    def _insert_and_publish(
        self,
        publisher: TickPublisher,
        events: Events,
        before: int,
        offsets: Int64s,
        watermarks: Int64s,
    ) -> tuple[list[Placed], list[Publication | Clock]]:
        """Insert events as `_insert` does, but tick by tick, and publish the states between."""
        touched: dict[Place, Placed] = {}
        published: list[Publication | Clock] = [*publisher.clocks(before, offsets, watermarks)]

        def insert(part: Events, until: Int64s) -> None:
            # `before` is that of the batch: what a key with events in a later part only comes to
            # at the ticks of this one is found with them. What it has been found to come to twice
            # is the same.
            touched.update((p[0], p) for p in self._insert(part, before, offsets, until))

        done = 0
        emitted = self._emitted_watermark
        for tick in publisher.ticks(events, self._cache, max(before, emitted), int(watermarks[-1])):
            end = int(np.searchsorted(events.times, tick))
            insert(events.between(done, end), np.minimum(watermarks, tick - 1))
            passed = int(offsets[np.searchsorted(watermarks, tick)])
            published += publisher.at(tick, self._cache, passed)
            done = end
        insert(events.between(done, len(events)), watermarks)
        # Of one tick the synopses come first: the clock says that there are no more.
        published.sort(key=lambda item: (item.tick, isinstance(item, Clock)))
        published = [item for item in published if item.tick > emitted]
        return sorted(touched.values(), key=place_of), published

    def _answer_untouched(self, due: DueSlice, offsets: Int64s, watermarks: Int64s) -> list[Placed]:
        """Answer for keys without events, in any order; their states stay as they are."""
        keys = list({key for _, key in (*due.opened, *due.closing)})
        states = self._cache.read(keys)
        group_of = {key: group for group, key in enumerate(keys)}
        queries = [(group_of[key], tick) for tick, key in due.opened]
        ends: list[Place] = []
        for _, key in due.closing:
            group = group_of[key]
            last_time = states[group].last_time
            tick = event_time.closing_tick(last_time, self._span.length, self._every)
            if (tick, key) >= due.end:
                self._closing.arm(key, tick)
                continue
            queries.append((group, tick))
            ends.append((tick, key))
            if self._forgets_keys:
                self._closed[key] = self._next_offset - 1
        passed = self._passed(np.array([state.watermark for state in states], np.int64)).tolist()
        queries = [(group, tick) for group, tick in queries if tick > passed[group]]
        if not queries:
            return []
        groups, ticks = _distinct_pairs(_column(queries, 0), _column(queries, 1))
        asked, groups = np.unique(groups, return_inverse=True)
        keys = [keys[group] for group in asked.tolist()]
        states = [states[group] for group in asked.tolist()]
        times = ticks
        if self._span.of_events:
            times = np.array([state.number for state in states], np.int64)[groups] + 1
        none = Events.none(self._columns)
        work = self._work(
            np.zeros(len(keys) + 1, np.int64),
            none.times,
            none,
            none.offsets,
            np.searchsorted(groups, np.arange(len(keys) + 1)),
            times,
        )
        answered = {
            runner: self._answer(runner, [state.synopses[i] for state in states], work)
            for i, runner in enumerate(self._runners)
        }
        source_offsets = offsets[np.searchsorted(watermarks, ticks)]
        placed = self._written(keys, groups, ticks, source_offsets, answered)
        if self._alerting is not None and not self._is_trial:
            emitted = Emitted(groups, ticks, source_offsets)
            placed += self._alerts(keys, states, answered, emitted, ends)
        return placed

    def _close(
        self,
        keys: list[str],
        states: list[KeyState],
        groups: Int64s,
        times: Int64s,
        previous: Int64s,
        silent: list[int],
        before: int,
        watermark: int,
    ) -> tuple[Int64s, Int64s]:
        """Find the closing ticks that the watermark passed after `before`, as (groups, ticks); note
        the keys that stay closed, and when the others are due.
        """
        ticks = event_time.closing_tick(previous, self._span.length, self._every)
        between = (previous != NO_TIME) & (ticks > before) & (times >= ticks)
        found_groups, found_ticks = [groups[between]], [ticks[between]]
        touched = np.flatnonzero(np.diff(groups, append=-1))  # the last event of each group
        newest = dict(zip(groups[touched].tolist(), times[touched].tolist(), strict=True))
        for group in silent:
            newest.setdefault(group, states[group].last_time)
        closed = []
        last_times = np.fromiter(newest.values(), np.int64, len(newest))
        ticks = event_time.closing_tick(last_times, self._span.length, self._every)
        for group, tick in zip(newest, ticks.tolist(), strict=True):
            key = keys[group]
            if tick <= watermark:
                closed.append((group, tick))
                if self._forgets_keys:
                    self._closed[key] = self._next_offset - 1
                continue
            self._closed.pop(key, None)
            # A timer that is armed stays where it is, and is looked at again when it is due: a busy
            # key would leave one behind at every tick.
            if key not in self._closing:
                self._closing.arm(key, tick)
        found_groups.append(np.array([group for group, _ in closed], np.int64))
        found_ticks.append(np.array([tick for _, tick in closed], np.int64))
        return np.concatenate(found_groups), np.concatenate(found_ticks)

    def _run(
        self,
        keys: list[str],
        states: list[KeyState],
        runs: KeyRuns,
        events: Events,
        order: Int64s,
        groups: Int64s,
        query_groups: Int64s,
        query_times: Int64s,
        watermark: int,
    ) -> dict[Runner, Answered]:
        """Run every synopsis over all keys; keep the new states; return the answers."""
        times = events.times[order]
        numbers = np.array([state.number for state in states], np.int64)
        starts = np.searchsorted(groups, np.arange(len(keys) + 1))
        if self._span.of_events:
            # Events are numbered by key, and the numbers stand for times: so a window of time is
            # a window of events.
            counts = _events_before(groups, times, query_groups, query_times, starts)
            query_times = numbers[query_groups] + counts + 1
            times = numbers[groups] + np.arange(len(groups)) - starts[groups] + 1
        work = self._work(
            runs.starts,
            times,
            events,
            order,
            np.searchsorted(runs.run_of, np.arange(len(runs.starts))),
            query_times,
        )
        answered: dict[Runner, Answered] = {}
        before: list[bytes | None] = [None] * (len(runs.starts) - 1)
        for i, runner in enumerate(self._runners):
            for run, state in zip(runs.first.tolist(), states, strict=True):
                before[run] = state.synopses[i] if state.synopses else None
            answered[runner] = self._answer(runner, before, work)
        touched = np.flatnonzero(starts[1:] > starts[:-1])
        newest = starts[touched + 1] - 1
        last_runs = runs.last[touched]
        # A run that started anew has none of the events before.
        number = np.where(runs.first[touched] == last_runs, numbers[touched], 0)
        number += runs.starts[last_runs + 1] - runs.starts[last_runs]
        last_times = events.times[order[newest]]
        first_offsets = np.minimum.reduceat(events.offsets[order], starts[touched]).tolist()
        offset = self._next_offset - 1
        for group, run, last_time, events_in_all, first_offset in zip(
            touched.tolist(),
            last_runs.tolist(),
            last_times.tolist(),
            number.tolist(),
            first_offsets,
            strict=True,
        ):
            synopses = [result.states[run] for result in answered.values()]
            key = keys[group]
            used = self._used.pop(key, states[group].used)
            alerts = states[group].alerts
            written = encode_key_state(
                watermark, offset, last_time, events_in_all, synopses, used, alerts
            )
            self._cache.put(key, written, first_offset)
        return answered

    def _work(
        self,
        starts: Int64s,
        times: Int64s,
        events: Events,
        order: Int64s,
        query_starts: Int64s,
        query_times: Int64s,
    ) -> Work:
        """Return the work for the runners; `times` are those of the events in `order`."""
        return Work(
            starts,
            times,
            {
                column.path: values[order]
                for column, values in zip(self._columns.numbers, events.numbers, strict=True)
            },
            {
                column.path: _item_column(items, order)
                for column, items in zip(self._columns.items, events.items, strict=True)
            },
            query_starts,
            query_times,
            self._windows,
            {
                condition: holds[order]
                for condition, holds in zip(
                    self._columns.conditions, events.conditions, strict=True
                )
            },
        )

    def _answer(self, runner: Runner, states: list[bytes | None], work: Work) -> Answered:
        started = perf_counter()
        try:
            return runner.run(states, work)
        except WindowTooLargeError as error:
            raise SlidestatError(
                f"The {runner.meaning} has outgrown its window: {error}.",
                "Give the statistic fewer decimals, or the topology a shorter span.",
            ) from error
        except SynopsisError as error:
            raise SlidestatError(
                f"A stored state is not that of the {runner.meaning}: {error}.",
                "Delete the worker's data folder; it is restored from the changelog.",
            ) from error
        finally:
            self._observed.kernel_s += perf_counter() - started

    def _written(
        self,
        keys: list[str],
        groups: Int64s,
        ticks: Int64s,
        source_offsets: Int64s,
        answered: Mapping[Runner, Answered],
    ) -> list[Placed]:
        """The emission of each query, in order; none of what the referee answers for."""
        hidden = self._answered_by_referee
        shown = ticks > self._emitted_watermark
        by_name = sorted(range(len(keys)), key=keys.__getitem__)
        ranks = np.empty(len(keys), np.int64)
        ranks[by_name] = np.arange(len(keys))
        order = np.lexsort((ranks[groups], ticks))
        if hidden:
            shown &= np.array([key not in hidden for key in keys], bool)[groups]
        order = order[shown[order]]
        if not len(order):
            return []
        names = [keys[group] for group in groups[order].tolist()]
        ticks = ticks[order]
        records = self._encoder.encode(
            answered,
            order,
            names,
            ticks,
            source_offsets[order],
            provisional=self._is_trial,
            loss=self._loss,
        )
        places: Iterable[Place] = zip(ticks.tolist(), names, strict=True)
        each = self._encoder.records_each
        if each > 1:
            places = (place for place in places for _ in range(each))
        return list(zip(places, records, strict=True))


def _in_order(own: list[Letter], decided: list[tuple[int, Letter]]) -> list[Letter]:
    """Letters in the order of the records at which it was clear that there would be one."""
    every = [*decided, *((letter.offset, letter) for letter in own)]
    return [letter for _, letter in sorted(every, key=lambda item: (item[0], item[1].offset))]


def _suspect(batch: RecordBatch, offset: int) -> Letter:
    row = int(np.searchsorted(batch.offsets, offset))
    return _letter(batch, Refusal(row, Reason.FROM_THE_FUTURE, ""))


def _letter(batch: RecordBatch, refusal: Refusal) -> Letter:
    row = refusal.row
    return Letter(
        int(batch.offsets[row]),
        batch.keys[row],
        batch.values[row],
        batch.timestamps[row],
        refusal.reason,
        refusal.detail,
    )


class _Unabsorbed:
    """The waiting events of a processor, for questions."""

    def __init__(self, processor: PartitionProcessor) -> None:
        self._processor = processor

    def keys(self) -> set[str]:
        return self._processor.waiting_keys()

    def state(self, key: str) -> bytes | None:
        return self._processor.state_with_waiting(key)


def _column(pairs: list[tuple[int, int]], place: int) -> Int64s:
    return np.array([pair[place] for pair in pairs], np.int64)


def _item_column(items: pa.Array, order: Int64s) -> ItemColumn:
    """The items of events in this order."""
    found, places = distinct_texts(items)
    return ItemColumn(found, places[order])


def _events_before(
    groups: Int64s, times: Int64s, query_groups: Int64s, query_times: Int64s, starts: Int64s
) -> Int64s:
    """int64[Q]: how many events of its group lie before each query."""
    events = np.stack((groups, times, np.ones_like(groups)))
    queries = np.stack((query_groups, query_times, np.zeros_like(query_groups)))
    both = np.concatenate((queries, events), axis=1)
    # A query stands before the events of its own time.
    order = np.lexsort((both[2], both[1], both[0]))
    passed = np.cumsum(both[2][order])
    places = np.empty(len(order), np.int64)
    places[order] = passed
    return places[: len(query_groups)] - starts[query_groups]


def _distinct_pairs(groups: Int64s, ticks: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct (group, tick) in order."""
    order = np.lexsort((ticks, groups))
    groups, ticks = groups[order], ticks[order]
    first = np.ones(len(groups), dtype=bool)
    first[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] != ticks[:-1])
    return groups[first], ticks[first]
