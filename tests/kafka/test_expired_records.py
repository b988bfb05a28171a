"""Of the records of a key that may expire, the last one arrives."""

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from confluent_kafka import KafkaError

from slidestat.kafka.producer import ExpiringProducer

FIRST, SECOND = b"first", b"second"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("reports", "sent_again"),
    [
        ([(FIRST, True), (SECOND, True)], []),
        ([(FIRST, False), (SECOND, True)], []),
        ([(SECOND, True), (FIRST, False)], []),
        ([(FIRST, True), (SECOND, False)], [SECOND]),
        ([(SECOND, False), (FIRST, True)], [SECOND]),
        ([(FIRST, False), (SECOND, False)], [SECOND]),
    ],
)
async def test_the_last_one_of_a_key_arrives(
    reports: list[tuple[bytes, bool]], sent_again: list[bytes]
) -> None:
    """Whichever of two expire: it is sent again unless it has arrived, and no older one is."""
    client = mock.Mock()
    with mock.patch("slidestat.kafka.producer.Producer", return_value=client):
        producer = ExpiringProducer("nowhere", 5)
    rounds = [reports, [(value, True) for value in sent_again]]

    def flush(_seconds: float) -> int:
        for value, has_arrived in rounds.pop(0):
            message = SimpleNamespace(
                topic=lambda: "t",
                partition=lambda: 0,
                key=lambda: b"k",
                value=lambda value=value: value,
                offset=lambda: 7,
            )
            error = None if has_arrived else KafkaError(KafkaError._MSG_TIMED_OUT)
            producer._delivered(error, cast(Any, message))
        return 0

    client.flush = flush
    producer.produce("t", 0, b"k", FIRST)
    producer.produce("t", 0, b"k", SECOND)
    await producer.flush_while(lambda: True)
    sent = [call.args[1] for call in client.produce.call_args_list]
    assert sent == [FIRST, SECOND, *sent_again]
    assert not producer._queued
