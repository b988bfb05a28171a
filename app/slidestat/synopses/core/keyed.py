"""The driver of kernels: all keys of a batch in one call; and what kernels of all families share.

A kernel takes what its synopsis was made with, the stored states, the `Columns` of a batch, and
what is its own. It walks over groups; in each it decodes the state, absorbs the events up to each
query (they are cut there already), answers, and encodes the new state.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import (
    TIME_MAX,
    TIME_MIN,
    Columns,
    Joined,
    joined,
    require_states,
)
from slidestat.synopses.core.errors import SynopsisError

Kernel = Callable[..., tuple[Any, ...]]
Row = TypeVar("Row", Bytes, Integers)
Table = TypeVar("Table", Integers, Floats)
ErrorOf = Callable[[int, int, int, int, Sequence[int]], SynopsisError]

_OF_VALUES = (
    error_codes.BAD_VALUE,
    error_codes.NOT_FINITE,
    error_codes.TOO_MANY_UNITS,
    error_codes.VALUE_TOO_LARGE,
)


def drive(
    kernel: Kernel,
    made_with: tuple[Any, ...],
    states: Sequence[bytes | None] | Joined,
    columns: Columns,
    *own: Any,
    kinds: Sequence[int],
    values: Any = (),
    error_of: ErrorOf = error_codes.synopsis_error,
) -> list[Any]:
    """Run a kernel over all groups; return what it returns: new states, where each begins, more.

    states: G stored states, None for a new key; or these joined. kinds: theirs; values: those of
    the events, for errors. Raises SynopsisError for another number of states, and for what the
    kernel finds wrong.

    A kernel is given what its synopsis was `made_with`; the states, of group g the bytes
    arena[offsets[g]:offsets[g + 1]], empty for none; the columns; and its `own`. It returns (error,
    group, its two numbers, new arena, its offsets), and what is its own. For a query, answers[0..2,
    query, span] receive estimate, lower and upper.
    """
    groups = len(columns.starts) - 1
    if not isinstance(states, Joined):
        require_states(states, columns)
        states = joined(states)
    error_code, group, a, b, *found = kernel(*made_with, *states, tuple(columns), *own)
    if error_code != error_codes.OK:
        place = int(group) if groups > 1 else -1
        if error_code in _OF_VALUES:
            raise error_codes.synopsis_error(error_code, 0, 0, place, value=float(values[a]))
        raise error_of(int(error_code), int(a), int(b), place, kinds)
    return found


@borrowing_kernel
def open_body(data: Bytes, start: int, end: int, low: int, high: int) -> tuple[int, int, int]:
    """Check the envelope of data[start:end], of a kind from `low` to `high`.

    Returns (error, the kind or its number, the offset of the body). Cost: O(end - start).
    """
    if end - start < wire.BODY or data[start] != wire.MAGIC_0 or data[start + 1] != wire.MAGIC_1:
        return error_codes.NOT_A_SYNOPSIS, 0, start
    version = int(np.int64(data[start + 2]))
    if version > wire.VERSION:
        return error_codes.NEWER_VERSION, version, start
    if version != wire.VERSION:
        return error_codes.NOT_A_SYNOPSIS, 0, start
    if wire.get_fixed(data, start + 4, 4) != wire.checksum(data, start, end):
        return error_codes.CORRUPTED, 0, start
    kind = int(np.int64(data[start + 3]))
    if kind < low or kind > high:
        return error_codes.OTHER_KIND, kind, start
    return error_codes.OK, kind, start + wire.BODY


@borrowing_kernel
def open_envelope(data: Bytes, start: int, kind: int) -> int:
    """Write the start of a synopsis; return the offset of its body."""
    data[start] = wire.MAGIC_0
    data[start + 1] = wire.MAGIC_1
    data[start + 2] = wire.VERSION
    data[start + 3] = kind
    return start + wire.BODY


@borrowing_kernel
def seal(data: Bytes, start: int, end: int) -> None:
    """Write the checksum of the finished synopsis data[start:end]."""
    wire.put_fixed(data, start + 4, wire.checksum(data, start, end), 4)


@borrowing_kernel
def get_now(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read the time of a state; return (it, the offset after it, or -1 for none)."""
    folded, at = wire.get_varint(data, at, end)
    now = wire.unzigzag(folded)
    if folded < 0 or not (TIME_MIN <= now <= TIME_MAX + 1):
        return 0, -1
    return now, at


@borrowing_kernel
def put_bits(data: Bytes, at: int, bits: int) -> int:
    """Write the 64 bits of a double in 8 bytes, little-endian; return the offset after them."""
    at = wire.put_fixed(data, at, bits & 0xFFFFFFFF, 4)
    return wire.put_fixed(data, at, (bits >> 32) & 0xFFFFFFFF, 4)


@borrowing_kernel
def get_bits(data: Bytes, at: int) -> int:
    """Read the 64 bits of a double; the caller has checked that 8 bytes are there."""
    low = wire.get_fixed(data, at, 4)
    high = wire.get_fixed(data, at + 4, 4)
    return (high - ((high >> 31) << 32)) * (1 << 32) + low


@borrowing_kernel
def first_from(times: Integers, low: int, high: int, start: int) -> int:
    """Return the first place in times[low:high], which do not fall, of a time from `start` on, or
    `high` for none. Cost: O(log).
    """
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < start:
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def with_room(out: Row, end: int, more: int) -> Row:
    """Return `out`, or a longer copy of out[:end], with room for `more` items behind `end`."""
    if len(out) - end >= more:
        return out
    longer = np.empty(2 * len(out) + more, out.dtype)
    longer[:end] = out[:end]
    return longer


@kernel
def with_columns(rows: Table, end: int, more: int) -> Table:
    """Return `rows`, or a longer copy of rows[:, :end], with room for `more` columns behind."""
    if rows.shape[1] - end >= more:
        return rows
    longer = np.empty((rows.shape[0], 2 * (end + more)), rows.dtype)
    longer[:, :end] = rows[:, :end]
    return longer
