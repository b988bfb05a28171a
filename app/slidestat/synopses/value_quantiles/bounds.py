"""The knowledge of a window: how many events are in each bin and below; quantiles and ranks follow.

Let the window have m events, N(<= i) of them in the bins up to i. Cells (bands.py) give L <= N <= U
for the bins up to i and for those from i on, and an exponential histogram of all events gives m;
sums of bounds are bounds. The bins that may have the p-quantile are some in a row: `lower` is the
lower edge of the first, `upper` the upper edge of the last. The estimate is in the last bin with
M(>= i) > (1 - p) M_m for p >= 1/2, M being the middles of L and U; for p < 1/2 the same from below.
Of a rank, it is the mean of the middles at the two edges of its bin, on the side that has less by
it. Why the bounds and both errors hold: docs/proofs.md.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.exponential_histogram.canonical import bucket_at
from slidestat.synopses.value_quantiles.bands import END, LAST, ONE_TIME, START, TIME, WIDTH
from slidestat.synopses.value_quantiles.codec import BANDS, PER_LEVEL, RUNS, TOTAL

PARTS = 1_000_000
"""A quantile is asked for in whole millionths."""


@borrowing_kernel
def total_at(head: Integers, state: Integers, runs: Integers, start: int) -> tuple[int, int]:
    """Return bounds on how many events have time >= `start`. Cost: O(log)."""
    low = 0
    high = state[RUNS]
    while low < high:
        middle = (low + high) >> 1
        if runs[0, middle] >= start:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0, 0
    newer, size = bucket_at(state[TOTAL], head[PER_LEVEL], runs[1, low - 1] - 1)
    return newer + 1, newer + size


@kernel
def bins_at(
    state: Integers,
    table: Integers,
    cells: Integers,
    now: int,
    spans: Integers,
    lows: Integers,
    highs: Integers,
) -> None:
    """Fill lows and highs, int64[spans, 8 bands], with bounds on the events up to each bin.

    `spans` rise. Cost: O(cells + spans * bands).
    """
    beyond = np.empty(WIDTH, np.int64)
    for band in range(state[BANDS]):
        at = WIDTH * band
        beyond[:] = 0
        cell = table[END, band] - 1
        for k in range(len(spans)):
            start = now - spans[k]
            while cell >= table[START, band] and cells[cell, TIME] >= start:
                for i in range(WIDTH):
                    beyond[i] += cells[cell, i]
                cell -= 1
            low_before = lows[k, at - 1] if band > 0 else 0
            high_before = highs[k, at - 1] if band > 0 else 0
            cut = cell + 1
            if beyond[LAST] == 0 or cells[cut, ONE_TIME] == 1:
                for i in range(WIDTH):
                    lows[k, at + i] = low_before + beyond[i]
                    highs[k, at + i] = high_before + beyond[i]
            else:
                for i in range(WIDTH):
                    lows[k, at + i] = low_before + beyond[i] - cells[cut, i]
                    highs[k, at + i] = high_before + beyond[i]


@borrowing_kernel
def find_quantile(
    lows: Integers, highs: Integers, least: int, most: int, part: int
) -> tuple[int, int, int]:
    """Return the places of the bins of (estimate, lower, upper) of the part/PARTS quantile.

    lows, highs: bounds on the events up to each bin, at least one bin having one. least, most:
    bounds on all events. Cost: O(log bins).
    """
    bins = len(lows)
    all_low, all_high = lows[bins - 1], highs[bins - 1]
    first, stop = 0, bins - 1
    while first < stop:
        i = (first + stop) >> 1
        events = max(highs[i] + all_low - lows[i], least)
        if highs[i] >= 1 and highs[i] * PARTS >= part * events:
            stop = i
        else:
            first = i + 1
    last, stop = 0, bins - 1
    while last < stop:
        i = (last + stop + 1) >> 1
        below = lows[i - 1]
        if below == 0 or below * PARTS < part * min(below + all_high - highs[i - 1], most):
            last = i
        else:
            stop = i - 1
    while last > 0 and highs[last] == highs[last - 1]:
        last -= 1
    twice = least + most
    found, stop = 0, bins - 1
    while found < stop:
        if 2 * part >= PARTS:
            i = (found + stop + 1) >> 1
            from_it = all_low + all_high - lows[i - 1] - highs[i - 1]
            if from_it * PARTS > (PARTS - part) * twice:
                found = i
            else:
                stop = i - 1
        else:
            i = (found + stop) >> 1
            up_to_it = lows[i] + highs[i]
            if up_to_it > 0 and up_to_it * PARTS >= part * twice:
                stop = i
            else:
                found = i + 1
    last = max(first, last)
    return min(max(found, first), last), first, last


@borrowing_kernel
def _fill(
    ranks: Floats, row: int, numbers: tuple[int, int], others: tuple[int, int], events: Floats
) -> None:
    """Fill rows `row` and `row` + 2 from bounds on a number, on what is left, and on all events.

    ranks[row, 0] is the number's estimate. Each share is one division of whole numbers below 2^53,
    so that rounding leaves bounds where they are, next to the exact share, rounded alike.
    """
    ranks[row, 1], ranks[row, 2] = numbers
    ranks[row, 0] = min(max(ranks[row, 0], ranks[row, 1]), ranks[row, 2])
    lower = upper = 0.0
    if numbers[0] > 0:
        lower = numbers[0] / min(numbers[0] + others[1], events[2])
    if numbers[1] > 0:
        upper = min(1.0, numbers[1] / max(numbers[1] + others[0], events[1]))
    ranks[row + 2, 0] = min(max(ranks[row, 0] / events[0], lower), upper)
    ranks[row + 2, 1], ranks[row + 2, 2] = lower, upper


@kernel
def find_rank(
    lows: Integers,
    highs: Integers,
    least: int,
    most: int,
    from_place: int,
    to_place: int,
    ranks: Floats,
) -> None:
    """Fill ranks[4, 3] with (estimate, lower, upper) of how many events are at most a value, how
    many are more, and the shares of both.

    It is at least all events of the places below `from_place`, and less than all from `to_place`
    on. Arrays as `find_quantile` has them. Cost: O(1).
    """
    bins = len(lows)
    low_a = lows[from_place - 1] if from_place > 0 else 0
    high_a = highs[from_place - 1] if from_place > 0 else 0
    low_b = lows[to_place - 1] if to_place > 0 else 0
    high_b = highs[to_place - 1] if to_place > 0 else 0
    more_low, more_high = lows[bins - 1] - low_b, highs[bins - 1] - high_a
    up_to = (max(low_a, least - more_high), min(high_b, most - more_low))
    more = (max(more_low, least - high_b), min(more_high, most - low_a))
    events = np.array([(least + most) / 2.0, float(least), float(most)])
    found = (low_a + high_a + low_b + high_b) / 4.0
    left = (lows[bins - 1] + highs[bins - 1]) / 2.0 - found
    ranks[0, 0] = found if found <= left else events[0] - left
    ranks[1, 0] = events[0] - found if found <= left else left
    _fill(ranks, 0, up_to, more, events)
    _fill(ranks, 1, more, up_to, events)


@kernel
def answer(
    lows: Integers,
    highs: Integers,
    least: int,
    most: int,
    parts: Integers,
    cuts: Integers,
    places: Integers,
    ranks: Floats,
) -> None:
    """Answer one window: fill places[3, parts] and ranks[4, 3, cuts].

    Each has (estimate, lower, upper). places are those of bins, -1 where there is no event; ranks
    and cuts, int64[2, ...], are what `find_rank` has. Of no events numbers are 0 and shares NaN.
    """
    bins = len(lows)
    sure = max(least, lows[bins - 1]) if bins > 0 else 0
    possible = min(most, highs[bins - 1]) if bins > 0 else 0
    if possible == 0:
        places[:] = -1
        ranks[:2] = 0.0
        ranks[2:] = np.nan
        return
    for j in range(len(parts)):
        found = find_quantile(lows, highs, sure, possible, parts[j])
        for i in range(3):
            places[i, j] = found[i]
    for j in range(cuts.shape[1]):
        find_rank(lows, highs, sure, possible, cuts[0, j], cuts[1, j], ranks[:, :, j])
