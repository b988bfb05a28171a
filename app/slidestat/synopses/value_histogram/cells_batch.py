"""Cells of all keys of a batch in one call: what value histograms and tables of counters share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Batch, Columns, follows, split
from slidestat.synopses.core.envelope import decoded
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.core.keyed import drive, with_columns, with_room
from slidestat.synopses.exponential_histogram.canonical import bucket_at
from slidestat.synopses.value_histogram import cells
from slidestat.synopses.value_histogram.cells_codec import read, room_for, write


@dataclass(frozen=True)
class Settings:
    """The parameters of cells: as kernels take them, and as they stand in the bytes."""

    head: Integers
    stored: Bytes


@dataclass(frozen=True)
class CellsBatch:
    """The result of a batch: the new state of each group, and a list for each query and span.

    The list of query q and span k is at:to of ids, estimates, lowers and uppers, rising by id,
    where at, to = ends[q * spans + k], ends[q * spans + k + 1]. Cells with no event in the window
    are not listed.
    """

    states: list[bytes]
    ends: Integers
    ids: Integers
    estimates: Floats
    lowers: Floats
    uppers: Floats


@kernel
def _run(
    head: Integers,
    settings: Bytes,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    ids: Integers,
    list_ends: Integers,
) -> tuple[int, int, int, int, Bytes, Integers, Integers, Floats]:
    """Run as `drive` describes; return the listed ids and their figures, too."""
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    state = np.empty(cells.STATE_SIZE, np.int64)
    own_table = np.empty((cells.ROWS, 16), np.int64)
    own_runs = np.empty((2, 64), np.int64)
    listed = np.empty(64, np.int64)
    figures = np.empty((3, 64), np.float64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    at = 0
    for group in range(groups):
        state[cells.NOW] = TIME_MIN
        state[cells.CELLS] = 0
        table = own_table
        runs = own_runs
        if offsets[group] < offsets[group + 1]:
            error_code, number, own_table, own_runs = read(
                arena, offsets[group], offsets[group + 1], settings, head, state, table, runs
            )
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, ends, listed, figures
            table = own_table
            runs = own_runs
        error_code, a, b, after = follows(columns, group, state[cells.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends, listed, figures
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            error_code, table, runs = cells.absorb(head, state, table, runs, ids, times, event, cut)
            if error_code != error_codes.OK:
                return error_code, group, head[cells.CAPACITY], 0, out, ends, listed, figures
            if cut > event:
                state[cells.NOW] = times[cut - 1] + 1
            event = cut
            if query == query_starts[group + 1]:
                break
            for k in range(len(spans)):
                if len(listed) - at < state[cells.CELLS]:
                    listed = with_room(listed, at, state[cells.CELLS])
                    figures = with_columns(figures, at, len(listed) - at)
                start = query_times[query] - spans[k]
                for cell in range(state[cells.CELLS]):
                    estimate, low, high = cells.count(head, table, runs, cell, start)
                    if high > 0.0:
                        listed[at] = table[cells.ID, cell]
                        figures[0, at] = estimate
                        figures[1, at] = low
                        figures[2, at] = high
                        at += 1
                list_ends[query * len(spans) + k + 1] = at
        state[cells.NOW] = after
        out = with_room(out, end, room_for(settings, state, table))
        end = write(out, end, settings, head, state, table, runs)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends, listed, figures


def run_cells(
    settings: Settings, states: Sequence[bytes | None], batch: Batch, ids: Integers
) -> CellsBatch:
    """Feed and ask the cells of many groups (keys) at once.

    ids: int64, checked, one an event. Raises SynopsisError also for more live cells than the
    capacity. Cost: O(bytes in + events * log + queries * cells * log + bytes out).
    """
    columns = batch.within(int(settings.head[cells.SPAN]))
    queries, spans = batch.shape
    list_ends = np.zeros(queries * spans + 1, np.int64)
    given = (settings.head, settings.stored), states, columns, ids, list_ends
    kinds = (int(settings.head[cells.KIND]),)
    out, ends, listed, figures = drive(_run, *given, kinds=kinds, error_of=_error_of)
    size = list_ends[-1]
    return CellsBatch(split(out, ends), list_ends, listed[:size], *figures[:, :size])


def _error_of(error_code: int, a: int, b: int, group: int, kinds: Sequence[int]) -> SynopsisError:
    if error_code == cells.TOO_MANY_CELLS:
        rule = f"the window holds more than {a} items, the capacity"
        return WindowTooLargeError(rule, None if group < 0 else group)
    return error_codes.synopsis_error(error_code, a, b, group, kinds)


def inspect(settings: Settings, data: bytes) -> tuple[int, Integers, Integers]:
    """Return the now, the table and the runs of stored cells; SynopsisError for other bytes."""
    state = np.empty(cells.STATE_SIZE, np.int64)
    nothing = np.empty((cells.ROWS, 0), np.int64), np.empty((2, 0), np.int64)
    given = settings.stored, settings.head, state, *nothing
    table, runs = decoded(read, data, (int(settings.head[cells.KIND]),), *given)
    return int(state[cells.NOW]), table[:, : state[cells.CELLS]], runs


def check_cells(settings: Settings, data: bytes) -> None:
    """Raise SynopsisError unless each cell keeps invariant 2.1: a bucket of size c has at least
    l (c - 1) newer events; and its edges are inside the span, in order. Cost: O(buckets * log).
    """
    now, table, runs = inspect(settings, data)
    span, per_level = settings.head[[cells.SPAN, cells.PER_LEVEL]].tolist()
    start = 0
    for item, total, end in table.T.tolist():
        times = np.repeat(runs[0, start:end], np.diff(runs[1, start:end], prepend=0)).tolist()
        newer = 0
        later = now - 1
        for i, time in enumerate(times):
            size = int(bucket_at(total, per_level, i)[1])
            if newer < per_level * (size - 1):
                raise SynopsisError(f"{item}: invariant 2.1 fails, {size} behind {newer} events")
            if not (now - span <= time <= later):
                raise SynopsisError(f"{item}: edge {time} is out of order or expired")
            newer += size
            later = time
        start = end
