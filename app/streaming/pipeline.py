"""All partitions of a topology in one worker: batches in, records and states out, in safe order.

The order of a flush is what the promises rest on: statistics and letters are acknowledged before
the states that passed them are written, and states before the source offsets are committed. A crash
between any two steps repeats work, whose records carry the same keys and bytes, and loses nothing.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from faust.types import TP
from msgspec.structs import astuple

from app.errors import SlidestatError
from app.streaming.checkpoint import Counters, decode_checkpoint
from app.streaming.decoding import EventDecoder
from app.streaming.emission import OutputRecord
from app.streaming.live_query import PartitionView, stored_view
from app.streaming.output_codec import EmissionCodec, JsonCodec
from app.streaming.partition import Letter, PartitionProcessor, Snapshot
from app.streaming.producer import BulkProducer
from app.streaming.progress import Progress
from app.streaming.publishing import SynopsisTopic
from app.streaming.records import RecordBatch
from app.streaming.referee import Referee
from app.streaming.referee_partition import RefereeProcessor
from app.streaming.table import StateTable, TablePartition
from app.streaming.topology import Topology
from schemas.dead_letter import DeadLetterHeaders, dead_letter_key


class SourceOffsets(Protocol):
    """What the consumer knows of a partition of the source topic."""

    def end(self, partition: int) -> int | None:
        """The offset after its last record, as of the last fetch."""

    async def earliest(self, partition: int) -> int:
        """The offset of the first record that the broker still has."""


class Pipeline:
    """Feeds batches to partition processors and makes their results durable."""

    def __init__(
        self,
        topology: Topology | Referee,
        table: StateTable,
        outputs: BulkProducer,
        offsets: SourceOffsets,
        progress: Progress,
        codec: EmissionCodec | None = None,
        partitions: int = 1,
    ) -> None:
        self._topology = topology
        self._codec = codec or JsonCodec()
        self._table = table
        self._outputs = outputs
        self._offsets = offsets
        self.progress = progress
        if isinstance(topology, Topology):
            self._decoder = EventDecoder(topology)
            self._synopses = SynopsisTopic(topology, partitions)
        self._processors: dict[int, PartitionProcessor | RefereeProcessor] = {}
        self._stores: dict[int, TablePartition] = {}
        self._arrived: dict[int, float] = {}

    def needed_offset(self, partition: int) -> int:
        """From where a partition must be read for the state that is stored here.

        Raises SlidestatError for a state of another topology.
        """
        stored = self._table.partition(partition).checkpoint()
        return decode_checkpoint(stored, self._topology.state_meaning).next_offset

    async def check_order(self, batch: RecordBatch) -> bool:
        """Whether `batch` is to be processed; False if its partition was given up meanwhile.

        Raises SlidestatError if records before it were not delivered. Faust drops what it has
        fetched when a rebalance comes, and reads it again; should that ever go wrong, a worker that
        stops goes on from where its state ends, and one that did not notice would lose events.
        """
        processor = self._processors.get(batch.partition)
        if processor is not None:
            expected = processor.next_offset
        else:
            expected = self.needed_offset(batch.partition)
        if batch.start_offset <= expected:
            return True
        processors = self._processors
        earliest = await self._offsets.earliest(batch.partition)
        if processors is not self._processors:
            return False
        if batch.start_offset > earliest:  # else the broker has deleted what lies between
            raise SlidestatError(
                f"Records {expected} to {batch.start_offset - 1} of {batch.topic!r} partition"
                f" {batch.partition} were not delivered.",
                "Start the worker again: it reads them from where its state ends.",
            )
        return True

    def process(self, batch: RecordBatch) -> None:
        """Absorb a batch and queue what it leads to."""
        processor = self._processors.get(batch.partition)
        if processor is None:
            processor = self._processors[batch.partition] = self._open(batch)
        effects = processor.process(batch)
        self._arrived[batch.partition] = time.monotonic()
        self.progress.read(len(batch))
        self._emit(effects.emissions, batch.partition)
        if effects.published:
            for record in self._synopses.records(effects.published, batch.partition):
                self._outputs.produce(self._synopses.name, *record)
        for letter in effects.dead_letters:
            self._send(letter, batch, self._topology.dead_letter_topic)
        for letter in effects.late:
            self._send(letter, batch, self._topology.late_topic)

    def look_ahead(self) -> None:
        """Queue provisional emissions of the partitions that have brought nothing for the
        topology's `idle`, if it has one.
        """
        if not self._topology.idle_ms:
            return
        waited_since = time.monotonic() - self._topology.idle_ms / 1000
        for partition, processor in self._processors.items():
            if self._arrived[partition] <= waited_since:
                now = int(time.time() * 1000)  # Event times are those of the real world.
                self._emit(processor.provisional(now), partition)

    def snapshots(self) -> dict[TablePartition, Snapshot]:
        """What changed since the last write. What led to it must be acknowledged before `write`."""
        found = {}
        for partition, processor in self._processors.items():
            snapshot = processor.snapshot()
            if snapshot is not None:
                found[self._stores[partition]] = snapshot
        return found

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Make snapshots durable, also of partitions that were given up since they were taken."""
        processors = self._processors
        if snapshots:
            await self._table.write(snapshots)
            for store in snapshots:
                if store.partition in processors:
                    processors[store.partition].written()
        if processors:
            self._tell(processors.values())

    def durable(self) -> dict[TP, int]:
        """The offset up to which each partition is durable, if the last snapshots are.

        Also those without news: a commit that failed or was refused is made up for, and so are
        offsets that were set back.
        """
        source = self._topology.source
        return {
            TP(source, partition): processor.checkpoint.next_offset
            for partition, processor in self._processors.items()
        }

    def view(self, partition: int) -> PartitionView:
        """The keys of a partition that this worker holds, as they are now."""
        processor = self._processors.get(partition)
        if isinstance(processor, PartitionProcessor):
            return processor.view()
        if isinstance(self._topology, Referee):
            raise TypeError("a referee keeps no keys that can be asked for")
        return stored_view(self._topology, partition, self._table.partition(partition))

    def forget(self) -> None:
        """Drop what is in memory: partitions may move, and will be read again where they go."""
        self._processors, self._stores = {}, {}

    def _tell(self, processors: Iterable[PartitionProcessor | RefereeProcessor]) -> None:
        checkpoints = [processor.checkpoint for processor in processors]
        counters = Counters(
            *map(sum, zip(*(astuple(c.counters) for c in checkpoints), strict=True))
        )
        self.progress.flushed(counters, max(c.max_time for c in checkpoints))

    def _open(self, batch: RecordBatch) -> PartitionProcessor | RefereeProcessor:
        store = self._stores[batch.partition] = self._table.partition(batch.partition)
        processor: PartitionProcessor | RefereeProcessor
        if isinstance(self._topology, Referee):
            processor = RefereeProcessor(
                self._topology, batch.topic, batch.partition, store, self._codec
            )
        else:
            processor = PartitionProcessor(
                self._topology, batch.topic, batch.partition, store, self._decoder, self._codec
            )
        end = self._offsets.end(batch.partition)
        if end is not None and processor.next_offset > end:
            raise SlidestatError(
                f"Topic {batch.topic!r} partition {batch.partition} ends at offset {end}, but the"
                f" stored state has read up to {processor.next_offset}: the topic was made anew.",
                "Give the topology another name, or delete the data folder and the topic"
                f" {self._table.changelog_topic!r}.",
            )
        return processor

    def _emit(self, emissions: Iterable[OutputRecord], partition: int) -> None:
        produce, topic = self._outputs.produce, self._topology.output_topic
        for key, value, timestamp in emissions:
            produce(topic, partition, key, value, timestamp)

    def _send(self, letter: Letter, batch: RecordBatch, topic: str) -> None:
        headers = DeadLetterHeaders(
            letter.reason,
            letter.detail,
            batch.topic,
            batch.partition,
            letter.offset,
            self._topology.name,
        ).encode()
        if letter.key is not None:
            headers.append(("original_key", letter.key))
        self._outputs.produce(
            topic,
            batch.partition,
            dead_letter_key(batch.topic, batch.partition, letter.offset),
            letter.value,
            max(letter.timestamp, 0),
            headers,
        )


async def flush_all(
    pipelines: Sequence[Pipeline], outputs: BulkProducer, sending: asyncio.Lock
) -> dict[TP, int]:
    """Make everything processed so far durable; the offsets to commit: where a topic's partition is
    durable for all of its pipelines.
    """
    async with sending:
        durable: dict[TP, int] = {}
        snapshots = [pipeline.snapshots() for pipeline in pipelines]
        for pipeline in pipelines:
            for tp, offset in pipeline.durable().items():
                durable[tp] = min(offset, durable.get(tp, offset))
        if any(snapshots):
            await outputs.flush()
    for pipeline, changed in zip(pipelines, snapshots, strict=True):
        await pipeline.write(changed)
    return durable
