"""Bytes that are no wave (or average, or approximate count) are refused with a SynopsisError."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.synopses.errors import SynopsisError
from app.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from app.synopses.waves.average_wave import AverageWave
from app.synopses.waves.count_wave import CountWave
from app.synopses.waves.position_wave import PositionWave
from app.synopses.waves.sum_wave import SumWave
from app.synopses.waves.wave_parameters import AverageParameters, WaveParameters

KINDS: dict[str, Any] = {
    "count": CountWave,
    "sum": SumWave,
    "position": PositionWave,
    "average": AverageWave,
    "approximate count": ApproximateCount,
}


def made(name: str) -> Any:
    """A state of each kind in mid-life: something expired, ties, several levels."""
    rng = np.random.default_rng(6)
    times, values = np.cumsum(rng.integers(0, 9, 300)), rng.integers(0, 99, 300)
    if name == "approximate count":
        count = ApproximateCount.create(ApproximateCountParameters(700, 0.2))
        count.insert(rng.random(1_000) < 0.6)
        return count
    parameters = (AverageParameters if name == "average" else WaveParameters)(0.2, 700)
    wave = KINDS[name].create(parameters)
    columns = (times,) if name in ("count", "position") else (times, values)
    wave.insert(*columns)
    return wave


def sealed(data: bytes) -> bytes:
    """The same bytes with the checksum that they ought to have, made by zlib."""
    return data[:4] + zlib.adler32(data[2:4] + data[8:]).to_bytes(4, "little") + data[8:]


def parts_of(name: str, data: bytes) -> list[bytes]:
    """The states that are inside of one: itself, if there are none."""
    if name == "approximate count":
        return [data[8:]]
    if name == "average":
        second = data.index(b"\xa7S\1\4", 8)
        return [data[data.index(b"\xa7S\1\3", 8) : second], data[second:]]
    return [data]


def whole_of(name: str, parts: list[bytes]) -> bytes:
    """A state around those parts, its checksum right."""
    if name == "approximate count":
        return sealed(b"\xa7S\1\7" + bytes(4) + parts[0])
    if name == "average":
        length = len(parts[0])
        coded = [length] if length < 128 else [length & 127 | 128, length >> 7]
        return sealed(b"\xa7S\1\6" + bytes(4) + bytes(coded) + parts[0] + parts[1])
    return parts[0]


def refused(name: str, data: bytes) -> None:
    with pytest.raises(SynopsisError):
        KINDS[name].from_bytes(data)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_is_read(name: str) -> None:
    """The same bytes again, the same parts, and a checksum that a common library makes."""
    data = made(name).to_bytes()
    again = KINDS[name].from_bytes(data)
    again.check()
    assert again.to_bytes() == data == sealed(data) == whole_of(name, parts_of(name, data))


@pytest.mark.parametrize("name", KINDS)
def test_every_truncation_and_every_extension_is_refused(name: str) -> None:
    """No prefix is a state, nor is one with something behind it, right checksum or not."""
    data = made(name).to_bytes()
    for end in range(len(data)):
        refused(name, data[:end])
        if end >= 8:
            refused(name, sealed(data[:end]))
    for tail in (b"\0", b"\1", b"\x80", data):
        refused(name, data + tail)
        refused(name, sealed(data + tail))
        for i, part in enumerate(parts_of(name, data)):
            parts = parts_of(name, data)
            parts[i] = sealed(part + tail)
            refused(name, whole_of(name, parts))


@pytest.mark.parametrize("name", KINDS)
def test_every_changed_byte_is_refused(name: str) -> None:
    """One wrong byte anywhere, of any value, does not go unseen."""
    data = made(name).to_bytes()
    for at in range(len(data)):
        for change in (1, 0x80, 0xFF):
            refused(name, data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])


def _flip(data: bytearray, rng: np.random.Generator) -> bytearray:
    for _ in range(rng.integers(1, 5)):
        data[rng.integers(2, len(data))] = rng.integers(0, 256)
    return data


def _nudge(data: bytearray, rng: np.random.Generator) -> bytearray:
    at = rng.integers(8, len(data))
    data[at] = (data[at] + rng.integers(-2, 3)) % 256
    return data


def _cut(data: bytearray, rng: np.random.Generator) -> bytearray:
    at, length = rng.integers(8, len(data)), rng.integers(1, 20)
    del data[at : at + length]
    return data


def _stuff(data: bytearray, rng: np.random.Generator) -> bytearray:
    at = rng.integers(8, len(data))
    data[at:at] = (
        rng.choice([0, 1, 0x7F, 0x80, 0xFF], rng.integers(1, 20)).astype(np.uint8).tobytes()
    )
    return data


def _noise(data: bytearray, rng: np.random.Generator) -> bytearray:
    return data[:8] + rng.bytes(int(rng.integers(0, 80)))


@pytest.mark.parametrize("damage", [_flip, _nudge, _cut, _stuff, _noise])
@pytest.mark.parametrize("name", KINDS)
def test_hostile_bytes_are_refused_or_are_a_sound_state(
    name: str, damage: Callable[[bytearray, np.random.Generator], bytearray]
) -> None:
    """With right checksums, damage is refused by what is inside, or leaves a state that works."""
    parts = parts_of(name, made(name).to_bytes())
    rng = np.random.default_rng(7)
    taken = 0
    for _ in range(2_000):
        changed = list(parts)
        which = rng.integers(0, len(parts))
        changed[which] = sealed(bytes(damage(bytearray(parts[which]), rng)))
        data = whole_of(name, changed)
        try:
            state = KINDS[name].from_bytes(data)
        except SynopsisError:
            continue
        taken += 1
        assert state.to_bytes() == data, "the decoder took what the encoder does not write"
        state.check()
        window = min(state.parameters.n if name == "approximate count" else 700, 700)
        if name == "position":
            window = 20
        else:
            window = min(window, getattr(state.parameters, "span", window))
        estimate, lower, upper = state.query(window)
        assert np.isnan(estimate) or lower <= estimate <= upper
        later = min(state.now + 10, 2**61)
        state.advance(later)
        state.check()
        if later < 2**61:
            columns = ([later],) if name in ("count", "position") else ([later], [3])
            state.insert(*(([1],) if name == "approximate count" else columns))
            state.check()
    assert taken < 1_950


@pytest.mark.parametrize("name", KINDS)
def test_foreign_bytes_are_refused_by_name(name: str) -> None:
    """What is wrong is said: no synopsis, a newer version, another kind, damaged."""
    read = KINDS[name].from_bytes
    data = made(name).to_bytes()
    for foreign in (b"", b"{}", b"EH\1\1" + bytes(40), bytes(64), b"some text" * 9):
        with pytest.raises(SynopsisError, match="no synopsis"):
            read(foreign)
    with pytest.raises(SynopsisError, match="no synopsis"):
        read(sealed(data[:2] + b"\0" + data[3:]))
    with pytest.raises(SynopsisError, match="newer version: their format is 2, known is 1"):
        read(sealed(data[:2] + b"\2" + data[3:]))
    with pytest.raises(SynopsisError, match="damaged"):
        read(data[:-1])
    for other in KINDS:
        if other != name:
            with pytest.raises(SynopsisError, match=r"of kind|no synopsis"):
                read(made(other).to_bytes())


@pytest.mark.parametrize("name", ["count", "sum", "position"])
def test_a_length_that_lies_allocates_nothing(name: str) -> None:
    """A few bytes that promise millions of items are refused for the bytes that are not there."""
    head = b"\xa7S\1" + bytes([list(KINDS).index(name) + 3]) + bytes(4)
    million = b"\xc0\x84\x3d"
    refused(
        name, sealed(head + million + million[:2] + b"\1" + million + million + b"\2" + million)
    )
    refused(name, sealed(head + million * 6))
