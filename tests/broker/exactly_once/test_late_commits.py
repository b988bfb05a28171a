"""Transactions of our two producers when a request arrives late, and when the brokers forget them.

A request to end a transaction that is late ends no other one (KIP-890, librdkafka's issue 5423).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.declare.topology import Topology
from slidestat.kafka.transactional_producer import LostError, TransactionalProducer
from slidestat.local.broker import LocalBroker
from slidestat.local.settings import pick_free_ports
from slidestat.repartition.mover import Transactions
from tests.broker.exactly_once.test_exactly_once import BODY, assert_each_once
from tests.broker.front import COMMIT_OFFSETS_IN_TRANSACTION, END_TRANSACTION, Front
from tests.broker.workers import DRAIN_S, Stage, events, produce, read_topic, wait_until

FORGOTTEN_S = 6.0
# As after a week, by default.
FORGETFUL = {
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "5000",
    "producer.id.expiration.check.interval.ms": "500",
}
ARRIVES_S = 1.0


class Place(NamedTuple):
    """A broker behind a front."""

    front: Front
    bootstrap: str

    def topic(self, name: str, partitions: int = 1) -> str:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return name

    def committed(self, topic: str) -> list[bytes | None]:
        return [r.value for own in read_topic(self.bootstrap, topic).values() for r in own]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with ExitStack() as stack:
        (port,) = pick_free_ports(1)
        front = stack.enter_context(Front(port))
        bootstrap = f"127.0.0.1:{front.port}"
        settings = {"advertised.listeners": f"PLAINTEXT://{bootstrap}", **FORGETFUL}
        stack.enter_context(LocalBroker(port=port, secured_settings=settings))
        yield Place(front, bootstrap)


@pytest.mark.asyncio
async def test_a_partitions_transaction(place: Place, topic_name: str) -> None:
    """What follows on a commit in doubt is another producer's, which fences the late request."""
    topic = place.topic(topic_name)

    async def next_producer() -> TransactionalProducer:
        producer = TransactionalProducer(place.bootstrap, topic)
        await producer.take_over(lambda: True)
        return producer

    producer = await next_producer()
    for value in (b"zero", b"one"):
        producer.produce(topic, 0, b"k", value)
        if value == b"one":
            place.front.hold(END_TRANSACTION)
            with pytest.raises(LostError, match="connection was lost"):
                await producer.commit()
            producer = await next_producer()
        else:
            await producer.commit()
    producer.produce(topic, 0, b"k", b"two")
    await producer.flush()
    place.front.release()
    time.sleep(ARRIVES_S)
    assert place.committed(topic) == [b"zero", b"one"]
    await producer.commit()
    assert place.committed(topic) == [b"zero", b"one", b"two"]


@pytest.mark.parametrize("kind", [END_TRANSACTION, COMMIT_OFFSETS_IN_TRANSACTION])
def test_a_movers_transaction(place: Place, topic_name: str, kind: int) -> None:
    """Records and the offset that they came from stay together."""
    source = place.topic(f"{topic_name}-source")
    topology = Topology(
        name=topic_name,
        source=source,
        span="1h",
        every="1m",
        lateness="5s",
        repartition=True,
    )
    topic = place.topic(topology.events_topic)
    group = Consumer({"bootstrap.servers": place.bootstrap, "group.id": topic_name})
    group.subscribe([source])
    # Until it has joined, its generation may be another one at the next moment.
    wait_until(
        lambda: bool(group.poll(0.1) or group.assignment()), "the group has a member", DRAIN_S
    )

    def record(value: bytes) -> Any:
        message = SimpleNamespace(value=lambda: value, headers=list, offset=lambda: 0)
        return cast(Any, (message, "k", 1))

    def commit(one: Transactions, offset: int) -> None:
        at = TopicPartition(source, 0, offset)
        one.commit([at], group.consumer_group_metadata(), lambda: None)

    def committed_offset() -> int:
        return int(group.committed([TopicPartition(source, 0)], 10)[0].offset)

    def next_mover() -> Transactions:
        mover = Transactions(place.bootstrap, topology, lambda: True)
        mover.take_over()
        return mover

    mover = next_mover()
    mover.send([record(b"zero")], 1)
    commit(mover, 1)
    mover.send([record(b"one")], 1)
    place.front.hold(kind)
    with pytest.raises(LostError, match="connection was lost"):
        commit(mover, 2)
    mover = next_mover()
    mover.send([record(b"two")], 1)
    mover._producer.flush()
    place.front.release()
    time.sleep(ARRIVES_S)
    assert (place.committed(topic), committed_offset()) == ([b"zero", b"one"], 2)
    commit(mover, 3)
    assert (place.committed(topic), committed_offset()) == ([b"zero", b"one", b"two"], 3)
    group.close()


def feed(stage: Stage, start: int, partitions: Sequence[int] = (0, 1)) -> None:
    for partition in partitions:
        produce(
            stage.bootstrap,
            stage.topology.source,
            (
                (key, value.replace(b':"k', b':"%d-k' % partition))
                for key, value in events(5_000, start=start, late_share=0.01)
            ),
            partition,
        )


def test_a_worker_goes_on(place: Place, topic_name: str, tmp_path: Path) -> None:
    """After a commit in doubt it takes its partitions over again, by itself, and so after the
    brokers have forgotten the transactional id of a partition that was silent for long. Nothing is
    repeated, and nothing is missing.
    """
    source = place.topic(f"{topic_name}-source", 2)
    stage = Stage(place.bootstrap, tmp_path, topic_name, source, BODY)
    with stage.worker().await_ready() as worker:

        def taken_over_again(times: int) -> None:
            wait_until(
                lambda: worker.said().count("this worker joins its group again") >= times,
                "its partitions are taken over again",
                DRAIN_S,
            )

        place.front.hold(END_TRANSACTION)
        feed(stage, 0)
        assert place.front.has_held.wait(DRAIN_S), worker.said()
        taken_over_again(1)
        feed(stage, 5_000)
        place.front.release()
        stage.await_settled([worker])
        until = time.monotonic() + FORGOTTEN_S
        start = 10_000
        while time.monotonic() < until:
            feed(stage, start, [1])
            start += 5_000
            time.sleep(1)
        feed(stage, start)
        taken_over_again(2)
        stage.await_settled([worker], 2 * DRAIN_S)
        worker.stop()
    assert_each_once(stage)
    stage.check_traces()
