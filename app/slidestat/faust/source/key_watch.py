"""Checks of whether keys lie in several partitions, in addition to what a worker sees in its own.

A worker sees it by itself on its own partitions, before it emits (shared_keys.py). It learns about
the others from the notes of their workers, every few seconds. And while a source is young it looks
at it again before it continues, each time that as many records have come as it knew: the partitions
of a topic that was empty fill at the same time, and a worker reads one after the other.
"""

import asyncio
import time
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence

from confluent_kafka import KafkaException

from slidestat.engine.keys.shared_keys import IDENTITY_BYTES, Identity, identity
from slidestat.kafka.groups import group_offsets
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
                found = await asyncio.to_thread(look.look)
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
        places = [(source, number) for number in range(first.partitions)]
        try:
            committed = await asyncio.to_thread(group_offsets, first.bootstrap, group, places)
        except KafkaException:
            return None
        return {number: it.note for (_, number), it in committed.items() if number not in held}


# Notes that a worker commits for others of its group: which keys its partitions hold.
#
# Kafka keeps a text as metadata with each offset of a group. So a note is as durable as the offset,
# comes with the commit that is made anyway, and anyone in the group reads those of all partitions
# in one request.
#
#   slidestat-keys-1 FIELD:KEYS FIELD:KEYS ...
#
# one pair for each field that is a key to one of the worker's topologies: the first 8 hexadecimal
# digits of its name's hash, and in base64 the identities of the keys of least hash.

# A broker takes 4,096 characters by default (offset.metadata.max.bytes).
NOTED_KEYS = 256
_HEAD = "slidestat-keys-1"
# Clients in C take a note for a text that ends so, and read on where it does not: confluent-kafka
# 2.16 hands it to Python without its length.
_END = "\0"


def encode_note(samples: Mapping[str, Sequence[Identity]]) -> str:
    """Return the note with the keys of least hash, by the name of the key's field."""
    room = NOTED_KEYS // max(1, len(samples))
    pairs = [
        f"{_of_field(name)}:{b64encode(b''.join(keys[:room])).decode()}"
        for name, keys in samples.items()
    ]
    return " ".join([_HEAD, *pairs]) + _END


def read_note(note: str, key_name: str) -> list[Identity]:
    """Return the keys of a field; none if the note has none, or is of another program."""
    head, *pairs = note.removesuffix(_END).split(" ")
    for pair in pairs if head == _HEAD else ():
        name, _, keys = pair.partition(":")
        if name == _of_field(key_name):
            try:
                joined = b64decode(keys, validate=True)
            except ValueError:  # binascii.Error is one; another is of what is not ASCII.
                return []
            ends = range(IDENTITY_BYTES, len(joined) + 1, IDENTITY_BYTES)
            return [joined[end - IDENTITY_BYTES : end] for end in ends]
    return []


def _of_field(name: str) -> str:
    return identity(name).hex()[:8]
