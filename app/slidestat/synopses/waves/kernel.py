"""A wave's own work: take events in, answer a window, run a batch of keys.

Source: Gibbons and Tirthapura 2002, section 3 (figures 4 and 5) and section 5 (Nth most recent 1);
what is answered, and why it holds, is in the header of waves.py. An event costs O(1) in the worst
case: it drops at most two dead items, pushes one item out of a queue and adds one. (Once in 2^61
units, lowering the total visits every item.)

Windows are [now - n, now): an event exactly n old is inside, one at `now` is not there yet.
"""

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.keyed import with_room
from slidestat.synopses.core.wire import VERSION
from slidestat.synopses.exponential_histogram import units
from slidestat.synopses.exponential_histogram.canonical import LIVE_LIMIT, TOTAL_LIMIT, rebased
from slidestat.synopses.waves.ages import answer_age
from slidestat.synopses.waves.codec import (
    COUNT,
    HEAD_SIZE,
    KIND,
    PER_LEVEL,
    POSITION,
    SPAN,
    SUM,
    decode,
    encode,
    encoded_limit,
    place,
    read_head,
)
from slidestat.synopses.waves.pool import (
    GROUP,
    HEAD,
    ITEM_ROWS,
    LEVEL_ROWS,
    LEVELS,
    LOST,
    LOST_TIME,
    NEWER,
    NOW,
    STATE_SIZE,
    TAIL,
    THROUGH,
    TIME,
    TOTAL,
    VALUE,
    append,
    clear,
    drop_all_dead,
    drop_dead,
    level_between,
    lower,
    most_items,
)


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
    kind = head[KIND]
    for event in range(first, last):
        time = times[event]
        oldest = time + 1 - head[SPAN]
        state[NOW] = max(state[NOW], time + 1)
        drop_dead(state, items, levels, oldest, 2)
        value = values[event] if kind == SUM else 1
        if value == 0:
            continue
        before = state[TOTAL]
        tail = state[TAIL]
        if kind == POSITION and tail >= 0 and items[TIME, tail] == time:
            items[THROUGH, tail] += 1
            items[GROUP, tail] += 1
        else:
            gap = 0
            level = 0
            if kind == POSITION:
                # The event before is the newest item, or the newest lost one.
                gap = time - (items[TIME, tail] if tail >= 0 else state[LOST_TIME])
                level = level_between(place(time - gap), place(time))
            else:
                level = level_between(before, before + value)
            slot = append(state, items, levels, head[PER_LEVEL], level, oldest)
            items[TIME, slot] = time
            items[THROUGH, slot] = before + value
            items[VALUE, slot] = gap if kind == POSITION else value
            items[GROUP, slot] = 1
        state[TOTAL] = before + value
        if state[TOTAL] - state[LOST] >= LIVE_LIMIT:
            drop_all_dead(state, items, levels, oldest)
            if state[TOTAL] - state[LOST] >= LIVE_LIMIT:
                return error_codes.TOTAL_TOO_LARGE
        if state[TOTAL] >= TOTAL_LIMIT:
            drop_all_dead(state, items, levels, oldest)
            lower(state, items, state[TOTAL] - rebased(state[TOTAL]))
    return error_codes.OK


@borrowing_kernel
def _start(kind: int, items: Integers, slot: int) -> int:
    """Return how many units there are before the item."""
    return int(items[THROUGH, slot] - items[GROUP if kind == POSITION else VALUE, slot])


@borrowing_kernel
def _answer_window(
    kind: int, state: Integers, items: Integers, start: int
) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of what has time >= `start`; no item is dead.

    Cost: O(items older than `start`): O(1) for the whole span.
    """
    slot = state[HEAD]
    outside = state[LOST]
    while slot >= 0 and items[TIME, slot] < start:
        outside = items[THROUGH, slot]
        slot = items[NEWER, slot]
    if slot < 0:
        return 0.0, 0.0, 0.0
    least = int(state[TOTAL] - _start(kind, items, slot))
    most = int(state[TOTAL] - outside)
    estimate = (least + most) * 0.5
    if kind == COUNT:
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
    """Run each group's events and queries in time order; `drive` gives it its arguments.

    arena[offsets[g]:offsets[g + 1]] is the state of group g, empty for none. answers[0..2, query,
    ask] receives estimate, lower and upper. Returns (error, group, its two numbers, new arena, its
    offsets).
    """
    starts, times, query_starts, query_times, asks, _, cuts = columns
    groups = len(starts) - 1
    found = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    levels = np.empty((LEVEL_ROWS, LEVELS), np.int64)
    items = np.empty((ITEM_ROWS, 64), np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        size = offsets[group + 1] - offsets[group]
        room = min(size + starts[group + 1] - starts[group], most_items(head[PER_LEVEL]) + 1)
        if room > items.shape[1]:
            items = np.empty((ITEM_ROWS, 2 * room), np.int64)
        if size == 0:
            state[TOTAL] = 0
            state[NOW] = TIME_MIN
            state[LOST] = 0
            state[LOST_TIME] = TIME_MIN - 1
            clear(state, levels)
        else:
            error_code, number, at = read_head(arena, offsets[group], offsets[group + 1], found)
            if error_code != error_codes.OK:
                return error_code, group, number, VERSION, out, out_offsets
            if found[KIND] != head[KIND]:
                return error_codes.OTHER_KIND, group, found[KIND], head[KIND], out, out_offsets
            for i in range(HEAD_SIZE):
                if found[i] != head[i]:
                    return error_codes.OTHER_PARAMETERS, group, 0, 0, out, out_offsets
            error_code = decode(arena, at, offsets[group + 1], head, state, items, levels)
            if error_code != error_codes.OK:
                return error_code, group, 0, 0, out, out_offsets
        error_code, a, b, after = follows(columns, group, state[NOW])
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
            drop_all_dead(state, items, levels, state[NOW] - head[SPAN])
            for k in range(len(asks)):
                if head[KIND] == POSITION:
                    figures = answer_age(state, items, until, asks[k])
                else:
                    figures = _answer_window(head[KIND], state, items, until - asks[k])
                for i in range(3):
                    answers[i, query, k] = figures[i]
        state[NOW] = after
        drop_all_dead(state, items, levels, state[NOW] - head[SPAN])
        out = with_room(out, end, encoded_limit(state))
        end = encode(out, end, head, state, items)
        out_offsets[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, out_offsets
