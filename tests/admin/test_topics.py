"""Topics are created once, as asked, and listed as they are."""

import json
import socket

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from slidestat.admin.topics import (
    create_topic,
    create_topology_topics,
    list_topics,
    retention_config,
)
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import require_broker, require_topic
from slidestat.log import LogForm, logging_to_stderr
from slidestat.text import human_duration
from tests.conftest import MakeTopic


def config_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result()
    return {name: entry.value for name, entry in entries.items()}


def test_creating_twice_is_creating_once(bootstrap_servers: str, topic_name: str) -> None:
    """A topic that exists with the same partition count is found, and said to be."""
    first = create_topic(bootstrap_servers, topic_name, 3, retention_config("forever"))
    second = create_topic(bootstrap_servers, topic_name, 3, retention_config("7d"))
    assert str(first) == f"{topic_name}: created, 3 partitions, retention forever"
    assert str(second) == f"{topic_name}: exists already, 3 partitions, retention forever"
    assert require_topic(bootstrap_servers, topic_name) == 3


def test_another_partition_count_is_an_error(bootstrap_servers: str, topic_name: str) -> None:
    """The error says how many partitions the topic has, and what to do."""
    create_topic(bootstrap_servers, topic_name, 3, {})
    with pytest.raises(SlidestatError, match="exists with 3 partitions, not 4") as raised:
        create_topic(bootstrap_servers, topic_name, 4, {})
    assert "Ask for 3 with --partitions" in raised.value.advice


def test_names_that_the_broker_refuses(bootstrap_servers: str) -> None:
    """A refused name is told with the broker's reason."""
    with pytest.raises(SlidestatError, match=r"refuses the topic 'a b'.*invalid"):
        create_topic(bootstrap_servers, "a b", 1, {})


def test_topics_of_a_topology(bootstrap_servers: str, admin: AdminClient, topic_name: str) -> None:
    """Source, output, dead letters and late have one partition count, and take what they must."""
    topology = Topology(name=topic_name, source=f"{topic_name}-source", span="1h", every="1m")
    outcomes = create_topology_topics(bootstrap_servers, topology, 2)
    names = [outcome.name for outcome in outcomes]
    assert names == [
        topology.source,
        topology.output_topic,
        topology.dead_letter_topic,
        topology.late_topic,
    ]
    assert {outcome.partitions for outcome in outcomes} == {2}
    for name in names:
        config = config_of(admin, name)
        assert config["retention.ms"] == "-1"
        large = name in (topology.dead_letter_topic, topology.late_topic)
        assert (int(config["max.message.bytes"]) == 8_388_608) == large


def test_retention(bootstrap_servers: str, admin: AdminClient, topic_name: str) -> None:
    """A duration asked for is the topic's; what is none is refused."""
    create_topic(bootstrap_servers, topic_name, 1, retention_config("7d"))
    assert config_of(admin, topic_name)["retention.ms"] == "604800000"
    for nonsense in ("7", "0d", "week"):
        with pytest.raises(SlidestatError, match="retention is"):
            retention_config(nonsense)


def test_listing(bootstrap_servers: str, topic_name: str) -> None:
    """A listing has each topic's figures, and Kafka's own topics only when asked."""
    create_topic(bootstrap_servers, topic_name, 4, retention_config("90s"))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for i in range(100):
        producer.produce(topic_name, b"x", str(i).encode())
    producer.flush()
    (row,) = (row for row in list_topics(bootstrap_servers) if row.name == topic_name)
    assert (row.partitions, row.records, row.retention, row.cleanup_policy) == (
        4,
        100,
        "90s",
        "delete",
    )
    shown = {row.name for row in list_topics(bootstrap_servers)}
    every = {row.name for row in list_topics(bootstrap_servers, internal=True)}
    assert shown == {name for name in every if not name.startswith("__")}


def test_no_broker(capfd: pytest.CaptureFixture[str]) -> None:
    """An address where nothing listens is told so, with advice, and nothing else is printed."""
    with pytest.raises(SlidestatError, match=r"No Kafka broker answers at 127\.0\.0\.1:1\.") as no:
        require_broker("127.0.0.1:1", timeout_s=0.5)
    assert "slidestat broker" in no.value.advice
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_a_broker_that_advertises_an_unknown_address(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of another container: it answers first, and every client would wait for it then."""

    def unknown(*_address: object) -> None:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(
        SlidestatError, match=r"says that the brokers are at 127\.0\.0\.1:\d+"
    ) as no:
        require_broker(bootstrap_servers)
    assert "advertised.listeners" in no.value.advice


@pytest.mark.parametrize(
    "address",
    [
        *("", "a b:9092", "host:port", "host:9092,", ":9092", "kafka://localhost:9092"),
        *("host:99999", "['host:9092']", "h1:9092 h2:9092", "h1:9092\uff1bh2:9092"),
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    """What cannot be an address is refused at once, not waited for."""
    with pytest.raises(SlidestatError, match="not the address of a Kafka broker"):
        require_broker(address)


def test_the_wrong_one_of_several_addresses_is_named() -> None:
    """Where an @ may end a password, only what is behind it is shown, and that it is so."""
    with pytest.raises(SlidestatError, match=r"^'h2;9093' is not the address") as raised:
        require_broker("h1:9092,h2;9093")
    with pytest.raises(SlidestatError, match=r"^'kafka://h1:9092' is not") as raised:
        require_broker("kafka://h1:9092,h2:9092")
    assert "without kafka://" in raised.value.advice
    with pytest.raises(SlidestatError) as raised:
        require_broker("kafka://h1:9092,h2:9092/x@y")
    assert raised.value.message == (
        "'kafka://y' (all before the last @ is left out) is not the address of a Kafka broker."
    )


def test_the_protocol_of_an_address_is_that_of_the_client(bootstrap_servers: str) -> None:
    """librdkafka leaves out an address of another one, and waits."""
    with pytest.raises(SlidestatError, match="with SASL_SSL, and KAFKA_SECURITY_PROTOCOL is PLAIN"):
        require_broker(f"sasl_ssl://{bootstrap_servers}")
    assert require_broker(f"PLAINTEXT://{bootstrap_servers}").brokers


def test_a_wait_for_brokers_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """After two seconds, on a terminal and in a log, unless the caller tells it itself."""
    with pytest.raises(SlidestatError):
        require_broker("127.0.0.1:1", timeout_s=3)
    assert capfd.readouterr().err == "waiting for a broker at 127.0.0.1:1 ...\n"
    with pytest.raises(SlidestatError):
        require_broker("127.0.0.1:1", timeout_s=3, may_tell=False)
    assert capfd.readouterr().err == ""
    with logging_to_stderr(LogForm.JSON), pytest.raises(SlidestatError):
        require_broker("127.0.0.1:1", timeout_s=3)
    (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["text"] == "waiting for a broker at 127.0.0.1:1 ..."


def test_misspelled_topic(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    """A name that is nearly that of a topic is told with it; one that we made up is not."""
    topic = make_topic("misspelled")
    with pytest.raises(SlidestatError) as raised:
        require_topic(bootstrap_servers, topic[:-1])
    assert raised.value.advice.startswith(
        f"Did you mean {topic}? If you mean a new topic, create it: "
    )
    with pytest.raises(SlidestatError) as raised:
        require_topic(bootstrap_servers, topic.upper())
    assert raised.value.advice.startswith(f"Did you mean {topic}?")
    with pytest.raises(SlidestatError) as raised:
        require_topic(bootstrap_servers, topic[:-1], "slidestat run it")
    assert raised.value.advice == "`slidestat run it` makes it."


def test_missing_topic(bootstrap_servers: str, topic_name: str) -> None:
    """A missing topic is told with the command that creates it, and is not created by asking."""
    for _ in range(2):
        with pytest.raises(SlidestatError, match="There is no topic") as raised:
            require_topic(bootstrap_servers, topic_name)
        assert f"slidestat topics create {topic_name} --partitions 4" in raised.value.advice
        assert "Check its name" in raised.value.advice or "Did you mean" in raised.value.advice


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (1_500, "1500ms"),
        (90_000, "90s"),
        (3_600_000, "1h"),
        (604_800_000, "7d"),
        (5_400_000, "90m"),
    ],
)
def test_durations(duration_ms: int, text: str) -> None:
    """A duration is written in the largest unit that leaves nothing over."""
    assert human_duration(duration_ms) == text
