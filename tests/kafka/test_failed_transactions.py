"""A transaction that has failed queues nothing more, and its commit says what it failed of."""

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from slidestat.errors import SlidestatError
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
