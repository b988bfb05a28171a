"""Synopses of window frames, fed row by row: one that continues the last costs its new rows.

Spark calls an aggregate once for each row of `OVER (...)`, with slices of one column: from row to
row the frame's end moves on, and its start follows. Feeding each frame as a whole would cost rows
times frame, and rows squared where the frame begins at UNBOUNDED PRECEDING. So a synopsis stays
with the column, rows are its times, and the frame is the window that it is asked for:

    column      0 1 2 3 4 5 6 7 8 9 ...
    frame       [-----------)              fed 0 to 5, asked for 0 to 5
    next frame      [-----------)          fed 6 and 7, asked for 2 to 7

A frame is known to continue the last one by its place in memory. The last one is held, so nothing
else can lie there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Integers

Column = npt.NDArray[Any]
A = TypeVar("A")

MOST_PASSED = 4
"""Rows that were fed and that no frame has any more may be as many times those of the frame."""
ALWAYS_PASSED = 1_024

# The longest window of any synopsis: of rows.
SPAN = 1 << 53

Run = Callable[[bytes | None, Integers, Column, int, int], tuple[bytes, A]]
"""(state, times, values, now, n) to the state with the events and the answer for [now - n, now)."""


@dataclass
class _Fed:
    """The rows that a state has taken in: those in memory from `first` to the end of `held`."""

    held: Column
    first: int
    state: bytes
    last_time: int


class FrameSynopsis(Generic[A]):
    """A synopsis of one column's frames. Amortised cost of a call: that of its new rows, and of
    reading and writing a state of at most `MOST_PASSED` + 1 times the frame's rows.
    """

    def __init__(self, run: Run[A]) -> None:
        self._run = run
        self._fed: _Fed | None = None
        self.rows_fed = 0

    def answer(self, values: Column, times: Integers, length: int | None = None) -> A:
        """Return the answer over a frame of at least one row; with `length`, over its rows from
        that long before its last time on, both ends included. Rows that are not in order of time
        are sorted.
        """
        fed = self._fed
        known = None if fed is None else self._known(fed, values)
        if known is not None and fed is not None:
            new_times = times[known:]
            if len(new_times) and not _rises(new_times, fed.last_time):
                known = None
        if known is None or fed is None:
            known = 0
            if not _rises(times, None):
                order = np.argsort(times, kind="stable")
                values, times = values[order], times[order]
            fed = _Fed(values, _address(values), b"", int(times[0]))
        start = (_address(values) - fed.first) // values.itemsize
        end = start + len(values)
        rows = np.arange(start + known, end, dtype=np.int64)
        since = 0
        if length is not None:
            since = int(np.searchsorted(times, times[-1] - length))
        state, answer = self._run(fed.state or None, rows, values[known:], end, len(values) - since)
        self._fed = _Fed(values, fed.first, state, int(times[-1]))
        self.rows_fed += len(rows)
        return answer

    def _known(self, fed: _Fed, values: Column) -> int | None:
        """Return how many rows of this frame the state has; None if it is better to start again."""
        size = values.itemsize
        if values.dtype != fed.held.dtype or not (
            values.flags.c_contiguous and fed.held.flags.c_contiguous
        ):
            return None
        address = _address(values)
        fed_end = _address(fed.held) + len(fed.held) * size
        end = address + len(values) * size
        # Overlapping: memory that is held is no other column's.
        if not (fed.first <= address < fed_end <= end):
            return None
        passed = (address - fed.first) // size
        if passed > MOST_PASSED * len(values) + ALWAYS_PASSED:
            return None
        return (fed_end - address) // size


def _address(column: Column) -> int:
    return int(column.__array_interface__["data"][0])


def _rises(times: Integers, after: int | None) -> bool:
    if after is not None and len(times) and times[0] < after:
        return False
    return bool(np.all(times[1:] >= times[:-1]))
