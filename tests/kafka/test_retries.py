"""Requests that are made again: for what passes, with pauses that grow, and for nothing else."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from slidestat.kafka import retries
from slidestat.kafka.retries import ask_again, passes, until_answered
from slidestat.pauses import Pauses


def failing(code: int, times: int) -> Callable[[], int]:
    """A request that fails so many times, and then returns how often it was made."""
    asked = 0

    def ask() -> int:
        nonlocal asked
        asked += 1
        if asked <= times:
            raise KafkaException(KafkaError(code))
        return asked

    return ask


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_S", 0.001)


def test_pauses_grow_up_to_the_longest_and_begin_anew() -> None:
    pauses = Pauses(1.0, 6.0)
    assert pauses.is_over
    for most in (1.0, 2.0, 4.0, 6.0, 6.0):
        assert most / 2 <= pauses.begin() <= most
    assert not pauses.is_over
    pauses.reset()
    assert pauses.begin() <= 1.0


def test_no_two_clients_pause_alike() -> None:
    assert len({Pauses(1.0, 1.0).begin() for _ in range(20)}) > 1


def test_what_passes_is_asked_again() -> None:
    """A broker that starts, stops or gives its partitions away."""
    for code in (KafkaError._TRANSPORT, KafkaError.NOT_COORDINATOR, KafkaError.NETWORK_EXCEPTION):
        assert ask_again(failing(code, 3)) == 4
        assert asyncio.run(until_answered(failing(code, 3))) == 4


def test_what_does_not_pass_is_raised_at_once() -> None:
    """A right that was taken away: a worker waited for it in silence, for good."""
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._FATAL):
        assert not passes(KafkaError(code))
        for call in (ask_again, lambda ask: asyncio.run(until_answered(ask))):
            ask = failing(code, 1)
            with pytest.raises(KafkaException):
                call(ask)
            assert ask() == 2


def test_a_topic_that_is_not_there_may_be_new() -> None:
    """Or deleted: then others find out, and a worker stops with that."""
    code = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert ask_again(failing(code, 2), may_be_new=True) == 3
    assert asyncio.run(until_answered(failing(code, 2))) == 3
    with pytest.raises(KafkaException):
        ask_again(failing(code, 2))


def test_what_lasts_is_raised() -> None:
    with pytest.raises(KafkaException):
        ask_again(failing(KafkaError._TRANSPORT, 1_000_000), 0.01)
