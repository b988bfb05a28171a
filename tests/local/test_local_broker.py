"""The local broker: a real Apache Kafka, its data, its ports, its failures."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.admin.topics import create_topic as make_topic, retention_config
from slidestat.errors import SlidestatError
from slidestat.local import broker as broker_module
from slidestat.local.broker import LocalBroker
from slidestat.local.settings import HOST, pick_free_ports

FakeJava = Callable[..., Path]
AwaitGone = Callable[[int | None], None]

SEPTEMBER_2001_MS = 999_999_999_000


def create_topic(broker: LocalBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()


def produce(broker: LocalBroker, topic: str, value: bytes, timestamp_ms: int) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(
        topic, value, timestamp=timestamp_ms, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(30)
    assert errors == [None]


def consume(broker: LocalBroker, topic: str, count: int) -> list[tuple[bytes, int]]:
    """The first `count` records of a topic, each as value and timestamp in milliseconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        records = consumer.consume(count, timeout=30)
        assert all(record.timestamp()[0] == TIMESTAMP_CREATE_TIME for record in records)
        return [(record.value(), record.timestamp()[1]) for record in records]
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def named_port() -> int:
    """A free port for the module's broker."""
    return pick_free_ports(1)[0]


@pytest.fixture(scope="module")
def broker(named_port: int) -> Iterator[LocalBroker]:
    """A broker of this module's own, on a named port."""
    with LocalBroker(port=named_port) as broker:
        yield broker


@pytest.fixture
def listener() -> Iterator[int]:
    """A loopback port on which this test's own server listens."""
    with socket.socket() as server:
        server.bind((HOST, 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.fixture
def use_java(monkeypatch: pytest.MonkeyPatch, fake_java: FakeJava) -> Callable[[str], None]:
    """`use_java(then)` lets the broker find a Java that runs the shell commands `then`."""

    def use(then: str) -> None:
        monkeypatch.setenv("JAVA_HOME", str(fake_java("java", 21, then)))

    return use


def test_events_of_2001_survive_a_clean_restart_and_a_crash(await_gone: AwaitGone) -> None:
    """Records with timestamps decades old and years ahead are taken, kept, and read again, by a
    topic as we make it; the broker's own defaults are Kafka's, which refuse what is ahead.
    """
    far_ahead_ms = 4_000_000_000_000
    with LocalBroker() as broker:
        address, folder = broker.bootstrap_servers, broker._folder
        make_topic(address, "history", 1, retention_config("forever"))
        produce(broker, "history", b"old", SEPTEMBER_2001_MS)
        produce(broker, "history", b"ahead", far_ahead_ms)

        broker.restart()
        assert broker.bootstrap_servers == address
        produce(broker, "history", b"old again", SEPTEMBER_2001_MS)

        crashed = broker.pid
        broker.kill()
        await_gone(crashed)
        assert broker.pid is None
        assert not broker.is_running()
        broker.restart()
        assert broker.bootstrap_servers == address
        assert consume(broker, "history", 3) == [
            (b"old", SEPTEMBER_2001_MS),
            (b"ahead", far_ahead_ms),
            (b"old again", SEPTEMBER_2001_MS),
        ]
        jvm = broker.pid
    await_gone(jvm)
    assert not folder.exists()
    assert broker.log_path.exists()
    broker.stop()


def test_a_missing_topic_is_not_created_by_a_producer(broker: LocalBroker) -> None:
    """Producing to a topic that nobody created is an error, not a new topic."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 1000})
    producer.produce("mispelt", b"", on_delivery=lambda error, _: errors.append(error.name()))
    producer.flush(30)
    assert errors
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert "mispelt" not in admin.list_topics(timeout=10).topics


def test_a_data_folder_outlives_the_broker(tmp_path: Path) -> None:
    """A folder of the user's keeps its records; two brokers at once on it are refused."""
    folder = tmp_path / "kafka data"
    with LocalBroker(folder) as first:
        create_topic(first, "kept")
        produce(first, "kept", b"value", SEPTEMBER_2001_MS)
        with pytest.raises(SlidestatError, match="Another broker uses") as caught:
            LocalBroker(folder).start()
        assert str(folder) in caught.value.message
        assert "choose another folder" in caught.value.advice
    with LocalBroker(folder) as second:
        assert consume(second, "kept", 1) == [(b"value", SEPTEMBER_2001_MS)]
        assert second.log_path == folder / "broker.log"


def test_a_named_port_is_used(broker: LocalBroker, named_port: int) -> None:
    """The port that the caller names is the broker's."""
    assert broker.bootstrap_servers == f"{HOST}:{named_port}"


def test_starting_twice_is_a_mistake(broker: LocalBroker) -> None:
    """A second start is refused and leaves the running broker alone."""
    with pytest.raises(RuntimeError, match="started already"):
        broker.start()
    assert broker.is_running()


def test_a_named_port_in_use_is_an_error(listener: int) -> None:
    """Whoever names a port that another process has is told so."""
    with pytest.raises(SlidestatError, match=f"Port {listener} of {HOST} is used") as caught:
        LocalBroker(port=listener).start()
    assert "another port" in caught.value.advice


def test_a_chosen_port_taken_in_the_meantime_is_replaced(
    listener: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another process takes a chosen port before the JVM does, others are chosen."""
    choices = iter([[pick_free_ports(1)[0], listener], pick_free_ports(2)])
    monkeypatch.setattr(broker_module, "pick_free_ports", lambda _: next(choices))
    with LocalBroker() as broker:
        assert AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10)
    assert not list(choices)


def test_a_data_folder_with_a_comma_is_refused(tmp_path: Path) -> None:
    """Kafka would take the path for two folders, so it is refused with advice."""
    with pytest.raises(SlidestatError, match="comma") as caught:
        LocalBroker(tmp_path / "a,b").start()
    assert "without a comma" in caught.value.advice


def test_a_data_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A path below a file is refused with the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SlidestatError, match="Not a directory"):
        LocalBroker(tmp_path / "file" / "data").start()


def test_a_java_that_fails_names_the_log(use_java: Callable[[str], None]) -> None:
    """A start that fails names the log file and shows its last lines; no folder stays."""
    use_java("echo 'the disk is on fire'; exit 3")
    broker = LocalBroker()
    with pytest.raises(SlidestatError, match="could not format its storage") as caught:
        broker.start()
    assert str(broker.log_path) in caught.value.advice
    assert "the disk is on fire" in caught.value.advice
    assert "the disk is on fire" in broker.log_path.read_text()
    assert not broker._folder.exists()


def test_a_broker_that_never_answers_is_given_up(
    use_java: Callable[[str], None], await_gone: AwaitGone, tmp_path: Path
) -> None:
    """A JVM that starts but does not answer in time is ended, and the error says so."""
    pid_file = tmp_path / "pid"
    use_java(f'case "$*" in *StorageTool*) exit 0;; esac\necho $$ > {pid_file}\nexec sleep 300')
    with pytest.raises(SlidestatError, match="did not answer within 1 s"):
        LocalBroker(ready_timeout_s=1.0).start()
    await_gone(int(pid_file.read_text()))


def test_ports_are_outside_the_range_of_outgoing_connections() -> None:
    """A chosen port is none that the system could give to a client that retries it."""
    ports = pick_free_ports(5)
    assert len(set(ports)) == 5
    lowest = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if lowest.exists():
        assert max(ports) < int(lowest.read_text().split()[0])


def test_the_session_broker_keeps_history(
    make_topic: Callable[..., str], admin: AdminClient
) -> None:
    """A topic of the shared fixture never deletes or rolls by age, and has its partitions."""
    name = make_topic("history", 3, {"cleanup.policy": "compact"})
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 3
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result()
