"""Emit, for partitions that bring nothing, what there would be if nothing else came."""

import time
from typing import NamedTuple

from slidestat.declare.declared import Declared
from slidestat.faust.partitions.held_partitions import HeldPartitions, Processor
from slidestat.faust.partitions.output_topics import OutputTopics
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.kafka.producer import ExpiringProducer


class AheadTopics(NamedTuple):
    """The topics for provisional emissions, and their producer."""

    topics: OutputTopics
    producer: ExpiringProducer


async def look_ahead(
    topology: Declared,
    held: HeldPartitions,
    ahead: AheadTopics,
    offsets: SourceOffsets,
) -> None:
    """Emit provisionally for the partitions that have brought nothing for the topology's `idle`,
    if it has one, and wait until it is acknowledged, or has expired when they were given up: one
    that came later could replace what another worker has emitted meanwhile.
    """
    if not topology.idle_ms:
        return
    look = _Look(held, ahead.topics, offsets)
    waited_since = time.monotonic() - topology.idle_ms / 1000
    for partition, processor in tuple(held.processors.items()):
        if look.is_given_up:
            break
        is_idle = held.arrived[partition] <= waited_since
        if not is_idle or not offsets.is_end(partition, processor.next_offset):
            continue
        now = int(time.time() * 1000)  # Event times are those of the real world.
        await look.emit(partition, processor, now)
        if not look.is_given_up:
            await look.publish(partition, processor, now)
    if look.has_sent:
        await ahead.producer.flush_while(lambda: not look.is_given_up)


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
        for emissions in processor.provisional(now):
            if not self.has_sent and not await self._is_confirmed():
                return
            self.has_sent = True
            self._outputs.emit(emissions, partition, None)
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
