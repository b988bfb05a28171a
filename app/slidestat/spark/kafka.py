"""Topics as jobs find them, and how Spark connects to them."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from slidestat.kafka.connection import require_broker, require_topic
from slidestat.kafka.read.scan import reading
from slidestat.kafka.settings import broker_security, java_settings
from slidestat.kafka.topic_identity import topic_id

# A topic as a job finds it: which one it is, what it still has, what is gone.

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class TopicState:
    """A topic's identity, and of each partition the first offset it has and the next it will give.

    A topic that was deleted and created again has another `identity`.
    """

    name: str
    identity: str
    first: Mapping[int, int]
    end: Mapping[int, int]

    def lost_before(self, read: Mapping[int, int]) -> list[str]:
        """Return a text a partition whose unread records are gone; `read` are next offsets."""
        return [
            f"partition {partition} offsets {read.get(partition, 0):,} to {first - 1:,}"
            for partition, first in sorted(self.first.items())
            if first > read.get(partition, 0)
        ]


def topic_state(bootstrap: str, topic: str) -> TopicState:
    """Ask the brokers for the state of a topic; raises SlidestatError for one that is not there."""
    partitions = require_topic(bootstrap, topic)
    with reading(bootstrap, topic) as consumer:
        identity = topic_id(bootstrap, topic)
        found = {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT_S)
            for partition in range(partitions)
        }
    return TopicState(
        topic,
        identity,
        {partition: first for partition, (first, _) in found.items()},
        {partition: end for partition, (_, end) in found.items()},
    )


def has_topic(bootstrap: str, topic: str) -> bool:
    """Return whether there is such a topic."""
    return topic in require_broker(bootstrap).topics


# Access of Spark's Kafka source to the brokers: by the same settings as every other client.

# After each poll Spark asks where the partition begins and ends, and drops what was fetched beyond
# it: so a poll brings all of a fetch, where Kafka's default is 500 records. A fetch is an object a
# record until it is read through: one of 4 MiB outlives the collections that are cheap.
_FETCHED = {"max.poll.records": "100000", "max.partition.fetch.bytes": str(2**20)}


def kafka_options(bootstrap: str) -> dict[str, str]:
    """Return the options of a reader of committed records; raises SlidestatError for settings that
    are not possible.

    A plan shows options: those with secrets are redacted by the session.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        **_FETCHED,
        **java_settings(broker_security()),
    }
    return {f"kafka.{name}": value for name, value in settings.items()}
