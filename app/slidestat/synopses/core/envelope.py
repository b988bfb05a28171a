"""The envelope of a synopsis' bytes, as Python reads and writes it (see wire.py).

Kernels have a reader of their own, `open_body` of keyed.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes
from slidestat.synopses.core.errors import SynopsisError

_LIMB = 62
START = bytes((wire.MAGIC_0, wire.MAGIC_1, wire.VERSION))
"""The first bytes of each synopsis; its kind is the next one."""


def kind_of(data: bytes) -> int:
    """Return the kind of a synopsis by its first bytes; SynopsisError for other bytes.

    The rest is not looked at. Cost: O(1).
    """
    error_code, number = _read_start(data)
    if error_code != error_codes.OK:
        raise refused(error_code, number)
    return number


def opened(data: bytes, kind: int) -> Bytes:
    """Return `data` as kernels take it; SynopsisError unless it is a sound envelope of `kind`.

    Cost: O(len(data)).
    """
    found = kind_of(data)
    array = np.frombuffer(bytearray(data), np.uint8)
    if not _is_whole(array):
        raise damaged()
    if found != kind:
        raise refused(error_codes.OTHER_KIND, found, kind)
    return array


def body_of(data: bytes, kind: int) -> bytes:
    """Return the body of a stored synopsis of `kind`; SynopsisError for anything else."""
    return opened(data, kind)[wire.BODY :].tobytes()


def is_sealed(data: bytes) -> bool:
    """Return whether the bytes have a synopsis' envelope, whole and undamaged; of any kind.

    Cost: O(len(data)).
    """
    if _read_start(data)[0] != error_codes.OK:
        return False
    return _is_whole(np.frombuffer(bytearray(data), np.uint8))


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


def _read_start(data: bytes) -> tuple[int, int]:
    """Return (OK, the kind), or an error and its number."""
    if len(data) < wire.BODY or data[0] != wire.MAGIC_0 or data[1] != wire.MAGIC_1:
        return error_codes.NOT_A_SYNOPSIS, 0
    if data[2] > wire.VERSION:
        return error_codes.NEWER_VERSION, data[2]
    if data[2] != wire.VERSION:
        return error_codes.NOT_A_SYNOPSIS, 0
    return error_codes.OK, data[3]


def _is_whole(array: Bytes) -> bool:
    stored = int.from_bytes(array[4:8].tobytes(), "little")
    return bool(stored == wire.checksum(array, 0, len(array)))
