"""A wave's own work: take events in, answer a window, run a batch of keys.

Source: Gibbons and Tirthapura 2002, section 3 (figures 4 and 5) and section 5 (Nth most recent 1);
what is answered is in waves.py, why it holds in docs/proofs.md. An event costs O(1) in the worst
case: it drops at most two dead items, pushes one item out of a queue and adds one. (Once in 2^61
units, lowering the total visits every item.)

Windows are [now - n, now): an event exactly n old is inside, one at `now` is not there yet.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.keyed import with_room
from slidestat.synopses.exponential_histogram import units
from slidestat.synopses.exponential_histogram.canonical import LIVE_LIMIT, TOTAL_LIMIT, rebased
from slidestat.synopses.waves import codec, pool
from slidestat.synopses.waves.ages import answer_age


@borrowing_kernel
def _absorb(
    head: Integers,
    state: Integers,
    items: Integers,
    levels: Integers,
    times: Integers,
    values: Integers,
    first: int,
    last: int,
) -> int:
    """Take in the events first..last - 1, which have been checked; return an error code."""
    kind = head[codec.KIND]
    for event in range(first, last):
        time = times[event]
        oldest = time + 1 - head[codec.SPAN]
        state[pool.NOW] = max(state[pool.NOW], time + 1)
        pool.drop_dead(state, items, levels, oldest, 2)
        value = values[event] if kind == codec.SUM else 1
        if value == 0:
            continue
        before = state[pool.TOTAL]
        tail = state[pool.TAIL]
        if kind == codec.POSITION and tail >= 0 and items[pool.TIME, tail] == time:
            items[pool.THROUGH, tail] += 1
            items[pool.GROUP, tail] += 1
        else:
            gap = 0
            level = 0
            if kind == codec.POSITION:
                # The event before is the newest item, or the newest lost one.
                gap = time - (items[pool.TIME, tail] if tail >= 0 else state[pool.LOST_TIME])
                level = pool.level_between(codec.place(time - gap), codec.place(time))
            else:
                level = pool.level_between(before, before + value)
            slot = pool.append(state, items, levels, head[codec.PER_LEVEL], level, oldest)
            items[pool.TIME, slot] = time
            items[pool.THROUGH, slot] = before + value
            items[pool.VALUE, slot] = gap if kind == codec.POSITION else value
            items[pool.GROUP, slot] = 1
        state[pool.TOTAL] = before + value
        if state[pool.TOTAL] - state[pool.LOST] >= LIVE_LIMIT:
            pool.drop_all_dead(state, items, levels, oldest)
            if state[pool.TOTAL] - state[pool.LOST] >= LIVE_LIMIT:
                return error_codes.TOTAL_TOO_LARGE
        if state[pool.TOTAL] >= TOTAL_LIMIT:
            pool.drop_all_dead(state, items, levels, oldest)
            pool.lower(state, items, state[pool.TOTAL] - rebased(state[pool.TOTAL]))
    return error_codes.OK


@borrowing_kernel
def _answer_window(
    kind: int, state: Integers, items: Integers, start: int
) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of what has time >= `start`; no item is dead.

    Cost: O(items older than `start`): O(1) for the whole span.
    """
    slot = state[pool.HEAD]
    outside = state[pool.LOST]
    while slot >= 0 and items[pool.TIME, slot] < start:
        outside = items[pool.THROUGH, slot]
        slot = items[pool.NEWER, slot]
    if slot < 0:
        return 0.0, 0.0, 0.0
    before = items[pool.THROUGH, slot] - items[pool.VALUE, slot]
    least = int(state[pool.TOTAL] - before)
    most = int(state[pool.TOTAL] - outside)
    estimate = (least + most) * 0.5
    if kind == codec.COUNT:
        estimate = float((least + most + 1) >> 1)
    return estimate, units.floor_quotient(least, 1), units.ceil_quotient(most, 1)


@kernel
def run(
    head: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    values: Integers,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order, as `drive` describes."""
    starts, times, query_starts, query_times, asks, _, cuts = columns
    groups = len(starts) - 1
    kind = head[codec.KIND]
    found = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(pool.STATE_SIZE, np.int64)
    levels = np.empty((pool.LEVEL_ROWS, pool.LEVELS), np.int64)
    items = np.empty((pool.ITEM_ROWS, 64), np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        size = offsets[group + 1] - offsets[group]
        room = min(
            size + starts[group + 1] - starts[group], pool.most_items(head[codec.PER_LEVEL]) + 1
        )
        if room > items.shape[1]:
            items = np.empty((pool.ITEM_ROWS, 2 * room), np.int64)
        if size == 0:
            state[pool.TOTAL] = 0
            state[pool.NOW] = TIME_MIN
            state[pool.LOST] = 0
            state[pool.LOST_TIME] = TIME_MIN - 1
            pool.clear(state, levels)
        else:
            error_code, number, at = codec.read_head(
                arena, offsets[group], offsets[group + 1], kind, found
            )
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, out_offsets
            for i in range(codec.HEAD_SIZE):
                if found[i] != head[i]:
                    return error_codes.OTHER_PARAMETERS, group, 0, 0, out, out_offsets
            error_code = codec.decode(arena, at, offsets[group + 1], head, state, items, levels)
            if error_code != error_codes.OK:
                return error_code, group, 0, 0, out, out_offsets
        error_code, a, b, after = follows(columns, group, state[pool.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            error_code = _absorb(head, state, items, levels, times, values, event, cut)
            if error_code != error_codes.OK:
                return error_code, group, 0, 0, out, out_offsets
            event = cut
            if query == query_starts[group + 1]:
                break
            until = query_times[query]
            pool.drop_all_dead(state, items, levels, state[pool.NOW] - head[codec.SPAN])
            for k in range(len(asks)):
                if kind == codec.POSITION:
                    figures = answer_age(state, items, until, asks[k])
                else:
                    figures = _answer_window(kind, state, items, until - asks[k])
                for i in range(3):
                    answers[i, query, k] = figures[i]
        state[pool.NOW] = after
        pool.drop_all_dead(state, items, levels, state[pool.NOW] - head[codec.SPAN])
        out = with_room(out, end, codec.encoded_limit(state))
        end = codec.encode(out, end, head, state, items)
        out_offsets[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, out_offsets
