"""Read a group's committed offsets without joining it."""

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from slidestat.kafka.clients import client_config
from slidestat.kafka.coordinator import ask_coordinator

_TIMEOUT_S = 5.0


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
        return ask_coordinator(lambda: _asked(consumer, topic, partitions), _TIMEOUT_S)
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
    except UnicodeDecodeError:  # Of another program: ours are ASCII.
        return ""
