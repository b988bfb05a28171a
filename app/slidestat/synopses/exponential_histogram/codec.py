"""An exponential histogram as bytes, and back: one encoder, one decoder, for counts and sums.

The body (envelope and numbers: see wire.py) is, in this order:

    span, l
    decimals                                   sums only
    total                                      units ever inserted, lowered as canonical.py says
    flags: one byte, bit 0 = inexact           sums only
    carried part: 8 bytes, little-endian       sums only, if inexact
    now, zigzag coded                          last event time + 1, or what it was advanced to
    number of live buckets
    now - 1 - t_1, t_1 - t_2, ...              times of the edges, newest to oldest

From the second on, 0 is not a difference: it says that the number after it is how many more edges
have the time of the edge before. So a state is as long as its distinct times are many, however
large a value was.

Bucket sizes are not stored: they follow from the total. Only live edges (t >= now - span) are.

In memory the edges are runs of equal time, newest to oldest: runs[0, i] is the time of run i, and
runs[1, i] the number of edges in the runs 0..i.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.parameters import MAX_BUCKETS_PER_LEVEL, MAX_DECIMALS, MAX_SPAN
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.exponential_histogram.canonical import (
    LIVE_LIMIT,
    TOTAL_LIMIT,
    bucket_at,
    bucket_count,
)

COUNT = 1
SUM = 2

# Places in the array of a histogram's numbers while it is in memory.
TOTAL, NOW, INEXACT, CARRY, RUNS = 0, 1, 2, 3, 4
STATE_SIZE = 5

# Places in the array of what a histogram was made with.
KIND, SPAN, PER_LEVEL, DECIMALS = 0, 1, 2, 3
HEAD_SIZE = 4

FIRST_ROOM = 64
"""How many runs the arrays have room for at first."""

_LONGEST_HEAD = wire.BODY + 7 * wire.MAX_VARINT + 9


@borrowing_kernel
def read_head(
    data: Bytes, start: int, end: int, low: int, high: int, head: Integers
) -> tuple[int, int, int]:
    """Check the envelope of data[start:end], of a kind from `low` to `high`, and fill `head`.

    Returns (error, its number, offset).
    """
    error_code, kind, at = open_body(data, start, end, low, high)
    if error_code != error_codes.OK:
        return error_code, kind, start
    span, at = get_varint(data, at, end)
    per_level, at = get_varint(data, at, end)
    decimals = 0
    if kind == SUM:
        decimals, at = get_varint(data, at, end)
    if not (1 <= span <= MAX_SPAN and 1 <= per_level <= MAX_BUCKETS_PER_LEVEL):
        return error_codes.CORRUPTED, 0, start
    if not (0 <= decimals <= MAX_DECIMALS):
        return error_codes.CORRUPTED, 0, start
    head[KIND] = kind
    head[SPAN] = span
    head[PER_LEVEL] = per_level
    head[DECIMALS] = decimals
    return error_codes.OK, 0, at


@borrowing_kernel
def live_edges(state: Integers, runs: Integers) -> int:
    """Return how many edges the runs have."""
    return int(runs[1, state[RUNS] - 1]) if state[RUNS] > 0 else 0


@borrowing_kernel
def get_runs(
    data: Bytes, at: int, end: int, now: int, oldest: int, live: int, runs: Integers, first: int
) -> tuple[int, int]:
    """Read the runs of `live` edges, none before `oldest`, to runs[:, first:].

    Returns (the offset after them, or -1 for none in their shortest form; the run after the last).
    """
    time = now - 1
    edges = 0
    edges_before = 0
    count = first
    while edges < live:
        number, at = get_varint(data, at, end)
        if number == 0 and count > first:
            number, at = get_varint(data, at, end)
            # Twice in a row would not be the shortest form.
            if not (1 <= number <= live - edges) or runs[1, count - 1] > edges_before + 1:
                return -1, count
            edges += number
            runs[1, count - 1] = edges
        else:
            if not (0 <= number <= time - oldest):
                return -1, count
            time -= number
            edges_before = edges
            edges += 1
            runs[0, count] = time
            runs[1, count] = edges
            count += 1
    return at, count


@borrowing_kernel
def put_runs(data: Bytes, at: int, now: int, runs: Integers, first: int, last: int) -> int:
    """Write runs[:, first:last], newest to oldest; return the offset after them."""
    later = now - 1
    edges = 0
    for i in range(first, last):
        at = put_varint(data, at, later - runs[0, i])
        more = runs[1, i] - edges - 1
        if more > 0:
            at = put_varint(data, at, 0)
            at = put_varint(data, at, more)
        later = runs[0, i]
        edges = runs[1, i]
    return at


@borrowing_kernel
def runs_since(runs: Integers, first: int, last: int, start: int) -> int:
    """Return the first of the runs first..last - 1 with a time before `start`, or `last`.

    Cost: O(log runs).
    """
    low = first
    high = last
    while low < high:
        middle = (low + high) >> 1
        if runs[0, middle] >= start:
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def decode(
    data: Bytes, at: int, end: int, head: Integers, state: Integers, runs: Integers
) -> tuple[int, Integers]:
    """Fill `state` from data[at:end], `at` and `head` being what `read_head` gave.

    Returns (error, the runs of edges); the latter is `runs`, or a larger array where that is too
    short, but never longer than twice the bytes. Nothing is believed: totals, times and numbers of
    buckets must fit each other. Cost: O(end - at).
    """
    state[INEXACT] = 0
    state[CARRY] = 0
    total, at = get_varint(data, at, end)
    if not (0 <= total < TOTAL_LIMIT):
        return error_codes.CORRUPTED, runs
    if head[KIND] == SUM:
        if at >= end or data[at] > 1:
            return error_codes.CORRUPTED, runs
        state[INEXACT] = data[at]
        at += 1
        if state[INEXACT]:
            if end - at < 8 or data[at + 7] > 0x3F:  # a carried part is below 2^62
                return error_codes.CORRUPTED, runs
            state[CARRY] = wire.get_fixed(data, at, 8)
            at += 8
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, runs
    live, at = get_varint(data, at, end)
    if not (0 <= live <= bucket_count(total, head[PER_LEVEL])):
        return error_codes.CORRUPTED, runs
    if live > 0 and bucket_at(total, head[PER_LEVEL], live - 1)[0] >= LIVE_LIMIT:
        return error_codes.CORRUPTED, runs
    if end - at > runs.shape[1]:
        runs = np.empty((2, 2 * (end - at)), np.int64)
    oldest = max(now - head[SPAN], TIME_MIN)
    at, count = get_runs(data, at, end, now, oldest, live, runs, 0)
    if at != end:
        return error_codes.CORRUPTED, runs
    state[TOTAL] = total
    state[NOW] = now
    state[RUNS] = count
    return error_codes.OK, runs


@borrowing_kernel
def encoded_limit(state: Integers) -> int:
    """Return how many bytes the histogram may take at most."""
    return _LONGEST_HEAD + int(state[RUNS]) * (2 * wire.MAX_VARINT + 1)


@borrowing_kernel
def encode(data: Bytes, start: int, head: Integers, state: Integers, runs: Integers) -> int:
    """Write a histogram at `start`, expired edges left out; return the offset after it.

    data has `encoded_limit` bytes from `start`. Cost: O(bytes written).
    """
    now = state[NOW]
    while state[RUNS] > 0 and runs[0, state[RUNS] - 1] < now - head[SPAN]:
        state[RUNS] -= 1
    at = open_envelope(data, start, head[KIND])
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, head[PER_LEVEL])
    if head[KIND] == SUM:
        at = put_varint(data, at, head[DECIMALS])
    at = put_varint(data, at, state[TOTAL])
    if head[KIND] == SUM:
        data[at] = state[INEXACT]
        at += 1
        if state[INEXACT]:
            at = wire.put_fixed(data, at, state[CARRY], 8)
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, live_edges(state, runs))
    at = put_runs(data, at, now, runs, 0, state[RUNS])
    seal(data, start, at)
    return at
