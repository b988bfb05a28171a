"""Bytes that are no synopsis: damage of all sorts, with checksums put right so that it gets in."""

import zlib
from collections.abc import Callable, Iterator

import numpy as np

_START = b"\xa7S\1"
_BODY = 8


def sealed_outside(data: bytes) -> bytes:
    """The same bytes with the checksum they ought to have, whatever those inside are."""
    return data[:4] + zlib.adler32(data[2:4] + data[_BODY:]).to_bytes(4, "little") + data[_BODY:]


def sealed(data: bytes) -> bytes:
    """The same bytes with the checksums they ought to have, those of synopses inside included."""
    starts = []
    at = data.find(_START, _BODY)
    while at >= 0:
        starts.append(at)
        at = data.find(_START, at + _BODY)
    for start, end in zip(starts, [*starts[1:], len(data)], strict=False):
        data = data[:start] + sealed_outside(data[start:end]) + data[end:]
    return sealed_outside(data)


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    last = min(len(data), int(rng.choice([30, 1 << 60])))  # the numbers in front deserve half of it
    for _ in range(rng.integers(1, 5)):
        data[rng.integers(2, last)] = rng.integers(0, 256)


def _nudge(data: bytearray, rng: np.random.Generator) -> None:
    at = rng.integers(_BODY, len(data))
    data[at] = (data[at] + rng.integers(-2, 3)) % 256


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    at, length = rng.integers(_BODY, len(data)), rng.integers(1, 20)
    del data[at : at + length]


def _stuff(data: bytearray, rng: np.random.Generator) -> None:
    at = rng.integers(_BODY, len(data))
    stuffing = rng.choice([0, 1, 0x7F, 0x80, 0xFF], rng.integers(1, 20))
    data[at:at] = stuffing.astype(np.uint8).tobytes()


def _noise(data: bytearray, rng: np.random.Generator) -> None:
    data[int(rng.choice([_BODY, 2 * _BODY])) :] = rng.bytes(int(rng.integers(0, 80)))


DAMAGES: dict[str, Callable[[bytearray, np.random.Generator], None]] = {
    "bytes replaced": _flip,
    "a byte a little off": _nudge,
    "bytes missing": _cut,
    "bytes put in": _stuff,
    "a body of noise": _noise,
}


def damaged(data: bytes, name: str, cases: int) -> Iterator[bytes]:
    """So many damaged copies of `data`, always the same ones, their checksums right."""
    rng = np.random.default_rng(7)
    for _ in range(cases):
        changed = bytearray(data)
        DAMAGES[name](changed, rng)
        yield sealed(bytes(changed))
