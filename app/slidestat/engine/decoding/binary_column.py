"""Byte strings as spans of one buffer, as in an Arrow binary column: no Python object each."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.engine.decoding.json_scan.columns import put_spans
from slidestat.engine.decoding.json_scan.plan import NOTHING, TEXT
from slidestat.synopses.core.arrays import Bytes, Integers

_NONE = np.empty(0, np.int64)


class BinaryColumn(Sequence[bytes | None]):
    """A column of n byte strings: string i is `buffer[starts[i]:ends[i]]`, with `buffer` uint8,
    `starts` and `ends` int64[n]. None begins at 0 and ends at -1.

    Python bytes are made of what is asked for alone, and keep nothing of the buffer alive.
    """

    __slots__ = ("buffer", "ends", "starts")

    def __init__(self, buffer: Bytes, starts: Integers, ends: Integers) -> None:
        # Kernels are compiled for each sort of array: let there be one.
        self.buffer, self.starts, self.ends = (
            _read_only(array) for array in (buffer, starts, ends)
        )

    @classmethod
    def of(cls, values: Sequence[bytes | None] | pa.Array) -> "BinaryColumn":
        """Return the column of these byte strings, from a list or an Arrow array, whose bytes are
        not copied; a column is returned as it is.
        """
        if isinstance(values, BinaryColumn):
            return values
        array = values if isinstance(values, pa.Array) else pa.array(values, pa.large_binary())
        array = array.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        count = len(array)
        places = np.zeros(1, np.int64)
        if count:
            places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + count + 1]
        starts, ends = places[:-1], places[1:]
        if array.null_count:
            is_null = array.is_null().to_numpy(zero_copy_only=False)
            starts, ends = np.where(is_null, 0, starts), np.where(is_null, -1, ends)
        buffer = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(buffer, starts, ends)

    @classmethod
    def joined(cls, parts: Sequence["BinaryColumn"]) -> "BinaryColumn":
        """Return the strings of the parts, one after another. The part of each buffer from the
        first to the last byte in use is copied.
        """
        if len(parts) == 1:
            return parts[0]
        buffers, starts, ends = [np.empty(0, np.uint8)], [_NONE], [_NONE]
        size = 0
        for part in parts:
            is_there = part.starts <= part.ends
            first = int(part.starts.min(initial=len(part.buffer), where=is_there))
            last = int(part.ends.max(initial=first, where=is_there))
            buffers.append(part.buffer[first:last])
            starts.append(np.where(is_there, part.starts - first + size, 0))
            ends.append(np.where(is_there, part.ends - first + size, -1))
            size += last - first
        return cls(np.concatenate(buffers), np.concatenate(starts), np.concatenate(ends))

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...

    @overload
    def __getitem__(self, index: slice) -> "BinaryColumn": ...

    def __getitem__(self, index: int | slice) -> "bytes | BinaryColumn | None":
        if isinstance(index, slice):
            return BinaryColumn(self.buffer, self.starts[index], self.ends[index])
        start, end = int(self.starts[index]), int(self.ends[index])
        return self.buffer[start:end].tobytes() if start <= end else None

    def __iter__(self) -> Iterator[bytes | None]:
        data = self.buffer.data
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield data[start:end].tobytes() if start <= end else None

    def size(self) -> int:
        """Return the bytes of all strings together."""
        return int(np.maximum(self.ends - self.starts, 0).sum())

    def take(self, rows: Integers) -> "BinaryColumn":
        """Return the strings of these rows, in their order."""
        return BinaryColumn(self.buffer, self.starts[rows], self.ends[rows])

    def as_arrow(self) -> pa.Array:
        """Return the column as an Arrow array with a buffer of its own bytes only."""
        sorts = np.where(self.starts <= self.ends, TEXT, NOTHING).astype(np.uint8)
        return arrow_of_spans(pa.large_binary(), self.buffer, sorts, self.starts, self.ends)

    def as_arrow_view(self) -> pa.Array:
        """Return the column as an Arrow array over the buffer itself, where the strings follow each
        other in it: nothing is copied, and all of the buffer is kept alive.
        """
        count = len(self)
        if not count or _has_gaps(self.starts, self.ends):
            return self.as_arrow()
        offsets = np.append(self.starts, self.ends[-1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.buffer)]
        return pa.Array.from_buffers(pa.large_binary(), count, buffers)


def _has_gaps(starts: Integers, ends: Integers) -> bool:
    """Return whether the strings do not follow each other in the buffer, or some are None."""
    return bool(np.any(starts > ends) or np.any(starts[1:] != ends[:-1]))


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def arrow_of_spans(
    kind: pa.DataType, buffer: Bytes, sorts: Bytes, starts: Integers, ends: Integers
) -> pa.Array:
    """Copy spans of a buffer into an Arrow array of large strings or binaries; null where a sort is
    NOTHING or less.
    """
    nothing = sorts <= NOTHING
    offsets = np.empty(len(sorts) + 1, np.int64)
    data = np.empty(int((ends - starts)[~nothing].sum()), np.uint8)
    put_spans(buffer, sorts, starts, ends, offsets, data)
    there = None
    if nothing.any():
        there = pa.py_buffer(np.packbits(~nothing, bitorder="little"))
    buffers = [there, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(sorts), buffers)
