"""Random samples of items, each with how often it came since: what a kernel does with them.

Source: Arasu and Manku 2004, section 5, theorem 7.1 and appendix B: sticky sampling, one event of
each group of 2^r. `random_frequent.py` says what it promises, and why.

Number the events 0, 1, ..., T - 1. In each group of 2^r of them, from a multiple of 2^r on, one is
of level r or more: of the two chosen in its halves, the one that a random bit says. Each event has
level 0. One of level r is a sample while it is one of the last `reach` 2^r events, and has not
expired. The count of a sample is how often its item came from it on, before the item's next sample;
when an event ceases to be a sample, its count goes to the item's sample before it, if there is one.

So the samples, and their counts, are a function of the events alone: it does not matter when it is
looked which of them have ceased. For one window, of the last N events (theorem 5.1), an
event of level r or more is a sample until it expires, r being that of min(T, N) events.
"""

import numpy as np

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.philox import priority
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel

# Places in the array of what a summary was made with, and in that of its numbers in memory.
SPAN, SEED, REACH, STORED = 0, 1, 2, 3
TOTAL, NOW, SIZE = 0, 1, 2
STATE_SIZE = 3

RANDOM_FREQUENT, FIXED_RANDOM_FREQUENT = 22, 34
"""Kinds (wire.py): for windows of any length; for one of a fixed number of events."""

# Rows of the array of samples, the oldest first.
POSITION, TIME, ITEM, COUNT = 0, 1, 2, 3
ROWS = 4

_BAND = 5
"""One draw has the random bits of so many levels: 31, those of a tree with 2^5 leaves."""

_CHUNK = 1024
"""Samples are swept after at least so many events."""


@borrowing_kernel
def level_of(seed: int, position: int, enough: int) -> int:
    """Return the level of an event, or `enough` if it is not lower. Cost: O(1) on average."""
    level = 0
    while level < enough:
        band = level // _BAND
        bits = priority(seed, position >> (_BAND * (band + 1)), band)
        for above in range(_BAND - 1, -1, -1):
            node = (position >> (level + 1)) & ((1 << above) - 1)
            if (bits >> ((1 << above) - 1 + node)) & 1 != (position >> level) & 1:
                return level
            level += 1
            if level == enough:
                break
    return level


@borrowing_kernel
def level_needed(age: int, reach: int) -> int:
    """Return the least level of a sample that is one of the last `age` events, the oldest."""
    level = 0
    while reach << level < age:
        level += 1
    return level


@borrowing_kernel
def level_kept(head: Integers, total: int, position: int) -> int:
    """Return the least level of a sample at `position` when there are `total` events.

    For one window, that is the level of the window, whatever the sample's age.
    """
    if head[STORED] == FIXED_RANDOM_FREQUENT:
        return level_needed(min(total, head[SPAN]), head[REACH])
    return level_needed(total - position, head[REACH])


@kernel
def sweep(head: Integers, state: Integers, samples: Integers, known: int) -> None:
    """Drop what is no longer a sample; those before event `known` were swept at `known`.

    Cost: O(samples * log).
    """
    size = state[SIZE]
    edge = state[NOW] - head[SPAN]
    first = 0
    while first < size and samples[TIME, first] < edge:
        first += 1
    stays = np.empty(size - first, np.bool_)
    for i in range(size - first):
        position = samples[POSITION, first + i]
        needed = level_kept(head, state[TOTAL], position)
        settled = level_kept(head, known, position) if position < known else 0
        stays[i] = needed == settled or level_of(head[SEED], position, needed) == needed
    if not np.all(stays):
        last = -1
        for i in np.argsort(samples[ITEM, first:size], kind="mergesort"):
            if last >= 0 and samples[ITEM, first + i] != samples[ITEM, last]:
                last = -1
            if stays[i]:
                last = first + i
            elif last >= 0:
                samples[COUNT, last] += samples[COUNT, first + i]
    count = 0
    for i in range(size - first):
        if stays[i]:
            samples[:, count] = samples[:, first + i]
            count += 1
    state[SIZE] = count


@kernel
def take(
    head: Integers, state: Integers, samples: Integers, times: Integers, items: Integers
) -> Integers:
    """Take in events, checked; return the samples, or a longer copy.

    Cost: O(log(samples)) an event, amortised, and O(samples * log) for a call.
    """
    at = 0
    while at < len(times):
        known = state[TOTAL]
        size = state[SIZE]
        taken = min(max(_CHUNK, size), len(times) - at)
        if size + taken > samples.shape[1]:
            longer = np.empty((ROWS, 2 * size + taken), np.int64)
            longer[:, :size] = samples[:, :size]
            samples = longer
        for i in range(taken):
            samples[POSITION, size + i] = known + i
            samples[TIME, size + i] = times[at + i]
            samples[ITEM, size + i] = items[at + i]
            samples[COUNT, size + i] = 1
        at += taken
        state[TOTAL] += taken
        state[SIZE] += taken
        state[NOW] = max(state[NOW], times[at - 1] + 1)
        sweep(head, state, samples, known)
    return samples


@borrowing_kernel
def _chosen(seed: int, level: int, group: int) -> int:
    """Return the event of `level` or more in a group of 2^level."""
    position = group
    for at in range(level - 1, -1, -1):
        band = at // _BAND
        above = _BAND - 1 - at % _BAND
        bits = priority(seed, position >> above, band)
        node = position & ((1 << above) - 1)
        position = (position << 1) | ((bits >> ((1 << above) - 1 + node)) & 1)
    return position


@borrowing_kernel
def _sample_before(head: Integers, total: int, position: int) -> int:
    """Return the last event before `position` that is a sample, unless it has expired; or -1."""
    level = level_kept(head, total, position)
    while True:
        group = position >> level
        before = _chosen(head[SEED], level, group)
        if before >= position:
            if group == 0:
                return -1
            before = _chosen(head[SEED], level, group - 1)
        if level_kept(head, total, before) <= level:
            return before
        level += 1


@borrowing_kernel
def window_of(
    head: Integers, state: Integers, samples: Integers, start: int
) -> tuple[int, int, int]:
    """Return (first sample of the window from time `start` on, its fewest and most events)."""
    low = 0
    high = state[SIZE]
    while low < high:
        middle = (low + high) >> 1
        if samples[TIME, middle] >= start:
            high = middle
        else:
            low = middle + 1
    total = state[TOTAL]
    first = samples[POSITION, low] if low < state[SIZE] else total
    before = samples[POSITION, low - 1] if low > 0 else _sample_before(head, total, first)
    return int(low), int(total - first), int(total - 1 - before)
