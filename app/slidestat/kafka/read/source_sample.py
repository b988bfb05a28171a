"""A look at what a source has: whether any key of it lies in several partitions.

Some records of each partition are read, at places spread evenly over its offsets, without joining a
group: about 20,000 in all, in a few tenths of a second.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, TopicPartition

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import refuse_future
from slidestat.engine.decoding.formats.source_schemas import Registry, framed_by_headers
from slidestat.engine.keys.shared_keys import shared_key
from slidestat.errors import SlidestatError
from slidestat.kafka.groups import group_offsets
from slidestat.kafka.partitioner import default_partition
from slidestat.kafka.read.scan import errors_of, headers_of, open_scanner, scan_ranges

SAMPLE_RECORDS = 20_000
_LEAST_OF_A_PARTITION = 64
_PLACES = 8
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class SourceLook:
    """The part of a topology's source to look at: from `starts` on, by partition (from its first
    record where there is none), to before `ends` (to its last record). `registry` has the schemas
    of its records, if they take any.
    """

    bootstrap: str
    topology: Topology
    partitions: int
    starts: Mapping[int, int]
    ends: Mapping[int, int] | None = None
    registry: Registry | None = None
    by_default: bool = False

    def look(self) -> int:
        """Look at some of the records, and return how many there are.

        Records that are no events are skipped, and those whose schema the registry cannot give now.
        Raises SlidestatError for a key that lies in two partitions, or in another one than it
        must, KafkaException for a broker's error.
        """
        topology = self.topology
        if topology.publishes_partitions or self.partitions == 1:
            return 0
        ranges = {}
        with closing(open_scanner(self.bootstrap)) as consumer:
            for number in range(self.partitions):
                tp = TopicPartition(topology.events_topic, number)
                first, last = consumer.get_watermark_offsets(tp, timeout=_TIMEOUT_S)
                end = last if self.ends is None else min(last, self.ends.get(number, 0))
                ranges[number] = (max(first, self.starts.get(number, first)), end)
            self._compare(_spread(consumer, topology.events_topic, ranges))
        return sum(max(0, end - start) for start, end in ranges.values())

    def _compare(self, messages: Iterator[Message]) -> None:
        topology, registry = self.topology, self.registry
        decoder = EventDecoder(topology)
        if registry is not None:
            decoder = EventDecoder(topology, schemas=registry.schemas)
            messages = _readable(messages, registry)
        may_be_shared = set(topology.publish)
        places: dict[str, int] = {}
        by_partition: dict[int, list[Message]] = {}
        for message in messages:
            by_partition.setdefault(message.partition() or 0, []).append(message)
        for partition, found in by_partition.items():
            values = [message.value() for message in found]
            keys = [message.key() for message in found]
            times = [message.timestamp()[1] for message in found]
            columns = decoder.decode(values, keys, times, [headers_of(it) for it in found])
            if not topology.is_sequence:
                columns = refuse_future(columns, times, topology.ahead_ms)
            for key in set(columns.keys.to_pylist()) - may_be_shared:
                first = places.setdefault(key, partition)
                if first != partition:
                    raise shared_key(topology, key, first, partition)
                default = default_partition(key.encode(), self.partitions)
                if self.by_default and default != partition:
                    raise _placed_otherwise(topology, key, default, partition)


def _placed_otherwise(topology: Topology, key: str, default: int, found: int) -> SlidestatError:
    return SlidestatError(
        f"The key {key!r} ({topology.key_name}) lies on partition {found} of"
        f" {topology.events_topic!r}, and Kafka's clients send it to partition {default} by default"
        " (murmur2), where its rows in files would be counted.",
        "Seed with records of the topic, which have their partitions; or have the producers use the"
        " default partitioner (in librdkafka `partitioner=murmur2_random`) from the topic's first"
        " record on.",
    )


def unread_source(
    bootstrap: str,
    topology: Topology,
    partitions: int,
    ends: Mapping[int, int] | None = None,
    registry: Registry | None = None,
) -> SourceLook:
    """Return what the topology's group has not read yet; SlidestatError if a broker refuses it."""
    source = topology.events_topic
    with errors_of(source):
        places = [(source, number) for number in range(partitions)]
        committed = group_offsets(bootstrap, topology.application_id, places)
    starts = {number: found.offset for (_, number), found in committed.items()}
    return SourceLook(bootstrap, topology, partitions, starts, ends, registry)


def check_source(look: SourceLook) -> int:
    """Look at the source before a worker starts, and return how many records there are. Raises
    SlidestatError for a key that lies in two partitions, and if a broker refuses.
    """
    with errors_of(look.topology.events_topic):
        return look.look()


def _spread(
    consumer: Consumer, topic: str, ranges: Mapping[int, tuple[int, int]]
) -> Iterator[Message]:
    """Yield about SAMPLE_RECORDS records, equally many a partition, spread over its range."""
    of_each = max(_LEAST_OF_A_PARTITION, SAMPLE_RECORDS // len(ranges))
    whole = {p: (start, end) for p, (start, end) in ranges.items() if end - start <= of_each}
    yield from scan_ranges(consumer, topic, whole)
    rest = {p: bounds for p, bounds in ranges.items() if p not in whole}
    length = of_each // _PLACES
    for place in range(_PLACES if rest else 0):
        starts = {
            p: start + place * (end - start - length) // (_PLACES - 1)
            for p, (start, end) in rest.items()
        }
        pieces = {p: (start, start + length) for p, start in starts.items()}
        yield from scan_ranges(consumer, topic, pieces)


def _readable(messages: Iterator[Message], registry: Registry) -> Iterator[Message]:
    """Yield the messages whose schemas are known, or can be got at once."""
    is_silent = False
    for message in messages:
        value = framed_by_headers([message.value()], [headers_of(message)])
        for number in registry.schemas.unknown(value):
            is_silent = is_silent or registry.look_up(number) is not None
        if not registry.schemas.unknown(value):
            yield message
