"""What a mover does where brokers, or its client, hold up its transactions, without a broker."""

import threading
from collections.abc import Iterator
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from slidestat import pauses
from slidestat.declare.topology import Topology
from slidestat.kafka import transactional_producer
from slidestat.kafka.transactional_producer import LostError
from slidestat.log import logging_to_stderr
from slidestat.repartition.mover import Transactions

TOPOLOGY = Topology(name="t", source="s", span="1h", every="1m", repartition=True, lateness="5s")
PASSING = KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True))


def seconds(each: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += each


def test_transactions_that_are_held_up_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each half minute, with what to look at: nothing else shows that nothing is moved."""
    clock = seconds(5.0)
    monkeypatch.setattr(pauses.time, "monotonic", lambda: next(clock))
    client = mock.Mock()
    with mock.patch("slidestat.repartition.mover.Producer", return_value=client):
        transactions = Transactions("nowhere", TOPOLOGY, lambda: True)
    client.init_transactions.side_effect = [*4 * [PASSING], None]
    with logging_to_stderr():
        transactions.take_over()
        assert not capsys.readouterr().err
        client.init_transactions.side_effect = [*14 * [PASSING], None]
        transactions.take_over()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("nothing is moved to t-repartition" in line for line in lines)
    assert all("the topic __transaction_state" in line for line in lines)


def test_a_client_that_does_not_return_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the group's coordinator was removed from the cluster: a new mover takes over, and
    nothing is committed meanwhile. (confluentinc/librdkafka 5456, 5511)
    """
    monkeypatch.setattr(transactional_producer, "LONGEST_CALL_S", 0.05)
    client, returns = mock.Mock(), threading.Event()
    with mock.patch("slidestat.repartition.mover.Producer", return_value=client):
        transactions = Transactions("nowhere", TOPOLOGY, lambda: True)
    client.send_offsets_to_transaction.side_effect = lambda *_: returns.wait()
    with pytest.raises(LostError, match="has not returned from a call"):
        transactions.commit([], None, pytest.fail)
    returns.set()
    client.commit_transaction.assert_not_called()
    client.send_offsets_to_transaction.side_effect = [PASSING, None]
    transactions.commit([], None, lambda: None)
    client.commit_transaction.assert_called_once()
    client.send_offsets_to_transaction.side_effect = KafkaException(KafkaError(KafkaError._FENCED))
    with pytest.raises(KafkaException):
        transactions.commit([], None, pytest.fail)
