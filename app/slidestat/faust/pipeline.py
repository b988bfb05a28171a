"""All partitions of a topology in one worker: batches in, records and states out, in safe order.

The order of a flush is what the promises rest on: statistics and letters are acknowledged before
the states that passed them are written, and states before the source offsets are committed. A crash
between any two steps repeats work, whose records carry the same keys and bytes, and loses nothing.
A flush takes the states whose turn for a checkpoint has come, and what may be committed is what the
others do not need.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from faust.types import TP

from slidestat.declare.forms.fingerprint import fingerprint_of
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import AlertRecord
from slidestat.engine.checkpoints.checkpoint import (
    NO_TIME,
    Checkpoint,
    Counters,
    claims,
    decode_checkpoint,
    decode_emitted,
)
from slidestat.engine.checkpoints.snapshot import Snapshot
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission import OutputRecord
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.engine.intake.letters import Letter
from slidestat.engine.keys.key_sample import Identity
from slidestat.engine.keys.shared_keys import SharedKeys
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisRecord, SynopsisTopic
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.checkpoint_turns import CheckpointTurns
from slidestat.faust.flushes import to_its_end
from slidestat.faust.progress import Progress
from slidestat.faust.source.commit_notes import NOTED_KEYS, read_note
from slidestat.faust.source.lost_records import LostRange, refusal, tell_lost
from slidestat.faust.source.topic_watch import another_source, require_same_source
from slidestat.faust.table import StateTable, TablePartition
from slidestat.kafka.expiring_producer import ExpiringProducer
from slidestat.kafka.letter_record import LETTER_BYTES, letter_record
from slidestat.kafka.producer import BulkProducer
from slidestat.live.live_query import stored_view
from slidestat.live.live_topology import View
from slidestat.live.observed import Observed
from slidestat.log import log_event
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.schemas.query import PartitionStatus

# A partition that is behind by so many records brings them at once: some batches are taken in
# before the ticks that they pass are emitted.
_BACKLOG_RECORDS = 20_000

# What the states that are not durable may come to, in a worker: in memory, and in records that a
# restarted one would read again, whose outcomes are in memory as well.
_UNWRITTEN_BYTES = 128 * 2**20
_UNWRITTEN_RECORDS = 4_000_000


class SourceOffsets(Protocol):
    """The source topic's partitions and offsets, as the worker knows them."""

    @property
    def topic_id(self) -> str:
        """Which topic it is, "" where that is not known."""

    async def confirm_source(self) -> None:
        """Return when it is sure that what was fetched before is of that topic; raises
        SlidestatError if it is of another one.
        """

    def end(self, partition: int) -> int | None:
        """The offset after its last record, as of the last fetch."""

    def is_end(self, partition: int, offset: int) -> bool:
        """Whether there is nothing from `offset` on, as a fetch of a moment ago has seen."""

    def jumped_to(self, partition: int, offset: int) -> int | None:
        """Where the next record will be looked for, if none has come from there, and none from
        `offset` on is on its way; None if one is, or will be.
        """

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
        codec: EmissionWriter | None = None,
        silent_until: Mapping[int, int] | None = None,
        partitions: int = 1,
        letter_bytes: int = LETTER_BYTES,
        checkpoint_interval_s: float = 0.0,
        *,
        allow_loss: bool = False,
        schemas: SourceSchemas | None = None,
        provisional: ExpiringProducer | None = None,
    ) -> None:
        """With `allow_loss`, records that are gone before they were read are counted, and stop
        nothing. `schemas` are those of the source's records, if they take any. What is emitted
        ahead goes to `provisional`, which a topology with an `idle` takes.
        """
        self._provisional = provisional
        self._turns = CheckpointTurns(checkpoint_interval_s, time.monotonic())
        self._topology = topology
        self._allow_loss = allow_loss
        self._declared_by = [(DECLARATION_HEADER, fingerprint_of(topology).encode())]
        self._letter_bytes = letter_bytes
        self._codec = codec or JsonCodec()
        self._table = table
        self._silent_until = silent_until or {}
        self._outputs = outputs
        self._offsets = offsets
        self.progress = progress
        self.observed = Observed(topology.name)
        if isinstance(topology, Topology):
            self._decoder = EventDecoder(topology, schemas=schemas)
            self._synopses = SynopsisTopic(topology, partitions)
            self._shared_keys = SharedKeys(topology)
        self._processors: dict[int, PartitionProcessor | RefereeProcessor] = {}
        self._stores: dict[int, TablePartition] = {}
        self._arrived: dict[int, float] = {}
        # Where partitions were taken up of which nothing was ever read.
        self._begins: dict[int, int] = {}
        # When the first tick came that a partition keeps back.
        self._kept_since: dict[int, float] = {}

    def needed_offset(self, partition: int) -> int:
        """From where a partition must be read for the state that is stored here.

        Raises SlidestatError for a state of another topology, or of another source topic.
        """
        return self._stored(self._table.partition(partition)).next_offset

    def next_offset(self, partition: int) -> int:
        """Up to where a partition has been taken in."""
        processor = self._processors.get(partition)
        return processor.next_offset if processor else self.needed_offset(partition)

    async def check_order(self, batch: RecordBatch) -> bool:
        """Whether `batch` is to be processed; False if its partition was given up meanwhile.

        Raises SlidestatError if records before it were not delivered or are gone, unless that is
        allowed, or it is of a topic that was made anew. Faust drops what it has fetched when a
        rebalance comes, and reads it again; should that ever go wrong, a worker that stops goes on
        from where its state ends, and one that did not notice would lose events.
        """
        self.open([batch.partition])
        expected = self._expected(batch.partition, batch.start_offset)
        end = self._offsets.end(batch.partition)
        if end is not None and expected > end:
            # Brokers that tell topics apart by ids have said so before.
            raise SlidestatError(
                f"Topic {batch.topic!r} partition {batch.partition} ends at offset {end}, but the"
                f" stored state has read up to {expected}: the topic was made anew.",
                another_source(self._topology.name),
            )
        if batch.start_offset <= expected:
            return True
        processors = self._processors
        earliest = await self._offsets.earliest(batch.partition)
        if processors is not self._processors:
            return False
        if batch.start_offset > earliest:
            raise SlidestatError(
                f"Records {expected} to {batch.start_offset - 1} of {batch.topic!r} partition"
                f" {batch.partition} were not delivered.",
                "Start the worker again: it reads them from where its state ends.",
            )
        return await self._lose(batch.partition, expected, batch.start_offset)

    async def look_for_losses(self) -> None:
        """Find what was deleted before it was read where no record has come since.

        Raises SlidestatError for it, unless it is allowed.
        """
        processors = self._processors
        for partition, processor in tuple(processors.items()):
            jump = self._offsets.jumped_to(partition, processor.next_offset)
            if jump is None:
                continue
            expected = self._expected(partition, jump)
            if jump <= expected:
                continue
            earliest = await self._offsets.earliest(partition)
            if processors is not self._processors:
                return
            # Else it was sought there, and the first batch will say what is missing.
            if jump <= earliest and not await self._lose(partition, expected, jump):
                return

    def _expected(self, partition: int, begin: int) -> int:
        """The first offset not yet read; of a partition of which nothing was, where it was taken
        up: at `begin`, unless that was said before.
        """
        processor = self._processors[partition]
        if processor.has_begun:
            return processor.next_offset
        return self._begins.setdefault(partition, begin)

    async def _lose(self, partition: int, first: int, end: int) -> bool:
        """Go on behind lost records; False if the partition was given up meanwhile."""
        lost = LostRange(self._topology.events_topic, partition, first, end)
        processor = self._processors[partition]
        can_say_so = isinstance(self._topology, Topology) and not self._topology.publish
        if not (self._allow_loss and can_say_so and isinstance(processor, PartitionProcessor)):
            raise refusal(lost, self._topology)
        if not await self._emit_kept(partition):
            return False
        tell_lost(lost, self._topology.name)
        processor.lose(first, end)
        return True

    async def process(self, batch: RecordBatch) -> bool:
        """Absorb a batch and queue what it leads to, slice by slice; False if the partition was
        given up meanwhile, and what is left of the batch is another worker's.
        """
        processors, partition = self._processors, batch.partition
        if partition not in processors:
            self._open(partition)
        processor = processors[partition]
        started = time.monotonic()
        new_records = len(batch.since(processor.unread_offset))
        before = processor.reached.counters
        letters: list[Letter] = []
        kept_since = self._kept_since.pop(partition, started)
        steps = self._steps_of(processor, batch)
        if not await self._send_steps(steps, partition, kept_since, letters):
            return False
        if isinstance(processor, PartitionProcessor) and processor.keeps_ticks:
            self._kept_since[partition] = kept_since
        taken = processor.reached.counters.since(before)
        self.observed.processed(batch, letters, taken, len(batch) - new_records, started)
        self._arrived[partition] = time.monotonic()
        self.progress.read(len(batch))
        return True

    def _steps_of(
        self, processor: PartitionProcessor | RefereeProcessor, batch: RecordBatch
    ) -> Iterator[Effects]:
        if not isinstance(processor, PartitionProcessor):
            return processor.steps(batch)
        end = self._offsets.end(batch.partition)
        behind = 0 if end is None else end - int(batch.offsets[-1])
        return processor.steps(batch, more_follows=behind > _BACKLOG_RECORDS)

    async def _send_steps(
        self, steps: Iterator[Effects], partition: int, started: float, letters: list[Letter]
    ) -> bool:
        """Queue what comes of a partition's steps, with its `letters`; False if it was given up
        meanwhile.
        """
        processors, source = self._processors, self._topology.events_topic
        processor = processors[partition]
        is_confirmed = False
        try:
            for effects in steps:
                self._compare_keys(partition, processor)
                if not is_confirmed and not effects.is_empty:
                    await self._offsets.confirm_source()
                    is_confirmed = True
                    if processors is not self._processors:
                        return False
                self._emit(effects.emissions, partition, started)
                if effects.alerts:
                    self._tell_alerts(effects.alerts, partition)
                if effects.published:
                    self._publish(self._synopses.records(effects.published, partition))
                letters += (*effects.dead_letters, *effects.late)
                for letter in effects.dead_letters:
                    self._send(letter, source, partition, self._topology.dead_letter_topic)
                for letter in effects.late:
                    self._send(letter, source, partition, self._topology.late_topic)
                await self._outputs.room()
                if processors is not self._processors:
                    return False
        except BaseException:
            # Half of a batch must not be written as if it were all.
            processors.pop(partition, None)
            raise
        return True

    async def emit_kept(self) -> None:
        """Queue the emissions of all ticks that were kept back."""
        for partition in tuple(self._kept_since):
            if not await self._emit_kept(partition):
                return

    async def _emit_kept(self, partition: int) -> bool:
        processor = self._processors.get(partition)
        started = self._kept_since.pop(partition, None)
        if started is None or not isinstance(processor, PartitionProcessor):
            return True
        return await self._send_steps(processor.kept_back(), partition, started, [])

    def open(self, partitions: Iterable[int]) -> None:
        """Take up partitions that this worker holds, though they may bring nothing: also a key that
        is silent already has its last emission, provisional ones and deletion to come.

        Raises SlidestatError for a state of another topology, and for a key of two partitions.
        """
        for partition in partitions:
            if partition not in self._processors:
                self._open(partition)

    def sampled_keys(self, partition: int) -> tuple[str, list[Identity]] | None:
        """The field of the key, and those of a partition's keys that other workers compare with
        theirs; None where keys may lie in several partitions, or the partition is not open.
        """
        processor, topology = self._processors.get(partition), self._topology
        if not isinstance(processor, PartitionProcessor) or isinstance(topology, Referee):
            return None
        if topology.publishes_partitions:
            return None
        return topology.key_name, processor.key_sample.least(NOTED_KEYS)

    def learn_keys(self, notes: Mapping[int, str]) -> None:
        """Take in what other workers have noted of their partitions.

        Raises SlidestatError for a key of one of them and of one that is held here.
        """
        if isinstance(self._topology, Topology):
            name = self._topology.key_name
            self._shared_keys.learn(
                {partition: read_note(note, name) for partition, note in notes.items()}
            )

    async def look_ahead(self) -> None:
        """Emit provisionally for the partitions that have brought nothing for the topology's
        `idle`, if it has one, and wait until it is acknowledged: one that came later could
        replace what another worker has emitted meanwhile.
        """
        outputs = self._provisional
        if not self._topology.idle_ms or outputs is None:
            return
        processors, has_emitted = self._processors, False
        waited_since = time.monotonic() - self._topology.idle_ms / 1000
        for partition, processor in tuple(processors.items()):
            if processors is not self._processors:
                break
            is_idle = self._arrived[partition] <= waited_since
            if not is_idle or not self._offsets.is_end(partition, processor.next_offset):
                continue
            now = int(time.time() * 1000)  # Event times are those of the real world.
            for emissions in processor.provisional(now):
                if not has_emitted:
                    await self._offsets.confirm_source()
                    if processors is not self._processors:
                        break
                has_emitted = True
                self._emit(emissions, partition, None, outputs)
                await outputs.room()
                if processors is not self._processors:
                    break
            if processors is self._processors and isinstance(processor, PartitionProcessor):
                ahead = processor.published_ahead(now)
                if ahead:
                    await self._offsets.confirm_source()
                    if processors is not self._processors:
                        break
                    has_emitted = True
                    records = self._synopses.records(ahead, partition, provisional=True)
                    self._publish(records, outputs)
        if has_emitted:
            await outputs.flush_while(lambda: processors is self._processors)

    def snapshots(self, *, whole: bool = False) -> dict[TablePartition, Snapshot]:
        """Return the changes since the last write, of the keys whose turn it is, or of all. What
        was emitted before must be acknowledged before `write`.
        """
        due = self._turns.due(time.monotonic(), self._pressure())
        slots = range(SLOTS) if whole else due
        found = {}
        for partition, processor in self._processors.items():
            snapshot = processor.snapshot(slots)
            if snapshot is not None:
                found[self._stores[partition]] = snapshot
        return found

    async def confirm_source(self) -> None:
        """Return when it is sure that all that was taken in is of the source that was asked for."""
        await self._offsets.confirm_source()

    def _pressure(self) -> float:
        """The share of the states to write that is beyond what may be unwritten."""
        processors = self._processors.values()
        size = sum(processor.unwritten_bytes for processor in processors)
        records = sum(processor.unwritten_records for processor in processors)
        return max(
            1 - _UNWRITTEN_BYTES / max(size, 1), 1 - _UNWRITTEN_RECORDS / max(records, 1), 0.0
        )

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
        source = self._topology.events_topic
        return {
            TP(source, partition): processor.checkpoint.next_offset
            for partition, processor in self._processors.items()
        }

    def view(self, partition: int) -> View:
        """The keys of a partition that this worker holds, as they are now."""
        processor = self._processors.get(partition)
        if processor is not None:
            return processor.view()
        topology, store = self._topology, self._table.partition(partition)
        if isinstance(topology, Referee):
            return RefereeProcessor(topology, topology.events_topic, partition, store).view()
        return stored_view(topology, partition, store)

    def status(self, partition: int) -> PartitionStatus:
        """How far a partition that this worker holds has come; counters as of the last batch."""
        table = self._table.partition(partition)
        processor = self._processors.get(partition)
        reached = processor.reached if processor is not None else self._emitted(table)
        counters = reached.counters
        view = self.view(partition)
        return PartitionStatus(
            partition,
            view.next_offset,
            self._offsets.end(partition),
            None if view.watermark <= NO_TIME else view.watermark,
            counters.read,
            counters.counted,
            counters.dead,
            counters.late,
            counters.lost,
            counters.passed_over,
            counters.left_out,
            self.observed.partition(partition).emissions,
            view.keys_held,
            table.size(),
        )

    def firing(self) -> dict[str, int]:
        """For how many keys of the partitions that are here each alert fires."""
        found = (
            {}
            if isinstance(self._topology, Referee)
            else {alert.name: 0 for alert in self._topology.alerts}
        )
        for processor in self._processors.values():
            if isinstance(processor, PartitionProcessor):
                for alert, keys in processor.firing.items():
                    found[alert] += keys
        return found

    def changelog_written(self) -> tuple[int, int]:
        """Records and bytes written to the changelog since the process began."""
        return self._table.changelog_records, self._table.changelog_bytes

    def forget(self) -> None:
        """Drop what is in memory: partitions may move, and will be read again where they go."""
        self._processors, self._stores, self._begins, self._kept_since = {}, {}, {}, {}
        if isinstance(self._topology, Topology):
            self._shared_keys.forget()

    def _stored(self, table: TablePartition) -> Checkpoint:
        checkpoint = decode_checkpoint(table.checkpoint(), self._topology.state_meaning)
        topology, topic_id = self._topology, self._offsets.topic_id
        require_same_source(topology.events_topic, checkpoint.topic_id, topic_id, topology.name)
        return checkpoint

    def _emitted(self, table: TablePartition) -> Checkpoint:
        return decode_emitted(table.checkpoint(), self._stored(table))

    def _tell(self, processors: Iterable[PartitionProcessor | RefereeProcessor]) -> None:
        reached = [processor.reached for processor in processors]
        counters = sum((r.counters for r in reached), Counters())
        self.progress.flushed(counters, max(r.max_time for r in reached))

    def _open(self, partition: int) -> None:
        store = self._table.partition(partition)
        source = self._topology.events_topic
        topic_id = self._offsets.topic_id
        stored = self._stored(store)
        if stored.next_offset and claims(stored, topic_id):
            log_event(
                "source known by its id",
                f"{self._topology.name}: partition {partition} was read by a version that knew"
                f" topics by name alone; from now on its source is the topic with the id"
                f" {topic_id}",
                topology=self._topology.name,
                topic=source,
                partition=partition,
                topic_id=topic_id,
            )
        processor: PartitionProcessor | RefereeProcessor
        if isinstance(self._topology, Referee):
            processor = RefereeProcessor(
                self._topology, source, partition, store, self._codec, topic_id
            )
        else:
            processor = PartitionProcessor(
                self._topology,
                source,
                partition,
                store,
                self._decoder,
                self._codec,
                self.observed.partition(partition),
                topic_id,
            )
        self._processors[partition] = processor
        self._stores[partition] = store
        self._arrived[partition] = time.monotonic()
        self._compare_keys(partition, processor)
        log_event(
            "partition opened",
            topology=self._topology.name,
            topic=source,
            partition=partition,
            offset=processor.next_offset,
        )

    def _compare_keys(
        self, partition: int, processor: PartitionProcessor | RefereeProcessor
    ) -> None:
        if isinstance(processor, PartitionProcessor):
            self._shared_keys.look(partition, processor.key_sample)

    def _emit(
        self,
        emissions: Sequence[OutputRecord],
        partition: int,
        started: float | None,
        outputs: BulkProducer | None = None,
    ) -> None:
        emissions = self._queue(self._topology.output_topic, emissions, partition, outputs)
        self.observed.emitted(partition, emissions, started)

    def _tell_alerts(self, changes: Sequence[AlertRecord], partition: int) -> None:
        if self._topology.alert_topic is not None:
            self._queue(self._topology.alert_topic, changes, partition)

    def _queue(
        self,
        topic: str,
        records: Sequence[OutputRecord],
        partition: int,
        outputs: BulkProducer | None = None,
    ) -> Sequence[OutputRecord]:
        """Queue those of (key, value, window end) that were not said before, and return them."""
        silent_until = self._silent_until.get(partition)
        if silent_until is not None:
            records = [record for record in records if record[2] > silent_until]
        produce = (outputs or self._outputs).produce
        # To Kafka a number of a sequence is a time long ago, at which retention deletes.
        has_times = not self._topology.is_sequence
        for key, value, end in records:
            produce(topic, partition, key, value, end if has_times else 0, self._declared_by)
        return records

    def _publish(
        self, records: Iterable[SynopsisRecord], outputs: BulkProducer | None = None
    ) -> None:
        count = size = 0
        for record in records:
            (outputs or self._outputs).produce(self._synopses.name, *record)
            count += 1
            size += len(record.key) + len(record.value)
        self.observed.published(count, size)

    def _send(self, letter: Letter, source: str, partition: int, topic: str) -> None:
        name = self._topology.name
        record = letter_record(letter, name, source, partition, self._letter_bytes)
        self._outputs.produce(topic, partition, *record)


async def flush_all(
    pipelines: Sequence[Pipeline],
    outputs: BulkProducer,
    sending: asyncio.Lock,
    *,
    whole: bool = False,
) -> dict[TP, int]:
    """Have all outputs acknowledged, then make the states durable whose turn it is, or all; the
    offsets to commit: where a topic's partition is durable for all of its pipelines. Cancelled, it
    ends before states go to a changelog, or after they are in the database.
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
            for pipeline in pipelines:
                pipeline.observed.acknowledged()
    for pipeline, changed in zip(pipelines, snapshots, strict=True):
        # Half of it would come to the changelog later, when another worker may have read that.
        await to_its_end(pipeline.write(changed))
    # Of what has never brought anything there is nothing to commit.
    return {tp: offset for tp, offset in durable.items() if offset}
