"""A worker's topics are made where they are missing, and refused where they would do harm."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.admin.other_groups import OtherGroups
from slidestat.admin.topics import create_topic, written_topics
from slidestat.admin.worker_topics import prepare_topics, remarks_on_times
from slidestat.declare.alerts import Alert
from slidestat.declare.topology import Topology
from slidestat.doctor.examination import limited_times
from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY, Checkpoint, encode_checkpoint
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import MAX_MESSAGE_BYTES, require_broker
from slidestat.kafka.producer import BulkProducer
from tests.admin.test_topics import config_of
from tests.conftest import MakeTopic


@pytest.fixture
def topology(topic_name: str) -> Topology:
    return Topology(name=topic_name, source=f"{topic_name}-source", span="1h", every="1m")


@pytest.mark.parametrize("partitions", [1, 3])
def test_missing_topics_are_made(
    bootstrap_servers: str,
    admin: AdminClient,
    make_topic: MakeTopic,
    topology: Topology,
    partitions: int,
) -> None:
    """Each with the source's partitions; only the changelog is compacted; twice is once."""
    make_topic("source", partitions)
    for _ in range(2):
        assert prepare_topics(bootstrap_servers, topology) == partitions
    topics = require_broker(bootstrap_servers).topics
    for name in (
        topology.output_topic,
        topology.dead_letter_topic,
        topology.late_topic,
        topology.changelog_topic,
    ):
        assert len(topics[name].partitions) == partitions
        policy = config_of(admin, name)["cleanup.policy"]
        assert policy == ("compact" if name == topology.changelog_topic else "delete")


def test_a_source_that_is_missing(bootstrap_servers: str, topology: Topology) -> None:
    """It is not made: nobody would write to it."""
    with pytest.raises(SlidestatError, match="no topic") as raised:
        prepare_topics(bootstrap_servers, topology)
    assert f"topics create {topology.source}" in raised.value.advice
    assert topology.output_topic not in require_broker(bootstrap_servers).topics


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_source(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology, policy: str
) -> None:
    """Compaction deletes events: it is refused with the command that turns it off."""
    make_topic("source", 2, {"cleanup.policy": policy})
    with pytest.raises(SlidestatError, match="is compacted") as raised:
        prepare_topics(bootstrap_servers, topology)
    assert f"--entity-name {topology.source}" in raised.value.advice
    assert "cleanup.policy=delete" in raised.value.advice
    assert topology.output_topic not in require_broker(bootstrap_servers).topics


@pytest.mark.parametrize("suffix", ["statistics", "dead-letters", "late"])
def test_fewer_partitions_than_the_source(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology, suffix: str
) -> None:
    """A written topic is refused with both counts and the command that adds partitions."""
    make_topic("source", 3)
    name = make_topic(suffix, 2)
    with pytest.raises(SlidestatError, match=rf"'{name}' has 2 partitions.*has 3") as raised:
        prepare_topics(bootstrap_servers, topology)
    assert f"--alter --topic {name} --partitions 3" in raised.value.advice


def test_more_partitions_than_the_source(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """Partition n is written for partition n: more of them do no harm."""
    make_topic("source", 2)
    make_topic("statistics", 5)
    assert prepare_topics(bootstrap_servers, topology) == 2


def test_a_compacted_output(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """Emissions carry keys for it: compaction keeps the newest of each."""
    make_topic("source", 1)
    make_topic("statistics", 1, {"cleanup.policy": "compact"})
    assert prepare_topics(bootstrap_servers, topology) == 1


def test_a_source_that_was_given_more_partitions(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """Keys have moved and their states have not: the changelog's count tells, a new name helps."""
    make_topic("source", 3)
    for suffix in ("statistics", "dead-letters", "late"):
        make_topic(suffix, 3)
    create_topic(bootstrap_servers, topology.changelog_topic, 2, {"cleanup.policy": "compact"})
    with pytest.raises(SlidestatError, match=r"has 2 partitions.*has 3.*are no longer") as raised:
        prepare_topics(bootstrap_servers, topology)
    assert "another name" in raised.value.advice


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_changelog_that_forgets(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology, policy: str
) -> None:
    """A changelog whose old states are deleted is refused."""
    make_topic("source", 1)
    create_topic(bootstrap_servers, topology.changelog_topic, 1, {"cleanup.policy": policy})
    with pytest.raises(SlidestatError, match=r"cleanup\.policy.*deleted with time") as raised:
        prepare_topics(bootstrap_servers, topology)
    assert "cleanup.policy=compact" in raised.value.advice


def test_an_output_topic_that_was_deleted(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    topology: Topology,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is made anew, and said; not where the states are of another output."""
    caplog.set_level("INFO", logger="slidestat")
    make_topic("source", 1)
    prepare_topics(bootstrap_servers, topology)
    write_checkpoints(bootstrap_servers, topology, 1)
    prepare_topics(bootstrap_servers, replace(topology, output=f"{topology.name}-moved"))
    assert "topic made anew" not in caplog.messages
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topology.late_topic])[topology.late_topic].result()
    prepare_topics(bootstrap_servers, topology)
    assert caplog.messages.count("topic made anew") == 1


def test_a_changelog_that_was_deleted(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    topology: Topology,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is made anew, and said that states are gone, where the group has read anything."""
    caplog.set_level("INFO", logger="slidestat")
    source = make_topic("source", 2)
    prepare_topics(bootstrap_servers, topology)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    group = {"bootstrap.servers": bootstrap_servers, "group.id": topology.application_id}
    for committed in (0, 7):
        with closing(Consumer(group)) as consumer:
            consumer.commit(offsets=[TopicPartition(source, 1, committed)], asynchronous=False)
        changelog = topology.changelog_topic
        admin.delete_topics([changelog])[changelog].result()
        prepare_topics(bootstrap_servers, topology)
        assert caplog.messages.count("changelog made anew") == (committed > 0)


def of_group(topology: Topology, group: str) -> Topology:
    """The same topology in another group."""
    return replace(topology, group=group)


def write_checkpoints(bootstrap: str, topology: Topology, partitions: int) -> None:
    """What a worker's flush of each partition ends with, after a state."""
    producer = Producer({"bootstrap.servers": bootstrap})
    stored = encode_checkpoint(Checkpoint(1), topology.state_label)
    for partition in range(partitions):
        for key, value in ((b"kx", b"state"), (CHECKPOINT_KEY, stored)):
            producer.produce(topology.changelog_topic, value, key, partition=partition)
    producer.flush()


@contextmanager
def member_of(bootstrap: str, topology: Topology) -> Iterator[None]:
    """A member of the group of the topology's workers."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topology.application_id})
    try:
        consumer.subscribe([topology.source])
        while not consumer.assignment():
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


def test_the_same_topology_in_another_group(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """While that group's workers run and have counted something, both would write the same topics:
    it is refused. Its own workers go on; one with another output may run beside it, and once it has
    ended, so may one that takes its place.
    """
    make_topic("source", 2)
    other = of_group(topology, f"other-{topology.name}")
    prepare_topics(bootstrap_servers, other)
    prepare_topics(bootstrap_servers, topology)
    write_checkpoints(bootstrap_servers, other, 2)
    prepare_topics(bootstrap_servers, other)
    with member_of(bootstrap_servers, other):
        with pytest.raises(SlidestatError, match=f"'{other.group}' computes"):
            prepare_topics(bootstrap_servers, topology)
        prepare_topics(bootstrap_servers, other)
        prepare_topics(bootstrap_servers, replace(topology, output=f"{topology.name}-2"))
        # Of two that looked for each other too early, the one whose name comes later gives way.
        before, after = (of_group(topology, f"{n}-{other.group}") for n in ("a", "z"))
        assert OtherGroups(bootstrap_servers, [before]).error() is None
        error = OtherGroups(bootstrap_servers, [other, after]).error()
        assert error is not None
        assert f"'{other.group}' computes" in error.message
        assert OtherGroups("127.0.0.1:1", [after]).error() is None
    prepare_topics(bootstrap_servers, topology)
    assert OtherGroups(bootstrap_servers, [after]).error() is None


def test_a_changelog_that_only_might_be_another_group_s(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """The group g-x of the topology t, and g of x-t, have changelogs of one name: what the states
    say decides.
    """
    make_topic("source", 1)
    longer = replace(topology, name=f"x-{topology.name}", group="g")
    assert longer.changelog_topic == of_group(topology, "g-x").changelog_topic
    prepare_topics(bootstrap_servers, longer)
    write_checkpoints(bootstrap_servers, longer, 1)
    assert prepare_topics(bootstrap_servers, topology) == 1


def send_at(bootstrap: str, topic: str, time_ms: int) -> None:
    """A record with this timestamp, as a worker sends it; raises what it would end with."""
    producer = BulkProducer(bootstrap)
    producer.produce(topic, 0, b"k", b"v", time_ms)
    asyncio.run(producer.flush())


def now_ms() -> int:
    return int(time.time() * 1000)


def test_topics_that_are_made_take_events_of_any_time(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """Kafka's defaults refuse what is an hour ahead, and outputs have event times."""
    make_topic("source", 1)
    busy = (Alert(name="busy", when="count >= 1"),)
    moving = replace(topology, repartition=True, lateness="1s", alerts=busy)
    publishing = replace(topology, publish="partition")
    for one in (moving, publishing):
        prepare_topics(bootstrap_servers, one)
    assert moving.alert_topic is not None
    written = {*written_topics(moving), publishing.synopsis_topic, moving.events_topic}
    for name in written:
        for hours in (-24 * 365 * 20, 6):
            send_at(bootstrap_servers, name, now_ms() + hours * 3_600_000)
    assert remarks_on_times(bootstrap_servers, moving) == []


def test_moved_records_stay_as_long_as_in_their_source(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """The topic is made so, and nothing is said of it: kept for ever, it would only grow. One that
    keeps them for less is named.
    """
    make_topic("source", 1, {"retention.ms": "604800000"})
    moving = replace(topology, repartition=True, lateness="1s")
    prepare_topics(bootstrap_servers, moving)
    assert remarks_on_times(bootstrap_servers, moving) == []
    shorter = replace(moving, name=f"{topology.name}-2")
    make_topic("2-repartition", 1, {"retention.ms": "604799999"})
    (remark,) = remarks_on_times(bootstrap_servers, shorter)
    assert remark.message.startswith(f"{shorter.events_topic}: retention.ms is 604799999")


def test_topics_that_limit_event_times(
    bootstrap_servers: str, make_topic: MakeTopic, topology: Topology
) -> None:
    """Each setting is said with the topics that have it, its value, and the command that lifts it:
    by the worker, by `doctor`, and before a replay. Limits of the time of writing are none.
    """
    make_topic("source", 1)
    week = str(7 * 86_400_000)
    make_topic("statistics", 1, {"retention.ms": week})
    make_topic("late", 1, {"retention.ms": week, "message.timestamp.type": "LogAppendTime"})
    letters = make_topic(
        "dead-letters", 1, {"retention.ms": week, "message.timestamp.before.max.ms": "3600000"}
    )
    output = topology.output_topic
    remarks = remarks_on_times(bootstrap_servers, replace(topology, ahead="1d"))
    messages = [remark.message for remark in remarks]
    assert [message.partition(", and")[0] for message in messages] == [
        f"{output}, {letters}: retention.ms is {week} (7d)",
        f"{output}, {letters}: message.timestamp.after.max.ms is 3600000 (1h)",
        f"{letters}: message.timestamp.before.max.ms is 3600000 (1h)",
    ]
    assert f"--entity-name {output} --add-config retention.ms=-1`, and so on." in remarks[0].advice
    assert len(remarks_on_times(bootstrap_servers, replace(topology, ahead="1h"))) == 2
    found = list(limited_times(bootstrap_servers, topology))
    assert [it.found for it in found] == [messages[0], messages[2]]


def test_a_record_that_its_topic_refuses(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    """The error names the topic and the setting, also where that was changed while a worker runs;
    a record that is too large for its topic is not too large for our producer.
    """
    topic = make_topic("small", 1, {"max.message.bytes": "1000"})
    with pytest.raises(SlidestatError, match=f"{topic!r} takes no record with the time") as raised:
        send_at(bootstrap_servers, topic, now_ms() + 7_200_000)
    assert f"--entity-name {topic}" in raised.value.advice
    assert "message.timestamp.after.max.ms=9223372036854775807" in raised.value.advice
    producer = BulkProducer(bootstrap_servers)
    producer.produce(topic, 0, b"k", os.urandom(4_000))
    with pytest.raises(SlidestatError, match=f"{topic!r} takes no batch of records") as raised:
        asyncio.run(producer.flush())
    assert f"--entity-name {topic} --add-config max.message.bytes=" in raised.value.advice
    with pytest.raises(SlidestatError, match="cannot be sent") as raised:
        producer.produce(topic, 0, b"k", bytes(MAX_MESSAGE_BYTES + 1))
    assert "at most 8 MiB" in raised.value.advice
