"""Mean, variance and standard deviation of a window: the kernels of `spread.py`.

A bucket is what some neighbouring events came to: their exact moments, and the times of its oldest
and its newest event. Events of one time that meet while the newest bucket has that time alone share
a bucket: no window parts them. Buckets are combined by `_compact`, every so many new buckets (as
many as there were after the last time, at least 32): a schedule of the events alone.

In memory a bucket is a column: rows of moments.py, then NEWEST and FIRST; oldest to newest.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import Columns, follows
from slidestat.synopses.core.keyed import first_from, with_room
from slidestat.synopses.moments import codec, moments

MEAN, VARIANCE, DEVIATION = 0, 1, 2
STATISTICS = 3
SIZE = STATISTICS
"""The row of how many events a window has, behind its statistics."""

_ROUNDING = 2.0**-46
"""Outward rounding: covers what a few dozen operations on doubles lose."""

_UNIT_ROUNDING = 2.0**-48
"""The same for a difference of means, in units."""

_HALF_UNIT = 0.5 + 2.0**-12
"""How far a value may be from its unit."""

_NAN = float("nan")


# Columns of room for moments that are no bucket's.
_NEWER, _PAIR, _BOTH, _SINGLE, _COLUMNS = 0, 1, 2, 3, 4


@borrowing_kernel
def _compact(head: Integers, state: Integers, buckets: Integers, room: Integers) -> None:
    """Combine neighbours, from new to old, where the events newer than both outweigh them."""
    parts = head[codec.PARTS]
    room[:, _NEWER] = 0
    spread = 0.0
    at = state[codec.KEPT] - 1
    for i in range(state[codec.KEPT] - 2, state[codec.OLDEST] - 1, -1):
        if room[moments.COUNT, _NEWER] > 0:
            moments.put(room, _BOTH, buckets, at)
            moments.add(room, _BOTH, buckets, i)
            if room[moments.COUNT, _BOTH] <= room[moments.COUNT, _NEWER] // parts:
                moments.put(room, _PAIR, room, _BOTH)
                moments.add(room, _PAIR, room, _NEWER)
                if moments.squared_deviations(room, _PAIR) * parts <= spread * (parts + 1):
                    moments.put(buckets, at, room, _BOTH)
                    buckets[codec.FIRST, at] = buckets[codec.FIRST, i]
                    continue
        moments.add(room, _NEWER, buckets, at)
        spread = moments.squared_deviations(room, _NEWER)
        at -= 1
        moments.put(buckets, at, buckets, i)
        buckets[codec.NEWEST, at] = buckets[codec.NEWEST, i]
        buckets[codec.FIRST, at] = buckets[codec.FIRST, i]
    state[codec.OLDEST] = at


@borrowing_kernel
def _absorb(
    head: Integers,
    scale: int,
    state: Integers,
    buckets: Integers,
    times: Integers,
    values: Floats,
    first: int,
    last: int,
    room: Integers,
) -> tuple[int, int]:
    """Take in the events first..last - 1, as long as there is room for a bucket more.

    Returns (error, its event); without one, the first event that was not taken in. `room` is for
    int64[ROWS, _COLUMNS].
    """
    for event in range(first, last):
        if state[codec.KEPT] == buckets.shape[1]:
            return error_codes.OK, event
        time = times[event]
        unit, exact, fits = moments.to_unit(values[event], scale)
        if not fits:
            return error_codes.TOO_MANY_UNITS, event
        if not exact:
            state[codec.INEXACT] = 1
        codec.expire(head, state, buckets, max(state[codec.NOW], time + 1))
        state[codec.EVENTS] += 1
        state[codec.MAGNITUDES] += abs(unit)
        if (
            state[codec.EVENTS] > moments.MAX_COUNT
            or state[codec.MAGNITUDES] > moments.MAX_MAGNITUDES
        ):
            return error_codes.MOMENTS_TOO_LARGE, event
        moments.set_unit(room, _SINGLE, unit)
        newest = state[codec.KEPT] - 1
        if (
            newest >= state[codec.OLDEST]
            and buckets[codec.NEWEST, newest] == time
            and buckets[codec.FIRST, newest] == time
        ):
            moments.add(buckets, newest, room, _SINGLE)
            continue
        moments.put(buckets, state[codec.KEPT], room, _SINGLE)
        buckets[codec.NEWEST, state[codec.KEPT]] = time
        buckets[codec.FIRST, state[codec.KEPT]] = time
        state[codec.KEPT] += 1
        state[codec.LEFT] -= 1
        if state[codec.LEFT] == 0:
            _compact(head, state, buckets, room)
            state[codec.LEFT] = max(codec.LEAST_STEP, state[codec.KEPT] - state[codec.OLDEST])
    return error_codes.OK, last


@kernel
def _with_bucket(state: Integers, buckets: Integers) -> Integers:
    """Return the buckets at the start of another array, which has room for as many more."""
    live = state[codec.KEPT] - state[codec.OLDEST]
    moved = np.empty((codec.BUCKET_ROWS, max(2 * live, 2 * codec.LEAST_STEP)), np.int64)
    moved[:, :live] = buckets[:, state[codec.OLDEST] : state[codec.KEPT]]
    state[codec.OLDEST] = 0
    state[codec.KEPT] = live
    return moved


@borrowing_kernel
def _between(least: float, largest: float) -> float:
    """Return the number that is off by the same share from both."""
    if least == largest:
        return least
    return 2.0 * least * (largest / (least + largest))


@borrowing_kernel
def spread_of_cut(
    newer: float, size: float, inner: float, outer: float, apart: float, own: float, base: float
) -> tuple[float, float, float, float]:
    """Return (least and largest variance, mean, how far it may be off) of `newer` events, and of 1
    to all but one of the `size` events of a bucket that the window cuts.

    inner, outer, own: squared deviations without the bucket, with it, and of it alone. base: the
    mean without it. apart: that of the bucket, less base.
    """
    least = inner / (newer + size - 1.0)
    largest = outer / (newer + 1.0)
    one = apart / (newer + 1.0)
    all_but_one = apart * ((size - 1.0) / (newer + size - 1.0))
    sway = 0.5 * np.sqrt(own * (size / (newer * (newer + size))))
    center = base + 0.5 * (one + all_but_one)
    reach = 0.5 * abs(all_but_one - one) + sway
    reach += (abs(base) + abs(center) + reach) * _ROUNDING + _UNIT_ROUNDING
    return least, largest, center, reach


@borrowing_kernel
def spread_of_all(squared: float, count: float, center: float) -> tuple[float, float, float, float]:
    """Return the same of `count` events that are all in the window."""
    return squared / count, squared / count, center, abs(center) * _ROUNDING


@borrowing_kernel
def put_spread(
    told: tuple[float, float, float, float], decimals: int, inexact: int, found: Floats
) -> None:
    """Write found[statistic, 0..2], in units of 1, from the result of `spread_of_all` or `_cut` in
    units of 10^-decimals; inexact: 1 where values had more decimals.
    """
    least, largest, center, reach = told
    half = _HALF_UNIT if inexact != 0 else 0.0
    scale = 10.0**decimals
    found[MEAN, 0] = center / scale
    found[MEAN, 1] = (center - reach - half) / scale
    found[MEAN, 2] = (center + reach + half) / scale
    for i in (1, 2):
        out = abs(found[MEAN, i]) * _ROUNDING
        found[MEAN, i] += out if i == 2 else -out
    narrow = np.sqrt(least)
    wide = np.sqrt(largest)
    found[DEVIATION, 0] = _between(narrow, wide) / scale
    found[DEVIATION, 1] = max(0.0, narrow - half) * (1.0 - _ROUNDING) / scale
    found[DEVIATION, 2] = (wide + half) * (1.0 + _ROUNDING) / scale
    found[VARIANCE, 0] = _between(least, largest) / scale / scale
    if half > 0.0:
        least = max(0.0, narrow - half) ** 2
        largest = (wide + half) ** 2
    found[VARIANCE, 1] = least * (1.0 - _ROUNDING) / scale / scale
    found[VARIANCE, 2] = largest * (1.0 + _ROUNDING) / scale / scale


@borrowing_kernel
def _bounds(
    head: Integers,
    state: Integers,
    buckets: Integers,
    sums: Integers,
    summed: int,
    start: int,
    found: Floats,
) -> int:
    """Write found[statistic, 0..2], in units, for the events from time `start` on, and how many
    they are: a search. The first column of `sums` has the moments of the newest `summed` buckets;
    return of how many then. Cost: O(log buckets), and a sum of those that are not in it.
    """
    kept = state[codec.KEPT]
    cut = first_from(buckets[codec.NEWEST], state[codec.OLDEST], kept, start)
    if cut == kept:
        found[:, :] = _NAN
        found[SIZE, :] = 0.0
        return summed
    is_whole = buckets[codec.FIRST, cut] >= start
    whole = int(kept - cut if is_whole else kept - cut - 1)
    if whole < summed:
        sums[:, 0] = 0
        summed = 0
    moments.add_all(sums, 0, buckets, kept - whole, kept - summed)
    if is_whole:
        told = spread_of_all(
            moments.squared_deviations(sums, 0),
            float(sums[moments.COUNT, 0]),
            moments.mean(sums, 0),
        )
        found[SIZE, :] = float(sums[moments.COUNT, 0])
    else:
        moments.put(sums, 1, sums, 0)
        moments.add(sums, 1, buckets, cut)
        found[SIZE, 1] = float(sums[moments.COUNT, 0]) + 1.0
        found[SIZE, 2] = float(sums[moments.COUNT, 1]) - 1.0
        found[SIZE, 0] = found[SIZE, 1] + (found[SIZE, 2] - found[SIZE, 1]) / 2.0
        told = spread_of_cut(
            float(sums[moments.COUNT, 0]),
            float(buckets[moments.COUNT, cut]),
            moments.squared_deviations(sums, 0),
            moments.squared_deviations(sums, 1),
            moments.difference_of_means(buckets, cut, sums, 0),
            moments.squared_deviations(buckets, cut),
            moments.mean(sums, 0),
        )
    put_spread(told, head[codec.DECIMALS], state[codec.INEXACT], found)
    return whole


@kernel
def run(
    head: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    values: Floats,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order, as `drive` describes, with
    answers[statistic, 0..2, query, span], those of SIZE, too.
    """
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    scale = 10 ** head[codec.DECIMALS]
    read_with = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    buckets = np.empty((codec.BUCKET_ROWS, codec.LEAST_STEP), np.int64)
    sums = np.zeros((moments.ROWS, 2), np.int64)
    room = np.zeros((moments.ROWS, _COLUMNS), np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        codec.clear(state)
        if offsets[group] < offsets[group + 1]:
            error_code, number, buckets = codec.read(
                arena, offsets[group], offsets[group + 1], read_with, state, buckets
            )
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, ends
            for i in range(codec.HEAD_SIZE):
                if read_with[i] != head[i]:
                    return error_codes.OTHER_SETTINGS, group, 0, 0, out, ends
        error_code, a, b, after = follows(columns, group, state[codec.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            while event < cut:
                error_code, event = _absorb(
                    head, scale, state, buckets, times, values, event, cut, room
                )
                if error_code != error_codes.OK:
                    return error_code, group, event, 0, out, ends
                if event < cut:
                    buckets = _with_bucket(state, buckets)
                else:
                    state[codec.NOW] = times[cut - 1] + 1
            if query == query_starts[group + 1]:
                break
            for row in range(moments.ROWS):
                sums[row, 0] = 0
            summed = 0
            for k in range(len(spans)):
                start = query_times[query] - spans[k]
                found = answers[:, :, query, k]
                summed = _bounds(head, state, buckets, sums, summed, start, found)
        state[codec.NOW] = after
        if len(out) - end < codec.room_for(state):
            out = with_room(out, end, codec.room_for(state))
        end = codec.write(out, end, head, state, buckets)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends
