"""Hold the partitions of a topology that are open: processor and store of each, and its keys, which
may lie in no other partition.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from slidestat.declare.declared import Declared
from slidestat.declare.referee import Referee
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    claims,
    decode_checkpoint,
    decode_emitted,
)
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas
from slidestat.engine.emissions.emission_codec import EmissionWriter
from slidestat.engine.keys.shared_keys import Identity, SharedKeys
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.records import RecordBatch
from slidestat.faust.source.key_watch import NOTED_KEYS, read_note
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.faust.source.topic_watch import require_same_source
from slidestat.faust.table import GivenUpError, StateTable, TablePartition
from slidestat.kafka.partitioner import expected_places
from slidestat.live.live_query import stored_view
from slidestat.live.live_topology import View
from slidestat.live.observed import Observed
from slidestat.log import log_event
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.text import iso_time

# A partition of a topology or of a referee: batches in, effects and snapshots out.
Processor = PartitionProcessor | RefereeProcessor


class HeldPartitions:
    """The open partitions of this worker; a rebalance drops them all.

    `processors` is then another dictionary: code that has waited for anything compares it, and
    continues only if it is still the one from before.
    """

    def __init__(
        self,
        topology: Declared,
        table: StateTable,
        offsets: SourceOffsets,
        codec: EmissionWriter,
        observed: Observed,
        schemas: SourceSchemas | None,
        folder: Path | None,
        *,
        partitions: int,
        change_statistics: bool,
    ) -> None:
        """Create the holder. The source has so many `partitions`, and `schemas` are those of its
        records, if they need any; events that memory should not hold wait in `folder`; with
        `change_statistics` stored states may be of other statistics.
        """
        self._change_statistics = change_statistics
        self.processors: dict[int, Processor] = {}
        self.stores: dict[int, TablePartition] = {}
        self._opening = asyncio.Lock()
        self._being_opened: TablePartition | None = None
        # When the last batch came, of time.monotonic.
        self.arrived: dict[int, float] = {}
        self._topology = topology
        self._table = table
        self._offsets = offsets
        self._codec = codec
        self._observed = observed
        self._folder = folder
        counted = topology.counted
        self._decoder = None if counted is None else EventDecoder(counted, schemas=schemas)
        # A fetch must not wait for schemas of records.
        self._ahead = None
        if counted is not None and counted.reads_plain_json:
            self._ahead = EventDecoder(counted)
        self._partitions = partitions
        self._expected: Mapping[str, int] = {}
        self._shared_keys = SharedKeys(topology.answering)
        self.expect(())

    async def open(self, partitions: Iterable[int]) -> None:
        """Open the partitions that are not open yet, in a thread: all of their keys are read. A
        partition that is given up meanwhile, or not taken over yet, stays closed.

        Raises SlidestatError for a state of another topology, and for a key of two partitions.
        """
        processors = self.processors
        for partition in partitions:
            async with self._opening:
                if processors is not self.processors:
                    return
                if partition not in processors and self._table.owns(partition):
                    await self._open(partition)

    def decode_ahead(self, batch: RecordBatch) -> None:
        """Decode the records of a batch before its turn; in the thread that fetches."""
        if self._ahead is not None:
            self._ahead.decode_ahead(batch)

    async def opened(self) -> None:
        """Return when nothing is being opened: a table that is still read cannot be closed."""
        async with self._opening:
            pass

    def forget(self) -> None:
        """Drop all that is in memory: partitions may move, and will be read again where they go."""
        self.processors, self.stores = {}, {}
        if self._being_opened is not None:
            self._being_opened.give_up()
        self._shared_keys.forget()

    def needed_offset(self, partition: int) -> int:
        """Return the offset from which a partition must be read for the state that is stored here.

        Raises SlidestatError for a state of another topology, or of another source topic.
        """
        return self._stored(self._table.partition(partition)).next_offset

    def next_offset(self, partition: int) -> int:
        """Return the offset up to which a partition has been taken in."""
        processor = self.processors.get(partition)
        return processor.next_offset if processor else self.needed_offset(partition)

    def emitted(self, partition: int) -> Checkpoint:
        """Return the position up to which a partition that is not open had been emitted."""
        table = self._table.partition(partition)
        return decode_emitted(table.checkpoint(), self._stored(table))

    def view(self, partition: int) -> View:
        """Return a view of the keys of a partition as they are now, open or stored."""
        processor = self.processors.get(partition)
        if processor is not None:
            return processor.view()
        topology, store = self._topology, self._table.partition(partition)
        if isinstance(topology, Referee):
            return RefereeProcessor(topology, topology.events_topic, partition, store).view()
        return stored_view(topology.answering, partition, store)

    # Keys, which lie in one partition.

    def expects(self, listed: Iterable[str]) -> bool:
        """Return whether these are the keys that a topic lists, as far as is known here."""
        return self._places(listed) == self._expected

    def _places(self, listed: Iterable[str]) -> Mapping[str, int]:
        counted = self._topology.counted
        keys = () if counted is None else (*counted.expected, *listed)
        return expected_places(keys, self._partitions)

    def expect(self, listed: Iterable[str]) -> None:
        """Expect the keys that are declared and those that a topic lists, from now on. No tick may
        be kept back.

        Raises SlidestatError for one that lies on another partition than it should.
        """
        self._expected = expected = self._places(listed)
        self._shared_keys.expect(expected)
        for partition, processor in self.processors.items():
            if isinstance(processor, PartitionProcessor):
                processor.expect(expected)
                self.compare_keys(partition, processor)

    def compare_keys(self, partition: int, processor: Processor) -> None:
        """Compare a partition's new keys with the others'; SlidestatError for one in both."""
        self._shared_keys.look(partition, processor.key_sample)

    def sampled_keys(self, partition: int) -> tuple[str, list[Identity]] | None:
        """Return the name of the key's field, and the identities of a partition's keys that other
        workers compare with theirs; None where keys may lie in several partitions, or the partition
        is not open.
        """
        processor, topology = self.processors.get(partition), self._topology.counted
        if processor is None or topology is None or topology.publishes_partitions:
            return None
        return topology.key_name, processor.key_sample.least(NOTED_KEYS)

    def learn_keys(self, notes: Mapping[int, str]) -> None:
        """Take in what other workers have noted of their partitions.

        Raises SlidestatError for a key of one of them and of one that is held here.
        """
        if self._topology.counted is not None:
            name = self._topology.counted.key_name
            self._shared_keys.learn(
                {partition: read_note(note, name) for partition, note in notes.items()}
            )

    def _stored(self, table: TablePartition) -> Checkpoint:
        checkpoint = decode_checkpoint(
            table.checkpoint(),
            self._topology.state_meaning,
            statistics_change=self._change_statistics,
        )
        topology, topic_id = self._topology, self._offsets.topic_id
        require_same_source(topology.events_topic, checkpoint.topic_id, topic_id, topology.name)
        return checkpoint

    async def _open(self, partition: int) -> None:
        processors, store = self.processors, self._table.partition(partition)
        stored = self._stored(store)
        if stored.next_offset and claims(stored, self._offsets.topic_id):
            self._log_claim(partition)
        work = self._observed.partition(partition)
        self._being_opened, expected = store, self._expected
        try:
            processor = await asyncio.to_thread(self._processor, partition, store, work)
        except GivenUpError:
            return
        finally:
            self._being_opened = None
        if processors is not self.processors:
            return
        if isinstance(processor, PartitionProcessor) and self._expected is not expected:
            processor.expect(self._expected)
        processors[partition] = processor
        self.stores[partition] = store
        self.arrived[partition] = time.monotonic()
        self.compare_keys(partition, processor)
        log_event(
            "partition opened",
            topology=self._topology.name,
            topic=self._topology.events_topic,
            partition=partition,
            offset=processor.next_offset,
        )
        self._log_added(partition, processor)

    def _processor(self, partition: int, store: TablePartition, work: PartitionWork) -> Processor:
        source, topic_id = self._topology.events_topic, self._offsets.topic_id
        if isinstance(self._topology, Referee):
            return RefereeProcessor(self._topology, source, partition, store, self._codec, topic_id)
        return PartitionProcessor(
            self._topology.answering,
            source,
            partition,
            store,
            self._decoder,
            self._codec,
            work,
            topic_id,
            expected=self._expected,
            file=self._folder and self._folder / f"{self._topology.name}-{partition}.waiting",
            change_statistics=self._change_statistics,
        )

    def _log_added(self, partition: int, processor: Processor) -> None:
        name = self._topology.name
        for added in processor.incomplete:
            until = (
                "its windows stay incomplete"
                if added.until_ms is None
                else (f"its windows are incomplete until {iso_time(added.until_ms)}")
            )
            log_event(
                "statistic added",
                f"{name}: partition {partition}: {added.statistic} counts events from"
                f" {iso_time(added.from_ms)} on; {until}",
                topology=name,
                partition=partition,
                statistic=added.statistic,
                from_ms=added.from_ms,
                until_ms=added.until_ms,
            )

    def _log_claim(self, partition: int) -> None:
        name, topic_id = self._topology.name, self._offsets.topic_id
        log_event(
            "source known by its id",
            f"{name}: partition {partition} was read by a version that knew topics by name alone;"
            f" from now on its source is the topic with the id {topic_id}",
            topology=name,
            topic=self._topology.events_topic,
            partition=partition,
            topic_id=topic_id,
        )
