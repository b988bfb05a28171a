"""The part that batches over keys share: check columns, and take events in time order.

A group is what a batch has of one key: a stored state or none, a slice of the events, a slice of
the queries. Kernels walk over groups; within one, events before a query come before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.batch import integers, joined, slices, split, targets, windows
from slidestat.synopses.core.compile import kernel
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.wire import Bytes
from slidestat.synopses.exponential_histogram.codec import TIME_MAX, TIME_MIN, Integers
from slidestat.synopses.exponential_histogram.kernel import Floats

Kernel = Callable[..., tuple[int, int, int, int, Bytes, Integers]]


@dataclass(frozen=True)
class KeyedBatch:
    """The columns of a batch, as kernels take them; `keyed_batch` says what they hold."""

    arena: Bytes
    offsets: Integers
    starts: Integers
    times: Integers
    values: Floats
    query_starts: Integers
    query_times: Integers
    spans: Integers
    advances: Integers

    def run(self, kernel: Kernel, head: Integers, values: Any, answers: Any) -> list[bytes]:
        """Run a family's kernel over the groups; return their new states, or raise SynopsisError.

        The kernel takes `values` and writes `answers`, as doubles or as their bits.
        """
        error_code, group, a, b, out, ends = kernel(
            head,
            self.arena,
            self.offsets,
            self.starts,
            self.times,
            values,
            self.query_starts,
            self.query_times,
            self.spans,
            self.advances,
            answers,
        )
        if error_code != error_codes.OK:
            raise self.error(error_code, group, a, b)
        return split(out, ends)

    def error(self, error_code: int, group: int, a: int, b: int) -> SynopsisError:
        """Return the error of what a kernel found wrong in `group`; `a` may be an event."""
        value = float(self.values[a]) if error_code in _OF_VALUES else 0.0
        return error_codes.synopsis_error(
            error_code, int(a), int(b), group if len(self.starts) > 2 else -1, value
        )


_OF_VALUES = (error_codes.NOT_FINITE, error_codes.TOO_MANY_UNITS, error_codes.VALUE_TOO_LARGE)


def keyed_batch(
    span: int,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    values: npt.ArrayLike,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    advances: npt.ArrayLike | None,
) -> KeyedBatch:
    """Check the columns of a batch of synopses that keep `span`.

    states: G stored states, None for a new key. starts: int64[G + 1]; the events of group g are
    times[starts[g]:starts[g + 1]] (int64, not falling) and values (float64) alike. query_starts,
    query_times: the same for queries. spans: int64[K], each from 1 to `span`. advances: int64[G],
    the time each group is moved on to after its events, if any. Raises SynopsisError.
    """
    groups = len(states)
    times = integers("times", times)
    query_times = integers("query_times", query_times)
    spans = windows(spans, span)
    taken = np.ascontiguousarray(values, np.float64)
    if taken.shape != times.shape:
        raise SynopsisError(f"a value is needed for each time: {len(times)}, not {taken.shape}")
    moved_to = targets(advances, groups)
    return KeyedBatch(
        *joined(states),
        slices("starts", starts, groups, len(times)),
        times,
        taken,
        slices("query_starts", query_starts, groups, len(query_times)),
        query_times,
        spans,
        moved_to,
    )


@kernel
def stretch(times: Integers, event: int, stop: int, until: int, now: int) -> tuple[int, int, int]:
    """Check the times of the events from `event` on, below `stop`, with time < `until`.

    now is the last time taken + 1. Returns (error, the first event not before `until`, or the
    time that is wrong, the `now` after them or before it).
    """
    while event < stop and (times[event] < until or times[event] > TIME_MAX):
        time = times[event]
        if time > TIME_MAX or time < TIME_MIN:
            return error_codes.TIME_OUT_OF_RANGE, time, 0
        if time < now - 1:
            return error_codes.TIME_WENT_BACK, time, now - 1
        now = time + 1
        event += 1
    return error_codes.OK, event, now


@kernel
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


@kernel
def open_envelope(data: Bytes, start: int, kind: int) -> int:
    """Write the start of a synopsis; return the offset of its body."""
    data[start] = wire.MAGIC_0
    data[start + 1] = wire.MAGIC_1
    data[start + 2] = wire.VERSION
    data[start + 3] = kind
    return start + wire.BODY


@kernel
def seal(data: Bytes, start: int, end: int) -> None:
    """Write the checksum of the finished synopsis data[start:end]."""
    wire.put_fixed(data, start + 4, wire.checksum(data, start, end), 4)


@kernel
def get_now(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a time that a state has come to; return (it, the offset after it, or -1 for none)."""
    folded, at = wire.get_varint(data, at, end)
    now = wire.unzigzag(folded)
    if folded < 0 or not (TIME_MIN <= now <= TIME_MAX + 1):
        return 0, -1
    return now, at


@kernel
def put_bits(data: Bytes, at: int, bits: int) -> int:
    """Write the 64 bits of a double in 8 bytes, little-endian; return the offset after them."""
    at = wire.put_fixed(data, at, bits & 0xFFFFFFFF, 4)
    return wire.put_fixed(data, at, (bits >> 32) & 0xFFFFFFFF, 4)


@kernel
def get_bits(data: Bytes, at: int) -> int:
    """Read the 64 bits of a double; the caller has checked that 8 bytes are there."""
    low = wire.get_fixed(data, at, 4)
    high = wire.get_fixed(data, at + 4, 4)
    return (high - ((high >> 31) << 32)) * (1 << 32) + low


@kernel
def with_room(out: Bytes, end: int, more: int) -> Bytes:
    """Return `out`, or a longer copy of out[:end], with room for `more` bytes behind `end`."""
    if len(out) - end >= more:
        return out
    longer = np.empty(2 * len(out) + more, np.uint8)
    longer[:end] = out[:end]
    return longer
