"""The envelope around a body that is made of other synopses' bytes (see wire.py)."""

import numpy as np

from slidestat.synopses.core import error_codes, wire


def sealed(kind: int, body: bytes) -> bytes:
    """Return `body` as a stored synopsis of `kind`. Cost: O(len(body))."""
    head = bytes([wire.MAGIC_0, wire.MAGIC_1, wire.VERSION, kind])
    data = head + bytes(4) + body
    check = wire.checksum(np.frombuffer(bytearray(data), np.uint8), 0, len(data))
    return head + int(check).to_bytes(4, "little") + body


def opened(kind: int, data: bytes) -> bytes:
    """Return the body of a stored synopsis of `kind`; SynopsisError for anything else.

    Cost: O(len(data)).
    """
    data = bytes(data)
    if len(data) < wire.BODY or data[0] != wire.MAGIC_0 or data[1] != wire.MAGIC_1:
        raise error_codes.synopsis_error(error_codes.NOT_A_SYNOPSIS, 0, 0, -1)
    if data[2] > wire.VERSION:
        raise error_codes.synopsis_error(error_codes.NEWER_VERSION, data[2], wire.VERSION, -1)
    if data[2] != wire.VERSION:
        raise error_codes.synopsis_error(error_codes.NOT_A_SYNOPSIS, 0, 0, -1)
    if data[3] != kind:
        raise error_codes.synopsis_error(error_codes.OTHER_KIND, data[3], kind, -1)
    if sealed(kind, data[wire.BODY :]) != data:
        raise error_codes.synopsis_error(error_codes.CORRUPTED, 0, 0, -1)
    return data[wire.BODY :]
