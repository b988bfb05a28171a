"""The offsets between which a partition's records lie, also of a topic that was just made."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TIMEOUT_S = 30.0
# The errors of a broker, or the client, for a topic that is not known there yet.
_NOT_KNOWN_YET = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
_KNOWN_WITHIN_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.8


def offset_bounds(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset that the broker still has and the one after the last. A partition
    that is not known, or has no leader, is asked for again for 5 s.

    Raises KafkaException for what lasts, and after 30 s without an answer.
    """
    place = TopicPartition(topic, partition)
    deadline = time.monotonic() + _KNOWN_WITHIN_S
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_KNOWN_YET or time.monotonic() > deadline:
                raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        else:
            return low, high
