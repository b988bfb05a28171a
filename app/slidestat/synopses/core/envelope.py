"""Check the envelope of a synopsis' bytes, and write numbers as bytes."""

import numpy as np

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import open_body
from slidestat.synopses.core.wire import Bytes


def opened(data: bytes, kind: int) -> Bytes:
    """Return `data` as kernels take it; SynopsisError unless it is a sound envelope of `kind`."""
    array = np.frombuffer(bytearray(data), np.uint8)
    error_code, number, _ = open_body(array, 0, len(array), kind, kind)
    if error_code != error_codes.OK:
        raise synopsis_error(error_code, int(number), kind)
    return array


def numbers(array: Bytes, at: int, count: int) -> tuple[list[int], int]:
    """Return `count` numbers from array[at:], -1 for what is none, and the offset after them."""
    found = []
    for _ in range(count):
        number, at = wire.get_varint(array, at, len(array))
        found.append(int(number))
    return found, int(at)


def varint(number: int) -> bytes:
    """Return the varint of 0 <= `number` < 2^63."""
    data = np.empty(wire.MAX_VARINT, np.uint8)
    return data[: wire.put_varint(data, 0, number)].tobytes()


def synopsis_error(error_code: int, number: int, kind: int) -> SynopsisError:
    """Return the error of bytes that a decoder for `kind` refused with an error and its number."""
    known = kind if error_code == error_codes.OTHER_KIND else wire.VERSION
    return error_codes.synopsis_error(error_code, number, known, -1)
