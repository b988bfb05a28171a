"""Read what is on a topic now, to its end, without joining a group."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from slidestat.kafka.clients import client_config
from slidestat.kafka.read.offset_bounds import offset_bounds

_FETCH_RECORDS = 10_000
_WAIT_S = 0.05
# A fetch from an end is answered after this long: at every start of a scan, and at its end, the
# partitions that come next wait behind it.
_AT_END_MS = 10
_SILENCE_S = 30.0


def open_scanner(bootstrap: str, *, must_be_whole: bool = False) -> Consumer:
    """Return a consumer for `scan` and for requests for offsets; the caller closes it.

    Where the broker has deleted the next records, it continues with the first one that there is;
    with `must_be_whole`, `scan` raises KafkaException instead.
    """
    return Consumer(
        {
            **client_config(bootstrap),
            "group.id": "slidestat-scan",  # Required, and never used: nothing is committed.
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": _AT_END_MS,
            "auto.offset.reset": "error" if must_be_whole else "earliest",
            "isolation.level": "read_committed",
        }
    )


def concerns_group(kafka_error: KafkaError) -> bool:
    """Return whether an error is of the group alone, which the client asks for although nothing is
    read by it.
    """
    return kafka_error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def scan(consumer: Consumer, topic: str, starts: Mapping[int, int]) -> Iterator[Message]:
    """Yield the records of a topic from these offsets by partition to the ends that they have now.

    Each partition's in order. Raises KafkaException if the broker fails or is silent for 30 s.
    """
    ranges = {}
    for partition, start in starts.items():
        first, end = offset_bounds(consumer, topic, partition)
        if first < end:
            ranges[partition] = (start, end)
    yield from scan_ranges(consumer, topic, ranges)


def scan_ranges(
    consumer: Consumer,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    *,
    silence_s: float = _SILENCE_S,
) -> Iterator[Message]:
    """Yield the records of a topic from one offset to before another, by partition. Raises
    KafkaException if the broker fails or is silent for `silence_s`.
    """
    ends = {partition: end for partition, (start, end) in ranges.items() if start < end}
    if not ends:
        return
    consumer.assign([TopicPartition(topic, partition, ranges[partition][0]) for partition in ends])
    # A short range is all there once as many have come, and what lies behind it is not waited for.
    most = min(_FETCH_RECORDS, sum(ends[number] - ranges[number][0] for number in ends))
    deadline = time.monotonic() + silence_s
    while ends:
        messages = consumer.consume(most, _WAIT_S)
        if messages:
            deadline = time.monotonic() + silence_s
        elif time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        for message in messages:
            error = message.error()
            if error is not None and concerns_group(error):
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            if error is None and offset < ends.get(partition, 0):
                yield message
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            # The end may lie behind the last record: transactions leave marks that are none.
            if error is not None or offset + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
