"""The envelope of a synopsis' bytes, as Python reads and writes it (see wire.py)."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import open_body

P = TypeVar("P")
_LIMB = 62
START = bytes((wire.MAGIC_0, wire.MAGIC_1, wire.VERSION))
"""The first bytes of each synopsis; its kind is the next one."""


def stored(data: bytes) -> bytes:
    """Return what is stored, bytes or another buffer, as bytes; SynopsisError for anything else.

    Cost: O(len(data)), of bytes O(1).
    """
    if isinstance(data, bytes):
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise SynopsisError(f"a stored synopsis is bytes, not {type(data).__name__}") from None


def kind_of(data: bytes) -> int:
    """Return the kind of a synopsis by its first bytes; SynopsisError for other bytes.

    The rest is not looked at. Cost: O(1).
    """
    data = stored(data)
    if len(data) >= wire.BODY and data[:2] == START[:2] and data[2] > wire.VERSION:
        raise refused(error_codes.NEWER_VERSION, data[2])
    if len(data) < wire.BODY or data[:3] != START:
        raise refused(error_codes.NOT_A_SYNOPSIS, 0)
    return data[3]


def body_of(data: bytes, kind: int) -> bytes:
    """Return the body of a stored synopsis of `kind`; else SynopsisError. Cost: O(len(data))."""
    array = np.frombuffer(bytearray(stored(data)), np.uint8)
    error_code, number, at = open_body(array, 0, len(array), kind, kind)
    if error_code != error_codes.OK:
        raise refused(error_code, number, kind)
    return array[at:].tobytes()


def is_sealed(data: bytes) -> bool:
    """Return whether bytes have a synopsis' envelope, whole, of any kind. Cost: O(len(data))."""
    array = np.frombuffer(bytearray(data), np.uint8)
    return bool(open_body(array, 0, len(array), 0, 255)[0] == error_codes.OK)


def sealed(kind: int, body: bytes) -> bytes:
    """Return `body` as a stored synopsis of `kind`. Cost: O(len(body))."""
    data = START + bytes((kind,)) + bytes(4) + body
    check = wire.checksum(np.frombuffer(bytearray(data), np.uint8), 0, len(data))
    return data[:4] + int(check).to_bytes(4, "little") + body


class Body:
    """The bytes of a body, read from the front; SynopsisError where they are not what is asked."""

    def __init__(self, data: bytes) -> None:
        self.array = np.frombuffer(bytearray(data), np.uint8)
        self.at = 0

    def number(self, least: int = 0, most: int = (1 << 63) - 1) -> int:
        """Read a whole number from `least` to `most`."""
        number, self.at = wire.get_varint(self.array, self.at, len(self.array))
        if not (least <= number <= most):
            raise damaged()
        return int(number)

    def large(self) -> int:
        """Read what `large` wrote."""
        return (self.number() << _LIMB) + self.number(most=(1 << _LIMB) - 1)

    def taken(self, size: int) -> bytes:
        """Read so many bytes."""
        if size > len(self.array) - self.at:
            raise damaged()
        self.at += size
        return self.array[self.at - size : self.at].tobytes()

    def rest(self) -> bytes:
        """Read all that is left."""
        return self.taken(len(self.array) - self.at)


def varint(number: int) -> bytes:
    """Return 0 <= `number` < 2^63 as wire.py stores it."""
    data = np.empty(wire.MAX_VARINT, np.uint8)
    return data[: wire.put_varint(data, 0, number)].tobytes()


def large(number: int) -> bytes:
    """Return 0 <= number < 2^125 as bytes."""
    return varint(number >> _LIMB) + varint(number & ((1 << _LIMB) - 1))


def damaged() -> SynopsisError:
    """Return the error of bytes whose content does not agree."""
    return error_codes.synopsis_error(error_codes.CORRUPTED, 0, 0, -1)


def named_by_bytes(make: Callable[..., P], *given: Any) -> P:
    """Return the parameters that `make` makes of what bytes name; SynopsisError as `damaged`."""
    try:
        return make(*given)
    except SynopsisError:
        raise damaged() from None


def refused(error_code: int, number: int, *kinds: int) -> SynopsisError:
    """Return the error of bytes that a decoder for `kinds` refused with an error and its number."""
    return error_codes.synopsis_error(int(error_code), int(number), 0, -1, kinds)


def decoded(
    read: Callable[..., tuple[Any, ...]], data: bytes, kinds: tuple[int, ...], *given: Any
) -> list[Any]:
    """Return what a decoder of these kinds finds in `data`, behind its error and its number.

    given: the arrays that it fills, and others of its arguments. SynopsisError for other bytes.
    """
    array = np.frombuffer(bytearray(data), np.uint8)
    error_code, number, *found = read(array, 0, len(array), *given)
    if error_code != error_codes.OK:
        raise refused(error_code, number, *kinds)
    return found
