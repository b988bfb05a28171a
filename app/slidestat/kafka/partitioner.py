"""The partition that Kafka's clients choose for a key by default."""

from collections.abc import Iterable

from aiokafka.partitioner import murmur2

_POSITIVE = 0x7FFFFFFF


def default_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key: Java's default, and librdkafka's `murmur2_random`."""
    place: int = (murmur2(key) & _POSITIVE) % partitions
    return place


def expected_places(keys: Iterable[str], partitions: int) -> dict[str, int]:
    """Return the partition on which each expected key must come, of so many."""
    return {key: default_partition(key.encode(), partitions) for key in keys}
