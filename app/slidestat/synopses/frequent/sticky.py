"""Random samples of items, each with how often it came since: what a kernel does with them.

Source: Arasu and Manku 2004, section 5, theorem 7.1 and appendix B: sticky sampling, one event of
each group of 2^r. `random_frequent.py` says what it promises, and why.

Number the events 0, 1, ..., T - 1. In each group of 2^r of them, from a multiple of 2^r on, one is
of level r or more: of the two chosen in its halves, the one that a random bit says. Each event has
level 0. One of level r is a sample while it is one of the last `reach` 2^r events, and has not
expired. The count of a sample is how often its item came from it on, before the item's next sample;
when an event ceases to be a sample, its count goes to the item's sample before it, if there is one.

So the samples, and their counts, are a function of the events alone: it does not matter when those
that have ceased are looked for. For one window, of the last N events (theorem 5.1), an
event of level r or more is a sample until it expires, r being that of min(T, N) events.

The body (envelope and numbers: see wire.py; columns: columns.py) is, in this order:

    epsilon, delta                             a column of two values
    seed, span, total
    now, zigzag coded                          last event time + 1, or what it was advanced to
    samples                                    how many
    positions, newest to oldest                each as the difference to the later one, from total
    times, newest to oldest                    each as the difference to the later one, from now - 1
    counts, oldest to newest
    items, oldest to newest                    a column
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks.blocks import EVENT_LIMIT, LIVE_LIMIT
from slidestat.synopses.blocks.columns import column_limit, doubles, get_column, put_column
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import (
    first_from,
    get_now,
    open_body,
    open_envelope,
    seal,
    with_columns,
)
from slidestat.synopses.core.philox import priority
from slidestat.synopses.core.wire import get_varint, put_varint

_SHARES = 2
_HEAD_LIMIT = wire.BODY + 17 + 5 * wire.MAX_VARINT


@borrowing_kernel
def encoded_limit(size: int) -> int:
    """Return how many bytes a state with `size` samples takes at most."""
    return int(_HEAD_LIMIT + 3 * wire.MAX_VARINT * size + column_limit(size))


@borrowing_kernel
def encode(
    data: Bytes, start: int, head: Integers, shares: Floats, state: Integers, samples: Integers
) -> int:
    """Write swept samples at `start`; return the offset after. Cost: O(bytes written)."""
    size = state[SIZE]
    at = open_envelope(data, start, head[STORED])
    at = put_column(data, at, shares.view(np.int64), True)  # positive: their bits are in order
    at = put_varint(data, at, head[SEED])
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, state[TOTAL])
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at = put_varint(data, at, size)
    later = state[TOTAL]
    for i in range(size - 1, -1, -1):
        at = put_varint(data, at, later - samples[POSITION, i])
        later = samples[POSITION, i]
    later = state[NOW] - 1
    for i in range(size - 1, -1, -1):
        at = put_varint(data, at, later - samples[TIME, i])
        later = samples[TIME, i]
    for i in range(size):
        at = put_varint(data, at, samples[COUNT, i])
    at = put_column(data, at, samples[ITEM, :size], False)
    seal(data, start, at)
    return at


@kernel
def read_head(
    data: Bytes, start: int, end: int, kind: int, shares: Floats
) -> tuple[int, int, int, int, int]:
    """Check the envelope, fill `shares`; return (error, its number, seed, span, offset after)."""
    error_code, number, at = open_body(data, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0, 0, at
    bits = np.empty(_SHARES, np.int64)
    at = get_column(data, at, end, bits, True)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0, 0, at
    shares[:] = doubles(bits)
    seed, at = get_varint(data, at, end)
    span, at = get_varint(data, at, end)
    if seed < 0 or not (1 <= span <= 1 << 53):
        return error_codes.CORRUPTED, 0, 0, 0, at
    return error_codes.OK, 0, seed, span, at


@kernel
def decode(
    data: Bytes, at: int, end: int, head: Integers, state: Integers, added: int
) -> tuple[int, Integers]:
    """Fill `state` from data[at:end], `at` being what `read_head` gave; return (error, samples).

    There is room for `added` more. Nothing is believed but the positions: they rise, as times do,
    which are inside the span; counts are of different events; no window may have more than
    2^40. Cost: O(end - at).
    """
    nothing = np.empty((ROWS, 0), np.int64)
    total, at = get_varint(data, at, end)
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, nothing
    size, at = get_varint(data, at, end)
    if not (0 <= total <= EVENT_LIMIT) or not (0 <= size <= total) or size > (end - at) // 4:
        return error_codes.CORRUPTED, nothing
    samples = np.empty((ROWS, size + added), np.int64)
    later = total
    for i in range(size - 1, -1, -1):
        back, at = get_varint(data, at, end)
        if back < 1 or back > later:
            return error_codes.CORRUPTED, nothing
        later -= back
        samples[POSITION, i] = later
    later = now - 1
    edge = max(now - head[SPAN], TIME_MIN)
    for i in range(size - 1, -1, -1):
        back, at = get_varint(data, at, end)
        if back < 0 or back > later - edge:
            return error_codes.CORRUPTED, nothing
        later -= back
        samples[TIME, i] = later
    for i in range(size):
        samples[COUNT, i], at = get_varint(data, at, end)
        if samples[COUNT, i] < 1:
            return error_codes.CORRUPTED, nothing
    counted = 0
    for i in range(size - 1, -1, -1):
        # A sample counts itself and later events: so do all behind it, when it has expired.
        since = total - samples[POSITION, i]
        if samples[COUNT, i] > since - counted:
            return error_codes.CORRUPTED, nothing
        counted += samples[COUNT, i]
    at = get_column(data, at, end, samples[ITEM, :size], False)
    if at != end:
        return error_codes.CORRUPTED, nothing
    state[TOTAL] = total
    state[NOW] = now
    state[SIZE] = size
    if window_of(head, state, samples, edge)[2] > LIVE_LIMIT:
        return error_codes.CORRUPTED, nothing
    return error_codes.OK, samples


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
    """Drop what is no sample any more; those before `known` events were: O(samples * log)."""
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
        samples = with_columns(samples, size, taken)
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
    low = first_from(samples[TIME], 0, state[SIZE], start)
    total = state[TOTAL]
    first = samples[POSITION, low] if low < state[SIZE] else total
    before = samples[POSITION, low - 1] if low > 0 else _sample_before(head, total, first)
    return low, int(total - first), int(total - 1 - before)
