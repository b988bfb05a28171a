"""Feed batches to the processors, and what comes of them to the outputs, slice by slice."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from slidestat.declare.declared import Declared
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.effects import Effects
from slidestat.engine.intake.letters import Letter
from slidestat.engine.records import NOT_KNOWN, RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.partitions.held_partitions import HeldPartitions, Processor
from slidestat.faust.partitions.output_topics import OutputTopics
from slidestat.faust.progress import Progress
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.live.batch_traces import BatchTrace
from slidestat.live.observed import Observed
from slidestat.schemas.dead_letter import Reason
from slidestat.text import advice_on, plain_detail, reasons_text

# The first records of a topology: where all of them are refused, the declaration is at fault, and
# the worker stops before it has set any aside.

MOST_REFUSED = 10_000
# Letters are in memory until it is known that they are to be written.
MOST_REFUSED_BYTES = 128 * 2**20
# Commits wait as well: not for long for a record that the topology's condition seldom takes.
MOST_PASSED_OVER = 10_000
_FEWEST_AT_ONCE = 1_000


class Step(NamedTuple):
    """The outputs of a step of a partition's batch, which was begun at `started`."""

    effects: Effects
    partition: int
    started: float


class FirstRecords:
    """A holder of the first records' letters, of a topology that never took in a record: they are
    written once one is taken in, many were passed over, or the source has no more.
    """

    def __init__(self, topology: Declared, *, is_watched: bool) -> None:
        """Create the holder; without `is_watched` it holds nothing back."""
        self._topology = topology
        self._is_watched = is_watched
        self._held: list[Step] = []
        self._bytes = 0
        self._refused: Counter[Reason] = Counter()
        # By partition: the offset before the first one that was looked at, and the present one.
        self._passed_over: dict[int, tuple[int, int]] = {}
        self._first: dict[Reason, tuple[int, Letter]] = {}

    @property
    def are_held(self) -> bool:
        """Return whether letters are held back: nothing of their partitions may be committed."""
        return bool(self._held)

    def part(self, batch: RecordBatch) -> RecordBatch:
        """Return the records of a batch to take in at once, the first ones: while all are refused,
        no more than it takes to tell that. A batch may have others behind them.
        """
        count = max(_FEWEST_AT_ONCE, MOST_REFUSED - self._refused.total())
        if not self._is_watched or len(batch) <= count:
            return batch
        return batch.until(int(batch.offsets[count])) or batch

    def due(self, step: Step, reached: Counters) -> Sequence[Step]:
        """Return the steps whose outputs are to be sent now, in order, given the next one;
        `reached` are the outcomes of its partition's records up to now.

        Raises SlidestatError where 10,000 records, or 128 MiB of them, were refused and none was
        taken in. Records that are held back then are never sent.
        """
        if not self._is_watched:
            return [step]
        if reached.counted or reached.late:
            self._is_watched = False
            return [*self.released(), step]
        letters = step.effects.dead_letters
        for letter in letters:
            self._first.setdefault(letter.reason, (step.partition, letter))
        self._refused.update(letter.reason for letter in letters)
        self._bytes += sum(map(_size, letters))
        if self._refused.total() >= MOST_REFUSED or self._bytes >= MOST_REFUSED_BYTES:
            raise self._error()
        before, _ = self._passed_over.get(step.partition, (reached.passed_over, 0))
        self._passed_over[step.partition] = before, reached.passed_over
        if sum(now - before for before, now in self._passed_over.values()) >= MOST_PASSED_OVER:
            return [*self.released(), step]
        if not step.effects.is_empty:
            self._held.append(step)
        return []

    def released(self) -> Sequence[Step]:
        """Return the steps that were held back, which are to be sent now."""
        held, self._held, self._bytes = self._held, [], 0
        return held

    def forget(self) -> None:
        """Drop what is held back, as partitions may move: its records are read again."""
        self.released()
        self._refused.clear()
        self._passed_over.clear()
        self._first.clear()

    def _error(self) -> SlidestatError:
        reason = self._refused.most_common(1)[0][0]
        partition, letter = self._first[reason]
        return SlidestatError(
            f"{self._topology.name}: all of the first {self._refused.total():,} records that were"
            f" read are refused ({reasons_text(self._refused)}), such as the one of"
            f" {self._topology.events_topic!r}, partition {partition}, offset {letter.offset}:"
            f" {reason.value}, {plain_detail(letter.detail)}.",
            f"{advice_on(reason)}Correct the declaration, and start again: as long as no worker has"
            " counted any, all is read again under the same name. To have such records set aside as"
            " dead letters, start with --anyway.",
        )


def _size(letter: Letter) -> int:
    headers = sum(len(value or b"") for _, value in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + headers


# A partition that is behind by so many records brings them at once: some batches are taken in
# before the ticks that they pass are emitted.
BACKLOG_RECORDS = 20_000


def is_backlog(offsets: SourceOffsets, batch: RecordBatch) -> bool:
    """Return whether many readable records follow a batch: none behind an open transaction."""
    end, partition = offsets.end(batch.partition), batch.partition
    last = int(batch.offsets[-1])
    return end is not None and end - offsets.waiting(partition) - last > BACKLOG_RECORDS


@dataclass(slots=True)
class _Sending:
    """The sending of the steps of a batch that came at `fetched_at`, begun at `started`: the
    processors that were held then, and the letters that were sent.
    """

    processors: Mapping[int, Processor]
    partition: int
    started: float
    fetched_at: float = NOT_KNOWN
    letters: list[Letter] = field(default_factory=list)
    # Whether the source is still the one that was read. It is asked after the records were fetched,
    # and before the tick is computed that they pass: the answer comes meanwhile.
    asked: asyncio.Future[None] | None = None
    is_confirmed: bool = False

    @property
    def processor(self) -> Processor:
        """The partition's processor."""
        return self.processors[self.partition]


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

    async def process(self, batch: RecordBatch, trace: BatchTrace | None = None) -> bool:
        """Absorb a batch and queue what it leads to, slice by slice; False if the partition was
        given up meanwhile, and what is left of the batch is another worker's. `trace` is that of
        the batch, if it has one.
        """
        partition = batch.partition
        await self._held.open([partition])
        processor = self._held.processors.get(partition)
        if processor is None:
            return False
        started = time.monotonic()
        new_records = len(batch.since(processor.unread_offset))
        before = processor.reached.counters
        kept_since = self._kept_since.pop(partition, started)
        more_follows = is_backlog(self._offsets, batch)
        parts = self._steps(processor, batch, more_follows=more_follows)
        steps: Iterator[Effects] = chain.from_iterable(parts)
        if trace is not None:
            steps = trace.of_steps(self._observed.topology, steps)
        with self._sending(partition, kept_since, batch.fetched_at) as sending:
            for effects in steps:
                if not await self._send(effects, sending):
                    return False
        if not more_follows:
            self._outputs.send_now()
        if processor.keeps_ticks:
            self._kept_since[partition] = kept_since
        taken = processor.reached.counters.since(before)
        self._observed.processed(batch, sending.letters, taken, len(batch) - new_records, started)
        self._held.arrived[partition] = time.monotonic()
        self._progress.read(len(batch))
        self._progress.refused(letter.reason for letter in sending.letters)
        return True

    def _steps(
        self, processor: Processor, batch: RecordBatch, *, more_follows: bool
    ) -> Iterator[Iterator[Effects]]:
        """Yield the steps of each part of a batch, once those of the part before it are done."""
        rest = batch
        while len(rest):
            part = self._first_records.part(rest)
            if part.offsets[-1] >= processor.next_offset:
                processor.note(part.mark)
            yield processor.steps(part, more_follows=more_follows)
            if part is rest:
                return
            rest = rest.since(int(part.offsets[-1]) + 1)

    async def emit_all_kept(self) -> None:
        """Queue the emissions of all ticks kept back; letters too, if the source has no more."""
        if self.are_letters_held and all(
            self._offsets.is_end(partition, processor.next_offset)
            for partition, processor in self._held.processors.items()
        ):
            for step in self._first_records.released():
                self._outputs.send(*step)
            self._outputs.send_now()
        for partition in tuple(self._kept_since):
            if not await self.emit_kept(partition):
                return

    async def emit_kept(self, partition: int) -> bool:
        """Queue those of a partition; False if it was given up meanwhile."""
        processor = self._held.processors.get(partition)
        started = self._kept_since.pop(partition, None)
        if started is None or processor is None:
            return True
        with self._sending(partition, started) as sending:
            for effects in processor.kept_back():
                if not await self._send(effects, sending):
                    return False
        self._outputs.send_now()
        return True

    @property
    def are_letters_held(self) -> bool:
        """Return whether letters are held back, as no record was taken in: commit nothing then."""
        return self._first_records.are_held

    def forget(self) -> None:
        """Forget ticks and letters kept back, as partitions may move: records are read again."""
        self._kept_since = {}
        self._first_records.forget()

    @contextmanager
    def _sending(
        self, partition: int, started: float, fetched_at: float = NOT_KNOWN
    ) -> Iterator[_Sending]:
        """Give the state in which the steps of a partition are sent one after another."""
        processors = self._held.processors
        sending = _Sending(processors, partition, started, fetched_at)
        try:
            yield sending
        except BaseException:
            # Half of a batch must not be written as if it were all.
            processors.pop(partition, None)
            raise
        finally:
            if sending.asked is not None:
                sending.asked.cancel()

    async def _send(self, effects: Effects, sending: _Sending) -> bool:
        """Queue the outputs of a partition's next step; False if it was given up meanwhile."""
        partition, processor = sending.partition, sending.processor
        if sending.asked is None and (processor.keeps_ticks or not effects.is_empty):
            sending.asked = asyncio.ensure_future(self._offsets.confirm_source(sending.fetched_at))
        self._held.compare_keys(partition, processor)
        if sending.asked is not None and not sending.is_confirmed and not effects.is_empty:
            await sending.asked
            sending.is_confirmed = True
            if self._held.processors is not sending.processors:
                return False
        sending.letters += (*effects.dead_letters, *effects.late)
        step = Step(effects, partition, sending.started)
        for due in self._first_records.due(step, processor.reached.counters):
            self._outputs.send(*due)
        await self._outputs.room()
        return self._held.processors is sending.processors
