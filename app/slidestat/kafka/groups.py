"""Consumer groups, as the broker sees them."""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.settings import client_config

# Ask a group's coordinator, which may have just started, moved or taken the group over.

_T = TypeVar("_T")

_PAUSE_S = 0.2
_PASSING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._WAIT_COORD,
    }
)


def ask_coordinator(ask: Callable[[], _T], within_s: float) -> _T:
    """Return what `ask` returns, asking again while the coordinator does not answer yet.

    Raises KafkaException for another error, and for any after `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            kafka_error: KafkaError = error.args[0]
            passes = kafka_error.retriable() or kafka_error.code() in _PASSING
            if not passes or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


_DESCRIBED_WITHIN_S = 30.0
_ENDED = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def count_workers(bootstrap: str, group: str) -> int:
    """Return how many workers are members of a group now; one that was killed is, for some
    seconds.
    """
    admin = admin_client(bootstrap)  # It must outlive what it is waited for.
    try:
        found = ask_coordinator(
            lambda: admin.describe_consumer_groups([group])[group].result(_DESCRIBED_WITHIN_S),
            _DESCRIBED_WITHIN_S,
        )
    except KafkaException as error:
        kafka_error: KafkaError = error.args[0]
        if kafka_error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise SlidestatError(
            f"The broker does not describe the group {group}: {kafka_error.name()},"
            f" {kafka_error.str().rstrip('.')}.",
            "Check that it is up and what this user may do, and try again.",
        ) from error
    return 0 if found.state in _ENDED else max(1, len(found.members))


# Read a group's committed offsets without joining it.

_ANSWERED_WITHIN_S = 5.0


class Committed(NamedTuple):
    """The committed offset of a partition, and its metadata."""

    offset: int
    note: str


def group_offsets(
    bootstrap: str, group: str, topic: str, partitions: int, *, waits: bool = True
) -> dict[int, Committed]:
    """Return a group's committed offsets of a topic, by partition; none for one without an offset.

    One request for all. Raises KafkaException if the broker does not answer within 5 s or so; it
    does not while a transaction is open that commits such offsets, unless `waits` is False: then
    those before it are returned.
    """
    isolation = "read_committed" if waits else "read_uncommitted"
    config = {**client_config(bootstrap), "group.id": group, "isolation.level": isolation}
    consumer = Consumer(config)
    try:
        return ask_coordinator(lambda: _asked(consumer, topic, partitions), _ANSWERED_WITHIN_S)
    finally:
        consumer.close()


def _asked(consumer: Consumer, topic: str, partitions: int) -> dict[int, Committed]:
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    committed = {}
    for found in consumer.committed(wanted, timeout=_ANSWERED_WITHIN_S):
        if found.error is not None:
            raise KafkaException(found.error)
        if found.offset >= 0:
            committed[found.partition] = Committed(found.offset, _note(found))
    return committed


def _note(found: TopicPartition) -> str:
    try:
        return found.metadata or ""
    except UnicodeDecodeError:  # Of another program: ours are ASCII.
        return ""
