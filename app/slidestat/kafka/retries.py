"""Requests to brokers that are made again, and the errors that pass."""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from slidestat.pauses import Pauses

# Errors that a client retries by itself, and answers of brokers that start, stop, or hand a
# partition or a group over. `KafkaError.retriable` knows of errors of transactions alone.
_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_CACHE,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
# A broker, or the client, does not know a topic that was just made. Nor one that was deleted.
NOT_THERE = frozenset(
    {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
_FIRST_S, _LONGEST_S = 0.05, 2.0

_T = TypeVar("_T")


def passes(error: KafkaError) -> bool:
    """Return whether an error passes without anybody's doing."""
    return error.retriable() or error.code() in _PASSING


def broker_pauses() -> Pauses:
    """Return the pauses between requests to brokers."""
    return Pauses(_FIRST_S, _LONGEST_S)


def ask_again(ask: Callable[[], _T], within_s: float = inf, *, may_be_new: bool = False) -> _T:
    """Return what `ask` returns, asking again while its error passes; with `may_be_new` also while
    the topic is not known.

    Raises KafkaException for another error, and for any after `within_s` seconds.
    """
    deadline, pauses = time.monotonic() + within_s, broker_pauses()
    while True:
        try:
            return ask()
        except KafkaException as error:
            kafka_error: KafkaError = error.args[0]
            may_pass = passes(kafka_error) or (may_be_new and kafka_error.code() in NOT_THERE)
            if not may_pass or time.monotonic() > deadline:
                raise
        time.sleep(pauses.begin())


async def until_answered(ask: Callable[[], _T]) -> _T:
    """Return what `ask`, which blocks in another thread, returns once the brokers answer, however
    long they are away, or the topic is missing; raises KafkaException for what does not pass.
    """
    pauses = broker_pauses()
    while True:
        try:
            return await asyncio.to_thread(ask)
        except KafkaException as error:
            if not passes(error.args[0]) and error.args[0].code() not in NOT_THERE:
                raise
        await asyncio.sleep(pauses.begin())
