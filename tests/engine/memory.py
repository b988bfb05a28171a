"""A worker of one partition without Kafka: what survives a crash, and what is lost in one.

The flush is that of slidestat.faust.pipeline: outputs acknowledged, then the changelog (states, the
checkpoints last), then the store, then the source offset. A crash may fall after any single step;
what the producer had queued may be delivered up to any record.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice
from random import Random

import numpy as np

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine import clock
from slidestat.engine.checkpoints.checkpoint import Checkpoint, Snapshot, decode_checkpoint
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.effects import Effects
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.engine.ticks.ticker import Limits, SliceSizes
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.testing import records
from slidestat.testing.records import Row
from tests.engine.model import Record

SOURCE, PARTITION = "events", 3

# (kind, Kafka key or offset, everything else that is sent)
Output = tuple[str, bytes | int, tuple[object, ...]]


class MemoryStore(records.MemoryStore):
    """What can be asked of a store beside what a processor asks."""

    def newest_checkpoint(self, topology: Topology) -> Checkpoint:
        """The last one stored."""
        return decode_checkpoint(self.checkpoint(), topology.state_meaning)

    def synopses(self, topology: Topology) -> dict[str, tuple[int, tuple[bytes, ...], bytes]]:
        """The number of events, the synopses and the alerts of each key that is not forgotten:
        the others are deleted when it is safe, which depends on where flushes fell.
        """
        watermark = self.newest_checkpoint(topology).max_time - topology.lateness_ms
        states = {key: decode_key_state(state) for key, state in self.scan()}
        every, forget = topology.every_ms, topology.forget_ms
        return {
            key: (state.number, state.synopses, state.alerts)
            for key, state in states.items()
            if forget is None or clock.closing_tick(state.last_time, forget, every) > watermark
        }

    def keys(self) -> set[str]:
        """The keys that have a state."""
        return {key for key, _ in self.scan()}


def rows_of(snapshot: Snapshot) -> list[Row]:
    """A snapshot in the order in which it is written."""
    return [*snapshot.states.items(), (None, snapshot.checkpoint)]


def batch_of(records: Sequence[Record]) -> RecordBatch:
    """Records as one fetch brings them."""
    offsets, keys, values, timestamps = (list(column) for column in zip(*records, strict=True))
    return RecordBatch(
        SOURCE,
        PARTITION,
        np.array(offsets, np.int64),
        BinaryColumn.of(keys),
        BinaryColumn.of(values),
        np.array(timestamps, np.int64),
        0,
    )


def outputs_of(effects: Effects) -> list[Output]:
    """What a batch's effects are on the wire, in the order in which they are sent."""
    return [
        *(("emission", key, (value, timestamp)) for key, value, timestamp in effects.emissions),
        *(("dead letter", letter.offset, letter[1:]) for letter in effects.dead_letters),
        *(("late", letter.offset, letter[1:]) for letter in effects.late),
        *(("alert", key, (value, timestamp)) for key, value, timestamp in effects.alerts),
        # As the topic of synopses has them in the end, told apart by their ticks.
        *(
            ("published", repr((*item[2:4], item.tick)).encode(), item)
            for item in effects.published
        ),
    ]


class WorkerDiedError(Exception):
    """The worker is gone."""


class SmallMemoryProcessor(PartitionProcessor):
    """Keeps hardly a state and hardly an event in memory, and emits and deletes hardly a key at a
    time.
    """

    LIMITS = Limits(
        cached_keys=1,
        waiting_events=3,
        kept_emissions=2,
        slices=SliceSizes(events=1, keys=2),
        deleted_keys=1,
    )


class Partition:
    """The source partition, and all that outlives a worker."""

    def __init__(
        self,
        topology: Topology | Referee,
        records: Sequence[Record],
        random: Random,
        largest_batches: Sequence[int] = (1, 5, 40, 1_000),
    ) -> None:
        """`largest_batches`: one of them is chosen for each worker, its batches are up to that."""
        self.topology = topology
        # Whether a worker may find states of other statistics.
        self.change_statistics = False
        self.records = records
        self.random = random
        self.largest_batches = largest_batches
        self.committed: int | None = None
        self.changelog: list[Row] = []
        self.outputs: list[Output] = []
        # Those of its own life that the last whole flush has seen, now and at the start of each
        # life; and how many outputs there were then.
        self.flushed = slice(0)
        self.starts: list[tuple[slice, int]] = []
        self.commits: list[Checkpoint] = []
        self._decoder: tuple[Topology, EventDecoder] | None = None

    def store(self) -> MemoryStore:
        """The store as recovery makes it."""
        return MemoryStore(self.changelog)

    def decoder(self) -> EventDecoder:
        """Return the topology's: one for all its workers, as theirs have one for all partitions."""
        assert isinstance(self.topology, Topology)
        if self._decoder is None or self._decoder[0] is not self.topology:
            self._decoder = self.topology, EventDecoder(self.topology)
        return self._decoder[1]

    def live(self, steps: int | None = None, *, forget_offsets: bool = False) -> None:
        """Run a worker from the committed offset to the end, or until it crashes after `steps`."""
        if forget_offsets:
            self.committed = None
        self.starts.append((self.flushed, len(self.outputs)))
        life = _Life(self, steps)
        try:
            life.run()
        except WorkerDiedError:
            self._deliver(life.queued)

    def live_at_once(self) -> None:
        """Run a worker with the memory that workers have: one batch of all records, one flush."""
        self.starts.append((self.flushed, len(self.outputs)))
        _Life(self, None).run_at_once()

    def live_and_die(self) -> "list[Partition]":
        """Run a worker from the committed offset to the end; what there would be, had it crashed
        after any of its steps: once where steps leave the same behind.
        """
        self.starts.append((self.flushed, len(self.outputs)))
        # Of one run, so that what is as long is the same.
        deaths: dict[tuple[int | None, int, int], Partition] = {}

        def die(queued: deque[Output]) -> None:
            left = copy(self)
            left.random = copy(self.random)
            left.changelog, left.outputs = self.changelog[:], self.outputs[:]
            left.starts, left.commits = self.starts[:], self.commits[:]
            left._deliver(queued)
            deaths.setdefault((left.committed, len(left.changelog), len(left.outputs)), left)

        _Life(self, None, die).run()
        return [*deaths.values()]

    def _deliver(self, queued: deque[Output]) -> None:
        """What the producer of a worker that died got through."""
        self.outputs += islice(queued, self.random.randint(0, len(queued)))


class _Life:
    """One worker, from its start to its end."""

    def __init__(
        self,
        partition: Partition,
        steps: int | None,
        at_each_step: Callable[[deque[Output]], None] | None = None,
    ) -> None:
        self.queued: deque[Output] = deque()
        self._partition = partition
        self._random = partition.random
        self._steps = steps
        self._at_each_step = at_each_step
        self._store = partition.store()
        start = partition.committed or 0
        self._left = deque(record for record in partition.records if record.offset >= start)
        self._largest_batch = self._random.choice(partition.largest_batches)
        self._processor: PartitionProcessor | RefereeProcessor | None = None
        self._kinds: list[Callable[..., PartitionProcessor | RefereeProcessor]]
        self._kinds = [PartitionProcessor, SmallMemoryProcessor]
        if isinstance(partition.topology, Referee):
            self._kinds = [RefereeProcessor]
        self._make = self._random.choice(self._kinds)

    def run(self) -> None:
        while self._left:
            self._process()
            if self._random.random() < 0.4:
                self._flush()
        self._end()

    def run_at_once(self) -> None:
        self._make = self._kinds[0]
        self._process(len(self._left))
        self._end()

    def _end(self) -> None:
        self._flush(is_last=True)
        # Nothing to write does not mean nothing sent: the producer delivers by itself.
        self._partition.outputs += self.queued

    def _step(self) -> None:
        if self._at_each_step is not None:
            self._at_each_step(self.queued)
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                raise WorkerDiedError

    def _process(self, size: int | None = None) -> None:
        size = size or self._random.randint(1, self._largest_batch)
        taken = [self._left.popleft() for _ in range(min(size, len(self._left)))]
        if not taken:
            return
        batch = batch_of(taken)
        if self._processor is None:
            self._start()
        if isinstance(self._processor, PartitionProcessor):
            more_follows = self._random.random() < 0.5
            self._queue(self._processor.steps(batch, more_follows=more_follows))
        else:
            self._queue(self._processor.steps(batch))

    def _start(self) -> None:
        partition = self._partition
        place = partition.topology, SOURCE, PARTITION, self._store
        if isinstance(partition.topology, Topology):
            place += (partition.decoder(),)
        if not partition.change_statistics:
            self._processor = self._make(*place)
            return
        self._processor = self._make(*place, change_statistics=True)
        assert isinstance(self._processor, PartitionProcessor)
        self._step()
        if self._processor.has_new_statistics:
            snapshot = self._processor.snapshot(())
            assert snapshot is not None
            assert not snapshot.states
            partition.changelog += rows_of(snapshot)
            self._step()
            self._store.write(rows_of(snapshot))
            self._processor.written()
            self._step()

    def _queue(self, steps: Iterator[Effects]) -> None:
        for effects in steps:
            self.queued += outputs_of(effects)
            self._step()

    def _flush(self, *, is_last: bool = False) -> None:
        partition, processor = self._partition, self._processor
        if processor is None:
            return
        if isinstance(processor, PartitionProcessor):
            self._queue(processor.kept_back())
        # Some of the keys have their turn, with the last flush all have.
        slots = SLOTS if is_last else self._random.choice([0, 1, SLOTS // 2, SLOTS])
        snapshot = processor.snapshot(self._random.sample(range(SLOTS), slots))
        if snapshot is None:
            return
        flushed = slice(partition.starts[-1][1], len(partition.outputs) + len(self.queued))
        # Batches go on coming in while a flush waits for the broker.
        self._sometimes_process()
        while self.queued:
            partition.outputs.append(self.queued.popleft())
            self._step()
        rows = rows_of(snapshot)
        for row in rows:
            partition.changelog.append(row)
            self._step()
        partition.flushed = flushed
        self._sometimes_process()
        self._store.write(rows)
        processor.written()
        self._step()
        partition.committed = snapshot.next_offset
        meaning = partition.topology.state_meaning
        partition.commits.append(decode_checkpoint(snapshot.checkpoint, meaning))
        self._step()

    def _sometimes_process(self) -> None:
        if self._random.random() < 0.3:
            self._process()
