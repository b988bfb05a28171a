"""All partitions of a topology in one worker: batches in, records and states out, in safe order.

The order of a flush is what the promises rest on: statistics and letters are acknowledged before
the states that passed them are written, and states before the source offsets are committed. A crash
between any two steps repeats work, whose records carry the same keys and bytes, and loses nothing.
A flush takes the states whose turn for a checkpoint has come, and what may be committed is what the
others do not need.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from faust.types import TP

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import NO_TIME, Snapshot
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.engine.keys.shared_keys import Identity
from slidestat.engine.records import RecordBatch
from slidestat.faust.flushes import to_its_end
from slidestat.faust.partitions.batch_steps import BatchSteps, FirstRecords
from slidestat.faust.partitions.durable_states import DurableStates
from slidestat.faust.partitions.held_partitions import HeldPartitions
from slidestat.faust.partitions.look_ahead import AheadTopics, look_ahead
from slidestat.faust.partitions.output_topics import OutputTopics
from slidestat.faust.partitions.read_order import ReadOrder
from slidestat.faust.progress import Progress
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.faust.table import StateTable, TablePartition
from slidestat.kafka.letter_record import LETTER_BYTES
from slidestat.kafka.producer import BulkProducer, ExpiringProducer
from slidestat.live.live_topology import View
from slidestat.live.observed import Observed
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import Behind
from slidestat.schemas.query import PartitionStatus


class Pipeline:
    """A pipeline that feeds batches to partition processors and makes their results durable."""

    def __init__(
        self,
        topology: Declared,
        table: StateTable,
        outputs: BulkProducer,
        offsets: SourceOffsets,
        progress: Progress,
        *,
        codec: EmissionWriter | None = None,
        silent_until: Mapping[int, int] | None = None,
        partitions: int = 1,
        letter_bytes: int = LETTER_BYTES,
        checkpoint_interval_s: float,
        allow_loss: bool = False,
        change_statistics: bool = False,
        schemas: SourceSchemas | None = None,
        provisional: ExpiringProducer | None = None,
        folder: Path | None = None,
        mover: ElectedMover | None = None,
        is_first_start: bool = False,
    ) -> None:
        """Create the pipeline.

        With `allow_loss`, records that are gone before they were read are counted, and stop
        nothing; with `change_statistics`, stored states may be of other statistics. `schemas` are
        those of the source's records, if they need any. Provisional emissions go to `provisional`,
        which a topology with an `idle` needs. Events that memory should not hold wait in `folder`;
        `mover` moves the source's records, if this worker is elected to. At a first start, the
        worker stops where all of the first records are refused.
        """
        self._topology = topology
        self._mover = mover
        self._table = table
        self._offsets = offsets
        self.progress = progress
        self.observed = Observed(topology.name)

        written = self.observed, silent_until or {}, partitions, letter_bytes
        self._outputs = OutputTopics(topology, outputs, *written)
        self._ahead = None
        if provisional is not None:
            ahead = OutputTopics(topology, provisional, *written)
            self._ahead = AheadTopics(ahead, provisional)
        self._held = HeldPartitions(
            topology,
            table,
            offsets,
            codec or JsonCodec(),
            self.observed,
            schemas,
            folder,
            change_statistics=change_statistics,
        )
        first = FirstRecords(topology, is_watched=is_first_start)
        self._steps = BatchSteps(self._held, self._outputs, offsets, self.observed, progress, first)
        self._order = ReadOrder(
            topology, self._held, offsets, self._steps.emit_kept, allow_loss=allow_loss
        )
        self._states = DurableStates(self._held, table, progress, checkpoint_interval_s)

    # Partitions.

    def needed_offset(self, partition: int) -> int:
        """Return the offset from which a partition must be read for the state that is stored here.

        Raises SlidestatError for a state of another topology, or of another source topic.
        """
        return self._held.needed_offset(partition)

    def next_offset(self, partition: int) -> int:
        """Return the offset up to which a partition has been taken in."""
        processor = self._held.processors.get(partition)
        return processor.next_offset if processor else self.needed_offset(partition)

    async def open(self, partitions: Iterable[int]) -> None:
        """Open partitions that this worker holds, though they may bring no records: also a silent
        key has its last emission, provisional ones and its deletion to come. All keys are read; a
        partition that is given up meanwhile stays closed.

        Raises SlidestatError for a state of another topology, and for a key of two partitions.
        """
        await self._held.open(partitions)

    async def opened(self) -> None:
        """Return when no partition is being taken up."""
        await self._held.opened()

    @property
    def has_new_statistics(self) -> bool:
        """Return whether an open partition has other statistics than are stored: `store_changes`
        must come before `process`.
        """
        return self._states.are_changed

    async def store_changes(self) -> None:
        """Store which statistics the open partitions have."""
        await self._states.store_changes()

    def forget(self) -> None:
        """Drop all that is in memory: partitions may move, and will be read again where they go."""
        self._held.forget()
        self._steps.forget()
        self._order.forget()

    def sampled_keys(self, partition: int) -> tuple[str, list[Identity]] | None:
        """Return the name of the key's field, and the identities of a partition's keys that other
        workers compare with theirs; None where keys may lie in several partitions, or the partition
        is not open.
        """
        return self._held.sampled_keys(partition)

    def learn_keys(self, notes: Mapping[int, str]) -> None:
        """Take in what other workers have noted of their partitions.

        Raises SlidestatError for a key of one of them and of one that is held here.
        """
        self._held.learn_keys(notes)

    # Batches.

    async def check_order(self, batch: RecordBatch) -> bool:
        """Check the order of `batch`, and return whether it is to be processed; False if its
        partition was given up meanwhile.

        Raises SlidestatError if records before it were not delivered or are gone, unless that is
        allowed, or if it is of a topic that was deleted and created again.
        """
        return await self._order.check(batch)

    async def look_for_losses(self) -> None:
        """Find what was deleted before it was read where no record has come since.

        Raises SlidestatError for it, unless it is allowed.
        """
        await self._order.look_for_losses()

    async def process(self, batch: RecordBatch) -> bool:
        """Absorb a batch and queue what it leads to, slice by slice; False if the partition was
        given up meanwhile, and what is left of the batch is another worker's.
        """
        return await self._steps.process(batch)

    async def emit_kept(self) -> None:
        """Queue the emissions of all ticks that were kept back, and letters that are due."""
        await self._steps.emit_all_kept()

    async def look_ahead(self) -> None:
        """Emit provisionally for the partitions that have brought nothing for a while."""
        if self._ahead is not None:
            await look_ahead(self._topology, self._held, self._ahead, self._offsets)

    # Flushes.

    async def confirm_source(self) -> None:
        """Return when it is sure that all that was taken in is of the source that was asked for."""
        await self._offsets.confirm_source()

    def snapshots(self, *, whole: bool = False) -> dict[TablePartition, Snapshot]:
        """Return the changes since the last write, of the keys whose turn it is, or of all; none
        while letters are held back. What was emitted before must be acknowledged before `write`.
        """
        return {} if self._steps.are_letters_held else self._states.snapshots(whole=whole)

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Make snapshots durable, also of partitions that were given up since they were taken."""
        # Of letters that wait it is not said yet that they can be looked at.
        if snapshots or not self._steps.are_letters_held:
            await self._states.write(snapshots)

    def durable(self) -> dict[TP, int]:
        """Return the offset up to which each partition is durable, if the last snapshots are."""
        return self._states.durable(self._topology.events_topic)

    # Questions.

    def view(self, partition: int) -> View:
        """Return a view of the keys of a partition that this worker holds, as they are now."""
        return self._held.view(partition)

    def status(self, partition: int) -> PartitionStatus:
        """Return the status of a partition that this worker holds; counters as of the last
        batch.
        """
        table = self._table.partition(partition)
        processor = self._held.processors.get(partition)
        reached = processor.reached if processor is not None else self._held.emitted(partition)
        counters = reached.counters
        view = self.view(partition)
        reached_time = None if view.watermark <= NO_TIME else view.watermark
        is_sequence = self._topology.is_sequence
        return PartitionStatus(
            partition=partition,
            next_offset=view.next_offset,
            end_offset=self._offsets.end(partition),
            watermark_ms=None if is_sequence else reached_time,
            read=counters.read,
            counted=counters.counted,
            dead=counters.dead,
            late=counters.late,
            lost=counters.lost,
            passed_over=counters.passed_over,
            left_out=counters.left_out,
            emissions=self.observed.partition(partition).emissions,
            keys=view.keys_held,
            state_bytes=table.size(),
            watermark_seq=reached_time if is_sequence else msgspec.UNSET,
            incomplete=(processor.incomplete if processor else []) or msgspec.UNSET,
        )

    def firing(self) -> dict[str, int]:
        """Return, by the alert's name, for how many keys of this worker's partitions it fires."""
        found = {alert.name: 0 for alert in self._topology.alerts}
        for processor in self._held.processors.values():
            for alert, keys in processor.firing.items():
                found[alert] += keys
        return found

    def behind(self) -> Behind | None:
        """Return how far moving the source's records is behind; None unless this worker moves
        them.
        """
        return None if self._mover is None else self._mover.behind

    @property
    def due_in_ms(self) -> int:
        """The distance of event time to the next tick of any partition of this worker; 0 where that
        gives no idea of the time that it takes.
        """
        if self._topology.is_sequence:
            return 0
        return min((each.due_in_ms for each in self._held.processors.values()), default=0)

    @property
    def is_exactly_once(self) -> bool:
        """Return whether its outputs are committed with the states that they come from."""
        return self._topology.exactly_once

    def changelog_written(self) -> tuple[int, int]:
        """Return the records and bytes written to the changelog since the process began."""
        return self._table.changelog_records, self._table.changelog_bytes


async def flush_all(
    pipelines: Sequence[Pipeline],
    outputs: BulkProducer,
    sending: asyncio.Lock,
    *,
    whole: bool = False,
) -> dict[TP, int]:
    """Wait until all outputs are acknowledged, then make the states durable whose turn it is, or
    all; return the offsets to commit: up to where a topic's partition is durable for all of its
    pipelines. Cancelled, it ends before states go to a changelog, or after they are in the
    database.
    """
    async with sending:
        for pipeline in pipelines:
            await pipeline.emit_kept()
        durable: dict[TP, int] = {}
        snapshots = [pipeline.snapshots(whole=whole) for pipeline in pipelines]
        for pipeline in pipelines:
            for tp, offset in pipeline.durable().items():
                durable[tp] = min(offset, durable.get(tp, offset))
        if any(snapshots):
            await pipelines[0].confirm_source()
            await outputs.flush()
            # Nothing more may come into a transaction before it is committed, which has all of it
            # acknowledged first.
            for pipeline, changed in zip(pipelines, snapshots, strict=True):
                if pipeline.is_exactly_once:
                    await to_its_end(pipeline.write(changed))
            for pipeline in pipelines:
                pipeline.observed.acknowledged()
    for pipeline, changed in zip(pipelines, snapshots, strict=True):
        if pipeline.is_exactly_once and any(snapshots):
            continue
        # Half of it would be written to the changelog later, when another worker may have read
        # that.
        await to_its_end(pipeline.write(changed))
    # Of what has never brought anything there is nothing to commit.
    return {tp: offset for tp, offset in durable.items() if offset}
