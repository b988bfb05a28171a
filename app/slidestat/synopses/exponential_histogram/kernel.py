"""The exponential histogram's own work: take events in, answer a window, run a batch of keys.

Source: Datar et al. 2002, sections 2 and 4; the mathematics is in canonical.py. Inserting is a
search and not a cascade: the edges of the new total are enumerated from new to old, and each is
looked up among the new events or the old edges. Cost of a stretch of events: one pass over the live
edges (those of equal time at once), and one over the events' times and values.

Windows are [now - n, now): an event exactly n old is inside, one at `now` is not there yet.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.keyed import with_room
from slidestat.synopses.core.wire import VERSION
from slidestat.synopses.exponential_histogram import codec, units
from slidestat.synopses.exponential_histogram.canonical import (
    LIVE_LIMIT,
    bucket_at,
    bucket_count,
    rebased,
)

_CHUNK = 1 << 60  # units taken in at once: a total below TOTAL_LIMIT and these fit in 63 bits


@borrowing_kernel
def extend(
    state: Integers,
    per_level: int,
    old: Integers,
    new: Integers,
    added: int,
    kind: int,
    times: Integers,
    ends: Integers,
    first: int,
    last: int,
    oldest: int,
) -> int:
    """Fill `new` with the runs of edges after `added` units; return how many runs are live.

    The units are those of the events first..last - 1; of a sum, event i ends with unit ends[i]. An
    edge is live from time `oldest` on; edges come from new to old, so the first dead one ends it.
    All edges of a level that fall into one event, or into one run of one old level, are taken
    at once. Cost: O(runs + log total).
    """
    before = state[codec.TOTAL]
    base = before + added + per_level
    event = last - 1
    # Where the old form is being read: the level, its newest edge over 2^level, the same of the
    # level above, the index of the level's first edge, and the run.
    old_level = 0
    old_top = before
    old_above = max(((before + per_level) >> 1) - per_level, 0)
    old_index = 0
    run = 0
    count = 0
    edges = 0
    level = 0
    top = base - per_level
    while top > 0:
        above = max((base >> (level + 1)) - per_level, 0)
        multiple = top
        while multiple > 2 * above:
            edge = multiple << level
            if edge > before:
                unit = edge - before
                if kind == codec.COUNT:
                    event = first + unit - 1
                    alike = 1
                else:
                    while event > first and ends[event - 1] >= unit:
                        event -= 1
                    start = before + (ends[event - 1] if event > first else 0)
                    alike = multiple - max(start >> level, 2 * above)
                time = times[event]
            else:
                while edge <= (2 * old_above) << old_level:
                    old_index += old_top - 2 * old_above
                    old_level += 1
                    old_top = old_above
                    old_above = max(((before + per_level) >> (old_level + 1)) - per_level, 0)
                index = old_index + old_top - (edge >> old_level)
                while run < state[codec.RUNS] and old[1, run] <= index:
                    run += 1
                if run == state[codec.RUNS]:
                    return count
                time = old[0, run]
                stop = min(old[1, run], old_index + old_top - 2 * old_above)
                alike = ((stop - 1 - index) >> (level - old_level)) + 1
                alike = min(alike, multiple - 2 * above)
            if time < oldest:
                return count
            if count == 0 or new[0, count - 1] != time:
                new[0, count] = time
                count += 1
            edges += alike
            new[1, count - 1] = edges
            multiple -= alike
        level += 1
        top = above
    return count


@kernel
def _absorb(
    head: Integers,
    scale: int,
    state: Integers,
    runs: Integers,
    spare: Integers,
    times: Integers,
    values: Floats,
    ends: Integers,
    first: int,
    last: int,
) -> tuple[int, int, Integers, Integers]:
    """Take in the events first..last - 1, whose times have been checked.

    Returns (error, its event, the runs of edges, the other array): the two change places.
    """
    while first < last:
        stop = last
        added = last - first
        if head[codec.KIND] != codec.COUNT:
            stop = first
            added = 0
            while stop < last and added < _CHUNK:
                whole, part, exact = units.to_units(values[stop], scale)
                if whole < 0:
                    return error_codes.BAD_VALUE, stop, runs, spare
                if not exact:
                    state[codec.INEXACT] = 1
                    state[codec.CARRY] += part
                    if state[codec.CARRY] >= units.ONE:
                        state[codec.CARRY] -= units.ONE
                        whole += 1
                added += whole
                ends[stop] = added
                stop += 1
        state[codec.NOW] = max(state[codec.NOW], times[stop - 1] + 1)
        total = state[codec.TOTAL] + added
        room = min(bucket_count(total, head[codec.PER_LEVEL]), state[codec.RUNS] + stop - first)
        if room > spare.shape[1]:
            spare = np.empty((2, 2 * room), np.int64)
        count = extend(
            state,
            head[codec.PER_LEVEL],
            runs,
            spare,
            added,
            head[codec.KIND],
            times,
            ends,
            first,
            stop,
            state[codec.NOW] - head[codec.SPAN],
        )
        state[codec.RUNS] = count
        runs, spare = spare, runs
        live = codec.live_edges(state, runs)
        if live > 0 and bucket_at(total, head[codec.PER_LEVEL], live - 1)[0] >= LIVE_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, first, runs, spare
        state[codec.TOTAL] = rebased(total)
        first = stop
    return error_codes.OK, 0, runs, spare


@borrowing_kernel
def _answer(
    head: Integers, scale: int, state: Integers, runs: Integers, start: int
) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of what has time >= `start`. Cost: O(log runs + log S)."""
    low = codec.runs_since(runs, 0, state[codec.RUNS], start)
    if low == 0:
        return units.bounds(0, 0, scale, state[codec.INEXACT] != 0)
    newer, size = bucket_at(state[codec.TOTAL], head[codec.PER_LEVEL], runs[1, low - 1] - 1)
    return units.bounds(newer, size, scale, state[codec.INEXACT] != 0)


@kernel
def run(
    head: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    values: Floats,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order; `drive` gives it its arguments.

    arena[offsets[g]:offsets[g + 1]] is the state of group g, empty for none. answers[0..2, query,
    span] receives estimate, lower and upper. Returns (error, group, its two numbers, new arena, its
    offsets).
    """
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    scale = 10 ** head[codec.DECIMALS]
    found = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    runs = np.empty((2, codec.FIRST_ROOM), np.int64)
    spare = np.empty((2, codec.FIRST_ROOM), np.int64)
    ends = np.empty(0 if head[codec.KIND] == codec.COUNT else len(times), np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        if offsets[group] == offsets[group + 1]:
            state[:] = 0
            state[codec.NOW] = TIME_MIN
        else:
            error_code, number, at = codec.read_head(
                arena, offsets[group], offsets[group + 1], found
            )
            if error_code != error_codes.OK:
                return error_code, group, number, VERSION, out, out_offsets
            if found[codec.KIND] != head[codec.KIND]:
                return (
                    error_codes.OTHER_KIND,
                    group,
                    found[codec.KIND],
                    head[codec.KIND],
                    out,
                    out_offsets,
                )
            for i in range(codec.HEAD_SIZE):
                if found[i] != head[i]:
                    return error_codes.OTHER_PARAMETERS, group, 0, 0, out, out_offsets
            error_code, runs = codec.decode(arena, at, offsets[group + 1], head, state, runs)
            if error_code != error_codes.OK:
                return error_code, group, 0, 0, out, out_offsets
        error_code, a, b, after = follows(columns, group, state[codec.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            error_code, where, runs, spare = _absorb(
                head, scale, state, runs, spare, times, values, ends, event, cut
            )
            if error_code != error_codes.OK:
                return error_code, group, where, 0, out, out_offsets
            event = cut
            if query == query_starts[group + 1]:
                break
            for k in range(len(spans)):
                start = query_times[query] - spans[k]
                estimate, lower, upper = _answer(head, scale, state, runs, start)
                answers[0, query, k] = estimate
                answers[1, query, k] = lower
                answers[2, query, k] = upper
        state[codec.NOW] = after
        out = with_room(out, end, codec.encoded_limit(state))
        end = codec.encode(out, end, head, state, runs)
        out_offsets[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, out_offsets
