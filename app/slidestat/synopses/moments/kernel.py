"""Mean, variance and standard deviation of a window: the kernels of `spread.py`.

A bucket is what some neighbouring events came to: their exact moments, and the times of its oldest
and its newest event. Events of one time that meet while the newest bucket has that time alone share
a bucket: no window parts them. Buckets are combined by `_compact`, every so many new buckets (as
many as there were after the last time, at least 32): a schedule of the events alone.

In memory a bucket is a column: rows of moments.py, then NEWEST and FIRST; oldest to newest.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import Columns, follows
from slidestat.synopses.core.keyed import with_room
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


@kernel
def _compact(head: Integers, state: Integers, buckets: Integers) -> None:
    """Combine neighbours, from new to old, where the events newer than both outweigh them."""
    parts = head[codec.PARTS]
    newer = np.zeros((moments.ROWS, 1), np.int64)
    pair = np.zeros((moments.ROWS, 1), np.int64)
    both = np.zeros((moments.ROWS, 1), np.int64)
    spread = 0.0
    at = state[codec.KEPT] - 1
    for i in range(state[codec.KEPT] - 2, state[codec.OLDEST] - 1, -1):
        if newer[moments.COUNT, 0] > 0:
            moments.put(both, 0, buckets, at)
            moments.add(both, 0, buckets, i)
            if both[moments.COUNT, 0] <= newer[moments.COUNT, 0] // parts:
                moments.put(pair, 0, both, 0)
                moments.add(pair, 0, newer, 0)
                if moments.squared_deviations(pair, 0) * parts <= spread * (parts + 1):
                    moments.put(buckets, at, both, 0)
                    buckets[codec.FIRST, at] = buckets[codec.FIRST, i]
                    continue
        moments.add(newer, 0, buckets, at)
        spread = moments.squared_deviations(newer, 0)
        at -= 1
        moments.put(buckets, at, buckets, i)
        buckets[codec.NEWEST, at] = buckets[codec.NEWEST, i]
        buckets[codec.FIRST, at] = buckets[codec.FIRST, i]
    state[codec.OLDEST] = at


@kernel
def _absorb(
    head: Integers,
    scale: int,
    state: Integers,
    buckets: Integers,
    times: Integers,
    values: Floats,
    first: int,
    last: int,
) -> tuple[int, int, Integers]:
    """Take in the events first..last - 1; return (error, its event, the buckets)."""
    single = np.zeros((moments.ROWS, 1), np.int64)
    for event in range(first, last):
        time = times[event]
        unit, exact, fits = moments.to_unit(values[event], scale)
        if not fits:
            return error_codes.TOO_MANY_UNITS, event, buckets
        if not exact:
            state[codec.INEXACT] = 1
        codec.expire(head, state, buckets, max(state[codec.NOW], time + 1))
        state[codec.EVENTS] += 1
        state[codec.MAGNITUDES] += abs(unit)
        if (
            state[codec.EVENTS] > moments.MAX_COUNT
            or state[codec.MAGNITUDES] > moments.MAX_MAGNITUDES
        ):
            return error_codes.MOMENTS_TOO_LARGE, event, buckets
        moments.set_unit(single, 0, unit)
        newest = state[codec.KEPT] - 1
        if (
            newest >= state[codec.OLDEST]
            and buckets[codec.NEWEST, newest] == time
            and buckets[codec.FIRST, newest] == time
        ):
            moments.add(buckets, newest, single, 0)
            continue
        if state[codec.KEPT] == buckets.shape[1]:
            live = state[codec.KEPT] - state[codec.OLDEST]
            moved = np.empty((codec.BUCKET_ROWS, max(2 * live, 2 * codec.LEAST_STEP)), np.int64)
            moved[:, :live] = buckets[:, state[codec.OLDEST] : state[codec.KEPT]]
            buckets = moved
            state[codec.OLDEST] = 0
            state[codec.KEPT] = live
        moments.put(buckets, state[codec.KEPT], single, 0)
        buckets[codec.NEWEST, state[codec.KEPT]] = time
        buckets[codec.FIRST, state[codec.KEPT]] = time
        state[codec.KEPT] += 1
        state[codec.LEFT] -= 1
        if state[codec.LEFT] == 0:
            _compact(head, state, buckets)
            state[codec.LEFT] = max(codec.LEAST_STEP, state[codec.KEPT] - state[codec.OLDEST])
    return error_codes.OK, 0, buckets


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
    low = 0
    high = state[codec.KEPT] - state[codec.OLDEST]
    while low < high:
        middle = (low + high) >> 1
        if buckets[codec.NEWEST, state[codec.KEPT] - 1 - middle] >= start:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        found[:, :] = _NAN
        found[SIZE, :] = 0.0
        return summed
    cut = state[codec.KEPT] - low
    whole = low if buckets[codec.FIRST, cut] >= start else low - 1
    if whole < summed:
        sums[:, 0] = 0
        summed = 0
    moments.add_all(sums, 0, buckets, state[codec.KEPT] - whole, state[codec.KEPT] - summed)
    if whole == low:
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
    """Run each group's events and queries in time order; `drive` gives it its arguments.

    answers[statistic, 0..2, query, span] receives estimate, lower and upper, those of SIZE, too.
    Returns (error code, group, its two numbers, new arena, its offsets).
    """
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    scale = 10 ** head[codec.DECIMALS]
    read_with = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    buckets = np.empty((codec.BUCKET_ROWS, codec.LEAST_STEP), np.int64)
    found = np.empty((STATISTICS + 1, 3), np.float64)
    sums = np.zeros((moments.ROWS, 2), np.int64)
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
                return error_code, group, number, wire.VERSION, out, ends
            for i in range(codec.HEAD_SIZE):
                if read_with[i] != head[i]:
                    return error_codes.OTHER_SETTINGS, group, 0, 0, out, ends
        error_code, a, b, after = follows(columns, group, state[codec.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            error_code, where, buckets = _absorb(
                head, scale, state, buckets, times, values, event, cut
            )
            if error_code != error_codes.OK:
                return error_code, group, where, 0, out, ends
            if cut > event:
                state[codec.NOW] = times[cut - 1] + 1
            event = cut
            if query == query_starts[group + 1]:
                break
            sums[:, 0] = 0
            summed = 0
            for k in range(len(spans)):
                start = query_times[query] - spans[k]
                summed = _bounds(head, state, buckets, sums, summed, start, found)
                answers[:, :, query, k] = found
        state[codec.NOW] = after
        out = with_room(out, end, codec.room_for(state))
        end = codec.write(out, end, head, state, buckets)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends
