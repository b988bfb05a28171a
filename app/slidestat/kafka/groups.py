"""Consumer groups, as the broker sees them."""

from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client
from slidestat.kafka.retries import ask_again
from slidestat.kafka.settings import client_config

_DESCRIBED_WITHIN_S = 30.0
_ENDED = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def count_workers(bootstrap: str, group: str) -> int:
    """Return how many workers a group has now; one that was killed is in it for some seconds."""
    admin = admin_client(bootstrap)  # It must outlive what it is waited for.
    try:
        found = ask_again(
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
    bootstrap: str, group: str, places: Iterable[tuple[str, int]], *, waits: bool = True
) -> dict[tuple[str, int], Committed]:
    """Return a group's committed offsets of partitions; none for one without an offset.

    One request for all. Raises KafkaException if the broker does not answer within 5 s or so; it
    does not while a transaction is open that commits such offsets, unless `waits` is False: then
    those before it are returned.
    """
    isolation = "read_committed" if waits else "read_uncommitted"
    config = {**client_config(bootstrap), "group.id": group, "isolation.level": isolation}
    with closing(Consumer(config)) as consumer:
        return ask_again(lambda: _asked(consumer, places), _ANSWERED_WITHIN_S)


def _asked(
    consumer: Consumer, places: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], Committed]:
    wanted = [TopicPartition(topic, number) for topic, number in places]
    committed = {}
    for found in consumer.committed(wanted, timeout=_ANSWERED_WITHIN_S):
        if found.error is not None:
            raise KafkaException(found.error)
        if found.offset >= 0:
            committed[found.topic, found.partition] = Committed(found.offset, _note(found))
    return committed


def _note(found: TopicPartition) -> str:
    try:
        return found.metadata or ""
    except UnicodeDecodeError:  # Written by another program: ours are ASCII.
        return ""
