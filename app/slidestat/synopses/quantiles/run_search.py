"""Find quantiles among the sorted runs of a window's blocks, without merging them.

low, high and low + high never fall with x and change only at stored keys (quantile_answer.py). So
each figure is the first stored key at which one of them reaches the rank asked for, and is found
by bisection: at the middle of the longest run, of what of each run may still have the answer. A
window costs what it takes to copy its keys, not to sort them.

A run is a block's keys. facts[:, r] are how many events each key of run r stands for, how much of
the width ends at its maximum, and that; its keys are keys[starts[r] : starts[r + 1]].
"""

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel

WEIGHT, WIDTH, MAXIMUM = 0, 1, 2

_LOWER, _UPPER, _ESTIMATE = 0, 1, 2


@borrowing_kernel
def _up_to(keys: Integers, begin: int, end: int, key: int) -> int:
    """Return where keys above `key` begin, which is from `begin` to `end`."""
    while begin < end:
        middle = (begin + end) >> 1
        if keys[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@borrowing_kernel
def _sums(starts: Integers, facts: Integers, places: Integers, key: int) -> tuple[int, int]:
    """Return (low, high) at a key, without the shifts of the events that straddle the start;
    `places` are where larger keys begin in each run.
    """
    count = left = 0
    for r in range(len(places)):
        count += facts[WEIGHT, r] * (places[r] - starts[r])
        if facts[MAXIMUM, r] > key:
            left += facts[WIDTH, r]
    return max(count - left, 0), count


@borrowing_kernel
def _shifts(key: int, straddling: Integers, ranks: tuple[int, int]) -> tuple[int, int]:
    """Return what is added to low and to high at a key; `straddling` is (events, least, most)."""
    fewest, most_asked = ranks
    if straddling[0] == 0:
        return -fewest, -fewest
    low = -fewest if key >= straddling[2] else -most_asked
    high = straddling[0] - most_asked if key >= straddling[1] else -fewest
    return low, high


@borrowing_kernel
def _holds(
    which: int, sums: tuple[int, int], key: int, straddling: Integers, ranks: tuple[int, int]
) -> bool:
    """Return whether a key is at or beyond the figure `which`."""
    low_shift, high_shift = _shifts(key, straddling, ranks)
    low, high = sums[0] + low_shift, sums[1] + high_shift
    if which == _LOWER:
        return high >= 0
    if which == _UPPER:
        return low >= 0
    return low + high >= 0


@borrowing_kernel
def _pivot(begins: Integers, ends: Integers) -> int:
    """Return where the middle of the longest run is, of what may still have the answer; -1 for
    none.
    """
    longest = 0
    place = -1
    for r in range(len(begins)):
        if ends[r] - begins[r] > longest:
            longest = ends[r] - begins[r]
            place = (begins[r] + ends[r]) >> 1
    return place


@borrowing_kernel
def _other(facts: Integers, straddling: Integers, beyond: int, until: int) -> int:
    """Return a stored key between the two that is in no run, or `until` for none."""
    for r in range(facts.shape[1]):
        if facts[WIDTH, r] > 0 and beyond < facts[MAXIMUM, r] < until:
            return int(facts[MAXIMUM, r])
    if straddling[0] > 0:
        for i in range(1, 3):
            if beyond < straddling[i] < until:
                return int(straddling[i])
    return until


@borrowing_kernel
def _first(
    which: int,
    keys: Integers,
    starts: Integers,
    facts: Integers,
    straddling: Integers,
    ranks: tuple[int, int],
    beyond: int,
    until: int,
    begins: Integers,
    ends: Integers,
    places: Integers,
) -> int:
    """Return the first stored key at which a figure holds, after `beyond` and at most `until`.

    begins and ends are where in each run the keys between the two are. In the end, begins are
    where those from the found one on begin, and places where larger ones do.
    """
    while True:
        place = _pivot(begins, ends)
        middle = keys[place] if place >= 0 else _other(facts, straddling, beyond, until)
        if place < 0 and middle == until:
            break
        for r in range(len(begins)):
            places[r] = _up_to(keys, begins[r], ends[r], middle)
        if _holds(which, _sums(starts, facts, places, middle), middle, straddling, ranks):
            until = middle
            for r in range(len(begins)):
                ends[r] = _up_to(keys, begins[r], places[r], middle - 1)
        else:
            beyond = middle
            for r in range(len(begins)):
                begins[r] = places[r]
    for r in range(len(begins)):
        places[r] = _up_to(keys, begins[r], starts[r + 1], until)
    return until


@kernel
def search(
    keys: Integers,
    starts: Integers,
    facts: Integers,
    straddling: Integers,
    ranks: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Return (estimate, lower, upper) as keys, and the estimate's rank error.

    `straddling` is (events, least, most): so many events, their keys from least to most, may be in
    the window besides those of the runs. ranks: the rank asked for without them, and with them. The
    window has an event. Cost: O(runs * log(keys)^2).
    """
    runs = facts.shape[1]
    least = 0x7FF << 52
    most = -least - 1
    if straddling[0] > 0:
        least, most = straddling[1], straddling[2]
    for r in range(runs):
        if starts[r] < starts[r + 1]:
            least = min(least, keys[starts[r]])
            most = max(most, keys[starts[r + 1] - 1])
        if facts[WIDTH, r] > 0:
            least = min(least, facts[MAXIMUM, r])
            most = max(most, facts[MAXIMUM, r])
    begins, ends = starts[:-1].copy(), starts[1:].copy()
    places = np.empty(runs, np.int64)
    lower = _first(
        *(_LOWER, keys, starts, facts, straddling, ranks),
        *(least - 1, most, begins, ends, places),
    )
    before = begins.copy()
    ends[:] = starts[1:]
    upper = _first(
        *(_UPPER, keys, starts, facts, straddling, ranks),
        *(lower - 1, most, begins, ends, places),
    )
    sums = _sums(starts, facts, places, upper)
    if not _holds(_ESTIMATE, sums, upper, straddling, ranks):
        return upper, lower, upper, (straddling[0] + 1) // 2
    ends[:] = places
    estimate = _first(
        *(_ESTIMATE, keys, starts, facts, straddling, ranks),
        *(lower - 1, upper, before, ends, places),
    )
    low = _sums(starts, facts, places, estimate)[0] + _shifts(estimate, straddling, ranks)[0]
    # The figures of the number before are those of the stored key before.
    high = _sums(starts, facts, before, estimate - 1)[1]
    high += _shifts(estimate - 1, straddling, ranks)[1]
    return estimate, lower, upper, max(0, -low, high + 1)
