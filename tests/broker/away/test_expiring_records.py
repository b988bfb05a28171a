"""Records that must not arrive late: a provisional emission would replace the next owner's final
one.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.kafka.producer import ExpiringProducer
from slidestat.local.broker import LocalBroker
from slidestat.local.settings import pick_free_ports
from tests.broker.workers import read_topic
from tests.chaos.network import Network

EXPIRES_S = 2.0
# So soon it is noticed.
SCAN_S = 3.0
# Queues a record of the topic and port that it is given, when it is told that it may.
QUEUES = """
import asyncio, sys
from slidestat.kafka.producer import ExpiringProducer

producer = ExpiringProducer(sys.argv[1], float(sys.argv[3]))
producer.produce(sys.argv[2], 0, b"k", b"before")
asyncio.run(producer.flush())
print("connected", flush=True)
sys.stdin.readline()
producer.produce(sys.argv[2], 0, b"k", b"late")
print("queued", flush=True)
asyncio.run(producer.flush_while(lambda: False))
print("over", flush=True)
"""


class Line:
    """A broker that is reached through a line which can be cut."""

    def __init__(self, ours: int, brokers: int) -> None:
        self.bootstrap = f"127.0.0.1:{ours}"
        self._ports = ours, brokers

    @contextmanager
    def connected(self) -> Iterator[None]:
        """The line is there for as long."""
        with Network(*self._ports):
            yield

    def values(self, topic: str) -> list[bytes | None]:
        """What the topic has."""
        with self.connected():
            return [record.value for record in read_topic(self.bootstrap, topic)[0]]


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    """A line that is cut, to a broker with a topic for each test."""
    ours, brokers = pick_free_ports(2)
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{ours}"}
    with ExitStack() as stack:
        with Network(ours, brokers):
            broker = stack.enter_context(LocalBroker(port=brokers, secured_settings=advertised))
            made = Line(ours, brokers)
            admin = AdminClient({"bootstrap.servers": made.bootstrap, "log_level": 0})
            for topic in ("given-up", "wanted", "frozen"):
                admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        assert broker.is_running
        yield made


def connected_producer(line: Line, topic: str) -> ExpiringProducer:
    """A producer that has sent a record."""
    producer = ExpiringProducer(line.bootstrap, EXPIRES_S)
    with line.connected():
        producer.produce(topic, 0, b"k", b"before")
        asyncio.run(producer.flush())
    return producer


def test_a_record_that_is_not_wanted_any_more_never_arrives(line: Line) -> None:
    """While nobody can be reached it expires, and whoever waits for it goes on soon."""
    producer = connected_producer(line, "given-up")
    producer.produce("given-up", 0, b"k", b"late")
    started = time.monotonic()
    asyncio.run(producer.flush_while(lambda: False))
    assert time.monotonic() - started < EXPIRES_S + SCAN_S
    with line.connected():
        producer.produce("given-up", 0, b"k", b"after")
        asyncio.run(producer.flush_while(lambda: True))
    assert line.values("given-up") == [b"before", b"after"]


def test_a_record_that_is_wanted_arrives_once(line: Line) -> None:
    """However often it expires before."""
    producer = connected_producer(line, "wanted")
    producer.produce("wanted", 0, b"k", b"late", 1_700_000_000_000, [("declaration", b"d")])
    with ThreadPoolExecutor(1) as thread:
        sent = thread.submit(asyncio.run, producer.flush_while(lambda: True))
        time.sleep(2 * EXPIRES_S)
        assert not sent.done()
        with line.connected():
            sent.result(60)
            _, late = read_topic(line.bootstrap, "wanted")[0]
    assert late[1:] == (b"k", b"late", 1_700_000_000_000, {"declaration": b"d"})


def test_a_record_of_a_process_that_was_frozen_never_arrives(line: Line) -> None:
    """A worker that wakes after its session does not send what it had queued before."""
    command = [sys.executable, "-c", QUEUES, line.bootstrap, "frozen", str(EXPIRES_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with line.connected():
            assert process.stdout.readline() == b"connected\n"
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"queued\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(EXPIRES_S + SCAN_S)
        with line.connected():
            process.send_signal(signal.SIGCONT)
            assert process.stdout.readline() == b"over\n"
    assert line.values("frozen") == [b"before"]
