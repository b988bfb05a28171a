"""The partition that Kafka's clients choose for a key by default, by its murmur2 hash."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from aiokafka.partitioner import murmur2

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Bytes, Integers

Int32s = npt.NDArray[np.int32]

_SEED, _MIX = 0x9747B28C, 0x5BD1E995
_UINT32, _POSITIVE = 0xFFFFFFFF, 0x7FFFFFFF


def default_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key: Java's default, and librdkafka's `murmur2_random`."""
    place: int = (murmur2(key) & _POSITIVE) % partitions
    return place


def expected_places(keys: Iterable[str], partitions: int) -> dict[str, int]:
    """Return the partition, of `partitions`, on which each expected key must come."""
    return {key: default_partition(key.encode(), partitions) for key in keys}


def partitions_of(keys: BinaryColumn, partitions: int) -> Int32s:
    """Return the partition of each key, int32[n]; 0 of None, which a client would send anywhere."""
    found = np.zeros(len(keys), np.int32)
    _place(keys.buffer, keys.starts, keys.ends, partitions, found)
    return found


@borrowing_kernel
def _place(buffer: Bytes, starts: Integers, ends: Integers, partitions: int, found: Int32s) -> None:
    for row in range(len(starts)):
        if starts[row] <= ends[row]:
            found[row] = (_murmur2(buffer, starts[row], ends[row]) & _POSITIVE) % partitions


@borrowing_kernel
def _murmur2(buffer: Bytes, start: int, end: int) -> int:
    """Return the hash of a span as an unsigned number; a product of two is below 2**63."""
    mixed = _SEED ^ (end - start)
    place = start
    while end - place >= 4:
        word = _word(buffer, place, 4) * _MIX & _UINT32
        word = (word ^ word >> 24) * _MIX & _UINT32
        mixed = (mixed * _MIX & _UINT32) ^ word
        place += 4
    if place < end:
        mixed = (mixed ^ _word(buffer, place, end - place)) * _MIX & _UINT32
    mixed = (mixed ^ mixed >> 13) * _MIX & _UINT32
    return mixed ^ mixed >> 15


@borrowing_kernel
def _word(buffer: Bytes, place: int, size: int) -> int:
    """Return so many bytes as a number, the first being its lowest."""
    word = 0
    for i in range(size):
        word |= int(np.int64(buffer[place + i])) << 8 * i
    return word
