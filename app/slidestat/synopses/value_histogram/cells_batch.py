"""Cells of all keys of a batch in one call: what value histograms and tables of counters share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.batch import integers, joined, slices, split, targets, windows
from slidestat.synopses.core.compile import kernel
from slidestat.synopses.core.envelope import synopsis_error
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.keyed import stretch, with_room
from slidestat.synopses.core.wire import Bytes
from slidestat.synopses.exponential_histogram.codec import TIME_MAX, TIME_MIN, Integers
from slidestat.synopses.exponential_histogram.kernel import Floats
from slidestat.synopses.value_histogram.cells import (
    CAPACITY,
    CELLS,
    ID,
    KIND,
    NOW,
    ROWS,
    SPAN,
    STATE_SIZE,
    TOO_MANY_CELLS,
    absorb,
    count,
)
from slidestat.synopses.value_histogram.cells_codec import read, room_for, write

_AFTER_ALL = (1 << 63) - 1


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
    starts: Integers,
    times: Integers,
    ids: Integers,
    query_starts: Integers,
    query_times: Integers,
    spans: Integers,
    advances: Integers,
    list_ends: Integers,
) -> tuple[int, int, int, int, Bytes, Integers, Integers, Floats]:
    """Run each group's events and queries in time order; `run_cells` says what the arrays hold.

    Returns (error, group, its two numbers, new arena, its offsets, listed ids, their figures).
    """
    groups = len(starts) - 1
    state = np.empty(STATE_SIZE, np.int64)
    own_table = np.empty((ROWS, 16), np.int64)
    own_runs = np.empty((2, 64), np.int64)
    listed = np.empty(64, np.int64)
    figures = np.empty((3, 64), np.float64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    at = 0
    for group in range(groups):
        state[NOW] = TIME_MIN
        state[CELLS] = 0
        table = own_table
        runs = own_runs
        if offsets[group] < offsets[group + 1]:
            error_code, number, own_table, own_runs = read(
                arena, offsets[group], offsets[group + 1], settings, head, state, table, runs
            )
            if error_code != error_codes.OK:
                known = head[KIND] if error_code == error_codes.OTHER_KIND else wire.VERSION
                return error_code, group, number, known, out, ends, listed, figures
            table = own_table
            runs = own_runs
        event = starts[group]
        asked = state[NOW]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            is_query = query < query_starts[group + 1]
            until = query_times[query] if is_query else _AFTER_ALL
            if until < asked or (is_query and until > TIME_MAX + 1):
                return error_codes.QUERY_WENT_BACK, group, until, asked, out, ends, listed, figures
            error_code, number, now = stretch(times, event, starts[group + 1], until, state[NOW])
            if error_code != error_codes.OK:
                return error_code, group, number, now, out, ends, listed, figures
            error_code, table, runs = absorb(head, state, table, runs, ids, times, event, number)
            if error_code != error_codes.OK:
                return error_code, group, head[CAPACITY], 0, out, ends, listed, figures
            event = number
            state[NOW] = now
            if not is_query:
                continue
            asked = until
            for k in range(len(spans)):
                if len(listed) - at < state[CELLS]:
                    longer = np.empty(2 * (len(listed) + state[CELLS]), np.int64)
                    longer[:at] = listed[:at]
                    listed = longer
                    wider = np.empty((3, len(listed)), np.float64)
                    wider[:, :at] = figures[:, :at]
                    figures = wider
                for cell in range(state[CELLS]):
                    estimate, low, high = count(head, table, runs, cell, until - spans[k])
                    if high > 0.0:
                        listed[at] = table[ID, cell]
                        figures[0, at] = estimate
                        figures[1, at] = low
                        figures[2, at] = high
                        at += 1
                list_ends[query * len(spans) + k + 1] = at
        if advances[group] > TIME_MIN:
            if advances[group] < state[NOW]:
                now = state[NOW]
                error_code = error_codes.TIME_WENT_BACK
                return error_code, group, advances[group], now, out, ends, listed, figures
            state[NOW] = advances[group]
        out = with_room(out, end, room_for(settings, state, table))
        end = write(out, end, settings, head, state, table, runs)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends, listed, figures


def run_cells(
    settings: Settings,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    ids: Integers,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    advances: npt.ArrayLike | None,
) -> CellsBatch:
    """Feed and ask the cells of many groups (keys) at once.

    states: G stored states, None for a new key. starts: int64[G + 1]; the events of group g are
    times[starts[g]:starts[g + 1]] (int64, not falling) and ids (int64, checked) alike.
    query_starts, query_times: the same for queries. spans: int64[K], each from 1 to the span kept.
    advances: int64[G], the time each group is moved on to after its events, if any.

    Raises SynopsisError, and changes nothing, for bytes that are not a state with these settings,
    for times or queries that go back, and for more live cells than the capacity.
    Cost: O(bytes in + events * log + queries * cells * log + bytes out).
    """
    groups = len(states)
    times = integers("times", times)
    query_times = integers("query_times", query_times)
    spans = windows(spans, int(settings.head[SPAN]))
    arena, offsets = joined(states)
    list_ends = np.zeros(len(query_times) * len(spans) + 1, np.int64)
    error_code, group, a, b, out, ends, listed, figures = _run(
        settings.head,
        settings.stored,
        arena,
        offsets,
        slices("starts", starts, groups, len(times)),
        times,
        ids,
        slices("query_starts", query_starts, groups, len(query_times)),
        query_times,
        spans,
        targets(advances, groups),
        list_ends,
    )
    if error_code == TOO_MANY_CELLS:
        where = f"group {group}: " if groups > 1 else ""
        raise WindowTooLargeError(f"{where}the window holds more than {a} items, the capacity")
    if error_code != error_codes.OK:
        raise error_codes.synopsis_error(error_code, int(a), int(b), group if groups > 1 else -1)
    size = list_ends[-1]
    return CellsBatch(split(out, ends), list_ends, listed[:size], *figures[:, :size])


def inspect(settings: Settings, data: bytes) -> tuple[int, Integers, Integers]:
    """Return the now, the table and the runs of stored cells; SynopsisError for other bytes."""
    state = np.empty(STATE_SIZE, np.int64)
    table = np.empty((ROWS, 0), np.int64)
    runs = np.empty((2, 0), np.int64)
    array = np.frombuffer(bytearray(data), np.uint8)
    error_code, number, table, runs = read(
        array, 0, len(array), settings.stored, settings.head, state, table, runs
    )
    if error_code != error_codes.OK:
        raise synopsis_error(error_code, int(number), int(settings.head[KIND]))
    return int(state[NOW]), table[:, : state[CELLS]], runs
