"""Check that the records of a partition come whole: none left out or lost in silence, one log."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from slidestat.declare.declared import Declared
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.partitions.batch_steps import BatchSteps
from slidestat.faust.partitions.held_partitions import HeldPartitions
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.faust.source.topic_watch import another_source
from slidestat.log import log_event

# Messages about records that were gone before they were read.


@dataclass(frozen=True)
class LostRange:
    """A range of offsets [first, end) of a partition of the source that the broker has deleted."""

    topic: str
    partition: int
    first: int
    end: int

    # Whether others have their offsets, or will have them: the log is another one.
    is_replaced: bool = False

    def __str__(self) -> str:
        return (
            f"Records {self.first:,} to {self.end - 1:,} of {self.topic!r} partition"
            f" {self.partition}"
        )


def refusal(lost: LostRange, topology: Declared) -> SlidestatError:
    """Return the error of a worker that does not continue without them, with what to do."""
    gone = f"{lost} are gone: the broker deleted them before they were read."
    keep = "Have the topic keep its records for longer (retention.ms) than workers may be down."
    if lost.is_replaced:
        gone = (
            f"{lost} are not those that were read: the log lost its end after that, as with an"
            " unclean election of a leader or a lost disk, and uses these offsets again."
        )
        keep = "Have the topic keep unclean.leader.election.enable=false, and several replicas."
    if not topology.marks_losses:
        publishing = topology.answering.name
        return SlidestatError(
            f"{gone} A referee's answers could not say that they lack them.",
            f"Publish anew what is there with `slidestat replay {publishing}`, and give the referee"
            f" another name. {keep}",
        )
    return SlidestatError(
        gone,
        "To go on without them, run with --allow-loss: they are counted as lost, and emissions that"
        f" may lack them say so; or count what is there from its start with `slidestat replay"
        f" {topology.name}`. {keep}",
    )


def tell_lost(lost: LostRange, topology: str) -> None:
    """Log that a worker continues without them."""
    what = "are not those that were read, but new ones," if lost.is_replaced else "are gone,"
    log_event(
        "records lost",
        f"{topology}: {lost} {what} and counted as lost; emissions that may lack them say so",
        topology=topology,
        topic=lost.topic,
        partition=lost.partition,
        offset=lost.first,
        last_offset=lost.end - 1,
        records=lost.end - lost.first,
    )


class ReadOrder:
    """A check of the offsets that come against those that a partition needs next."""

    def __init__(
        self,
        topology: Declared,
        held: HeldPartitions,
        offsets: SourceOffsets,
        steps: BatchSteps,
        *,
        allow_loss: bool,
    ) -> None:
        """Create the check; with `allow_loss`, records that are gone before they were read are
        counted, and stop nothing. `steps` process what comes before such a loss.
        """
        self._topology = topology
        self._held = held
        self._offsets = offsets
        self._steps = steps
        self._allow_loss = allow_loss
        # Where partitions were taken up of which nothing was ever read.
        self._begins: dict[int, int] = {}
        # The partitions whose logs are known to be those that were read.
        self._compared: set[int] = set()
        self._comparing = asyncio.Lock()
        # The range that is lost once a partition has been read up to there.
        self._ahead: dict[int, LostRange] = {}

    async def compare(self, partitions: Iterable[int]) -> bool:
        """Compare the logs of open partitions with what was read of them, also by the workers
        before; return False if they were given up meanwhile. Costs a read of a record of each.

        Raises SlidestatError if a log is another one, unless losses are allowed.
        """
        processors = self._held.processors
        async with self._comparing:
            for partition in partitions:
                if processors is not self._held.processors:
                    return False
                if partition in processors and partition not in self._compared:
                    await self._compare(partition)
                    self._compared.add(partition)
        return processors is self._held.processors

    async def _compare(self, partition: int) -> None:
        processors = self._held.processors
        processor = processors[partition]
        mark = processor.mark
        if mark is None:
            return
        first = await self._offsets.first_difference(partition, mark)
        if first is None or processors is not self._held.processors:
            return
        lost = LostRange(
            self._topology.events_topic, partition, first, mark.offset + 1, is_replaced=True
        )
        self._require_allowed(lost)
        self._ahead[partition] = lost
        await self._lose_ahead(partition, processor.next_offset)

    async def _lose_ahead(self, partition: int, reached: int) -> bool:
        """Continue after a loss that a partition was read up to; False if it was given up."""
        lost = self._ahead.get(partition)
        if lost is None or reached < lost.first:
            return True
        del self._ahead[partition]
        return await self._continue(lost)

    async def check(self, batch: RecordBatch) -> bool:
        """Check the order of `batch`, and return whether it is to be processed; False if its
        partition was given up meanwhile.

        Raises SlidestatError if records before it were not delivered or are gone, unless that is
        allowed, or if it is of a topic that was deleted and created again. Faust drops what it has
        fetched when a rebalance comes, and reads it again; should that ever go wrong, a worker that
        stops continues from where its state ends, and one that did not notice would lose events.
        """
        await self._held.open([batch.partition])
        if batch.partition not in self._held.processors:
            return False
        if not await self._is_of_this_log(batch):
            return False
        expected = self._expected(batch.partition, batch.start_offset)
        end = self._offsets.end(batch.partition)
        if end is not None and expected > end:
            if self._allow_loss and self._held.processors[batch.partition].mark is None:
                return True  # These offsets are counted as lost.
            # Where brokers identify topics by ids, that was noticed before.
            raise SlidestatError(
                f"Topic {batch.topic!r} partition {batch.partition} ends at offset {end}, but the"
                f" stored state has read up to {expected}: the topic was made anew.",
                another_source(self._topology.name),
            )
        if batch.start_offset <= expected:
            return True
        processors = self._held.processors
        earliest = await self._offsets.earliest(batch.partition)
        if processors is not self._held.processors:
            return False
        if batch.start_offset > earliest:
            raise SlidestatError(
                f"Records {expected} to {batch.start_offset - 1} of {batch.topic!r} partition"
                f" {batch.partition} were not delivered.",
                "Start the worker again: it reads them from where its state ends.",
            )
        return await self._lose(batch.partition, expected, batch.start_offset)

    async def _is_of_this_log(self, batch: RecordBatch) -> bool:
        """Compare the log where another leader has appended to it, and pass over what is lost of
        it; return False if the partition was given up meanwhile.
        """
        partition, new = batch.partition, batch.mark
        mark, end = self._held.processors[partition].mark, self._offsets.end(partition)
        if mark is not None:
            has_new_leader = mark.is_before(new) and new.leader_epoch != mark.leader_epoch
            if has_new_leader or (end is not None and mark.offset >= end):
                self._compared.discard(partition)
        if not await self.compare([partition]):
            return False
        lost = self._ahead.get(partition)
        if lost is None or batch.offsets[-1] < lost.first:
            return True
        before = batch.until(lost.first)
        if before is not None and not await self._steps.process(before):
            return False
        return await self._lose_ahead(partition, lost.first)

    async def look_for_losses(self) -> None:
        """Find what was deleted before it was read where no record has come since.

        Raises SlidestatError for it, unless it is allowed.
        """
        processors = self._held.processors
        for partition, processor in tuple(processors.items()):
            jump = self._offsets.jumped_to(partition, processor.next_offset)
            if jump is None:
                continue
            expected = self._expected(partition, jump)
            if jump <= expected:
                continue
            earliest = await self._offsets.earliest(partition)
            if processors is not self._held.processors:
                return
            # Otherwise it was a seek, and the first batch shows what is missing.
            if jump <= earliest and not await self._lose(partition, expected, jump):
                return

    def forget(self) -> None:
        """Forget all beginnings, and what was compared: partitions may move, and be taken up
        elsewhere when they come back.
        """
        self._begins, self._compared, self._ahead = {}, set(), {}

    def _expected(self, partition: int, begin: int) -> int:
        """Return the first offset not yet read; for a partition of which nothing was read, the
        offset `begin` of its first call.
        """
        processor = self._held.processors[partition]
        if processor.has_begun:
            return processor.next_offset
        return self._begins.setdefault(partition, begin)

    async def _lose(self, partition: int, first: int, end: int) -> bool:
        """Continue after lost records; return False if the partition was given up meanwhile."""
        lost = LostRange(self._topology.events_topic, partition, first, end)
        self._require_allowed(lost)
        return await self._continue(lost)

    def _require_allowed(self, lost: LostRange) -> None:
        if not (self._allow_loss and self._topology.marks_losses):
            raise refusal(lost, self._topology)

    async def _continue(self, lost: LostRange) -> bool:
        processor = self._held.processors[lost.partition]
        if not await self._steps.emit_kept(lost.partition):
            return False
        tell_lost(lost, self._topology.name)
        processor.lose(lost.first, lost.end)
        return True
