"""Kernels that make columns of the spans of plain records' fields.

A value that its column cannot take has its record marked: it is not plain.
"""

from slidestat.engine.decoding.json_scan.numbers import EXACT, MINUS, decimal, nearest, whole
from slidestat.engine.decoding.json_scan.plan import NOTHING, TEXT, WHOLE
from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Bools, Bytes, Floats, Integers

_CONTINUATION, _LEAD_BITS = 0x80, 0xC0
_ZERO = ord("0")
_DIGITS = 18  # and a sign less


@borrowing_kernel
def read_doubles(
    buffer: Bytes,
    is_plain: Bools,
    sorts: Bytes,
    starts: Integers,
    ends: Integers,
    least: float,
    most: float,
    out: Floats,
) -> None:
    """Read numbers between `least` and `most` into `out`; it is left where there is none."""
    for row in range(len(sorts)):
        if not is_plain[row] or sorts[row] <= NOTHING:
            continue
        is_read, mantissa, exponent = decimal(buffer, starts[row], ends[row])
        is_known, value = nearest(mantissa, exponent)
        out[row] = value
        # Whole numbers from there on may be no doubles: what that means is for others.
        is_exact = -EXACT < value < EXACT
        if not (is_read and is_known and is_exact) or value < least or value > most:
            is_plain[row] = False


@borrowing_kernel
def read_wholes(
    buffer: Bytes,
    is_plain: Bools,
    starts: Integers,
    ends: Integers,
    least: int,
    most: int,
    out: Integers,
) -> None:
    """Read whole numbers between `least` and `most` into `out`."""
    for row in range(len(starts)):
        if not is_plain[row]:
            continue
        is_read, number = whole(buffer, starts[row], ends[row])
        out[row] = number
        if not is_read or number < least or number > most:
            is_plain[row] = False


@borrowing_kernel
def check_texts(
    buffer: Bytes,
    is_plain: Bools,
    sorts: Bytes,
    starts: Integers,
    ends: Integers,
    least: int,
    most: int,
) -> None:
    """Check that texts have from `least` to `most` characters, and that whole numbers are those of
    an int64 and written as it would be.
    """
    for row in range(len(sorts)):
        if not is_plain[row] or sorts[row] <= NOTHING:
            continue  # It may have no span.
        size = ends[row] - starts[row]
        if sorts[row] == WHOLE:
            is_zero = buffer[ends[row] - 1] == _ZERO and size == 2
            if size > _DIGITS or (is_zero and buffer[starts[row]] == MINUS):
                is_plain[row] = False
        elif sorts[row] == TEXT:
            if size > most:  # Some of these bytes may belong to one character.
                for place in range(starts[row], ends[row]):
                    if buffer[place] & _LEAD_BITS == _CONTINUATION:
                        size -= 1
            if size < least or size > most:
                is_plain[row] = False


@borrowing_kernel
def put_spans(
    buffer: Bytes, sorts: Bytes, starts: Integers, ends: Integers, offsets: Integers, out: Bytes
) -> None:
    """Put the bytes of n spans one after another into `out`, which has room for them, and where
    each begins and the last ends into `offsets` int64[n + 1].
    """
    end = 0
    offsets[0] = 0
    for row in range(len(starts)):
        if sorts[row] > NOTHING:
            for place in range(starts[row], ends[row]):
                out[end] = buffer[place]
                end += 1
        offsets[row + 1] = end
