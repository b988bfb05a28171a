"""Who moves records by their key, on a real broker without a worker."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from slidestat.admin.worker_topics import prepare_topics
from slidestat.declare.declared import require_one_worker
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.transactional_producer import LostError
from slidestat.repartition import mover
from slidestat.repartition.elected_mover import ELECTING_PARTITION, ElectedMover
from slidestat.repartition.moved_from import Move
from slidestat.repartition.mover import Mover
from tests.broker.workers import Record, read_topic, wait_until
from tests.conftest import MakeTopic

NOON = 1_700_000_000_000
PARTITIONS = 7
# Of Kafka's own tests of its hash (UtilsTest.testMurmur2), which is of 32 bits with a sign.
MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.fixture
def topology(topic_name: str, make_topic: MakeTopic) -> Topology:
    return Topology(
        name=topic_name,
        source=make_topic("source", PARTITIONS),
        span="1h",
        every="1m",
        lateness="5s",
        repartition=True,
    )


def event(key: str, place: int) -> bytes:
    return b'{"key":"%s","time":%d,"value":1}' % (key.encode(), NOON + 1_000 * place)


def send(bootstrap: str, topology: Topology, values: Sequence[bytes], partition: int) -> None:
    producer, source = Producer({"bootstrap.servers": bootstrap}), topology.source
    # A broker may not know of a partition yet that was just added, and the client gives up at once.
    wait_until(
        lambda: partition in producer.list_topics(source, 10).topics[source].partitions,
        f"{source} has partition {partition}",
        30,
    )
    errors: list[KafkaError | None] = []
    for place, value in enumerate(values):
        headers = [("trace", b"%d" % place), ("trace", b"again"), ("none", None)]
        producer.produce(
            source,
            value,
            b"own",
            partition,
            timestamp=NOON + place,
            headers=headers,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(30) == 0
    assert errors == [None] * len(values)


@contextmanager
def moving(move: Move) -> Iterator[threading.Event]:
    """A mover at work in a thread, with an event that is set once it has ended; what ended it is
    raised, also where it was waited for in vain.
    """
    stop, ended = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            Mover(move, lambda: not stop.is_set()).run()
        except (SlidestatError, KafkaException, LostError) as error:
            errors.append(error)
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join(30)
        if errors:
            raise errors[0]


@contextmanager
def elected(move: Move) -> Iterator[None]:
    """A mover that begins anew where the brokers ended it for a while, as those of workers do."""
    mover = ElectedMover(move)
    mover.elect([ELECTING_PARTITION])
    try:
        yield
    finally:
        mover.stop()
        if mover.failure is not None:
            raise mover.failure


def moved(bootstrap: str, topology: Topology) -> list[tuple[int, Record]]:
    found = read_topic(bootstrap, topology.events_topic)
    return [(partition, record) for partition, own in found.items() for record in own]


def until_moved(bootstrap: str, topology: Topology, count: int) -> None:
    wait_until(lambda: len(moved(bootstrap, topology)) >= count, f"{count} are moved", 30)


def test_records_lie_where_kafka_s_own_clients_put_their_key(
    bootstrap_servers: str, topology: Topology
) -> None:
    """Under that key; with their value, headers and timestamps. One without a key stays as it is.
    What was moved is not moved again.
    """
    assert prepare_topics(bootstrap_servers, topology) == PARTITIONS
    values = [event(key, place) for place, key in enumerate(MURMUR2)]
    send(bootstrap_servers, topology, [*values, b"no event"], 3)
    move = Move(bootstrap_servers, topology)
    for count in (len(values) + 1, len(values) + 2):
        with moving(move):
            until_moved(bootstrap_servers, topology, count)
        send(bootstrap_servers, topology, [event("foobar", 60)], 5)
    found = moved(bootstrap_servers, topology)
    assert sorted(record.value or b"" for _, record in found) == sorted(
        [*values, b"no event", event("foobar", 60)]
    )
    for partition, record in found:
        key = (record.key or b"").decode()
        if record.value == b"no event":
            assert (partition, key, record.timestamp) == (6, "own", NOON + 6)
            continue
        assert partition == (MURMUR2[key] & 0x7FFFFFFF) % PARTITIONS
        assert b'"key":"%s"' % key.encode() in (record.value or b"")
        if record.value in values:
            place = values.index(record.value)
            assert record.timestamp == NOON + place
        assert record.headers == {"trace": b"again", "none": None}


def test_a_second_mover_fences_the_first(bootstrap_servers: str, topology: Topology) -> None:
    """One that takes itself for the only one still, after a pause, moves nothing more."""
    prepare_topics(bootstrap_servers, topology)
    move = Move(bootstrap_servers, topology)
    values = [event(f"k{place}", place) for place in range(900)]
    send(bootstrap_servers, topology, values[:300], 0)
    threads = threading.active_count()

    def fenced() -> None:
        with moving(move):
            until_moved(bootstrap_servers, topology, 300)
            with moving(move):
                send(bootstrap_servers, topology, values[300:], 1)
                until_moved(bootstrap_servers, topology, 900)
            send(bootstrap_servers, topology, [event("k", 999)], 2)
            wait_until(lambda: threading.active_count() == threads, "the first one ends", 30)

    with pytest.raises(KafkaException):
        fenced()
    assert sorted(r.value or b"" for _, r in moved(bootstrap_servers, topology)) == sorted(values)


def test_a_topic_of_somebody_else_is_refused(
    bootstrap_servers: str, topology: Topology, make_topic: MakeTopic
) -> None:
    """An empty one is taken in hand; one with records is not, by no worker."""
    topic = make_topic("repartition", PARTITIONS)
    assert topic == topology.events_topic
    prepare_topics(bootstrap_servers, topology)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"theirs", partition=2)
    producer.flush(30)
    for refused in (
        lambda: prepare_topics(bootstrap_servers, topology),
        Mover(Move(bootstrap_servers, topology), lambda: True).run,
    ):
        with pytest.raises(SlidestatError, match="another program wrote them"):
            refused()


def test_another_key_or_source_is_refused(
    bootstrap_servers: str, topology: Topology, make_topic: MakeTopic
) -> None:
    """Records of one key would lie in two partitions of the topic."""
    prepare_topics(bootstrap_servers, topology)
    send(bootstrap_servers, topology, [event("a", 0)], 0)
    with moving(Move(bootstrap_servers, topology)):
        until_moved(bootstrap_servers, topology, 1)
    prepare_topics(bootstrap_servers, topology)
    other = make_topic("other", PARTITIONS)
    for changed, told in (
        (replace(topology, key_field="who"), "by who on 7"),
        (replace(topology, key_field="a", computed=["lower(key) as a"]), "by a (computed, "),
        (replace(topology, source=other), f"knows of none of '{other}'"),
    ):
        with pytest.raises(SlidestatError) as raised:
            prepare_topics(bootstrap_servers, changed)
        assert told in raised.value.message
        assert "another name" in raised.value.advice


def test_partitions_that_the_source_gets_are_moved_too(
    bootstrap_servers: str, topology: Topology, admin: AdminClient
) -> None:
    """While it runs; keys stay where they are."""
    prepare_topics(bootstrap_servers, topology)
    send(bootstrap_servers, topology, [event("foobar", 0)], 0)
    with elected(Move(bootstrap_servers, topology)):
        until_moved(bootstrap_servers, topology, 1)
        added = NewPartitions(topology.source, PARTITIONS + 2)
        admin.create_partitions([added])[topology.source].result(30)
        send(bootstrap_servers, topology, [event("foobar", 1)], PARTITIONS + 1)
        until_moved(bootstrap_servers, topology, 2)
    assert len({partition for partition, _ in moved(bootstrap_servers, topology)}) == 1
    assert prepare_topics(bootstrap_servers, topology) == PARTITIONS


@pytest.mark.parametrize("which", ["source", "events_topic"])
def test_nothing_is_moved_where_a_topic_was_made_anew(
    bootstrap_servers: str,
    topology: Topology,
    admin: AdminClient,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
) -> None:
    """Between two looks at the topics, whose offsets go beyond those that were moved."""
    monkeypatch.setattr(mover, "_LOOK_S", 600.0)
    prepare_topics(bootstrap_servers, topology)
    move, topic = Move(bootstrap_servers, topology), getattr(topology, which)
    old = [event("old", place) for place in range(20)]
    send(bootstrap_servers, topology, old, 0)

    def make_anew() -> None:
        with moving(move) as ended:
            until_moved(bootstrap_servers, topology, len(old))
            admin.delete_topics([topic])[topic].result(30)
            wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, "it is gone", 30)
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            send(bootstrap_servers, topology, [event("new", n) for n in range(40)], 0)
            wait_until(ended.is_set, "the mover ends", 60)

    # It may also see that the topic is gone, or empty, before there are other records.
    with pytest.raises((SlidestatError, LostError, KafkaException)):
        make_anew()
    left = old if which == "source" else []
    assert [record.value for _, record in moved(bootstrap_servers, topology)] == left


def test_topologies_of_a_group_share_what_is_moved(topology: Topology) -> None:
    """If it is moved by the same key and time."""
    other = replace(topology, name="other", group=topology.group_name, span="2h")
    require_one_worker([topology, other])
    for changed in (
        replace(other, key_field="who"),
        replace(other, time_field="at"),
        replace(other, source="elsewhere"),
    ):
        with pytest.raises(SlidestatError, match="differ in their"):
            require_one_worker([topology, changed])


def test_records_that_are_gone_before_they_were_moved(
    bootstrap_servers: str, topology: Topology, admin: AdminClient
) -> None:
    """They end it, unless loss is allowed: then it goes on with what there is."""
    prepare_topics(bootstrap_servers, topology)
    move = Move(bootstrap_servers, topology)
    send(bootstrap_servers, topology, [event("a", 0)], 4)
    with moving(move):
        until_moved(bootstrap_servers, topology, 1)
    send(bootstrap_servers, topology, [event("b", place) for place in range(1, 9)], 4)
    place = TopicPartition(topology.source, 4, 5)
    admin.delete_records([place])[place].result(30)
    with pytest.raises(SlidestatError, match=r"4 records of .*/4, from 1 on, were deleted"):
        Mover(move, lambda: True).run()
    with moving(replace(move, allow_loss=True)):
        until_moved(bootstrap_servers, topology, 5)
    found = sorted(record.value or b"" for _, record in moved(bootstrap_servers, topology))
    assert found == [event("a", 0), *[event("b", place) for place in range(5, 9)]]


@pytest.mark.parametrize("is_read", [False, True])
def test_an_open_transaction_is_no_end(
    bootstrap_servers: str, topology: Topology, *, is_read: bool
) -> None:
    """What lies behind it is waited for, and goes before the records of others that are later;
    also where the partition had been read to its end before it began.
    """
    prepare_topics(bootstrap_servers, topology)
    for partition in range(PARTITIONS):
        send(bootstrap_servers, topology, [event("early", 0)], partition)
    hanging = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": topology.name,
            "log_level": 0,
        }
    )
    hanging.init_transactions(30)
    with ExitStack() as stack:
        if is_read:
            stack.enter_context(moving(Move(bootstrap_servers, topology)))
            until_moved(bootstrap_servers, topology, PARTITIONS)
            time.sleep(1)
        hanging.begin_transaction()
        hanging.produce(topology.source, event("never", 1), b"own", 3)
        hanging.flush(30)
        send(bootstrap_servers, topology, [event("behind", place) for place in range(2, 50)], 3)
        time.sleep(1)
        send(bootstrap_servers, topology, [event("later", place) for place in range(50, 100)], 0)
        if not is_read:
            stack.enter_context(moving(Move(bootstrap_servers, topology)))
        time.sleep(3)
        keys = {record.key for _, record in moved(bootstrap_servers, topology)}
        assert keys <= {b"early"}
        hanging.abort_transaction(30)
        until_moved(bootstrap_servers, topology, PARTITIONS + 98)
    assert len(moved(bootstrap_servers, topology)) == PARTITIONS + 98
