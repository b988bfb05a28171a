"""A sample of a topic: the newest records of each partition, and what they tell of the whole."""

from dataclasses import dataclass

from confluent_kafka import TopicPartition

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import require_topic
from slidestat.kafka.reading import reading
from slidestat.kafka.scan import scan

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class SampledRecord:
    """A record of the sample; `timestamp_ms` is Kafka's."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True)
class Sample:
    """Records in the order of each partition, and how many the topic has in all."""

    topic: str
    partitions: int
    topic_records: int
    records: tuple[SampledRecord, ...]

    @property
    def records_per_second(self) -> float | None:
        """The topic's rate while the sample was written, by Kafka's timestamps; None for a sample
        that tells of none.
        """
        rate = 0.0
        for partition in range(self.partitions):
            times = [r.timestamp_ms for r in self.records if r.partition == partition]
            if len(times) > 1 and max(times) > min(times):
                rate += 1000 * (len(times) - 1) / (max(times) - min(times))
        return rate or None


def sample_topic(bootstrap: str, topic: str, records: int) -> Sample:
    """The newest records of a topic, about `records` of them, as many of each partition.

    Reads without joining a group. Raises SlidestatError for a topic that is missing or empty.
    """
    partitions = require_topic(bootstrap, topic)
    with reading(bootstrap, topic) as consumer:
        starts, total = {}, 0
        for partition in range(partitions):
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=_TIMEOUT_S
            )
            starts[partition] = max(low, high - -(-records // partitions))
            total += high - low
        found = tuple(
            SampledRecord(
                message.partition() or 0,
                _bytes(message.key()),
                _bytes(message.value()),
                message.timestamp()[1],
            )
            for message in scan(consumer, topic, starts)
        )
    if not found:
        raise SlidestatError(
            f"The topic {topic!r} is empty: there is nothing to look at.",
            "Come back when events are on it, or write a topology by hand:"
            " docs/declare-a-topology.md tells how.",
        )
    return Sample(topic, partitions, total, found)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
