"""Bytes as fetches bring them: batches of all formats and codecs, whole, cut off and corrupt."""

import struct
from dataclasses import dataclass, field
from random import Random

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)
APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
BATCH_HEADER = 61
SNAPPY_NUMBERS = range(BATCH_HEADER + 8, BATCH_HEADER + 16)
NO_PRODUCER = -1

Headers = list[tuple[str, bytes | None]]


@dataclass
class Record:
    """A record of a batch; `delta` is from the batch's first offset."""

    delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=list)


def batch(
    base_offset: int,
    records: list[Record],
    codec: int = NONE,
    attributes: int = 0,
    last_delta: int | None = None,
    producer: int = NO_PRODUCER,
    append_time: int = 0,
) -> bytes:
    """A batch of format v2, with its checksum."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, producer, 0, 0, 1 << 30)
    for record in records:
        builder.append(record.delta, record.timestamp, record.key, record.value, record.headers)
    data = builder.build()
    struct.pack_into(">q", data, 0, base_offset)
    data[22] |= attributes
    if attributes & APPEND_TIME:
        struct.pack_into(">q", data, 35, append_time)
    if last_delta is not None:
        struct.pack_into(">i", data, 23, last_delta)
    return with_checksum(data)


def with_checksum(data: bytes | bytearray) -> bytes:
    """A batch of format v2 whose checksum is that of its bytes."""
    crc = calc_crc32c(memoryview(bytes(data))[21:])
    return bytes(data[:17]) + struct.pack(">I", crc) + bytes(data[21:])


def old_batch(base_offset: int, records: list[Record], version: int, codec: int) -> bytes:
    """Messages of format v0 or v1, alone or in a compressed set: there v1 has their deltas."""
    builder = LegacyRecordBatchBuilder(version, codec, 1 << 30)
    first = 0 if version == 1 and codec != NONE else base_offset
    for record in records:
        builder.append(first + record.delta, record.timestamp, record.key, record.value)
    data = builder.build()
    if codec != NONE and records:  # The set's own offset is that of its last message.
        struct.pack_into(">q", data, 0, base_offset + records[-1].delta)
    return bytes(data)


def control(base_offset: int, producer: int, *, abort: bool) -> bytes:
    """The marker of a transaction's end."""
    key = struct.pack(">hh", 0, 0 if abort else 1)
    marker = Record(0, 1, key, struct.pack(">hi", 0, 0))
    attributes = TRANSACTIONAL | CONTROL
    return batch(base_offset, [marker], NONE, attributes, producer=producer)


@dataclass
class Fetch:
    """Bytes, what the broker says of aborted transactions (producer, first offset), and from where
    on they were asked for.
    """

    data: bytes
    aborted: list[tuple[int, int]]
    offset: int


def some_bytes(rng: Random) -> bytes | None:
    """Nothing, no bytes, few or many."""
    size = rng.choice((-1, 0, 1, 5, 20, 63, 64, 200))
    return None if size < 0 else rng.randbytes(min(size, 10)) * -(-size // 10)


def some_records(rng: Random, most: int) -> list[Record]:
    """Records with holes between their offsets, some far; times go up and down."""
    records, delta, hole = [], 0, rng.choice((1, 1, 3, 100_000))
    spread = rng.choice((1, 50, 10**6, 10**13))
    for _ in range(rng.randint(0, most)):
        names = rng.choices(("", "trace", "é" * 40), k=rng.choice((0, 0, 1, 3)))
        headers = [(name, some_bytes(rng)) for name in names]
        time = 1_700_000_000_000 + rng.randint(-spread, spread)
        records.append(Record(delta, time, some_bytes(rng), some_bytes(rng), headers))
        delta += rng.randint(1, hole)
    return records


def some_fetch(rng: Random) -> Fetch:
    """A few batches one after another, some in transactions, the last one perhaps cut off."""
    parts, aborted, first = [], [], rng.choice((0, 7, 10**12))
    start = offset = first
    version = rng.choice((0, 1, *[2] * 18))
    for _ in range(rng.randint(1, 6)):
        # The format of a topic was raised.
        version = max(version, rng.choice((0, 0, 0, 1, 2)))
        records = some_records(rng, rng.choice((1, 8, 40)))
        # A batch that compaction has emptied is not compressed.
        codec = rng.choice(CODECS) if records else NONE
        if version < 2:
            records = records or [Record(0, 1, None, b"v")]
            parts.append(old_batch(offset, records, version, rng.choice((NONE, GZIP))))
            offset += records[-1].delta + 1
            continue
        last = (records[-1].delta if records else 0) + rng.choice((0, 0, 0, 5))
        attributes, producer = rng.choice((0, 0, APPEND_TIME)), NO_PRODUCER
        if rng.random() < 0.3:
            attributes, producer = attributes | TRANSACTIONAL, rng.randint(1, 2)
            if rng.random() < 0.5:
                aborted.append((producer, offset))
        time = 1_800_000_000_000 + rng.randint(0, 10**6)
        parts.append(batch(offset, records, codec, attributes, last, producer, time))
        offset += last + 1
        if rng.random() < 0.2:
            parts.append(control(offset, rng.randint(1, 2), abort=rng.random() < 0.5))
            offset += 1
        if rng.random() < 0.2:
            start = rng.randint(first, offset)
    data = b"".join(parts)
    if rng.random() < 0.3:
        data = data[: -rng.randint(1, min(len(data) - 1, 100))]
    return Fetch(data, aborted, start if rng.random() < 0.5 else first)


def corrupted(rng: Random, fetch: Fetch) -> Fetch:
    """The same, from its first offset on, with a wrong byte in its first batch if that has records,
    but not where that says how long it is and what its last offset is, nor which version of snappy;
    its checksum may be right.
    """
    if len(fetch.data) < BATCH_HEADER:
        return fetch
    size = 12 + struct.unpack_from(">i", fetch.data, 8)[0]
    first, others = bytearray(fetch.data[:size]), fetch.data[size:]
    if len(first) < size or first[16] != 2 or size == BATCH_HEADER:
        return fetch
    place = rng.choice((21, 22, *range(27, size)))
    if place in SNAPPY_NUMBERS and first[BATCH_HEADER:].startswith(b"\x82SNAPPY\0"):
        return fetch
    first[place] ^= 1 << rng.randrange(8)
    is_checked = rng.random() < 0.6
    data = (with_checksum(first) if is_checked else bytes(first)) + others
    return Fetch(data, fetch.aborted, struct.unpack_from(">q", data)[0])
