"""A record that a broker refuses is an error of who waits for it, in a transaction or without one;
and a transaction that has failed queues nothing more.
"""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from slidestat.errors import EndedError, SlidestatError
from slidestat.faust.exactly_once import PartitionTransactions
from slidestat.kafka import producer as producer_module
from slidestat.kafka.producer import BulkProducer, not_sent
from slidestat.kafka.transactional_producer import FencedError, LostError, TransactionalProducer

TOO_LATE = KafkaError(KafkaError._STATE, "the transaction has failed")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (KafkaError.INVALID_PRODUCER_EPOCH, FencedError),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, LostError),
        (KafkaError.MSG_SIZE_TOO_LARGE, SlidestatError),
    ],
)
async def test_the_first_record_that_fails_is_the_cause(code: int, ends: type[Exception]) -> None:
    """Of a producer that is fenced or lost, what follows is dropped; of one that is refused a
    record, the error is that of any producer.
    """
    client = mock.Mock(flush=lambda _: 0, poll=lambda _: 0)
    client.commit_transaction.side_effect = KafkaException(TOO_LATE)
    client.__len__ = lambda _: 0
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        producer = TransactionalProducer("nowhere", "id")
    producer.produce("t", 0, b"k", b"first")
    message = SimpleNamespace(
        topic=lambda: "t", partition=lambda: 0, key=lambda: b"k", offset=lambda: -1
    )
    producer._delivered(KafkaError(code), cast(Any, message))
    if ends is not SlidestatError:
        producer.produce("t", 0, b"k", b"second")
        assert client.produce.call_count == 1
    with pytest.raises(ends):
        await producer.commit()


@pytest.mark.asyncio
@pytest.mark.parametrize("is_told_late", [False, True])
@pytest.mark.parametrize("others", [[], [KafkaError._PURGE_QUEUE]])
async def test_a_record_that_is_refused_is_told_of(is_told_late: bool, others: list[int]) -> None:
    """With its topic, and what to do about that, also where the transaction's own error comes
    before the record's, or those of records that it takes with it.
    """
    refused = KafkaError(KafkaError.INVALID_TIMESTAMP, "ProduceRequest failed")
    client = mock.Mock(flush=lambda _: 0)
    client.commit_transaction.side_effect = KafkaException(refused)
    client.__len__ = lambda _: 0
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        producer = TransactionalProducer("nowhere", "id")
    message = SimpleNamespace(topic=lambda: "late-ones", partition=lambda: 0)

    def report(_seconds: float) -> int:
        if client.commit_transaction.called or not is_told_late:
            for error in (*map(KafkaError, others), refused):
                producer._delivered(error, cast(Any, message))
        return 0

    producer.produce("late-ones", 0, b"k", b"first")
    client.poll = report
    if not is_told_late:
        client.flush = report
    with pytest.raises(SlidestatError, match="'late-ones' takes no record with the time") as told:
        await producer.commit()
    assert "message.timestamp.before.max.ms" in told.value.advice


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (KafkaError._FATAL, EndedError),
        (KafkaError._PURGE_QUEUE, EndedError),
        (KafkaError._PURGE_INFLIGHT, EndedError),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, EndedError),
        (KafkaError.UNKNOWN_PRODUCER_ID, EndedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SlidestatError),
        (KafkaError.MSG_SIZE_TOO_LARGE, SlidestatError),
    ],
)
def test_a_worker_whose_producer_is_lost_is_started_again(code: int, ends: type[Exception]) -> None:
    """By a parent, too: of a partition that was silent for long, brokers may have forgotten who
    wrote. What a person must correct ends all.
    """
    assert type(not_sent("t", 0, KafkaError(code))) is ends


@pytest.mark.asyncio
@pytest.mark.parametrize("refused_in", [None, 0, 1, 2])
async def test_a_flush_raises_what_any_of_its_waits_was_told(refused_in: int | None) -> None:
    """Also the last one, after which nothing is queued: states that follow would lack outputs."""
    missing = [2, 1, 0]
    client = mock.Mock()
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        producer = BulkProducer("nowhere")

    def flush(_seconds: float) -> int:
        if len(missing) == 3 - (3 if refused_in is None else refused_in):
            message = SimpleNamespace(topic=lambda: "t", partition=lambda: 0)
            producer._delivered(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), cast(Any, message))
        return missing.pop(0)

    client.flush = flush
    if refused_in is None:
        await producer.flush()
        assert not missing
        return
    with pytest.raises(SlidestatError, match="'t'"):
        await producer.flush()


@pytest.mark.asyncio
async def test_who_takes_over_asks_again_while_that_may_help() -> None:
    """And says so where the brokers refuse."""
    passing = KafkaException(KafkaError(KafkaError._TIMED_OUT, "", retriable=True))
    refused = KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no"))
    client = mock.Mock()
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        producer = TransactionalProducer("nowhere", "id")
    client.init_transactions.side_effect = [passing, passing, None]
    await producer.take_over(lambda: True)
    assert client.init_transactions.call_count == 3
    client.init_transactions.side_effect = [passing, refused]
    with pytest.raises(SlidestatError, match="refuse a transaction"):
        await producer.take_over(lambda: True)


@pytest.mark.asyncio
async def test_transactions_that_cannot_begin_are_waited_for() -> None:
    """So that this is told, like records that are not acknowledged."""
    passing = KafkaException(KafkaError(KafkaError._TIMED_OUT, "", retriable=True))
    has_one, tries = threading.Event(), threading.Semaphore(0)

    def begin(_seconds: float) -> None:
        tries.release()
        if not has_one.wait(0.01):
            raise passing

    client = mock.Mock(init_transactions=begin)
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        transactions = PartitionTransactions("nowhere", "id-")
        assert not transactions.waited_s()
        taking = asyncio.ensure_future(transactions.take_over([0, 1]))
        for _ in range(6):
            await asyncio.to_thread(tries.acquire)
        assert transactions.waited_s() > 0
        assert "transactions cannot begin yet" in transactions.waits_for
        has_one.set()
        await taking
    assert not transactions.waited_s()
    assert transactions.waits_for == BulkProducer.waits_for


@pytest.mark.asyncio
async def test_what_has_failed_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that has failed keeps its records until the next owner aborts it: nothing that
    sends them may go on until they are acknowledged, and no batch of a partition waits for all.
    """
    monkeypatch.setattr(producer_module, "FEW_RECORDS", 0)
    flushes: list[float] = []
    client = mock.Mock(poll=lambda _: 0)
    client.__len__ = lambda _: 64 * (len(flushes) < 3)
    client.flush = lambda seconds: flushes.append(seconds) or 1
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        transactions = PartitionTransactions("nowhere", "id-")
        for partition in range(64):
            transactions._owned[partition] = TransactionalProducer("nowhere", f"id-{partition}")
    transactions.send_now()
    assert not flushes
    async with asyncio.timeout(60):
        await transactions.room()
    assert max(flushes) < 0.1
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.asyncio
async def test_what_is_under_way_holds_up_no_batch() -> None:
    """The event loop waits for a millisecond when sending begins, not again for each batch while
    brokers take their time. The thread that sends ends within a second where nobody asks again, as
    a backlog that is read next, or where brokers are away: it is one of the few that commits need.
    """
    flushes: list[float] = []
    answer = threading.Event()

    def flush(seconds: float) -> int:
        flushes.append(seconds)
        if seconds == producer_module._FLUSH_CHECK_S:
            answer.wait(60)
        return 1

    client = mock.Mock(flush=flush)
    client.__len__ = lambda _: 1
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        producer = BulkProducer("nowhere")
    producer.send_now()
    while len(flushes) < 2:
        await asyncio.sleep(0.001)
    for _ in range(3):
        producer.send_now()
    assert flushes == [0.001, 1.0, 0, 0, 0]
    answer.set()
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)
    # Once more: it may have ended before the loop knew, and what came then would wait.
    assert flushes == [0.001, 1.0, 0, 0, 0, 1.0]
