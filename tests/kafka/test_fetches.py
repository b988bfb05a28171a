"""The law of fetches as columns: they are the records that aiokafka reads of the same bytes."""

import asyncio
import gc
import gzip
import os
import struct
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import Assignment
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import _MemoryRecordsPy as MemoryRecords

from slidestat.engine.records import Headers
from slidestat.errors import EndedError
from slidestat.kafka.fetches.columns import FetchedBytes, FetchedColumns, Fetches
from tests.engine.fetched import (
    APPEND_TIME,
    BATCH_HEADER,
    CODECS,
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    Fetch,
    Record,
    batch,
    corrupted,
    old_batch,
    some_fetch,
    with_checksum,
)

# 7,000 with RECORDS=70000, as each night.
FETCHES = int(os.environ.get("RECORDS", "5000")) // 10
TP = TopicPartition("events", 0)

Row = tuple[int, int, bytes | None, bytes | None, Headers]


class Read(NamedTuple):
    """What was read of a fetch: its records, where the next fetch begins, how many records came at
    once at the most, what went wrong, and what a worker tells of that.
    """

    rows: list[Row]
    position: int
    most: int
    error: BaseException | None
    told: str


def read(
    fetch: Fetch,
    max_records: int,
    *,
    as_columns: bool = True,
    bytes_of: type[FetchedBytes | MemoryRecords] | None = None,
) -> Read:
    """Read a fetch as a worker, or as aiokafka does by its loop over batches in Python: the
    compiled one reads all batches of a fetch by the format of the first.
    """

    async def taken() -> Read:
        assignment = Assignment([TP])
        assignment.state_value(TP).reset_to(fetch.offset)
        of = bytes_of or (FetchedBytes if as_columns else MemoryRecords)
        records = PartitionRecords(
            TP, of(fetch.data), fetch.aborted, fetch.offset, None, None, True, READ_COMMITTED
        )
        result = FetchResult(TP, assignment=assignment, partition_records=records, backoff=0)
        fetches: OrderedDict[TopicPartition, Any] = (
            Fetches({TP.topic}, {}) if as_columns else OrderedDict()
        )
        fetches[TP] = result
        rows: list[Row] = []
        most, caught, told = 0, None, ""
        while fetches[TP].has_more():
            try:
                some = fetches[TP].getall(max_records)
            except EndedError as error:
                caught, told = error.__cause__, str(error)
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, both must say the same
                caught = error
                break
            assert len(some) or not fetches[TP].has_more()
            most = max(most, len(some))
            rows += rows_of(some)
        return Read(rows, assignment.state_value(TP).position, most, caught, told)

    return asyncio.run(taken())


def rows_of(some: Any) -> Iterator[Row]:
    if isinstance(some, FetchedColumns):
        columns = some.offsets.tolist(), some.timestamps.tolist(), some.keys, some.values
        headers = (tuple(some.headers[row]) for row in range(len(some)))
        yield from zip(*columns, headers, strict=True)
    else:
        for one in some:
            time = -1 if one.timestamp is None else one.timestamp
            yield one.offset, time, one.key, one.value, tuple(one.headers)


def test_they_are_the_records_that_aiokafka_reads() -> None:
    """Of all codecs and formats, with nothing for keys and values, headers, holes, times of the
    broker, aborted transactions, and from any offset on; however many are taken at once.
    """
    count = 0
    for seed in range(FETCHES):
        rng = Random(seed)
        fetch, max_records = some_fetch(rng), rng.choice((1, 5, 50_000))
        ours, theirs = (read(fetch, max_records, as_columns=which) for which in (True, False))
        assert (ours.error, theirs.error) == (None, None), seed
        assert ours.rows == theirs.rows, seed
        assert ours.position == theirs.position, seed
        assert ours.most <= max_records, seed
        count += len(ours.rows)
    assert count > 20 * FETCHES


def test_a_corrupt_batch_is_refused_as_aiokafka_refuses_it() -> None:
    """By the same error, with no record that aiokafka would not have read before it."""
    errors = 0
    for seed in range(FETCHES):
        rng = Random(seed)
        fetch, max_records = corrupted(rng, some_fetch(rng)), rng.choice((1, 5, 50_000))
        ours, theirs = (read(fetch, max_records, as_columns=which) for which in (True, False))
        if isinstance(theirs.error, UnicodeDecodeError):  # Of the name of a header.
            continue
        assert type(ours.error) is type(theirs.error), seed
        assert str(ours.error) == str(theirs.error), seed
        if theirs.error is None:
            assert (ours.rows, ours.position) == (theirs.rows, theirs.position), seed
        else:
            errors += 1
            assert ours.rows == theirs.rows[: len(ours.rows)], seed
    assert errors > FETCHES // 4


def test_formats_may_follow_one_another_in_a_fetch() -> None:
    """Each batch is read by its own, as where a topic's format was raised: by the format of the
    first one, records were lost where v1 follows v0, and a worker ended where v2 follows either.
    """
    records = [Record(i, 1_000 + i, b"k", b"v") for i in range(5)]
    parts = [
        old_batch(100, records, 0, NONE),
        old_batch(105, records, 1, GZIP),
        batch(110, records),
        old_batch(115, records, 1, NONE),
        batch(120, records, ZSTD),
    ]
    for first in range(len(parts)):
        ours = read(Fetch(b"".join(parts[first:]), [], 100), 3, as_columns=True)
        assert ours.error is None
        assert [row[0] for row in ours.rows] == list(range(100 + 5 * first, 125))
        assert ours.rows[5:] == read(Fetch(b"".join(parts[first + 1 :]), [], 100), 3).rows


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL, TRANSACTIONAL | CONTROL])
@pytest.mark.parametrize("as_columns", [True, False])
def test_a_batch_may_have_nothing_but_its_header(
    codec: int, attributes: int, *, as_columns: bool
) -> None:
    """Also of a topic that is read record by record: compaction keeps it, for its producer's last
    number. No codec has bytes of nothing, and it is no marker of a transaction's end.
    """
    empty = batch(0, [], NONE, attributes | codec, 4, producer=7)
    fetch = Fetch(empty + batch(5, [Record(0, 1, b"k", b"v")]), [(7, 0)], 0)
    ours = read(fetch, 10, bytes_of=FetchedBytes, as_columns=as_columns)
    assert (ours.error, ours.position) == (None, 6)
    assert ours.rows == [(5, 1, b"k", b"v", ())]


def test_snappy_may_have_the_numbers_that_redpanda_writes() -> None:
    """Of its version, with their bytes the other way round: aiokafka takes what has no 1 there for
    one block of snappy (dpkp/kafka-python#2414).
    """
    data = batch(0, [Record(i, 1, b"k", b"v" * 100) for i in range(5)], SNAPPY)
    numbers = struct.pack(">ii", 1, 1)
    assert data.count(numbers) == 1
    turned = with_checksum(data.replace(numbers, struct.pack("<ii", 1, 1)))
    assert read(Fetch(turned, [], 0), 10, as_columns=False).error is not None
    for most in (2, 10):
        ours = read(Fetch(turned, [], 0), most)
        assert (ours.error, ours.rows) == (None, read(Fetch(data, [], 0), most).rows)


@pytest.mark.parametrize("last_delta", [-1, 0, 2])
@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_records_may_lie_behind_the_last_offset_of_their_batch(last_delta: int, most: int) -> None:
    """As its header has it: Sarama wrote 0 there (IBM/sarama#1026)."""
    records = [Record(i, 1_000 + i, b"k", b"v") for i in range(5)]
    fetch = Fetch(batch(0, records, last_delta=last_delta) + batch(5, records), [], 0)
    ours, theirs = read(fetch, most), read(fetch, most, as_columns=False)
    assert len(ours.rows) == 10
    assert (ours.rows, ours.position) == (theirs.rows, theirs.position)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_many_records_comes_in_parts(codec: int) -> None:
    """As many at once as are asked for, whatever the producer put together."""
    records = [Record(i, 1_000 + i, b"k", b'{"value":%d}' % i) for i in range(2_500)]
    fetch = Fetch(batch(0, records, codec) + batch(2_500, records[:10], codec), [], 300)
    ours = read(fetch, 700, as_columns=True)
    assert ours.rows == read(fetch, 700, as_columns=False).rows
    assert ours.most == 700
    assert ours.position == 2_510


def compressed(codec: int, payload: bytes) -> bytes:
    """A batch of one record with these bytes for the compressed ones."""
    data = bytearray(batch(0, [Record(0, 1, b"k", b"v")])[:BATCH_HEADER] + payload)
    data[22] |= codec
    struct.pack_into(">i", data, 8, len(data) - 12)
    return with_checksum(data)


@pytest.mark.parametrize(
    "data",
    [
        compressed(GZIP, gzip.compress(b"of seven", mtime=0)[:-9]),
        compressed(GZIP, gzip.compress(b"of seven", mtime=0) + b"others"),
        compressed(SNAPPY, b"\xff\x06\0\0sNaPpY"),
        compressed(LZ4, b"\x04\x22\x4d\x18\x60\x40\x1a" + bytes(4)),
        compressed(ZSTD, b"\x28\xb5\x2f\xfd\x20"),
        compressed(5, b"of another codec"),
        batch(0, [Record(0, 1, None, b"")], NONE, TRANSACTIONAL | CONTROL, producer=7),
        batch(0, [Record(0, 1, b"k", b"v")])[:-1] + b"x",
    ],
    ids=[
        "cut off",
        "others behind",
        "framed",
        "old lz4",
        "no frame",
        "codec",
        "marker",
        "checksum",
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(data: bytes) -> None:
    """And with what to do, whatever a decoder raises; no record is passed over for it."""
    good = [Record(i, 1, b"k", b"v") for i in range(4)]
    later = struct.pack(">q", 1_204) + data[8:]
    ours = read(Fetch(batch(1_200, good) + later, [], 1_200), 4)
    assert len(ours.rows) == 4
    assert ours.position == 1_204
    assert ours.told.startswith("What partition 0 of 'events' has from offset 1,204 on cannot be")
    assert f"{ours.error!r}. Start again: nothing is lost." in ours.told


def test_the_name_of_a_header_may_be_anything() -> None:
    """One that is no UTF-8 would end a worker at the same record again and again."""
    data = batch(0, [Record(0, 5, b"k", b"v", [("name", b"x")])])
    fetch = Fetch(with_checksum(data.replace(b"name", b"\xff\xfe\xfd\xfc")), [], 0)
    assert isinstance(read(fetch, 10, as_columns=False).error, UnicodeDecodeError)
    headers = (("\ufffd" * 4, b"x"),)
    assert read(fetch, 10, as_columns=True).rows == [(0, 5, b"k", b"v", headers)]


def test_a_wrong_count_of_records_takes_no_memory() -> None:
    """Room is made for as many as there may be in the bytes."""
    data = bytearray(batch(0, [Record(0, 5, b"k", b"v")]))
    data[BATCH_HEADER - 4 : BATCH_HEADER] = b"\x7f\xff\xff\xff"
    error = read(Fetch(with_checksum(data), [], 0), 50_000, as_columns=True).error
    assert isinstance(error, CorruptRecordException)


def test_a_fetch_that_was_taken_is_gone_at_once() -> None:
    """A worker's garbage collector hardly ever runs: no circle may hold the bytes."""

    async def is_held() -> bool:
        assignment = Assignment([TP])
        assignment.state_value(TP).reset_to(0)
        fetched = FetchedBytes(batch(0, [Record(i, i, b"k", b"v") for i in range(9)]))
        records = PartitionRecords(TP, fetched, [], 0, None, None, True, READ_COMMITTED)
        result = FetchResult(TP, assignment=assignment, partition_records=records, backoff=0)
        fetches = Fetches({TP.topic}, {TP: result})
        held = weakref.ref(fetched)
        assert len(result.getall(5)) == 5
        assert len(result.getall(5)) == 4
        del fetches[TP], result, records, fetched
        return held() is not None

    gc.collect()
    gc.disable()
    try:
        assert not asyncio.run(is_held())
    finally:
        gc.enable()


def test_times_of_the_broker_hold_for_all_records() -> None:
    """LogAppendTime is told once for a batch."""
    records = [Record(i, 1_000 + i, None, b"v") for i in range(3)]
    fetch = Fetch(batch(5, records, NONE, APPEND_TIME, append_time=9_000), [], 5)
    assert [row[1] for row in read(fetch, 10, as_columns=True).rows] == [9_000] * 3
