"""A transaction that the brokers refuse, give up, or cannot be told of is never half visible."""

import asyncio
import os
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from slidestat.errors import SlidestatError
from slidestat.faust.exactly_once import PartitionTransactions
from slidestat.kafka import transactional_producer
from slidestat.kafka.producer import SETTINGS
from slidestat.kafka.transactional_producer import FencedError, LostError, TransactionalProducer
from slidestat.local.broker import LocalBroker
from tests.broker.workers import read_topic, wait_until

# Where the brokers look that often for transactions that are open for longer than that.
TIMEOUT_MS, LOOK_MS = 2_000, 500


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    """A broker that gives a transaction up after two seconds, and clients that ask for that."""
    monkeypatch.setattr(transactional_producer, "_TIMEOUT_MS", TIMEOUT_MS)
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(LOOK_MS)}
    with LocalBroker(secured_settings=often) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
        yield broker


async def begun(bootstrap: str, topic: str, value: bytes) -> TransactionalProducer:
    """A producer that has taken over, and queued a record."""
    producer = TransactionalProducer(bootstrap, f"of-{topic}")
    await producer.take_over(lambda: True)
    producer.produce(topic, 0, b"k", value)
    return producer


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    """What readers of committed records see."""
    return [record.value for record in read_topic(bootstrap, topic)[0]]


@pytest.mark.asyncio
async def test_what_fills_no_request_is_sent_before_the_commit(
    make_topic: Callable[..., str], bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word: of many partitions, commits would wait for one after the other."""
    monkeypatch.setitem(SETTINGS, "linger.ms", 500_000)
    topic = make_topic("unasked", 1)
    producer = await begun(bootstrap_servers, topic, b"v")
    async with asyncio.timeout(30):
        while producer._unacknowledged():
            producer._poll(0.01)
            await asyncio.sleep(0)
    await producer.commit()
    assert committed(bootstrap_servers, topic) == [b"v"]


@pytest.mark.asyncio
async def test_one_that_was_open_for_too_long(impatient: LocalBroker) -> None:
    """Its producer is fenced off, also for what it queues afterwards; the next one goes on."""
    bootstrap = impatient.bootstrap_servers
    slow = await begun(bootstrap, "t", b"slow")
    await slow.flush()
    await asyncio.sleep((TIMEOUT_MS + 3 * LOOK_MS) / 1000)
    slow.produce("t", 0, b"k", b"more")
    with pytest.raises(FencedError):
        await slow.commit()
    slow.produce("t", 0, b"k", b"yet more")
    with pytest.raises(FencedError):
        await slow.commit()
    await (await begun(bootstrap, "t", b"next")).commit()
    assert committed(bootstrap, "t") == [b"next"]


@pytest.mark.asyncio
async def test_one_that_the_brokers_were_away_for(impatient: LocalBroker) -> None:
    """Its records expire with it: that is no refusal of theirs, and the next one goes on."""
    bootstrap = impatient.bootstrap_servers
    cut_off = await begun(bootstrap, "t", b"first")
    await cut_off.commit()
    impatient.kill()
    cut_off.produce("t", 0, b"k", b"second")
    with pytest.raises(LostError, match="timed out"):
        await asyncio.wait_for(cut_off.commit(), 30)
    impatient.restart()
    await (await begun(bootstrap, "t", b"next")).commit()
    assert committed(bootstrap, "t") == [b"first", b"next"]


@pytest.mark.asyncio
async def test_one_of_a_record_that_is_refused(
    bootstrap_servers: str, make_topic: Callable[..., str]
) -> None:
    """The reason is told, nothing of it is visible, and once the topic takes the record the next
    producer commits it.
    """
    topic = make_topic("refusing", 1, {"max.message.bytes": "1000"})
    large = os.urandom(10_000)
    refused = await begun(bootstrap_servers, topic, large)
    refused.produce(topic, 0, b"k", b"small")
    with pytest.raises(SlidestatError, match="takes no batch of records") as told:
        await refused.commit()
    assert topic in told.value.message
    assert committed(bootstrap_servers, topic) == []
    takes_all = ConfigEntry(
        "max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[takes_all])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result()
    await (await begun(bootstrap_servers, topic, large)).commit()
    assert committed(bootstrap_servers, topic) == [large]


@pytest.mark.asyncio
async def test_one_of_a_zombie(bootstrap_servers: str, make_topic: Callable[..., str]) -> None:
    """What it had written is aborted before its successor goes on, and it commits nothing more."""
    topic = make_topic("zombie", 1)
    zombie = await begun(bootstrap_servers, topic, b"zombie")
    await zombie.flush()
    owner = await begun(bootstrap_servers, topic, b"owner")
    await owner.commit()
    with pytest.raises(FencedError):
        await zombie.commit()
    assert committed(bootstrap_servers, topic) == [b"owner"]


def test_what_the_client_logs_does_not_pile_up() -> None:
    """While no broker answers and nothing is committed: it would take a core, as librdkafka sorts
    these lines. Those of a partition that was given up are taken in as well.
    """
    nowhere = "127.0.0.1:1"
    of_all = PartitionTransactions(nowhere, "of-nobody-")
    held = [TransactionalProducer(nowhere, f"of-nobody-{partition}") for partition in range(2)]
    of_all._owned.update(enumerate(held))
    of_all.give_up([1])
    wait_until(lambda: min(it._unacknowledged() for it in held) > 50, "lines of the log", 60)
    of_all.listen()
    assert max(producer._unacknowledged() for producer in held) < 50
