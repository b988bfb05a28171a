"""All partitions of a topology in one worker: batches in, records and states out, in safe order.

The order of a flush is what the promises rest on: statistics and letters are acknowledged before
the states that passed them are written, and states before the source offsets are committed. A crash
between any two steps repeats work, whose records carry the same keys and bytes, and loses nothing.
A flush takes the states whose turn for a checkpoint has come, and what may be committed is what the
others do not need.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from faust.types import TP

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import Snapshot
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.faust.flushes import to_its_end
from slidestat.faust.partitions.batch_steps import BatchSteps, FirstRecords
from slidestat.faust.partitions.durable_states import DurableStates
from slidestat.faust.partitions.held_partitions import HeldPartitions, Processor
from slidestat.faust.partitions.output_topics import OutputTopics
from slidestat.faust.partitions.read_order import ReadOrder
from slidestat.faust.progress import Progress
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.faust.table import StateTable, TablePartition
from slidestat.kafka.letter_record import LETTER_BYTES
from slidestat.kafka.producer import BulkProducer, ExpiringProducer
from slidestat.live.live_topology import View, partition_status
from slidestat.live.observed import Observed
from slidestat.repartition.elected_mover import ElectedMover
from slidestat.repartition.moved_from import Behind
from slidestat.schemas.query import PartitionStatus

# Emit, for partitions that bring nothing, what there would be if nothing else came.


class _Look:
    """A look ahead, at the partitions that are held when it begins."""

    def __init__(self, held: HeldPartitions, outputs: OutputTopics, offsets: SourceOffsets) -> None:
        self.has_sent = False
        self._held = held
        self._processors = held.processors
        self._outputs = outputs
        self._offsets = offsets

    @property
    def is_given_up(self) -> bool:
        """Return whether a rebalance has taken the partitions meanwhile."""
        return self._processors is not self._held.processors

    async def emit(self, partition: int, processor: Processor, now: int) -> None:
        for effects in processor.provisional(now):
            if not self.has_sent and not await self._is_confirmed():
                return
            self.has_sent = True
            self._outputs.send(effects, partition, None)
            await self._outputs.room()
            if self.is_given_up:
                return

    async def publish(self, partition: int, processor: Processor, now: int) -> None:
        ahead = processor.published_ahead(now)
        if ahead and await self._is_confirmed():
            self.has_sent = True
            self._outputs.publish(ahead, partition, provisional=True)

    async def _is_confirmed(self) -> bool:
        await self._offsets.confirm_source()
        return not self.is_given_up


class Pipeline:
    """A pipeline that feeds batches to partition processors and makes their results durable.

    `partitions` are those that are open, `order` checks what comes for them, `steps` process it,
    and `states` make it durable: this has what concerns several of them.
    """

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
        self.topology = topology
        self._mover = mover
        self._table = table
        self.offsets = offsets
        self.progress = progress
        self.observed = Observed(topology.name)

        written = self.observed, silent_until or {}, partitions, letter_bytes
        self._outputs = OutputTopics(topology, outputs, *written)
        self._ahead = None
        if provisional is not None:
            self._ahead = OutputTopics(topology, provisional, *written), provisional
        self.partitions = HeldPartitions(
            topology,
            table,
            offsets,
            codec or JsonCodec(),
            self.observed,
            schemas,
            folder,
            partitions=partitions,
            change_statistics=change_statistics,
        )
        first = FirstRecords(topology, is_watched=is_first_start)
        self.steps = BatchSteps(
            self.partitions, self._outputs, offsets, self.observed, progress, first
        )
        self.order = ReadOrder(
            topology, self.partitions, offsets, self.steps, allow_loss=allow_loss
        )
        self.states = DurableStates(self.partitions, table, progress, checkpoint_interval_s)

    def forget(self) -> None:
        """Drop all that is in memory: partitions may move, and will be read again where they go."""
        self.partitions.forget()
        self.steps.forget()
        self.order.forget()

    async def look_ahead(self) -> None:
        """Emit provisionally for the partitions that have brought nothing for the topology's
        `idle`, if it has one, and wait until it is acknowledged, or has expired when they were
        given up: one that came later could replace what another worker has emitted meanwhile.
        """
        if self._ahead is None or not self.topology.idle_ms:
            return
        outputs, producer = self._ahead
        look = _Look(self.partitions, outputs, self.offsets)
        waited_since = time.monotonic() - self.topology.idle_ms / 1000
        for partition, processor in tuple(self.partitions.processors.items()):
            if look.is_given_up:
                break
            is_idle = self.partitions.arrived[partition] <= waited_since
            if not is_idle or not self.offsets.is_end(partition, processor.next_offset):
                continue
            now = int(time.time() * 1000)  # Event times are those of the real world.
            await look.emit(partition, processor, now)
            if not look.is_given_up:
                await look.publish(partition, processor, now)
        if look.has_sent:
            await producer.flush_while(lambda: not look.is_given_up)

    # Flushes.

    def snapshots(self, *, whole: bool = False) -> dict[TablePartition, Snapshot]:
        """Return the changes since the last write, of the keys whose turn it is, or of all; none
        while letters are held back. Earlier emissions must be acknowledged before `write`.
        """
        return {} if self.steps.are_letters_held else self.states.snapshots(whole=whole)

    async def write(self, snapshots: Mapping[TablePartition, Snapshot]) -> None:
        """Make snapshots durable, also of partitions that were given up since they were taken."""
        # Letters that wait are told only once they can be looked at.
        if snapshots or not self.steps.are_letters_held:
            await self.states.write(snapshots)

    def durable(self) -> dict[TP, int]:
        """Return the offset up to which each partition is durable, if the last snapshots are."""
        return self.states.durable(self.topology.events_topic)

    # Questions.

    def view(self, partition: int) -> View:
        """Return a view of the keys of a partition that this worker holds, as they are now."""
        return self.partitions.view(partition)

    def status(self, partition: int) -> PartitionStatus:
        """Return the status of a partition of this worker, with counters as of the last batch."""
        processor = self.partitions.processors.get(partition)
        view = self.view(partition)
        return partition_status(
            view,
            processor.reached if processor else self.partitions.emitted(partition),
            is_sequence=self.topology.is_sequence,
            next_offset=self.offsets.read_up_to(partition, view.next_offset),
            end_offset=self.offsets.end(partition),
            waiting=self.offsets.waiting(partition),
            emissions=self.observed.partition(partition).emissions,
            state_bytes=self._table.partition(partition).size(),
            incomplete=processor.incomplete if processor else (),
        )

    def firing(self) -> dict[str, int]:
        """Return, by the alert's name, for how many keys of this worker's partitions it fires."""
        found = {alert.name: 0 for alert in self.topology.alerts}
        for processor in self.partitions.processors.values():
            for alert, keys in processor.firing.items():
                found[alert] += keys
        return found

    def behind(self) -> Mapping[str, Behind] | None:
        """Return how far moving each source's records is behind; None unless it is done here."""
        return None if self._mover is None else self._mover.behind

    def due_in_ms(self, partition: int) -> int:
        """Return the distance of event time to the next tick of a partition; 0 where that gives no
        idea of the time that it takes.
        """
        processor = self.partitions.processors.get(partition)
        return 0 if processor is None or self.topology.is_sequence else processor.due_in_ms

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
    pipelines. Cancelled, it ends before states go to a changelog, or once the database has them.
    """
    async with sending:
        for pipeline in pipelines:
            await pipeline.steps.emit_all_kept()
        durable: dict[TP, int] = {}
        snapshots = [pipeline.snapshots(whole=whole) for pipeline in pipelines]
        for pipeline in pipelines:
            for tp, offset in pipeline.durable().items():
                durable[tp] = min(offset, durable.get(tp, offset))
        if any(snapshots):
            await pipelines[0].offsets.confirm_source()
            await outputs.flush()
            # Nothing more may come into a transaction before it is committed, which has all of it
            # acknowledged first.
            for pipeline, changed in zip(pipelines, snapshots, strict=True):
                if pipeline.topology.exactly_once:
                    await to_its_end(pipeline.write(changed))
            for pipeline in pipelines:
                pipeline.observed.acknowledged()
    for pipeline, changed in zip(pipelines, snapshots, strict=True):
        if pipeline.topology.exactly_once and any(snapshots):
            continue
        # Half of it would be written to the changelog later, when another may have read that.
        await to_its_end(pipeline.write(changed))
    # A partition that has never brought anything has nothing to commit.
    return {tp: offset for tp, offset in durable.items() if offset}
