"""All partitions of a topology in one worker: batches in, records and states out, in safe order.

The order of a flush is what the promises rest on: statistics and letters are acknowledged before
the states that passed them are written, and states before the source offsets are committed. A crash
between any two steps repeats work, whose records carry the same keys and bytes, and loses nothing.
"""

from collections.abc import Callable, Iterable, Mapping

from faust.types import TP
from msgspec.structs import astuple

from app.errors import SlidestatError
from app.streaming.checkpoints import Counters
from app.streaming.decoding import EventDecoder
from app.streaming.partition import Letter, PartitionProcessor, Snapshot
from app.streaming.producer import BulkProducer
from app.streaming.progress import Progress
from app.streaming.records import RecordBatch
from app.streaming.table import StateTable
from app.streaming.topology import Topology
from schemas.dead_letter import DeadLetterHeaders, dead_letter_key


class Pipeline:
    """Feeds batches to partition processors and makes their results durable."""

    def __init__(
        self,
        topology: Topology,
        table: StateTable,
        outputs: BulkProducer,
        end_offset: Callable[[int], int | None],
        committed_offset: Callable[[int], int | None],
        progress: Progress,
    ) -> None:
        """`end_offset` and `committed_offset` tell them for a partition of the source topic."""
        self._topology = topology
        self._table = table
        self._outputs = outputs
        self._end_offset = end_offset
        self._committed_offset = committed_offset
        self._progress = progress
        self._decoder = EventDecoder(topology)
        self._processors: dict[int, PartitionProcessor] = {}

    def process(self, batch: RecordBatch) -> None:
        """Absorb a batch and queue what it leads to."""
        processor = self._processors.get(batch.partition)
        if processor is None:
            processor = self._processors[batch.partition] = self._open(batch)
        effects = processor.process(batch)
        self._progress.read(len(batch))
        produce = self._outputs.produce
        topic, partition = self._topology.output_topic, batch.partition
        for key, value, timestamp in effects.statistics:
            produce(topic, partition, key, value, timestamp)
        for letter in effects.dead_letters:
            self._send(letter, batch, self._topology.dead_letter_topic)
        for letter in effects.late:
            self._send(letter, batch, self._topology.late_topic)

    async def flush(self) -> Mapping[TP, int]:
        """Make everything processed so far durable; the offsets to commit.

        They include what was durable before, in case that the group does not know it: a commit
        failed, or its offsets were set back.
        """
        processors = dict(self._processors)
        snapshots: dict[int, Snapshot] = {}
        for partition, processor in processors.items():
            committed = self._committed_offset(partition)
            if committed is not None:
                processor.committed(committed)
            snapshot = processor.snapshot()
            if snapshot is not None:
                snapshots[partition] = snapshot
        if snapshots:
            await self._outputs.flush()
            await self._table.write(snapshots)
            self._tell(processors.values())
        # Also those without news: a commit that a rebalance refused is made up for.
        source = self._topology.source
        return {TP(source, p): pr.checkpoint.next_offset for p, pr in processors.items()}

    def forget(self) -> None:
        """Drop what is in memory: partitions may move, and will be read again where they go."""
        self._processors.clear()

    def _tell(self, processors: Iterable[PartitionProcessor]) -> None:
        checkpoints = [processor.checkpoint for processor in processors]
        counters = Counters(
            *map(sum, zip(*(astuple(c.counters) for c in checkpoints), strict=True))
        )
        self._progress.flushed(counters, max(c.max_time for c in checkpoints))

    def _open(self, batch: RecordBatch) -> PartitionProcessor:
        store = self._table.partition(batch.partition)
        processor = PartitionProcessor(
            self._topology,
            batch.topic,
            batch.partition,
            store,
            int(batch.offsets[0]),
            self._decoder,
        )
        end = self._end_offset(batch.partition)
        if end is not None and processor.next_offset > end:
            raise SlidestatError(
                f"Topic {batch.topic!r} partition {batch.partition} ends at offset {end}, but the"
                f" stored state has read up to {processor.next_offset}: the topic was made anew.",
                "Give the topology another name, or delete the data folder and the topic"
                f" {self._table.changelog_topic!r}.",
            )
        return processor

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
