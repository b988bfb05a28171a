"""Topics by their ids (KIP-516): one that is deleted and created again has a new id."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    ConfigResource,
    ResourceType,
)

from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config

Asked = Mapping[str, Future[Any]]
"""The descriptions of topics that a client was asked for, by their names."""

# The answer of a broker that keeps no ids, as before Kafka 2.8.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class TopicIdentity:
    """The identity of the topic with a name.

    `topic_id` is "" where the brokers keep none; `without_leader` is the number of its partitions
    that have no leader now.
    """

    topic_id: str
    partitions: int
    without_leader: int = 0


def identities(
    admin: AdminClient, names: Iterable[str], timeout_s: float
) -> dict[str, TopicIdentity]:
    """Return the identities of the topics with these names; names without a topic are left out.

    A request to one broker, under a millisecond. Raises KafkaException where none answers.
    """
    return told(asked_for(admin, names, timeout_s))


def asked_for(admin: AdminClient, names: Iterable[str], timeout_s: float) -> Asked:
    """Return the answers to come, by the names of topics; the request is on its way."""
    return admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout_s)


def told(asked: Asked) -> dict[str, TopicIdentity]:
    """Return the identities that were asked for, once they are known, as `identities` does."""
    found = {}
    for name, answer in asked.items():
        try:
            topic = answer.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            topic_id = str(topic.topic_id)
            found[name] = TopicIdentity(
                "" if topic_id == _NO_ID else topic_id,
                len(topic.partitions),
                sum(partition.leader is None for partition in topic.partitions),
            )
    return found


def are_compacted(admin: AdminClient, names: Iterable[str], timeout_s: float) -> dict[str, bool]:
    """Return whether each topic with one of these names is compacted; names without a topic are
    left out. Raises KafkaException where no broker answers, or this user may not ask.
    """
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not asked:
        return {}
    found = {}
    for resource, answer in admin.describe_configs(asked, request_timeout=timeout_s).items():
        try:
            found[resource.name] = "compact" in answer.result()["cleanup.policy"].value
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def topic_id(bootstrap: str, topic: str) -> str:
    """Return the id of a topic, "" where the brokers keep none; raises SlidestatError if it is not
    there, or no broker answers.
    """
    admin = AdminClient(client_config(bootstrap))
    try:
        found = identities(admin, [topic], _TIMEOUT_S)
    except KafkaException as error:
        raise SlidestatError(
            f"The brokers give no id of the topic {topic!r}: {error.args[0].str().rstrip('.')}.",
            "Check that they are up and what this user may read, and try again.",
        ) from error
    if topic not in found:
        raise SlidestatError(
            f"There is no topic {topic!r} on {bootstrap}.",
            "It was deleted a moment ago: try again.",
        )
    return found[topic].topic_id
