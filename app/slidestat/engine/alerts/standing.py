"""The state of a key's alerts, and its bytes in the key's state.

    version u8, then of each alert that waits or fires, in order of id, little-endian
    id 8 bytes     of its name
    phase u8       bit 0: fires; bit 1: was only likely so far
    ticks u32      for so many emissions in a row it has been true
    since i64      the window end of the first of these; of one that fires, at which it began to

An alert that neither waits nor fires has no entry, and a key without entries no bytes. Entries of
alerts that are no longer declared are dropped when the bytes are next written.
"""

import hashlib
import struct
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from slidestat.errors import SlidestatError

_VERSION = 1
_HEAD = struct.Struct("<B")
_ENTRY = struct.Struct("<8sBIq")
_FIRES, _LIKELY = 1, 2


class Standing(NamedTuple):
    """An alert of a key that waits for more emissions, or fires."""

    is_firing: bool
    is_certain: bool
    ticks: int
    since: int


@cache
def alert_id(name: str) -> bytes:
    """Return the 8 bytes that identify an alert, by its name."""
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def encode_standings(standings: Mapping[bytes, Standing]) -> bytes:
    """Return the bytes of standings by the alerts' ids; b"" if there are none."""
    if not standings:
        return b""
    entries = (
        _ENTRY.pack(
            name,
            _FIRES * standing.is_firing + _LIKELY * (not standing.is_certain),
            standing.ticks,
            standing.since,
        )
        for name, standing in sorted(standings.items())
    )
    return b"".join((_HEAD.pack(_VERSION), *entries))


def decode_standings(data: bytes) -> dict[bytes, Standing]:
    """Read standings; raises SlidestatError for bytes that are none."""
    if not data:
        return {}
    (version,) = _HEAD.unpack_from(data)
    if version > _VERSION:
        raise SlidestatError(
            f"A stored state of alerts has version {version}.",
            "Run the version that wrote it, or reset the topology's state.",
        )
    if (len(data) - _HEAD.size) % _ENTRY.size:
        raise SlidestatError(
            "A stored state of alerts is damaged.", "Delete the worker's data folder."
        )
    return {
        name: Standing(bool(phase & _FIRES), not phase & _LIKELY, ticks, since)
        for name, phase, ticks, since in _ENTRY.iter_unpack(data[_HEAD.size :])
    }
