"""Records that are sent by the column are those that are sent one by one."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.emissions.output_records import KeysAndValues, OutputRecords
from slidestat.errors import SlidestatError
from slidestat.kafka import column_producer, producer as producer_module
from slidestat.kafka.column_producer import ColumnProducer, bulk_producer
from slidestat.kafka.producer import BulkProducer
from tests.broker.workers import wait_until

TIMESTAMPS = [1, 1_700_000_000_000, 2**40]
RECORDS = [
    (b"key", b"value", 0),
    (b"", b"", 0),
    ("schlüssel".encode(), bytes(range(256)), 0),
    (b"k" * 300, b"v" * 100_000, 0),
]
HEADERS: list[list[tuple[str, bytes]]] = [[], [("a", b"1")], [("a", b""), ("ä", b"\0\xff")]]


@pytest.fixture
def both(bootstrap_servers: str) -> list[BulkProducer]:
    """One of each kind."""
    producers = [BulkProducer(bootstrap_servers), bulk_producer(bootstrap_servers)]
    assert isinstance(producers[1], ColumnProducer)
    return producers


def read(bootstrap: str, topic: str, partition: int) -> list[tuple[object, ...]]:
    """All of a partition's records, without their offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads-columns"})
    place = TopicPartition(topic, partition, 0)
    end = consumer.get_watermark_offsets(place, 10)[1]
    consumer.assign([place])
    found = []
    while len(found) < end:
        for it in consumer.consume(end - len(found), 10):
            assert it.error() is None
            found.append((it.key(), it.value(), it.timestamp(), it.headers()))
    consumer.close()
    return found


def test_they_are_the_same(
    both: list[BulkProducer], make_topic: Callable[..., str], bootstrap_servers: str
) -> None:
    """Keys, values, timestamps and headers of all sorts, in their order, on their partition; also
    where a column is part of another one and in another order.
    """
    topic = make_topic("columns", 3)
    records = OutputRecords.of(RECORDS * 2_000)
    picked = records.take(np.arange(len(records))[::-1])[1:-1]
    for partition, producer in enumerate(both):
        for headers in HEADERS:
            for some in (records[:0], records[:7], picked[:5_000]):
                timestamps = np.resize(np.array(TIMESTAMPS), len(some))
                producer.produce_columns(topic, partition, some.at(timestamps), headers)
        asyncio.run(producer.flush())
    first, second, third = (read(bootstrap_servers, topic, number) for number in range(3))
    assert first == second
    assert len(first) == 3 * (7 + 5_000)
    assert third == []


def test_now_is_the_timestamp_of_none(
    both: list[BulkProducer], make_topic: Callable[..., str], bootstrap_servers: str
) -> None:
    """A timestamp of 0 is that of the moment."""
    topic = make_topic("now", 2)
    for partition, producer in enumerate(both):
        some = OutputRecords.of(RECORDS[:1])
        producer.produce_columns(topic, partition, some.at(np.zeros(1, np.int64)), ())
        asyncio.run(producer.flush())
    times = [read(bootstrap_servers, topic, number)[0][2][1] for number in range(2)]  # type: ignore[index]
    assert 0 <= times[1] - times[0] < 60_000


def test_what_fills_no_request_is_sent_when_nothing_follows(
    make_topic: Callable[..., str], bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it waits; and where many wait for that they are sent as well, though no partition
    has enough to fill a request.
    """
    topic = make_topic("soon", 2)
    monkeypatch.setitem(column_producer.SETTINGS, "linger.ms", 600_000)
    monkeypatch.setattr(producer_module, "FEW_RECORDS", 100)

    async def send() -> None:
        for producer in BulkProducer(bootstrap_servers), bulk_producer(bootstrap_servers):
            few, many = OutputRecords.of(RECORDS[:3]), OutputRecords.of(RECORDS[:3] * 40)
            # The thread that sends ends after a second, in which no connection need be made.
            producer.produce_columns(topic, 1, few, ())
            async with asyncio.timeout(60):
                await producer.flush()
            for some in few, few, many:
                producer.produce_columns(topic, 1, some, ())
                if some is few:
                    producer.send_now()
                async with asyncio.timeout(60):
                    await producer.room()
                    while some is few and producer._unacknowledged():
                        await asyncio.sleep(0.01)
            producer.produce_columns(topic, 1, few, ())
            await asyncio.sleep(0.1)
            async with asyncio.timeout(60):
                await producer.flush()

    asyncio.run(send())
    assert len(read(bootstrap_servers, topic, 1)) == 2 * (3 + 3 + 3 + 120 + 3)


def test_a_full_queue_is_waited_for(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where more comes than is sent, none is lost and none comes twice."""
    topic = make_topic("full")
    few = column_producer.SETTINGS | {"queue.buffering.max.messages": 100}
    monkeypatch.setattr(column_producer, "SETTINGS", few)
    producer = ColumnProducer(bootstrap_servers)
    keys = [b"%d" % number for number in range(1_000)]
    records = OutputRecords.written(
        BinaryColumn.of(keys), BinaryColumn.of(keys), np.zeros(len(keys), np.int64)
    )
    producer.produce_columns(topic, 0, records, ())
    asyncio.run(producer.flush())
    assert [it[0] for it in read(bootstrap_servers, topic, 0)] == keys


def test_a_full_queue_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client has no room for while brokers are away waits in the thread, not in the event
    loop, which would hear no signal.
    """
    few = column_producer.SETTINGS | {"queue.buffering.max.messages": 100}
    monkeypatch.setattr(column_producer, "SETTINGS", few)
    producer = ColumnProducer("127.0.0.1:9")
    # Whoever waited for room would be told in a while.
    timer = threading.Timer(5, producer.fail, [SlidestatError("enough", "")])
    timer.start()
    try:
        producer.produce_columns("topic", 0, OutputRecords.of([(b"k", b"v", 9)] * 1_000), ())
        assert producer._left_records == 900
        assert not producer._is_crowded()
        producer.produce_columns("topic", 0, OutputRecords.of([(b"k", bytes(10**6), 9)] * 50), ())
        # Few records, and as much memory as 25,000 usual ones.
        assert producer._is_crowded()
    finally:
        timer.join()
    with pytest.raises(SlidestatError, match="enough"):
        asyncio.run(producer.flush())


@pytest.mark.parametrize(
    ("partition", "size", "message"),
    [(7, 10, "There is no partition 7 of"), (0, 9 * 2**20, "cannot be sent")],
)
@pytest.mark.parametrize("backlog", [0, 5_000])
def test_what_is_refused_is_told(
    partition: int,
    size: int,
    message: str,
    backlog: int,
    both: list[BulkProducer],
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition that is not there, and a record that is too large; of a backlog, by the next
    wait.
    """
    monkeypatch.setattr(column_producer, "_BACKLOG_RECORDS", backlog)
    topic = make_topic("refused")
    for producer in both:
        some = OutputRecords.of([(b"k", b"v" * size, 0)])

        async def send(producer: BulkProducer = producer, some: OutputRecords = some) -> None:
            producer.produce_columns(topic, partition, some, ())
            async with asyncio.timeout(60):
                await producer.flush()

        with pytest.raises(SlidestatError, match=message):
            asyncio.run(send())


def test_a_backlog_is_queued_in_its_order(
    make_topic: Callable[..., str], bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are queued at once, and others by a thread, which waits for room."""
    monkeypatch.setattr(column_producer, "_BACKLOG_RECORDS", 100)
    monkeypatch.setattr(column_producer, "FEW_RECORDS", 300)
    topic = make_topic("backlog")
    producer = ColumnProducer(bootstrap_servers)
    texts = [b"%d" % number for number in range(9_000)]
    writers = set()

    def write(first: int, last: int) -> KeysAndValues:
        writers.add(threading.current_thread())
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.01)  # The client has few records again meanwhile.
        return BinaryColumn.of(texts[first:last]), BinaryColumn.of(texts[first:last])

    async def send() -> None:
        for first in range(0, len(texts), 60):
            last = first + 60
            records = OutputRecords(partial(write, first, last), np.full(60, 9, np.int64))
            producer.produce_columns(topic, 0, records, ())
            await asyncio.sleep(0.005)
        await producer.flush()

    asyncio.run(send())
    assert [it[1] for it in read(bootstrap_servers, topic, 0)] == texts
    assert len(writers) > 1
    assert producer._unacknowledged() == 0


def test_texts_take_more_room_than_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for room while so much of either is left to the thread as 20,000 texts take."""
    monkeypatch.setattr(column_producer, "_BACKLOG_RECORDS", 0)
    monkeypatch.setattr(column_producer, "FEW_RECORDS", 100)
    producer = ColumnProducer("127.0.0.1:9")
    texts = OutputRecords.of([(b"k", b"v", 9)] * 60)
    # What comes first may be in the client by then, which takes the next in once it has room.
    producer.produce_columns("topic", 0, OutputRecords.of([(b"k", b"v", 9)] * 101), ())
    while producer._left:
        time.sleep(0.001)
    asked = []
    for _ in range(4):
        numbers = OutputRecords(lambda: (texts.keys, texts.values), texts.ends)
        producer.produce_columns("topic", 0, numbers, ())
        asked.append(producer._is_crowded())
    joined = OutputRecords.joined([texts, texts[:0]])
    producer.produce_columns("topic", 0, joined.at(joined.ends + 1), ())
    asked.append(producer._is_crowded())
    assert asked == [False] * 4 + [True]
    producer.fail(SlidestatError("enough", ""))


def test_without_a_thread_records_are_queued_at_once(
    make_topic: Callable[..., str], bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system gives none."""
    monkeypatch.setattr(column_producer, "_BACKLOG_RECORDS", 0)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    topic = make_topic("threads")
    producer = ColumnProducer(bootstrap_servers)

    async def send() -> None:
        with monkeypatch.context() as alone:
            alone.setattr(threading.Thread, "start", refuse)
            producer.produce_columns(topic, 0, OutputRecords.of([(b"k", b"v", 9)]), ())
        await producer.flush()

    asyncio.run(send())
    assert [it[:2] for it in read(bootstrap_servers, topic, 0)] == [(b"k", b"v")]


def test_its_threads_end_with_it(bootstrap_servers: str) -> None:
    """A producer that nobody has any more leaves no threads."""

    def threads() -> set[str]:
        return {task.name for task in Path("/proc/self/task").iterdir()}

    # Those of other producers may end meanwhile.
    before = threads()
    producer = ColumnProducer(bootstrap_servers)
    its_own = threads() - before
    assert its_own
    gone = weakref.ref(producer)
    del producer
    gc.collect()
    assert gone() is None
    # A thread that has been waited for may still be listed for a moment.
    wait_until(lambda: not its_own & threads(), "threads of a producer that is gone", 30)


def test_it_needs_no_compiler(make_topic: Callable[..., str], bootstrap_servers: str) -> None:
    """In plain Python the same records are sent."""
    topic = make_topic("plain")
    code = (
        "import asyncio, sys; import numpy as np;"
        "from slidestat.kafka.column_producer import ColumnProducer;"
        "from slidestat.engine.emissions.output_records import OutputRecords;"
        "producer = ColumnProducer(sys.argv[1]);"
        "some = OutputRecords.of([(b'k', b'v', 5)] * 3);"
        "producer.produce_columns(sys.argv[2], 0, some, [('h', b'x')]);"
        "asyncio.run(producer.flush())"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run(
        [sys.executable, "-c", code, bootstrap_servers, topic], check=True, env=environment
    )
    assert read(bootstrap_servers, topic, 0) == [(b"k", b"v", (1, 5), [("h", b"x")])] * 3


def test_a_process_ends_while_brokers_are_away() -> None:
    """What waits for room in the client keeps no process, and its end is not a crash."""
    code = (
        "import sys; from slidestat.kafka.column_producer import ColumnProducer;"
        "from slidestat.engine.emissions.output_records import OutputRecords;"
        "producer = ColumnProducer('127.0.0.1:9');"
        "some = OutputRecords.of([(b'k', b'v', 5)] * 10_000);"
        "[producer.produce_columns('topic', 0, some, ()) for _ in range(10)];"
        "sys.exit(3)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=300)
    assert ended.returncode == 3


@pytest.mark.parametrize("kind", [BulkProducer, ColumnProducer])
def test_offsets_are_told_and_nothing_is_a_tombstone(
    kind: type[BulkProducer], make_topic: Callable[..., str], bootstrap_servers: str
) -> None:
    """The last offset of each partition; None among values is none, and no empty value. A key
    that is None is empty.
    """
    topic = make_topic("offsets", 2)
    producer = kind(bootstrap_servers, track_offsets=True)
    values = BinaryColumn.of([b"v", None, b""])
    keys = BinaryColumn.of([b"a", None, b"c"])
    some = OutputRecords.written(keys, values, np.zeros(3, np.int64))
    for partition, times in ((0, 1), (1, 40)):
        for _ in range(times):
            producer.produce_columns(topic, partition, some, ())
        asyncio.run(producer.flush())
        assert producer.last_offset(topic, partition) == 3 * times - 1
    assert [it[:2] for it in read(bootstrap_servers, topic, 0)] == [
        (b"a", b"v"),
        (b"", None),
        (b"c", b""),
    ]
    with pytest.raises(KeyError):
        producer.last_offset(topic, 7)
