"""A letter as a record: the original's bytes, or where they are too many, the beginning of them.

A batch that a producer has compressed may hold a record that is larger than the topic's limit, and
than what a letter topic takes: a letter that could not be sent would stop the worker, and every
worker after it. So such a letter keeps the beginning, and the number of bytes that there were; the
rest is at the letter's position in the source.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from slidestat.engine.intake.letters import Letter
from slidestat.kafka.connection import MAX_MESSAGE_BYTES
from slidestat.schemas.dead_letter import (
    HEADER_COUNT,
    KEY_BYTES,
    ORIGINAL_KEY,
    VALUE_BYTES,
    DeadLetterHeaders,
    Header,
    dead_letter_key,
    kept_headers,
)

# Key, headers and what Kafka puts around a record.
AROUND_BYTES = 8 * 2**10

LETTER_BYTES = MAX_MESSAGE_BYTES - AROUND_BYTES
"""The size of the original's key, value and headers together, where a letter may be as large as can
be.
"""

_KEPT_BYTES = 64 * 2**10
# The lengths of a header's name and value take at most this.
_LENGTHS_BYTES = 10


class LetterRecord(NamedTuple):
    """A record for a letter topic."""

    key: bytes
    value: bytes | None
    timestamp: int
    headers: list[Header]


def letter_record(
    letter: Letter, topology: str, topic: str, partition: int, room: int = LETTER_BYTES
) -> LetterRecord:
    """Return the dead letter of `topology` about a record of `topic`; where key, value and headers
    have more than `room` bytes together, each is cut to its first 64 KiB, headers to whole ones.
    """
    originals = kept_headers(letter.headers)
    headers: list[Header] = list(
        DeadLetterHeaders(
            letter.reason, letter.detail, topic, partition, letter.offset, topology
        ).encode()
    )
    key, value = letter.key, letter.value
    sizes = list(accumulate(map(_header_bytes, originals)))
    header_bytes = sizes[-1] if sizes else 0
    if len(key or b"") + len(value or b"") + header_bytes > room:
        kept = min(_KEPT_BYTES, room // (3 if originals else 2))
        if header_bytes > kept:
            headers.append((HEADER_COUNT, b"%d" % len(originals)))
            originals = originals[: bisect_right(sizes, kept)]
        if key is not None and len(key) > kept:
            headers.append((KEY_BYTES, b"%d" % len(key)))
            key = key[:kept]
        if value is not None and len(value) > kept:
            headers.append((VALUE_BYTES, b"%d" % len(value)))
            value = value[:kept]
    if key is not None:
        headers.append((ORIGINAL_KEY, key))
    return LetterRecord(
        dead_letter_key(topic, partition, letter.offset),
        value,
        max(letter.timestamp, 0),
        [*originals, *headers],
    )


def _header_bytes(header: Header) -> int:
    name, value = header
    return len(name.encode()) + len(value or b"") + _LENGTHS_BYTES
