"""Watermarks, lateness and emission ticks of one partition, as array operations.

The watermark after a record is the partition's clock (`event_clock.py`) less the lateness. A record
is late if its time lies below the watermark of the records before it. Ticks are the multiples of
`every`; an event at time t belongs to the first tick after t, whose windows are the ones it is new
in.
All of this is a function of the records alone, never of where a batch ended.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.kernels.compile import kernel

Int64s = npt.NDArray[np.int64]
Times = TypeVar("Times", int, Int64s)


def late_by(times: Int64s, clocks: Int64s, before: int, lateness: int) -> Int64s:
    """Return int64[n]: how far each time lies below the watermark of the records before it; <= 0 if
    on time. `clocks` has the partition's clock after each record, `before` is the one before them.
    """
    previous = np.empty_like(clocks)
    previous[:1] = before
    previous[1:] = clocks[:-1]
    return previous - lateness - times


def tick_after(times: Int64s, every: int) -> Int64s:
    """Return int64[n]: the first multiple of `every` that is greater than each time."""
    return (times // every + 1) * every


def closing_tick(last_time: Times, span: int, every: int) -> Times:
    """Return for each `last_time` the first multiple of `every` whose window of `span` begins after
    it; `span` may also be a length of silence.
    """
    return (last_time + span) // every * every + every


@kernel
def group_rows(groups: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Return the rows by group, in their order within it: a counting sort, O(n + count).

    `groups` int64[n] with values in [0, count). Returns (order int64[n], starts int64[count + 1]):
    the rows of group g are order[starts[g]:starts[g + 1]].
    """
    starts = np.zeros(count + 1, dtype=np.int64)
    for group in groups:
        starts[group + 1] += 1
    for group in range(count):
        starts[group + 1] += starts[group]
    order = np.empty(len(groups), dtype=np.int64)
    place = starts[:-1].copy()
    for row in range(len(groups)):
        order[place[groups[row]]] = row
        place[groups[row]] += 1
    return order, starts
