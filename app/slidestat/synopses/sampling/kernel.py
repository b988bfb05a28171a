"""A uniform random sample of a window: the kernels of `sample.py`, and the bytes of a state.

An event's priority is a random function of the seed and of its number in the stream. With
replacement there are k draws, with a priority each; without, one. An event is kept while it may
still be in the sample of some window that ends now: without replacement, while fewer than k later
events have its priority or a larger one; with, while of some draw no later event has. One sweep
from new to old finds what is kept, which depends on the events alone.

The body (envelope and numbers: see wire.py) is, in this order:

    size, span, seed
    now, zigzag coded                     last event time + 1, or what it was advanced to
    events ever taken
    number of kept events, then of each, newest to oldest:
        events taken - 1 - number of the event, then from one to the next the difference - 1
        now - 1 - t_1, then t_1 - t_2, ...
        the bits of the value, 8 bytes

In memory they are columns: rows INDEX, TIME and BITS; oldest to newest.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.keyed import (
    first_from,
    get_bits,
    get_now,
    open_body,
    open_envelope,
    put_bits,
    seal,
    with_room,
)
from slidestat.synopses.core.parameters import MAX_SPAN
from slidestat.synopses.core.philox import priority
from slidestat.synopses.core.wire import get_varint, put_varint

WITH_REPLACEMENT = 11
WITHOUT_REPLACEMENT = 12
MAX_SIZE = 1 << 16

KIND, SIZE, SPAN, SEED = 0, 1, 2, 3
HEAD_SIZE = 4

NOW, EVENTS = 0, 1
STATE_SIZE = 2

INDEX, TIME, BITS = 0, 1, 2
ROWS = 3

_LONGEST_HEAD = wire.BODY + 6 * wire.MAX_VARINT
_MAX_EVENTS = 1 << 62  # more than a stream has in a thousand years


@kernel
def read(
    data: Bytes, start: int, end: int, head: Integers, state: Integers
) -> tuple[int, int, Integers]:
    """Fill `head` and `state`; return (error, its number, the kept events).

    Nothing is believed. Cost: O(end - start).
    """
    kept = np.empty((ROWS, 0), np.int64)
    error_code, kind, at = open_body(data, start, end, WITH_REPLACEMENT, WITHOUT_REPLACEMENT)
    if error_code != error_codes.OK:
        return error_code, kind, kept
    head[KIND] = kind
    head[SIZE], at = get_varint(data, at, end)
    head[SPAN], at = get_varint(data, at, end)
    head[SEED], at = get_varint(data, at, end)
    if not (1 <= head[SIZE] <= MAX_SIZE and 1 <= head[SPAN] <= MAX_SPAN and head[SEED] >= 0):
        return error_codes.CORRUPTED, 0, kept
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, 0, kept
    events, at = get_varint(data, at, end)
    number, at = get_varint(data, at, end)
    if not (0 <= events < _MAX_EVENTS) or not (0 <= number <= (end - at) // 10):
        return error_codes.CORRUPTED, 0, kept
    kept = np.empty((ROWS, number), np.int64)
    oldest = max(now - head[SPAN], TIME_MIN)
    index = events
    time = now - 1
    for i in range(number - 1, -1, -1):
        fewer, at = get_varint(data, at, end)
        gap, at = get_varint(data, at, end)
        if not (0 <= fewer < index and 0 <= gap <= time - oldest and end - at >= 8):
            return error_codes.CORRUPTED, 0, kept
        index -= fewer + 1
        time -= gap
        kept[INDEX, i] = index
        kept[TIME, i] = time
        kept[BITS, i] = get_bits(data, at)
        at += 8
    if at != end:
        return error_codes.CORRUPTED, 0, kept
    state[NOW] = now
    state[EVENTS] = events
    return error_codes.OK, 0, kept


@borrowing_kernel
def _write(data: Bytes, start: int, head: Integers, state: Integers, kept: Integers) -> int:
    """Write a state at `start`, expired events left out; return the offset after it."""
    first = 0
    while first < kept.shape[1] and kept[TIME, first] < state[NOW] - head[SPAN]:
        first += 1
    at = open_envelope(data, start, head[KIND])
    for i in range(SIZE, HEAD_SIZE):
        at = put_varint(data, at, head[i])
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at = put_varint(data, at, state[EVENTS])
    at = put_varint(data, at, kept.shape[1] - first)
    index = state[EVENTS]
    time = state[NOW] - 1
    for i in range(kept.shape[1] - 1, first - 1, -1):
        at = put_varint(data, at, index - kept[INDEX, i] - 1)
        at = put_varint(data, at, time - kept[TIME, i])
        at = put_bits(data, at, kept[BITS, i])
        index = kept[INDEX, i]
        time = kept[TIME, i]
    seal(data, start, at)
    return at


@borrowing_kernel
def _enters(head: Integers, best: Integers, filled: int, index: int) -> bool:
    """Return whether an event older than all before has a place in `best`, and give it that.

    best is, with replacement, the largest priority of each draw; without, a heap of the k largest
    priorities, the least on top, of `filled` events that have entered.
    """
    if head[KIND] == WITH_REPLACEMENT:
        entered = False
        for draw in range(head[SIZE]):
            drawn = priority(head[SEED], index, draw)
            if drawn > best[draw]:
                best[draw] = drawn
                entered = True
        return entered
    drawn = priority(head[SEED], index, 0)
    filled = min(filled, head[SIZE])
    if filled < head[SIZE]:
        at = filled
        while at > 0 and best[(at - 1) >> 1] > drawn:
            best[at] = best[(at - 1) >> 1]
            at = (at - 1) >> 1
        best[at] = drawn
        return True
    if drawn <= best[0]:
        return False
    at = 0
    while 2 * at + 1 < filled:
        child = 2 * at + 1
        if child + 1 < filled and best[child + 1] < best[child]:
            child += 1
        if best[child] >= drawn:
            break
        best[at] = best[child]
        at = child
    best[at] = drawn
    return True


@kernel
def sweep(
    head: Integers,
    state: Integers,
    kept: Integers,
    times: Integers,
    bits: Integers,
    first: int,
    last: int,
) -> Integers:
    """Take in the events first..last - 1; return the kept ones. `state` has their times already.

    Cost: O(events + kept) priorities (times k with replacement; none up to k without).
    """
    state[EVENTS] += last - first
    oldest = state[NOW] - head[SPAN]
    every = np.empty((ROWS, last - first + kept.shape[1]), np.int64)
    at = every.shape[1]
    # as few as a sample may have all enter: most keys are small, and need no priority
    draws = head[KIND] == WITH_REPLACEMENT or at > head[SIZE]
    best = np.full(head[SIZE] if draws else 0, -1, np.int64)
    for i in range(last - 1, first - 1, -1):
        index = state[EVENTS] - last + i
        if times[i] < oldest:
            break
        if not draws or _enters(head, best, every.shape[1] - at, index):
            at -= 1
            every[INDEX, at] = index
            every[TIME, at] = times[i]
            every[BITS, at] = bits[i]
    for i in range(kept.shape[1] - 1, -1, -1):
        if kept[TIME, i] < oldest:
            break
        if not draws or _enters(head, best, every.shape[1] - at, kept[INDEX, i]):
            at -= 1
            every[:, at] = kept[:, i]
    return every[:, at:].copy()


@kernel
def chosen(head: Integers, kept: Integers, start: int) -> Integers:
    """Return the columns of the sample of the events from time `start` on.

    With replacement, one for each draw; without, the k of largest priority, old to new. Cost:
    O(kept) priorities (times k with replacement), and a sort without.
    """
    low = first_from(kept[TIME], 0, kept.shape[1], start)
    active = kept.shape[1] - low
    if active == 0:
        return np.empty(0, np.int64)
    if head[KIND] == WITH_REPLACEMENT:
        found = np.empty(head[SIZE], np.int64)
        best = np.full(head[SIZE], -1, np.int64)
        for i in range(kept.shape[1] - 1, low - 1, -1):
            for draw in range(head[SIZE]):
                drawn = priority(head[SEED], kept[INDEX, i], draw)
                if drawn > best[draw]:
                    best[draw] = drawn
                    found[draw] = i
        return found
    best = np.empty(active, np.int64)
    for i in range(active):  # newest first: of equal priorities, a stable sort takes the newest
        best[i] = -priority(head[SEED], kept[INDEX, kept.shape[1] - 1 - i], 0)
    order = np.argsort(best, kind="mergesort")[: min(head[SIZE], active)]
    return np.sort(kept.shape[1] - 1 - order)


@kernel
def run(
    head: Integers, arena: Bytes, offsets: Integers, columns: Columns, bits: Integers
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Take in each group's events, as `drive` describes; bits: of the values."""
    starts, times, _, _, _, _, _ = columns
    groups = len(starts) - 1
    found = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        state[NOW] = TIME_MIN
        state[EVENTS] = 0
        kept = np.empty((ROWS, 0), np.int64)
        if offsets[group] < offsets[group + 1]:
            error_code, number, kept = read(arena, offsets[group], offsets[group + 1], found, state)
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, ends
            for i in range(HEAD_SIZE):
                if found[i] != head[i]:
                    return error_codes.OTHER_SETTINGS, group, 0, 0, out, ends
        error_code, a, b, after = follows(columns, group, state[NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        first, last = starts[group], starts[group + 1]
        if last > first:
            state[NOW] = times[last - 1] + 1
            kept = sweep(head, state, kept, times, bits, first, last)
        state[NOW] = after
        out = with_room(out, end, _LONGEST_HEAD + (2 * wire.MAX_VARINT + 8) * kept.shape[1])
        end = _write(out, end, head, state, kept)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends
