"""Checks of whether keys lie in several partitions, in addition to what a worker sees in its own.

Of its own partitions a worker sees it by itself, before it emits (shared_keys.py). Of the others it
learns by the notes of their workers, every few seconds. And while a source is young it looks at it
again before it continues, each time that as many records have come as it knew: the partitions of a
topic that was empty fill at the same time, and a worker reads one after the other.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaException

from slidestat.kafka.group_offsets import group_offsets
from slidestat.kafka.read.source_sample import SAMPLE_RECORDS, SourceLook

# The first records of an empty source arrive in one partition a moment before the others.
_FIRST_RECORDS_S = 1.0
_NOTES_EVERY_S = 5.0
# A note has up to 3 kB: of very many partitions they are read less often.
_SECONDS_A_PARTITION = 0.02


class KeyWatch:
    """A search for keys that lie in several partitions, on behalf of a worker: one look for each
    topology whose keys must lie in one, at least one; they share a source and a group.

    `seen` records of the source were available when the worker started.
    """

    def __init__(self, looks: Sequence[SourceLook], seen: int) -> None:
        self._looks = looks
        self._due = max(1, 2 * seen)
        self._was_empty = seen == 0
        self._read = 0
        self._notes_read = time.monotonic()

    async def before(self, records: int) -> None:
        """Look at the source again, if it is young, before so many records are processed.

        Raises SlidestatError for a key of two partitions. A broker that does not answer is waited
        for elsewhere.
        """
        if self._due >= SAMPLE_RECORDS:
            return
        self._read += records
        if self._read < self._due:
            return
        if self._was_empty:
            self._was_empty = False
            await asyncio.sleep(_FIRST_RECORDS_S)
        found = 0
        for look in self._looks:
            try:
                found = await asyncio.get_running_loop().run_in_executor(None, look.look)
            except KafkaException:
                return
        self._due = max(2 * self._read, found)

    async def notes(self, held: Collection[int]) -> Mapping[int, str] | None:
        """Return the others' notes on partitions that are not held here; None before it is time,
        and from a broker that does not answer.
        """
        first = self._looks[0]
        pause = max(_NOTES_EVERY_S, first.partitions * _SECONDS_A_PARTITION)
        if len(held) >= first.partitions or time.monotonic() - self._notes_read < pause:
            return None
        self._notes_read = time.monotonic()
        group, source = first.topology.application_id, first.topology.events_topic
        read = partial(group_offsets, first.bootstrap, group, source, first.partitions)
        try:
            committed = await asyncio.get_running_loop().run_in_executor(None, read)
        except KafkaException:
            return None
        return {number: it.note for number, it in committed.items() if number not in held}
