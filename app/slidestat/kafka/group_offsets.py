"""Read a group's committed offsets without joining it."""

import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from slidestat.kafka.clients import client_config

_TIMEOUT_S = 5.0
_PAUSE_S = 0.2
# What a broker that has just started, or has just taken a group over, answers for a moment.
PASSING_ERRORS = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._WAIT_COORD,
    }
)


class Committed(NamedTuple):
    """Up to where a partition is done, and the note beside that."""

    offset: int
    note: str


def group_offsets(
    bootstrap: str, group: str, topic: str, partitions: int, *, waits: bool = True
) -> dict[int, Committed]:
    """Return a group's committed offsets of a topic, by partition; none for one without an offset.

    One request for all. Raises KafkaException if the broker does not say within 5 s or so; it does
    not while a transaction is open that commits such offsets, unless `waits` is False: then those
    before it are returned.
    """
    isolation = "read_committed" if waits else "read_uncommitted"
    config = {**client_config(bootstrap), "group.id": group, "isolation.level": isolation}
    consumer = Consumer(config)
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while True:
            try:
                return _asked(consumer, topic, partitions)
            except KafkaException as error:
                if error.args[0].code() not in PASSING_ERRORS or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
    finally:
        consumer.close()


def _asked(consumer: Consumer, topic: str, partitions: int) -> dict[int, Committed]:
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    committed = {}
    for found in consumer.committed(wanted, timeout=_TIMEOUT_S):
        if found.error is not None:
            raise KafkaException(found.error)
        if found.offset >= 0:
            committed[found.partition] = Committed(found.offset, _note(found))
    return committed


def _note(found: TopicPartition) -> str:
    try:
        return found.metadata or ""
    except UnicodeDecodeError:  # Somebody else's: ours are ASCII.
        return ""
