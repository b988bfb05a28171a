"""Feed batches to the processors, and what comes of them to the outputs, slice by slice."""

import time
from collections.abc import Iterator

from slidestat.engine.effects import Effects
from slidestat.engine.intake.letters import Letter
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.faust.partitions.first_records import FirstRecords, Step
from slidestat.faust.partitions.held_partitions import HeldPartitions, Processor
from slidestat.faust.partitions.output_topics import OutputTopics
from slidestat.faust.progress import Progress
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.live.observed import Observed

# A partition that is behind by so many records brings them at once: some batches are taken in
# before the ticks that they pass are emitted.
_BACKLOG_RECORDS = 20_000


class BatchSteps:
    """The steps that process the batches of the partitions that are held."""

    def __init__(
        self,
        held: HeldPartitions,
        outputs: OutputTopics,
        offsets: SourceOffsets,
        observed: Observed,
        progress: Progress,
        first_records: FirstRecords,
    ) -> None:
        self._held = held
        self._outputs = outputs
        self._offsets = offsets
        self._observed = observed
        self._progress = progress
        self._first_records = first_records
        # When the first tick came that a partition keeps back.
        self._kept_since: dict[int, float] = {}

    async def process(self, batch: RecordBatch) -> bool:
        """Absorb a batch and queue what it leads to, slice by slice; False if the partition was
        given up meanwhile, and what is left of the batch is another worker's.
        """
        partition = batch.partition
        await self._held.open([partition])
        processor = self._held.processors.get(partition)
        if processor is None:
            return False
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
        self._observed.processed(batch, letters, taken, len(batch) - new_records, started)
        self._held.arrived[partition] = time.monotonic()
        self._progress.read(len(batch))
        self._progress.refused(letter.reason for letter in letters)
        return True

    async def emit_all_kept(self) -> None:
        """Queue the emissions of all ticks that were kept back; and the letters, if the source has
        no more records.
        """
        if self.are_letters_held and all(
            self._offsets.is_end(partition, processor.next_offset)
            for partition, processor in self._held.processors.items()
        ):
            for step in self._first_records.released():
                self._outputs.send(*step)
        for partition in tuple(self._kept_since):
            if not await self.emit_kept(partition):
                return

    async def emit_kept(self, partition: int) -> bool:
        """Queue those of a partition; False if it was given up meanwhile."""
        processor = self._held.processors.get(partition)
        started = self._kept_since.pop(partition, None)
        if started is None or not isinstance(processor, PartitionProcessor):
            return True
        return await self._send_steps(processor.kept_back(), partition, started, [])

    @property
    def are_letters_held(self) -> bool:
        """Return whether letters are held back, as no record was taken in so far: nothing may be
        committed.
        """
        return self._first_records.are_held

    def forget(self) -> None:
        """Forget the ticks and letters kept back, as partitions may move: their records are read
        again.
        """
        self._kept_since = {}
        self._first_records.forget()

    def _steps_of(self, processor: Processor, batch: RecordBatch) -> Iterator[Effects]:
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
        processors = self._held.processors
        processor = processors[partition]
        is_confirmed = False
        try:
            for effects in steps:
                self._held.compare_keys(partition, processor)
                if not is_confirmed and not effects.is_empty:
                    await self._offsets.confirm_source()
                    is_confirmed = True
                    if processors is not self._held.processors:
                        return False
                letters += (*effects.dead_letters, *effects.late)
                step = Step(effects, partition, started)
                for due in self._first_records.due(step, processor.reached.counters):
                    self._outputs.send(*due)
                await self._outputs.room()
                if processors is not self._held.processors:
                    return False
        except BaseException:
            # Half of a batch must not be written as if it were all.
            processors.pop(partition, None)
            raise
        return True
