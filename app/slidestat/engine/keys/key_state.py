"""The stored state of one key: what it has absorbed, and its synopses' bytes.

    magic "sk", version u8, number of synopses u8, then little-endian
    watermark i64   every on-time event with time <= watermark ...
    offset i64      ... that lies at or before this offset is in the synopses
    last_time i64   the newest event's time
    number i64      how many events it has taken in
    length u32 of each synopsis, then the synopses' bytes

Version 2 has one more length and behind the synopses what the key has used of its quota (quota.py).
It is written where there is such; version 1, for most keys, where there is none. Version 3 has two
more, of the quota and after it of the state of the key's alerts (alerts/alerting.py); it is written
where an alert waits or fires. Version 4 has three more, of both and of what was last written of the
key (emissions/last_written.py); it is written where `emit` or `having` asks for that. All are read.

A redelivered record is one at or before `offset` whose time is not above `watermark`: it is in the
synopses already and is skipped. That makes the state effectively-once over at-least-once delivery.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.statistics.runner import Runner
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Slots
from slidestat.errors import SlidestatError

_MAGIC = b"sk"
_WITHOUT_QUOTA, _WITH_QUOTA, _WITH_ALERTS, _WITH_WRITTEN = 1, 2, 3, 4
_HEAD = struct.Struct("<2sBBqqqq")
_HEAD_FIELDS = 7
FIXED_BYTES, LENGTH_BYTES = _HEAD.size, 4
# A quota's entry: a stretch, what was charged, the last offset.
_ENTRY_BYTES = 24
_NEWER = "Run the version that wrote it, or reset the topology's state."


class KeyState(NamedTuple):
    """A key's state, decoded."""

    watermark: int
    offset: int
    last_time: int
    number: int
    synopses: tuple[bytes, ...]
    used: bytes = b""
    alerts: bytes = b""
    written: bytes = b""


@cache
def _whole_head(blocks: int) -> struct.Struct:
    """Return the struct of a head with the lengths of so many blocks, at most 256."""
    return struct.Struct(f"{_HEAD.format}{blocks}I")


def encode_key_state(
    watermark: int,
    offset: int,
    last_time: int,
    number: int,
    synopses: Sequence[bytes],
    used: bytes = b"",
    alerts: bytes = b"",
    written: bytes = b"",
) -> bytes:
    """Return the bytes that the table, the changelog and recovery share."""
    count = len(synopses)
    version, blocks = (_WITH_QUOTA, (*synopses, used)) if used else (_WITHOUT_QUOTA, synopses)
    if alerts:
        version, blocks = _WITH_ALERTS, (*synopses, used, alerts)
    if written:
        version, blocks = _WITH_WRITTEN, (*synopses, used, alerts, written)
    head = _whole_head(len(blocks)).pack(
        _MAGIC, version, count, watermark, offset, last_time, number, *map(len, blocks)
    )
    return b"".join((head, *blocks))


def encode_key_states(
    clocks: npt.NDArray[np.int64], synopses: Sequence[Sequence[bytes]]
) -> list[bytes]:
    """Return the bytes of G states that have nothing but synopses, as `encode_key_state` does:
    `clocks` int64[G, 4] are the four numbers of each, `synopses` G bytes of each synopsis.
    """
    groups, count = len(clocks), len(synopses)
    size, start = FIXED_BYTES + LENGTH_BYTES * count, FIXED_BYTES - 4 * clocks.itemsize
    heads = np.empty((groups, size), np.uint8)
    heads[:, :start] = list(_MAGIC + bytes((_WITHOUT_QUOTA, count)))
    heads[:, start:FIXED_BYTES] = np.ascontiguousarray(clocks, "<i8").view(np.uint8)
    for place, column in enumerate(synopses):
        lengths = np.fromiter(map(len, column), "<u4", groups)
        end = FIXED_BYTES + LENGTH_BYTES * (place + 1)
        heads[:, end - LENGTH_BYTES : end] = lengths.view(np.uint8).reshape(-1, LENGTH_BYTES)
    text = heads.tobytes()
    own = [text[place : place + size] for place in range(0, len(text), size)]
    return list(map(b"".join, zip(own, *synopses, strict=True)))


def decode_key_state(state: bytes) -> KeyState:
    """Decode a state; raises SlidestatError for bytes that are not one."""
    version, count, watermark, offset, last_time, number = _read_head(state)
    # Each version has one more than the one before.
    blocks = count + max(0, version - _WITHOUT_QUOTA)
    head = _whole_head(blocks)
    start = head.size
    if len(state) < start:
        raise _damaged()
    lengths = head.unpack_from(state)[_HEAD_FIELDS:]
    if len(state) != start + sum(lengths):
        raise _damaged()
    parts = []
    for length in lengths:
        parts.append(state[start : start + length])
        start += length
    written = parts.pop() if version == _WITH_WRITTEN else b""
    alerts = parts.pop() if version >= _WITH_ALERTS else b""
    used = parts.pop() if version >= _WITH_QUOTA else b""
    if len(used) % _ENTRY_BYTES or (version == _WITH_QUOTA and not used):
        raise _damaged()
    if (version == _WITH_ALERTS and not alerts) or (version == _WITH_WRITTEN and not written):
        raise _damaged()
    return KeyState(watermark, offset, last_time, number, tuple(parts), used, alerts, written)


def with_nothing_written(state: bytes, moved_by: int) -> bytes:
    """Return the state of a key of which no emission was ever written, and whose events lie at
    offsets that are larger by `moved_by`.
    """
    found = decode_key_state(state)
    used = np.frombuffer(found.used, "<i8").reshape(-1, _ENTRY_BYTES // 8).copy()
    used[:, -1] += moved_by
    moved = found._replace(offset=found.offset + moved_by, used=used.tobytes(), written=b"")
    return encode_key_state(*moved)


class KeyClock(NamedTuple):
    """The times up to which a key's state has absorbed its events."""

    watermark: int
    offset: int
    last_time: int


def may_have_alerts(state: bytes) -> bool:
    """Return whether an alert of the key may wait or fire. Costs nothing, for scans."""
    version: int = _HEAD.unpack_from(state)[1]
    return version >= _WITH_ALERTS


def number_of_synopses(state: bytes) -> int:
    """Return the number of synopses in a state; raises SlidestatError as `read_clock` does."""
    return _read_head(state)[1]


def read_clock(state: bytes) -> KeyClock:
    """Return the state's times without decoding its synopses.

    Raises SlidestatError for bytes that do not begin as a state.
    """
    return KeyClock(*_read_head(state)[2:5])


def read_clocks(states: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Return the times of many states, int64[n, 3]. Raises SlidestatError as `read_clock`."""
    heads = np.frombuffer(b"".join([state[: _HEAD.size] for state in states]), np.uint8)
    if len(heads) != len(states) * _HEAD.size:
        raise _damaged()
    rows = heads.reshape(-1, _HEAD.size)
    is_known = (rows[:, 2] >= _WITHOUT_QUOTA) & (rows[:, 2] <= _WITH_WRITTEN)
    is_state = (rows[:, :2] == list(_MAGIC)).all(axis=1) & is_known
    for row in np.flatnonzero(~is_state).tolist():
        _read_head(states[row])  # It raises the error.
    first, end = _HEAD.size - 4 * 8, _HEAD.size - 8
    return np.ascontiguousarray(rows[:, first:end]).view("<i8")


def _read_head(state: bytes) -> tuple[int, int, int, int, int, int]:
    """Return (version, number of synopses, watermark, offset, last_time, number of events)."""
    if len(state) < _HEAD.size or state[:2] != _MAGIC:
        raise _damaged()
    _, version, count, watermark, offset, last_time, number = _HEAD.unpack_from(state)
    if version > _WITH_WRITTEN:
        raise SlidestatError(f"A stored key state has version {version}.", _NEWER)
    if version < _WITHOUT_QUOTA:
        raise _damaged()
    return version, count, watermark, offset, last_time, number


def _damaged() -> SlidestatError:
    return SlidestatError("A stored key state is damaged.", "Delete the worker's data folder.")


# The places of a topology's synopses in the stored states of keys.


class StateLayout:
    """A codec of stored states, which has their synopses in the topology's order.

    A synopsis that a state does not have is b"".
    """

    def __init__(self, topology: Topology | None = None, slots: Slots = ()) -> None:
        """Create the layout; `slots` are the places of synopses, if not the topology's own."""
        runners = [] if topology is None else list(dict.fromkeys(topology.runners))
        places = {slot.meaning: place for place, slot in enumerate(slots)}
        self._places = [places[runner.meaning] for runner in runners] if slots else []
        self._count = len(slots)
        # The time from which added synopses take events in.
        self.starts: dict[Runner, int] = {
            runner: start
            for runner in (runners if slots else ())
            if (start := slots[places[runner.meaning]].start) is not None
        }

    def decode(self, stored: bytes) -> KeyState:
        """Decode a state; raises SlidestatError for bytes that are not one."""
        state = decode_key_state(stored)
        if not self._places:
            return state
        kept = state.synopses
        return state._replace(
            synopses=tuple(kept[it] if it < len(kept) else b"" for it in self._places)
        )

    def encode(self, state: KeyState) -> bytes:
        """Return the bytes of a state as they are stored."""
        if not self._places:
            return encode_key_state(*state)
        return encode_key_state(*state._replace(synopses=self._in_places(state.synopses)))

    def encode_all(
        self, clocks: npt.NDArray[np.int64], synopses: Sequence[Sequence[bytes]]
    ) -> list[bytes]:
        """Return the bytes of states as `encode_key_states` does, as they are stored."""
        if self._places:
            placed: list[Sequence[bytes]] = [[b""] * len(clocks)] * self._count
            for place, column in zip(self._places, synopses, strict=True):
                placed[place] = column
            synopses = placed
        return encode_key_states(clocks, synopses)

    def _in_places(self, synopses: Sequence[bytes]) -> tuple[bytes, ...]:
        placed = [b""] * self._count
        for place, synopsis in zip(self._places, synopses, strict=True):
            placed[place] = synopsis
        return tuple(placed)


AS_DECLARED = StateLayout()
"""For states of which no statistic was ever changed."""


def starts_by_label(topology: Topology, layout: StateLayout) -> dict[str, int]:
    """Return the times from which added figures are counted, by their names."""
    pairs = zip(topology.labels, topology.runners, strict=True)
    return {label: layout.starts[it] for label, it in pairs if it in layout.starts}
