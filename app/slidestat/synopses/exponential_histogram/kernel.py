"""The exponential histogram's own work: take events in, answer a window, run a batch of keys.

Source: Datar et al. 2002, sections 2 and 4; the mathematics is in canonical.py. Inserting is a
search and not a cascade: the edges of the new total are enumerated from new to old, and each is
looked up among the new events or the old edges. Cost of a batch of a key's events: one pass over
the live edges (those of equal time at once), and one over the events' times and values. A query
amid them needs the edge of one bucket a window, and finds it without the others: a search.

Windows are [now - n, now): an event exactly n old is inside, one at `now` is not there yet.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.keyed import first_from, with_room
from slidestat.synopses.exponential_histogram import codec, units
from slidestat.synopses.exponential_histogram.canonical import (
    LIVE_LIMIT,
    bucket_at,
    bucket_count,
    bucket_since,
    rebased,
)

_LEVELS = 64
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


@borrowing_kernel
def fill(both: Integers, runs: Integers, count: int) -> None:
    """Copy the first runs of edges into both[0]."""
    for run in range(count):
        both[0, 0, run] = runs[0, run]
        both[0, 1, run] = runs[1, run]


@borrowing_kernel
def room_for_runs(total: int, per_level: int, runs: int, added: int) -> int:
    """Return for how many runs of edges room is needed until `added` more units, or fewer, are
    taken in: each adds a run at the most, and at no time are there more runs than buckets. A level
    may have one more of them before than at the end.
    """
    return int(min(runs + added, max(bucket_count(total + added, per_level) + _LEVELS, runs)))


@borrowing_kernel
def oldest_since(
    state: Integers,
    per_level: int,
    runs: Integers,
    added: int,
    kind: int,
    times: Integers,
    ends: Integers,
    first: int,
    last: int,
    start: int,
) -> tuple[int, int]:
    """Return (units newer than its edge, size) of the oldest bucket whose edge has a time of at
    least `start`, as it is once `added` units are taken in; (0, 0) if there is none.

    Arguments are those of `extend`, which would find the edges of all buckets. Of these, which are
    some of the old ones and of the new units, the one asked for is the first from the first of them
    on that has such a time. Cost: O(log events + log runs + log total).
    """
    before = state[codec.TOTAL]
    low = first_from(times, first, last, start)
    newer = low - first if kind == codec.COUNT or low == first else ends[low - 1]
    unit = before + newer + 1
    if low == first:
        run = codec.runs_since(runs, 0, state[codec.RUNS], start)
        if run > 0:
            unit = before - bucket_at(before, per_level, runs[1, run - 1] - 1)[0]
    if unit > before + added:
        return 0, 0
    return bucket_since(before + added, per_level, unit)


@borrowing_kernel
def newer_than_all(state: Integers, per_level: int, runs: Integers) -> int:
    """Return how many units are newer than the oldest live edge, 0 for none. Cost: O(log total)."""
    live = codec.live_edges(state, runs)
    return bucket_at(state[codec.TOTAL], per_level, live - 1)[0] if live > 0 else 0


@borrowing_kernel
def _take(
    head: Integers,
    scale: int,
    state: Integers,
    values: Floats,
    ends: Integers,
    first: int,
    last: int,
    added: int,
) -> tuple[int, int, int]:
    """Take in the units of the events first..last - 1, or of some of them, behind `added` others.

    Returns (error; the event that has it, or the first that was not taken in; units with them).
    """
    if head[codec.KIND] == codec.COUNT:
        return error_codes.OK, last, added + last - first
    while first < last and added < _CHUNK:
        whole, part, exact = units.to_units(values[first], scale)
        if whole < 0:
            return error_codes.BAD_VALUE, first, added
        if not exact:
            state[codec.INEXACT] = 1
            state[codec.CARRY] += part
            if state[codec.CARRY] >= units.ONE:
                state[codec.CARRY] -= units.ONE
                whole += 1
        added += whole
        ends[first] = added
        first += 1
    return error_codes.OK, first, added


@borrowing_kernel
def put_edges(
    head: Integers,
    state: Integers,
    both: Integers,
    side: int,
    added: int,
    times: Integers,
    ends: Integers,
    first: int,
    last: int,
    limit: int,
) -> bool:
    """Put edges of the events first..last - 1 into the runs, which are both[side] and will be in
    the other half, with room for one more of each event.

    Returns whether the oldest live edge has fewer newer units than `limit`.
    """
    state[codec.NOW] = max(state[codec.NOW], times[last - 1] + 1)
    total = state[codec.TOTAL] + added
    state[codec.RUNS] = extend(
        *(state, head[codec.PER_LEVEL], both[side], both[1 - side], added, head[codec.KIND]),
        *(times, ends, first, last, state[codec.NOW] - head[codec.SPAN]),
    )
    state[codec.TOTAL] = total
    fits = newer_than_all(state, head[codec.PER_LEVEL], both[1 - side]) < limit
    state[codec.TOTAL] = rebased(total)
    return fits


@kernel
def run(
    head: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    values: Floats,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order, as `drive` describes."""
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    kind = head[codec.KIND]
    scale = 10 ** head[codec.DECIMALS]
    found = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    runs = np.empty((2, codec.FIRST_ROOM), np.int64)
    both = np.empty((2, 2, codec.FIRST_ROOM), np.int64)
    ends = np.empty(0 if kind == codec.COUNT else len(times), np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        if offsets[group] == offsets[group + 1]:
            state[:] = 0
            state[codec.NOW] = TIME_MIN
        else:
            error_code, number, at = codec.read_head(
                arena, offsets[group], offsets[group + 1], kind, kind, found
            )
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, out_offsets
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
        room = state[codec.RUNS] + starts[group + 1] - event
        if kind == codec.COUNT:
            room = room_for_runs(
                *(state[codec.TOTAL], head[codec.PER_LEVEL], state[codec.RUNS]),
                starts[group + 1] - event,
            )
        if room > both.shape[2]:
            both = np.empty((2, 2, 2 * room), np.int64)
        fill(both, runs, state[codec.RUNS])
        side = 0
        # A query asks for one bucket of each window. So edges are put into runs at the end alone,
        # those of all events at once, and before where the units may be too many.
        first, added = event, 0
        most = min(_CHUNK, LIVE_LIMIT - newer_than_all(state, head[codec.PER_LEVEL], both[side]))
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            is_last = query == query_starts[group + 1]
            while event < cut or (is_last and first < event):
                error_code, event, added = _take(
                    head, scale, state, values, ends, event, cut, added
                )
                if error_code != error_codes.OK:
                    return error_code, group, event, 0, out, out_offsets
                if event == cut and added < most and not is_last:
                    break
                if not put_edges(
                    head, state, both, side, added, times, ends, first, event, LIVE_LIMIT
                ):
                    return error_codes.TOTAL_TOO_LARGE, group, first, 0, out, out_offsets
                side = 1 - side
                first, added = event, 0
                most = LIVE_LIMIT - newer_than_all(state, head[codec.PER_LEVEL], both[side])
                most = min(_CHUNK, most)
            if is_last:
                break
            for k in range(len(spans)):
                newer, size = oldest_since(
                    *(state, head[codec.PER_LEVEL], both[side], added, kind),
                    *(times, ends, first, event, query_times[query] - spans[k]),
                )
                answers[0, query, k], answers[1, query, k], answers[2, query, k] = units.bounds(
                    newer, size, scale, state[codec.INEXACT] != 0
                )
        state[codec.NOW] = after
        if len(out) - end < codec.encoded_limit(state):
            out = with_room(out, end, codec.encoded_limit(state))
        end = codec.encode(out, end, head, state, both[side])
        out_offsets[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, out_offsets
