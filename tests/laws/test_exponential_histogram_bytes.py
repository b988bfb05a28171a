"""Bytes that are no histogram are refused with a SynopsisError, and with nothing else."""

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from app.synopses import CountParameters, ExponentialHistogram, SumParameters, SynopsisError

PARAMETERS = {
    "count": CountParameters(0.1, 1_000),
    "sum": SumParameters(0.1, 1_000),
    "inexact": SumParameters(0.1, 1_000),
}


def sample(name: str) -> bytes:
    rng = np.random.default_rng(6)
    histogram = ExponentialHistogram.create(PARAMETERS[name])
    times = np.cumsum(rng.integers(0, 9, 300))
    values = None if name == "count" else np.round(rng.uniform(0, 9, 300), 3)
    histogram.insert(times, values)
    if name == "inexact":
        histogram.insert(times[-1:], [1 / 3])
    return histogram.to_bytes()


def sealed(data: bytes) -> bytes:
    """The same bytes with the checksum that they ought to have, made by zlib."""
    return data[:4] + zlib.adler32(data[2:4] + data[8:]).to_bytes(4, "little") + data[8:]


def refused(data: bytes) -> None:
    with pytest.raises(SynopsisError):
        ExponentialHistogram.from_bytes(data)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_checksum_is_adler_32(name: str) -> None:
    """Another reader can check it with a common library; also of states longer than one block."""
    data = sample(name)
    assert sealed(data) == data
    long = ExponentialHistogram.create(CountParameters(1e-6, 2**50))
    long.insert(np.cumsum(np.random.default_rng(0).integers(2**14, 2**21, 450_000)))
    assert len(long.to_bytes()) > 2**20
    assert sealed(long.to_bytes()) == long.to_bytes()


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_truncation_and_every_extension_is_refused(name: str) -> None:
    """No prefix is a histogram, nor is one with something behind it, right checksum or not."""
    data = sample(name)
    for end in range(len(data)):
        refused(data[:end])
        if end >= 8:
            refused(sealed(data[:end]))
    for tail in (b"\0", b"\1", b"\x80", data):
        refused(data + tail)
        refused(sealed(data + tail))


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_changed_byte_is_refused(name: str) -> None:
    """One wrong byte anywhere, of any value, does not go unseen."""
    data = sample(name)
    for at in range(len(data)):
        for change in (1, 0x80, 0xFF):
            refused(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])


def _flip(data: bytearray, rng: np.random.Generator) -> bytearray:
    for _ in range(rng.integers(1, 5)):
        data[rng.integers(2, len(data))] = rng.integers(0, 256)
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
    return data[:8] + rng.bytes(rng.integers(0, 80))


@pytest.mark.parametrize("damage", [_flip, _cut, _stuff, _noise])
@pytest.mark.parametrize("name", PARAMETERS)
def test_hostile_bytes_are_refused_or_are_a_sound_histogram(
    name: str, damage: Callable[[bytearray, np.random.Generator], bytearray]
) -> None:
    """With a right checksum, damage is refused by what is inside, or leaves a state that works."""
    data = sample(name)
    rng = np.random.default_rng(7)
    taken = 0
    for _ in range(1_500):
        changed = sealed(bytes(damage(bytearray(data), rng)))
        try:
            histogram = ExponentialHistogram.from_bytes(changed)
        except SynopsisError:
            continue
        taken += 1
        histogram.insert([], None if name == "count" else [])
        assert histogram.to_bytes() == changed, "the decoder took what the encoder does not write"
        window = histogram.parameters.span
        assert histogram.query(window).lower <= histogram.query(window).upper
        later = min(histogram.now + 10, 2**61)
        histogram.advance(later)
        if later < 2**61 and len(histogram.buckets()) < 10_000:
            histogram.check()
    assert taken < 1_400


def test_foreign_bytes_are_refused_by_name() -> None:
    """What is wrong is said: no synopsis, a newer version, damaged."""
    data = sample("count")
    for foreign in (b"", b"{}", b"EH\1\1" + bytes(40), bytes(64), b"some text" * 9):
        with pytest.raises(SynopsisError, match="no synopsis"):
            ExponentialHistogram.from_bytes(foreign)
    with pytest.raises(SynopsisError, match="newer version: their format is 2, known is 1"):
        ExponentialHistogram.from_bytes(sealed(data[:2] + b"\2" + data[3:]))
    with pytest.raises(SynopsisError, match="no synopsis"):
        ExponentialHistogram.from_bytes(sealed(data[:3] + b"\x77" + data[4:]))
    with pytest.raises(SynopsisError, match="damaged"):
        ExponentialHistogram.from_bytes(data[:-1])


def test_a_length_that_lies_allocates_nothing() -> None:
    """A few bytes that promise millions of buckets are refused for the bytes that are not there."""
    histogram = ExponentialHistogram.create(SumParameters(1e-6, 1_000, 0))
    histogram.insert([1], [2.0**53])
    data = histogram.to_bytes()
    assert len(data) < 50
    assert len(sealed(data[:-6])) < 50
    refused(sealed(data[:-6]))
    assert histogram.query(1_000).upper >= 2.0**53


def test_a_state_has_one_form_only() -> None:
    """Longer ways to write the same numbers, and buckets that the total has not, are refused."""
    histogram = ExponentialHistogram.create(CountParameters(0.1, 1_000))
    histogram.insert([7, 7, 7])
    data = histogram.to_bytes()
    head, total, now, live = data[:-6], b"\3", b"\x10", b"\3"
    assert data == sealed(head + total + now + live + b"\0" + b"\0\2")
    refused(sealed(head + total + now + live + b"\0" + b"\0\1\0\1"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\x82\0"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\0"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\3"))
    refused(sealed(head + b"\2" + now + live + b"\0" + b"\0\2"))
    refused(sealed(head + b"\x83\0" + now + live + b"\0" + b"\0\2"))
    refused(sealed(head + total + now + b"\2" + b"\0" + b"\0\2"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\1"))
    refused(sealed(head + total + now + live + b"\0" + b"\xe8\7" + b"\0\1"))


def test_a_carried_part_is_less_than_one_unit() -> None:
    """The fixed point of the part carried ends at one unit, and the flag is 0 or 1."""
    histogram = ExponentialHistogram.create(SumParameters(0.1, 100, 0))
    histogram.insert([0], [0.5])
    data = histogram.to_bytes()
    end = b"\2\0"  # now 1, no bucket
    flag_and_part = b"\1" + (2**61).to_bytes(8, "little")
    assert data.endswith(flag_and_part + end)
    head = data[: -len(flag_and_part + end)]
    refused(sealed(head + b"\1" + (2**62).to_bytes(8, "little") + end))
    refused(sealed(head + b"\2" + flag_and_part[1:] + end))
    assert sealed(head + flag_and_part + end) == data
