"""Read what is on a topic now, to its end, without joining a group."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from slidestat.engine.records import Headers
from slidestat.errors import SlidestatError
from slidestat.kafka.retries import ask_again
from slidestat.kafka.settings import client_config

# The offsets between which a partition's records lie, also of a topic that was just made.

TIMEOUT_S = 30.0
_KNOWN_WITHIN_S = 5.0


def offset_bounds(
    consumer: Consumer, topic: str, partition: int, timeout_s: float = TIMEOUT_S
) -> tuple[int, int]:
    """Return the first offset that the broker still has and the one after the last. A partition
    that is not known, or has no leader, is asked for again for 5 s, or `timeout_s` if it is less.

    Raises KafkaException for what lasts, and after `timeout_s` without an answer.
    """
    place = TopicPartition(topic, partition)
    low, high = ask_again(
        lambda: consumer.get_watermark_offsets(place, timeout=timeout_s),
        min(_KNOWN_WITHIN_S, timeout_s),
        may_be_new=True,
    )
    return low, high


_FETCH_RECORDS = 10_000
_WAIT_S = 0.05
# A fetch from an end is answered after this long: at every start of a scan, and at its end, the
# partitions that come next wait behind it.
_AT_END_MS = 10
_SILENCE_S = 30.0


def open_scanner(
    bootstrap: str, settings: Mapping[str, str | int] | None = None, *, must_be_whole: bool = False
) -> Consumer:
    """Return a consumer for `scan` and for requests for offsets, with these further `settings` of
    librdkafka; the caller closes it.

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
            **(settings or {}),
        }
    )


def headers_of(message: Message) -> Headers:
    """Return the headers of a record; none of one that has the name of a header which is no UTF-8.

    Kafka wants UTF-8 and does not check it, and the client cannot tell such headers: it raises an
    error, once, and then gives what ends the process of whoever looks at it.
    """
    try:
        # confluent-kafka's types allow a mapping, which it never gives.
        return cast(Headers, message.headers() or ())
    except SystemError:
        message.set_headers([])
        return ()


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


# A topic read by a command: opened, closed, with errors as messages for the user.


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """Yield a consumer for `scan` and for requests of `topic`'s offsets; it has no group.

    Errors of the broker within the context become a SlidestatError that names the topic.
    """
    with errors_of(topic), closing(open_scanner(bootstrap)) as consumer:
        yield consumer


@contextmanager
def errors_of(topic: str) -> Iterator[None]:
    """Make errors of the broker SlidestatErrors of a topic that cannot be read."""
    try:
        yield
    except KafkaException as error:
        raise SlidestatError(
            f"The topic {topic!r} cannot be read: {error.args[0].str().rstrip('.')}.",
            "Check that the broker is up and what this user may read, and try again.",
        ) from error


# Read a partition backwards from its end, in pieces, for as long as it may take.

# The first piece is small: it is there soon, whatever the broker's pace. The later ones cost less.
_FIRST_RECORDS, _MOST_RECORDS = 500, 10_000
_GROWTH = 4

Clock = Callable[[], float]


class NewestFirst:
    """A partition read from its end towards its oldest record."""

    def __init__(self, consumer: Consumer, topic: str, partition: int) -> None:
        """Ask for the ends; raises KafkaException."""
        self._consumer, self._topic, self._partition = consumer, topic, partition
        self._low, self._start = offset_bounds(consumer, topic, partition)

    @property
    def has_all(self) -> bool:
        """Return whether all records have been given, the oldest one too."""
        return self._start <= self._low

    def pieces(self, until: float, clock: Clock = time.monotonic) -> Iterator[list[Message]]:
        """Yield the newest records, then those before them, and so on to the oldest one; those of a
        piece are in order. A piece that is incomplete at the time `until` is left out, so what is
        yielded has no gap. Raises KafkaException if the broker fails.
        """
        size = _FIRST_RECORDS
        while not self.has_all:
            start = max(self._low, self._start - size)
            piece = []
            try:
                for message in scan_ranges(
                    self._consumer,
                    self._topic,
                    {self._partition: (start, self._start)},
                    silence_s=until - clock(),
                ):
                    piece.append(message)
                    if clock() > until:
                        return
            except KafkaException as error:
                if error.args[0].code() == KafkaError._TIMED_OUT:
                    return
                raise
            self._start = start
            yield piece
            size = min(_GROWTH * size, _MOST_RECORDS)
