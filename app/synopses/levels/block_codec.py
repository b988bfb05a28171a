"""What the bytes of all summaries made of blocks begin with, and what is said of them.

The body (see wire.py) begins with epsilon, 8 bytes, a double, little-endian: all else that such a
summary was made with, but its span, follows from it.
"""

import numpy as np

from app.synopses import faults, wire
from app.synopses.compile import kernel
from app.synopses.errors import SynopsisError, WindowTooLargeError
from app.synopses.wire import Bytes

EPSILON_AT = wire.BODY
EPSILON_SIZE = 8


@kernel
def read_envelope(data: Bytes, start: int, end: int, kind: int) -> tuple[int, int, float]:
    """Check the envelope of data[start:end]; return (fault, its number, epsilon)."""
    if end - start < wire.BODY or data[start] != wire.MAGIC_0 or data[start + 1] != wire.MAGIC_1:
        return faults.NOT_A_SYNOPSIS, 0, 0.0
    if data[start + 2] > wire.VERSION:
        return faults.NEWER_VERSION, int(np.int64(data[start + 2])), 0.0
    if data[start + 2] != wire.VERSION or data[start + 3] == 0:
        return faults.NOT_A_SYNOPSIS, 0, 0.0
    if data[start + 3] != kind:
        return faults.OTHER_KIND, int(np.int64(data[start + 3])), 0.0
    if wire.get_fixed(data, start + 4, 4) != wire.checksum(data, start, end):
        return faults.CORRUPTED, 0, 0.0
    if end - start < EPSILON_AT + EPSILON_SIZE:
        return faults.CORRUPTED, 0, 0.0
    at = start + EPSILON_AT
    number = np.empty(EPSILON_SIZE, np.uint8)
    number[:] = data[at : at + EPSILON_SIZE]
    return faults.OK, 0, float(number.view(np.float64)[0])


def summary_error(fault: int, a: int, b: int, group: int) -> SynopsisError:
    """Return the error for `fault`; `group` is its place in the batch, or -1 for no batch."""
    if fault == faults.TOTAL_TOO_LARGE:
        sentence = "the window holds more than 2^40 events, which is more than can be kept"
        return WindowTooLargeError(sentence if group < 0 else f"group {group}: {sentence}")
    return faults.synopsis_error(fault, a, b, group)
