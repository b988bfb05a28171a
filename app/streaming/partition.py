"""One partition of one topology, from record batches to key states, statistics and dead letters.

Pure: it reads a store, and returns what is to be written; it never talks to Kafka. The result is a
function of the records' order alone, whatever the batches, the workers or the restarts:

1. records before the next expected offset are passed over (they were seen);
2. unreadable ones are refused, late ones (behind the watermark) set aside, both as letters;
3. the others wait until the watermark reaches them (at once, without a lateness), and are absorbed
   in order of (time, offset);
4. a tick is emitted in the batch in which the watermark passes it, for the keys with events since
   the tick before, in order of (tick, key); synopses see exactly the events before the tick.

What a key's state has absorbed already (it may be ahead of the checkpoint after a crash) is not
inserted again, and a tick that its watermark has passed is not emitted again: its statistics were
acknowledged before that state was written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.errors import SlidestatError
from app.streaming import event_time
from app.streaming.checkpoint import (
    NO_TIME,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from app.streaming.decoding import EventDecoder, Refusal
from app.streaming.emission import OutputRecord, StatisticEncoder
from app.streaming.key_state import (
    KeyState,
    decode_key_state,
    encode_key_state,
    last_time_and_watermark,
)
from app.streaming.ledger import COUNTED, DEAD, LATE, Ledger
from app.streaming.records import RecordBatch
from app.streaming.topology import Topology
from app.synopses.batch import run_batch
from app.synopses.errors import SynopsisError, WindowTooLargeError
from app.synopses.parameters import SumParameters
from schemas.dead_letter import Reason

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class PartitionStore(Protocol):
    """What a partition reads of its table."""

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        """The stored states of keys, None where there is none."""

    def scan(self) -> Iterator[tuple[str, bytes]]:
        """All keys and their states."""

    def checkpoint(self) -> bytes | None:
        """The partition's checkpoint, None for a partition never seen."""


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
    """What a batch leads to, beside the key states."""

    statistics: list[OutputRecord] = field(default_factory=list)
    dead_letters: list[Letter] = field(default_factory=list)
    late: list[Letter] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What must be durable before reading may start again at `next_offset`."""

    states: dict[str, bytes]
    checkpoint: bytes
    next_offset: int


@dataclass(slots=True)
class _Events:
    """On-time events: `offsets` and `times` int64[n], `values` float64[n], `keys` n texts."""

    offsets: Int64s
    times: Int64s
    values: Float64s
    keys: list[str]

    @classmethod
    def none(cls) -> "_Events":
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), [])

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Int64s) -> "_Events":
        keys = self.keys
        return _Events(
            self.offsets[rows], self.times[rows], self.values[rows], [keys[r] for r in rows]
        )

    def then(self, other: "_Events") -> "_Events":
        if not self.keys:
            return other
        return _Events(
            np.concatenate((self.offsets, other.offsets)),
            np.concatenate((self.times, other.times)),
            np.concatenate((self.values, other.values)),
            self.keys + other.keys,
        )


_NEW_KEY = KeyState(NO_TIME, -1, NO_TIME, ())


class PartitionProcessor:
    """Statistics of the keys of one partition."""

    # States kept in memory in front of the store; least recently touched go first.
    CACHED_KEYS = 200_000

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        store: PartitionStore,
        decoder: EventDecoder | None = None,
    ) -> None:
        self._store = store
        self._every = topology.every_ms
        self._lateness = topology.lateness_ms
        self._windows = np.array(topology.windows_ms, dtype=np.int64)
        self._parameters = [s.parameters(topology.span_ms) for s in topology.statistics]
        self._decoder = decoder or EventDecoder(topology)
        self._encoder = StatisticEncoder(topology, topic, partition)
        stored = store.checkpoint()
        self._has_checkpoint = stored is not None
        self._checkpoint = decode_checkpoint(stored)
        self._next_offset = self._checkpoint.next_offset
        self._max_time = self._checkpoint.max_time
        self._ledger = Ledger(self._checkpoint)
        self._waiting = _Events.none()
        self._states: dict[str, bytes] = {}
        self._dirty: set[str] = set()
        self._open_keys = self._find_open_keys()

    @property
    def next_offset(self) -> int:
        """The first offset not yet read."""
        return self._next_offset

    def process(self, batch: RecordBatch) -> Effects:
        """Take in a batch; what it leads to is returned or kept for the next snapshot."""
        batch = batch.since(self._next_offset)
        effects = Effects()
        if not len(batch):
            return effects
        columns = self._decoder.decode(batch.values)
        rows = columns.rows
        for refusal in columns.refusals:
            effects.dead_letters.append(_letter(batch, refusal))

        times = np.full(len(batch), NO_TIME, dtype=np.int64)
        times[rows] = columns.times
        max_times = event_time.running_max(times, self._max_time)
        late_by = event_time.late_by(times, max_times, self._max_time, self._lateness)[rows]
        on_time = late_by <= 0
        for row, ms in zip(rows[~on_time].tolist(), late_by[~on_time].tolist(), strict=True):
            detail = f"{ms} ms behind the watermark"
            effects.late.append(_letter(batch, Refusal(row, Reason.LATE, detail)))

        outcomes = np.full(len(batch), DEAD, dtype=np.uint8)
        outcomes[rows] = np.where(on_time, COUNTED, LATE)
        self._ledger.append(batch.offsets, max_times, outcomes)

        events = _Events(batch.offsets[rows], columns.times, columns.values, columns.keys)
        if not on_time.all():
            events = events.take(np.flatnonzero(on_time))
        self._next_offset = int(batch.offsets[-1]) + 1
        self._max_time = int(max_times[-1])
        self._absorb(self._release(events), batch.offsets, max_times - self._lateness, effects)
        return effects

    def snapshot(self) -> Snapshot | None:
        """What changed since the last snapshot, or None; it must be made durable before the next
        one is taken, or this processor be thrown away.
        """
        next_offset = self._next_offset
        if len(self._waiting):
            next_offset = int(self._waiting.offsets.min())
        is_known = self._has_checkpoint and next_offset <= self._checkpoint.next_offset
        if is_known and not self._dirty:
            return None
        self._has_checkpoint = True
        self._checkpoint = self._ledger.settle(next_offset)
        snapshot = Snapshot(
            {key: self._states[key] for key in self._dirty},
            encode_checkpoint(self._checkpoint),
            next_offset,
        )
        self._dirty = set()
        return snapshot

    def written(self) -> None:
        """The last snapshot is durable: states in excess of CACHED_KEYS leave the memory."""
        surplus = len(self._states) - self.CACHED_KEYS
        if surplus > 0:
            clean = (key for key in self._states if key not in self._dirty)
            for key in [key for key, _ in zip(clean, range(surplus), strict=False)]:
                del self._states[key]

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint taken."""
        return self._checkpoint

    def _find_open_keys(self) -> dict[str, int]:
        """Keys whose newest absorbed event is in no emission yet, and the tick of that emission.

        A state may be ahead of the checkpoint, also in events that will not be read again: it is
        asked for the tick of its own newest event, not for the checkpoint's next tick.
        """
        watermark = self._max_time - self._lateness
        open_keys = {}
        for key, state in self._store.scan():
            last_time, key_watermark = last_time_and_watermark(state)
            tick = (last_time // self._every + 1) * self._every
            if tick > max(watermark, key_watermark):
                open_keys[key] = tick
        return open_keys

    def _release(self, events: _Events) -> _Events:
        """The events that the watermark has reached, in order of (time, offset)."""
        events = self._waiting.then(events)
        if not self._lateness:
            return events
        ready = events.times <= self._max_time - self._lateness
        rows = np.flatnonzero(ready)
        released = rows[np.lexsort((events.offsets[rows], events.times[rows]))]
        self._waiting = events.take(np.flatnonzero(~ready))
        return events.take(released)

    def _absorb(
        self, events: _Events, offsets: Int64s, watermarks: Int64s, effects: Effects
    ) -> None:
        """Insert events and emit the ticks that `watermarks` (after each of `offsets`) passed."""
        watermark = int(watermarks[-1])
        due = [key for key, tick in self._open_keys.items() if tick <= watermark]
        if not len(events) and not due:
            return
        encoded = pa.array(events.keys, pa.string()).dictionary_encode()
        keys: list[str] = encoded.dictionary.to_pylist()
        groups = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        group_of = {key: group for group, key in enumerate(keys)}
        due_groups = np.empty(len(due), np.int64)
        due_ticks = np.empty(len(due), np.int64)
        for i, key in enumerate(due):
            due_ticks[i] = self._open_keys.pop(key)
            due_groups[i] = group = group_of.setdefault(key, len(keys))
            if group == len(keys):
                keys.append(key)

        states = self._load(keys)
        absorbed_watermarks = np.array([s.watermark for s in states], dtype=np.int64)
        absorbed_offsets = np.array([s.offset for s in states], dtype=np.int64)

        order, starts = event_time.group_rows(groups, len(keys))
        groups, times = groups[order], events.times[order]
        ticks = event_time.tick_after(times, self._every)
        first = np.ones(len(ticks), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] != ticks[:-1])
        query_groups = np.concatenate((due_groups, groups[first]))
        query_times = np.concatenate((due_ticks, ticks[first]))
        still_open = query_times > watermark
        for group, tick in zip(
            query_groups[still_open].tolist(), query_times[still_open].tolist(), strict=True
        ):
            # An event read again may belong to an earlier tick than what its state is ahead by.
            self._open_keys[keys[group]] = max(tick, self._open_keys.get(keys[group], tick))
        wanted = ~still_open & (query_times > absorbed_watermarks[query_groups])
        query_groups, query_times = _distinct_pairs(query_groups[wanted], query_times[wanted])

        new = (events.offsets[order] > absorbed_offsets[groups]) | (
            times > absorbed_watermarks[groups]
        )
        values = events.values[order]
        if not new.all():
            groups, times, values = groups[new], times[new], values[new]
            starts = _starts(groups, len(keys))
        figures = self._run(
            keys, states, starts, times, values, query_groups, query_times, watermark
        )
        source_offsets = offsets[np.searchsorted(watermarks, query_times)]
        self._emit(keys, query_groups, query_times, source_offsets, figures, effects)

    def _load(self, keys: list[str]) -> list[KeyState]:
        """States of keys, from the cache or the store, now the most recently touched."""
        states = self._states
        missing = [key for key in keys if key not in states]
        found = dict(zip(missing, self._store.get_many(missing), strict=True)) if missing else {}
        loaded = []
        for key in keys:
            state = states.pop(key) if key in states else found[key]
            if state is None:
                loaded.append(_NEW_KEY)
            else:
                states[key] = state
                loaded.append(decode_key_state(state))
        return loaded

    def _run(
        self,
        keys: list[str],
        states: list[KeyState],
        starts: Int64s,
        times: Int64s,
        values: Float64s,
        query_groups: Int64s,
        query_times: Int64s,
        watermark: int,
    ) -> Float64s:
        """Run every statistic's synopses over all keys; keep the new states; return the figures,
        float64[queries, statistics * windows, 3]: estimate, lower, upper.
        """
        query_starts = _starts(query_groups, len(keys))
        kept = {len(state.synopses) for state in states} - {0, len(self._parameters)}
        if kept:
            raise _other_topology(f"it keeps {kept.pop()} statistics, not {len(self._parameters)}")
        results = []
        for i, parameters in enumerate(self._parameters):
            before = [state.synopses[i] if state.synopses else None for state in states]
            try:
                results.append(
                    run_batch(
                        parameters,
                        before,
                        starts,
                        times,
                        values if isinstance(parameters, SumParameters) else None,
                        query_starts,
                        query_times,
                        self._windows,
                    )
                )
            except WindowTooLargeError as error:
                raise SlidestatError(
                    f"A sum has outgrown its window of {self._parameters[i].span} ms: {error}.",
                    "Give the statistic fewer decimals, or the topology a shorter span.",
                ) from error
            except SynopsisError as error:
                raise _other_topology(str(error)) from error
        touched = np.flatnonzero(starts[1:] > starts[:-1])
        last_times = times[starts[touched + 1] - 1]
        offset = self._next_offset - 1
        for group, last_time in zip(touched.tolist(), last_times.tolist(), strict=True):
            self._states[keys[group]] = encode_key_state(
                watermark, offset, last_time, [result.states[group] for result in results]
            )
        self._dirty.update(keys[group] for group in touched.tolist())
        columns = [(result.estimates, result.lowers, result.uppers) for result in results]
        figures: Float64s = np.concatenate(
            [np.stack(arrays, axis=-1) for arrays in columns], axis=1
        )
        return figures

    def _emit(
        self,
        keys: list[str],
        groups: Int64s,
        ticks: Int64s,
        source_offsets: Int64s,
        figures: Float64s,
        effects: Effects,
    ) -> None:
        encode = self._encoder.encode
        rows = figures.tolist()
        places = groups.tolist()
        offsets = source_offsets.tolist()
        order = sorted(
            (tick, keys[group], query)
            for query, (group, tick) in enumerate(zip(places, ticks.tolist(), strict=True))
        )
        for tick, key, query in order:
            effects.statistics += encode(key, tick, rows[query], offsets[query])


def _other_topology(why: str) -> SlidestatError:
    return SlidestatError(
        f"The stored state does not fit the topology: {why}.",
        "Give the changed topology a new name, or change it back.",
    )


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


def _starts(groups: Int64s, count: int) -> Int64s:
    """int64[count + 1]: where each group begins among sorted `groups`."""
    return np.searchsorted(groups, np.arange(count + 1))


def _distinct_pairs(groups: Int64s, ticks: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct (group, tick) in order."""
    order = np.lexsort((ticks, groups))
    groups, ticks = groups[order], ticks[order]
    first = np.ones(len(groups), dtype=bool)
    first[1:] = (groups[1:] != groups[:-1]) | (ticks[1:] != ticks[:-1])
    return groups[first], ticks[first]
