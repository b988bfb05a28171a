"""The stored state of one key: what it has absorbed, and its synopses' bytes.

    magic "sk", version u8, number of synopses u8, then little-endian
    watermark i64   every on-time event with time <= watermark ...
    offset i64      ... that lies at or before this offset is in the synopses
    last_time i64   the newest event's time
    number i64      how many events it has taken in
    length u32 of each synopsis, then the synopses' bytes

A redelivered record is one at or before `offset` whose time is not above `watermark`: it is in the
synopses already and is skipped. That makes the state effectively-once over at-least-once delivery.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from app.errors import SlidestatError

_MAGIC = b"sk"
_VERSION = 1
_HEAD = struct.Struct("<2sBBqqqq")
_NEWER = "Run the version that wrote it, or reset the topology's state."


class KeyState(NamedTuple):
    """A key's state taken apart."""

    watermark: int
    offset: int
    last_time: int
    number: int
    synopses: tuple[bytes, ...]


def encode_key_state(
    watermark: int, offset: int, last_time: int, number: int, synopses: Sequence[bytes]
) -> bytes:
    """The bytes that the table, the changelog and recovery share."""
    count = len(synopses)
    return b"".join(
        (
            _HEAD.pack(_MAGIC, _VERSION, count, watermark, offset, last_time, number),
            struct.pack(f"<{count}I", *map(len, synopses)),
            *synopses,
        )
    )


def decode_key_state(state: bytes) -> KeyState:
    """Take a state apart; raises SlidestatError for bytes that are not one."""
    count, watermark, offset, last_time, number = _read_head(state)
    start = _HEAD.size + 4 * count
    if len(state) < start:
        raise _damaged()
    lengths = struct.unpack_from(f"<{count}I", state, _HEAD.size)
    if len(state) != start + sum(lengths):
        raise _damaged()
    synopses = []
    for length in lengths:
        synopses.append(state[start : start + length])
        start += length
    return KeyState(watermark, offset, last_time, number, tuple(synopses))


class KeyClock(NamedTuple):
    """When a key's state stands."""

    watermark: int
    offset: int
    last_time: int


def read_clock(state: bytes) -> KeyClock:
    """The state's times without taking its synopses apart: for scans.

    Raises SlidestatError for bytes that do not begin as a state.
    """
    return KeyClock(*_read_head(state)[1:4])


def _read_head(state: bytes) -> tuple[int, int, int, int, int]:
    """(number of synopses, watermark, offset, last_time, number of events)."""
    if len(state) < _HEAD.size or state[:2] != _MAGIC:
        raise _damaged()
    _, version, count, watermark, offset, last_time, number = _HEAD.unpack_from(state)
    if version > _VERSION:
        raise SlidestatError(f"A stored key state has version {version}.", _NEWER)
    return count, watermark, offset, last_time, number


def _damaged() -> SlidestatError:
    return SlidestatError("A stored key state is damaged.", "Delete the worker's data folder.")
