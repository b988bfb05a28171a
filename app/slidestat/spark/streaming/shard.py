"""One shard of a stream: a partition of the engine, whose table is kept elsewhere between batches.

A batch is what a worker does between two flushes. It begins as a restarted worker begins, from the
checkpoint and the stored states, and ends with a snapshot of all that has changed. Two things are
kept in addition to what a worker's table has, for there is no log to read again, and no time to
read all states in each batch:

    records     those from the checkpoint on, as events that wait for the watermark are in no state
    due keys    the names of keys, by a time that is not after the next tick of each

So a batch reads and writes the keys that have events in it, and those that are due. A restart reads
all states for their timers alone: one that is due later than any time in a batch changes nothing in
it. Times far ahead are rounded down to few different ones: when the watermark gets there, the key
is put at a later time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import decode_checkpoint
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns, refuse_future
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission_codec import EmissionWriter
from slidestat.engine.keys.deadlines import Deadlines
from slidestat.engine.keys.key_state import may_have_alerts, read_clocks
from slidestat.engine.keys.key_timers import NOT_DUE
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import NO_TIME, RecordBatch
from slidestat.errors import SlidestatError

_VERSION = 1
# The keys that are due are listed by rounded times: this many between one distance and the next
# that is twice it.
_FINENESS = 16
_SMALL_BYTES = 16 * 2**10
_OTHERWISE = (
    "Go back to the topology and the version that wrote it. Or give another checkpoint location, of"
    " `slidestat spark stream` another --lake: then all is counted from the start of the source."
)


class StoredState(NamedTuple):
    """The bytes of a key's state, and the time at which the key is listed; NOT_DUE if at none."""

    state: bytes
    listed: int


class ShardTable(Protocol):
    """The storage of one shard: what is put is there in the next batch, or the batch never was."""

    def head(self) -> bytes | None:
        """Return what was put as the head, None before any."""

    def put_head(self, head: bytes) -> None:
        """Replace the head."""

    def state(self, key: str) -> StoredState | None:
        """Return what is stored of a key, None if nothing is."""

    def put_state(self, key: str, stored: StoredState) -> None:
        """Replace what is stored of a key."""

    def delete_state(self, key: str) -> None:
        """Delete what is stored of a key, which is there."""

    def block(self, number: int) -> bytes:
        """Return a block that is there."""

    def put_block(self, number: int, block: bytes) -> None:
        """Add a block."""

    def delete_block(self, number: int) -> None:
        """Delete a block that is there."""


class _Kept(msgspec.Struct, array_like=True):
    """A block of records, with the last of their offsets."""

    last_offset: int
    block: int


class _Head(msgspec.Struct, array_like=True):
    """A shard without its states: the partitions that keys are spread over, 0 if the records came
    with theirs; the checkpoint; the next offset to be read; its blocks, by the times of the keys
    that are listed in them, and of records; the number of the next one.
    """

    version: int
    partitions: int
    checkpoint: bytes | None = None
    next_offset: int = 0
    listed: dict[int, list[int]] = msgspec.field(default_factory=dict)
    records: list[_Kept] = msgspec.field(default_factory=list)
    next_block: int = 0


class _Version(msgspec.Struct, array_like=True):
    version: int


class _Records(msgspec.Struct, array_like=True):
    """The columns of a batch of records."""

    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[list[tuple[str, bytes | None]]] | None


_encode = msgspec.msgpack.encode
_read_version = msgspec.msgpack.Decoder(_Version)
_read_head = msgspec.msgpack.Decoder(_Head)
_read_records = msgspec.msgpack.Decoder(_Records)
_read_names = msgspec.msgpack.Decoder(list[str])


@dataclass(frozen=True)
class ShardPlace:
    """The number of a shard; how many `partitions` keys are spread over, 0 if the records came with
    partitions and offsets; and the keys that are expected in it.
    """

    number: int
    partitions: int
    expected: Sequence[str] = ()


class Shard:
    """A shard while it processes one batch."""

    def __init__(
        self,
        topology: Topology,
        place: ShardPlace,
        table: ShardTable,
        decoder: EventDecoder,
        codec: EmissionWriter,
    ) -> None:
        """Read the head; raises SlidestatError for one of another version, or of keys that are
        spread over another number of partitions.
        """
        self._topology = topology
        self._place = place
        self._table = table
        self._decoder = decoder
        self._codec = codec
        self._head = _head_of(table.head(), topology, place.partitions)
        self._rows = _Rows(table, self._head.checkpoint)

    @property
    def next_offset(self) -> int:
        """The first offset that was not read."""
        return self._head.next_offset

    def process(self, batches: Sequence[RecordBatch]) -> Iterator[Effects]:
        """Process records that follow each other, and yield what they lead to; then the table has
        all of it. None of them was read before.
        """
        if not batches:
            return
        before = [self._records(kept.block) for kept in self._head.records]
        decode = self._decoder.decode
        earlier = [decode(it.values, it.keys, it.timestamps) for it in before]
        decoded = [decode(it.values, it.keys, it.timestamps) for it in batches]
        reach = self._reach((*before, *batches), (*earlier, *decoded))
        touched = {key for it in (*earlier, *decoded) for key in it.keys.to_pylist()}
        listed = self._listed_until(reach)
        self._rows.scanned = touched.union(self._place.expected, *listed.values())
        processor = PartitionProcessor(
            self._topology,
            self._topology.events_topic,
            self._place.number,
            self._rows,
            self._decoder,
            self._codec,
            expected=dict.fromkeys(self._place.expected, self._place.number),
        )
        for batch in before:
            yield from processor.steps(batch, more_follows=True)
        for batch, columns in zip(batches, decoded, strict=True):
            yield from processor.steps(batch, columns, more_follows=True)
        yield from processor.kept_back()
        if processor.watermark > reach:
            raise RuntimeError("the watermark has passed what the batch was prepared for")
        snapshot = processor.snapshot()
        self._head.next_offset = processor.next_offset
        if snapshot is not None:
            self._head.checkpoint = snapshot.checkpoint
            self._keep(batches, snapshot.next_offset)
            watermark = processor.checkpoint.max_time - self._topology.lateness_ms
            self._write(snapshot.states, listed, watermark)
        self._table.put_head(_encode(self._head))

    def _reach(self, batches: Sequence[RecordBatch], decoded: Sequence[EventColumns]) -> int:
        """Return a time that the watermark does not pass in this batch: the newest of its records,
        or of those before it by which the clock may move yet.
        """
        try:
            start = decode_checkpoint(self._head.checkpoint, self._topology.state_meaning)
        except SlidestatError as error:  # Its advice is for workers.
            raise SlidestatError(error.message, _OTHERWISE) from error
        times = [start.max_time, start.recent.front, *start.recent.times]
        for batch, columns in zip(batches, decoded, strict=True):
            if not self._topology.is_sequence:
                columns = refuse_future(columns, batch.timestamps, self._topology.ahead_ms)
            times += (
                int(it.max(initial=NO_TIME)) for it in (columns.times, columns.passed_over_times)
            )
        return max(times) - self._topology.lateness_ms

    def _listed_until(self, time: int) -> dict[int, list[str]]:
        """Return the keys that are listed up to a time, by their times."""
        return {
            at: [
                name for number in blocks for name in _read_names.decode(self._table.block(number))
            ]
            for at, blocks in self._head.listed.items()
            if at <= time
        }

    # Records.

    def _records(self, block: int) -> RecordBatch:
        found = _read_records.decode(self._table.block(block))
        return RecordBatch(
            self._topology.events_topic,
            self._place.number,
            np.array(found.offsets, np.int64),
            BinaryColumn.of(found.keys),
            BinaryColumn.of(found.values),
            np.array(found.timestamps, np.int64),
            found.offsets[0],
            found.headers,
        )

    def _keep(self, batches: Sequence[RecordBatch], needed: int) -> None:
        """Keep the records from an offset on, and no others."""
        for kept in [it for it in self._head.records if it.last_offset < needed]:
            self._head.records.remove(kept)
            self._table.delete_block(kept.block)
        for batch in batches:
            if batch.offsets[-1] < needed:
                continue
            rest = batch.since(needed)
            headers = rest.headers
            block = _Records(
                rest.offsets.tolist(),
                list(rest.keys),
                list(rest.values),
                np.asarray(rest.timestamps, np.int64).tolist(),
                None if headers is None else [list(it) for it in headers],
            )
            number = self._add_block(_encode(block))
            self._head.records.append(_Kept(int(rest.offsets[-1]), number))

    def _add_block(self, block: bytes) -> int:
        number = self._head.next_block
        self._table.put_block(number, block)
        self._head.next_block += 1
        return number

    # States, and the times at which their keys are listed.

    def _write(
        self, states: dict[str, bytes | None], listed: dict[int, list[str]], watermark: int
    ) -> None:
        """Write states that have changed, and list again the keys whose times the watermark has
        passed, or that are due earlier than listed.
        """
        passed = [time for time in listed if time <= watermark]
        due: dict[str, bytes] = {}
        for time in passed:
            for key in listed[time]:
                row = self._rows.row(key)
                if row is not None and row.listed == time and key not in states:
                    due[key] = row.state
        for key, state in states.items():
            if state is not None:
                due[key] = state
            elif self._rows.row(key) is not None:
                self._table.delete_state(key)
        again: dict[int, list[str]] = {}
        names, times = list(due), self._times(list(due), list(due.values()), watermark)
        for key, time in zip(names, times, strict=True):
            row = self._rows.row(key)
            before = NOT_DUE if row is None or row.listed <= watermark else row.listed
            if time < before:
                again.setdefault(time, []).append(key)
            now = StoredState(due[key], min(time, before))
            if now != row:
                self._table.put_state(key, now)
        for time in passed:
            for number in self._head.listed.pop(time):
                self._table.delete_block(number)
        for time, keys in again.items():
            self._list(time, keys)

    def _list(self, time: int, keys: list[str]) -> None:
        """List keys at a time: in the last block of it, while that is small."""
        blocks = self._head.listed.setdefault(time, [])
        last = self._table.block(blocks[-1]) if blocks else b""
        if last and len(last) < _SMALL_BYTES:
            self._table.delete_block(blocks.pop())
            keys = [*_read_names.decode(last), *keys]
        blocks.append(self._add_block(_encode(keys)))

    def _times(self, keys: Sequence[str], states: Sequence[bytes], watermark: int) -> list[int]:
        """Return for each state a time after the watermark, at which its key is to be listed."""
        if not keys:
            return []
        expected = frozenset(self._place.expected)
        due = Deadlines.of(
            self._topology,
            read_clocks(states),
            watermark,
            # At the most: some states may have alerts that are no longer declared.
            np.array([may_have_alerts(state) for state in states], bool),
            np.array([key in expected for key in keys], bool),
        )
        # Forgotten keys are looked at until they are deleted.
        first = np.where(due.are_closed, watermark + 1, due.first).tolist()
        every = self._topology.every_ms
        return [time if time == NOT_DUE else _rounded(time, watermark, every) for time in first]


def _rounded(time: int, watermark: int, every: int) -> int:
    """Return a time after the watermark and not after `time`, one of few."""
    steps = max(0, time - watermark) // (every * _FINENESS)
    step = every << steps.bit_length() - 1 if steps else 1
    return max(time // step * step, watermark + 1)


def _head_of(stored: bytes | None, topology: Topology, partitions: int) -> _Head:
    if stored is None:
        return _Head(_VERSION, partitions)
    if _read_version.decode(stored).version > _VERSION:
        raise SlidestatError(
            f"The checkpoint of {topology.name} was written by a newer version of slidestat.",
            "Run that version, or give another checkpoint location.",
        )
    head = _read_head.decode(stored)
    if head.partitions != partitions:
        was, now = (f"over {it}" if it else "as in Kafka" for it in (head.partitions, partitions))
        raise SlidestatError(
            f"The keys of {topology.name} were spread {was} partitions, and are now {now}.",
            "Give the same partitions and the same kind of source, or another checkpoint location.",
        )
    return head


class _Rows:
    """The stored states of a shard as the engine reads them, each once in a batch."""

    def __init__(self, table: ShardTable, checkpoint: bytes | None) -> None:
        self._table = table
        self._checkpoint = checkpoint
        self._read: dict[str, StoredState | None] = {}
        # The keys that are of concern in this batch.
        self.scanned: Iterable[str] = ()

    def row(self, key: str) -> StoredState | None:
        """Return what was stored of a key before the batch, None if nothing was."""
        if key not in self._read:
            self._read[key] = self._table.state(key)
        return self._read[key]

    def get_many(self, keys: list[str]) -> list[bytes | None]:
        rows = map(self.row, keys)
        return [None if row is None else row.state for row in rows]

    def scan(self, start: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the keys of concern from `start` on and their states, in key order."""
        for key in sorted(self.scanned):
            row = self.row(key) if key >= start else None
            if row is not None:
                yield key, row.state

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Yield nothing: a shard writes nothing provisional."""
        return iter(())

    def checkpoint(self) -> bytes | None:
        return self._checkpoint
