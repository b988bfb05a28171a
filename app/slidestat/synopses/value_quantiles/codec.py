"""The bytes of quantiles by value: one encoder, one decoder (envelope and numbers: see wire.py).

The body is, in this order:

    span, bins an octave, epsilon in millionths
    now, zigzag coded                     last event time + 1, or what it was advanced to
    total of all events                   lowered as canonical.py says
    number of live edges of the total, number of live bands
    bits (below), the last byte filled up with zeros:
        times of the edges, newest to oldest: differences from now - 1 and from each other; from the
            second on, 0 says that the number after it is how many more edges have that time, less 1
        of each band, by rising id: the difference from the id before, less 1 (of the first: from
            the lowest that there can be); its events, modulo 65,536; its cells, less 1; and
        of each cell, from new to old: how much older it is than the one before (or than now - 1);
            its events, less 1; of one, its bin in three bits; of several, a bit that says whether
            all have one time, how many are in the lower half of the eight bins, how many of either
            half in its lower half, and so on

Where a cell has more than seven events to part, what is coded is the difference from the share that
the newer cells of the band have. Lengths are guessed from those before.
"""

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal, with_columns
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.exponential_histogram.canonical import TOTAL_LIMIT, bucket_at, bucket_count
from slidestat.synopses.exponential_histogram.codec import NOW, PER_LEVEL, RUNS, SPAN, TOTAL
from slidestat.synopses.value_quantiles.bands import (
    BASE,
    COLUMNS,
    COUNTED,
    COUNTS,
    END,
    ID,
    LAST,
    ONE_TIME,
    ROOM,
    ROWS,
    SHIFT,
    START,
    TIME,
    WIDTH,
)
from slidestat.synopses.value_quantiles.mapping import OCTAVES

# Numbers as bits, for what varints are too coarse for: written into words of 32 bits.
#
# A number near a guess takes its length in bits as a difference from the guessed one, in unary, and
# then the bits behind the first: two to three bits more than its own when lengths are guessed well
# (Golomb's and Elias's codes are its relatives). A number of few choices takes log2 of them.
#
# Each number has one form. Words are whole numbers below 2^32, low bits first; the word after the
# last one written is always zero above what has been written.


Words = npt.NDArray[np.uint32]

_CHUNK = 30
_ESCAPE = 24
_LENGTH_BITS = 6
_LENGTHS = (0, 1, 1, 2, 2, 2, 2, 3)  # of numbers up to 0, 1, ..., 7, rounded down

_STEPS = (32, 16, 8, 4, 2, 1)

LONGEST = _ESCAPE + _LENGTH_BITS + 62
"""No number takes more bits."""


@borrowing_kernel
def put_few(words: Words, at: int, number: int, count: int) -> int:
    """Write 0 <= number < 2^count, count being at most 30, at bit `at`; return the bit after it."""
    shifted = int(np.int64(words[at >> 5])) | number << (at & 31)
    words[at >> 5] = shifted & 0xFFFF_FFFF
    words[(at >> 5) + 1] = shifted >> 32
    return at + count


@borrowing_kernel
def get_few(words: Words, at: int, count: int) -> int:
    """Read `count` bits, at most 30, at bit `at`."""
    two = int(np.int64(words[at >> 5])) | (int(np.int64(words[(at >> 5) + 1])) & 0x3FFF_FFFF) << 32
    return two >> (at & 31) & ((1 << count) - 1)


@borrowing_kernel
def _put(words: Words, at: int, number: int, count: int) -> int:
    """Write 0 <= number < 2^count, count being at most 62, at bit `at`; return the bit after it."""
    while count > _CHUNK:
        at = put_few(words, at, number & ((1 << _CHUNK) - 1), _CHUNK)
        number >>= _CHUNK
        count -= _CHUNK
    return put_few(words, at, number, count)


@borrowing_kernel
def _get(words: Words, at: int, count: int) -> int:
    """Read `count` bits, at most 62, at bit `at`."""
    number = 0
    done = 0
    while count - done > _CHUNK:
        number |= get_few(words, at + done, _CHUNK) << done
        done += _CHUNK
    return number | get_few(words, at + done, count - done) << done


@borrowing_kernel
def length_of(number: int) -> int:
    """Return how many bits `number` >= 0 has."""
    length = 0
    for step in _STEPS:
        if number >> step > 0:
            number >>= step
            length += step
    return length + number


@borrowing_kernel
def put_near(words: Words, at: int, number: int, guess: int) -> tuple[int, int]:
    """Write 0 <= number < 2^62 - 1, guessed to be of `guess` bits when 1 is added.

    Returns (the bit after it, how many bits it has).
    """
    length = length_of(number + 1)
    behind = (number + 1) & ((1 << (length - 1)) - 1)
    off = length - guess
    folded = 2 * off - 1 if off > 0 else -2 * off
    if folded >= _ESCAPE:
        at = put_few(words, put_few(words, at, 0, _ESCAPE), length, _LENGTH_BITS)
    elif folded + length <= _CHUNK:
        return put_few(words, at, (behind << 1 | 1) << folded, folded + length), length
    else:
        at = put_few(words, at, 1 << folded, folded + 1)
    return _put(words, at, behind, length - 1), length


@borrowing_kernel
def get_near(words: Words, at: int, guess: int) -> tuple[int, int, int]:
    """Read what `put_near` wrote; return (it, or -1 for what it does not write, the bit after it,
    how many bits it has)."""
    ahead = get_few(words, at, _CHUNK)
    folded = 0
    while folded < _ESCAPE and ahead & 1 == 0:
        ahead >>= 1
        folded += 1
    if folded < _ESCAPE:
        length = guess + ((folded + 1) >> 1 if folded & 1 == 1 else -(folded >> 1))
        at += folded + 1
    else:
        length = get_few(words, at + _ESCAPE, _LENGTH_BITS)
        at += _ESCAPE + _LENGTH_BITS
        off = length - guess
        if (2 * off - 1 if off > 0 else -2 * off) < _ESCAPE:
            return -1, at, 0
    if not (1 <= length <= 62):
        return -1, at, 0
    if folded < _ESCAPE and folded + length <= _CHUNK:
        behind = ahead >> 1 & ((1 << (length - 1)) - 1)
    else:
        behind = _get(words, at, length - 1)
    number = behind | 1 << (length - 1)
    return number - 1, at + length - 1, length


@borrowing_kernel
def put_one_of(words: Words, at: int, number: int, most: int) -> int:
    """Write 0 <= number <= most, `most` being at most 7; return the bit after it."""
    length = _LENGTHS[most]
    shorter = (2 << length) - most - 1
    if number < shorter:
        return put_few(words, at, number, length)
    number += shorter
    return put_few(words, at, number >> 1 | (number & 1) << length, length + 1)


@borrowing_kernel
def get_one_of(words: Words, at: int, most: int) -> tuple[int, int]:
    """Read what `put_one_of` wrote; return (it, the bit after it)."""
    length = _LENGTHS[most]
    shorter = (2 << length) - most - 1
    ahead = get_few(words, at, length + 1)
    number = ahead & ((1 << length) - 1)
    if number < shorter:
        return number, at + length
    return (number << 1 | ahead >> length) - shorter, at + length + 1


VALUE_QUANTILES = 27
"""The kind of these bytes."""

# Places in the array of what a state was made with, behind those of the histogram of all events.
PER_OCTAVE, EPSILON = 4, 5

# Places in the array of a state's numbers, behind those of the histogram.
BANDS, USED = 5, 6
STATE_SIZE = 7

MAX_EVENTS = 1 << 40
"""The most events of a window."""

_SLACK = 64
_FEW = 7
_GUESSED_COUNT = 6
_CELL_BITS = LONGEST * (WIDTH + 2)

# The split of a cell's counts: of the bins behind _LOWS up to _HIGHS, those up to _MIDDLES.
_LOWS = (-1, -1, 3, -1, 1, 3, 5)
_MIDDLES = (3, 1, 5, 0, 2, 4, 6)
_HIGHS = (7, 3, 7, 1, 3, 5, 7)


@borrowing_kernel
def lowest_band(head: Integers) -> int:
    """Return the id below which there is no band."""
    return int(-(2 + OCTAVES * head[PER_OCTAVE]) >> SHIFT)


@borrowing_kernel
def _guessed(count: int, part: int, whole: int) -> int:
    """Return the share of `count` that `part` is of `whole`."""
    return int(float(count) * (float(part) / float(whole))) if whole > 0 else count >> 1


@borrowing_kernel
def _get_parts(words: Words, at: int, cells: Integers, cell: int, beyond: Integers) -> int:
    """Fill a cell's counts from how they part; return the bit after them, or -1."""
    if cells[cell, LAST] == 1:
        place = get_few(words, at, SHIFT)
        for i in range(LAST):
            cells[cell, i] = 1 if i >= place else 0
        return at + SHIFT
    for node in range(LAST):
        low, middle, high = _LOWS[node], _MIDDLES[node], _HIGHS[node]
        base = cells[cell, low] if low >= 0 else 0
        count = cells[cell, high] - base
        left = 0
        if 0 < count <= _FEW:
            left, at = get_one_of(words, at, count)
        elif count > _FEW:
            past = beyond[low] if low >= 0 else 0
            guess = _guessed(count, beyond[middle] - past, beyond[high] - past)
            folded, at, _ = get_near(words, at, (length_of(count) + 1) >> 1)
            left = guess + ((folded + 1) >> 1 if folded & 1 == 1 else -(folded >> 1))
            if folded < 0 or not (0 <= left <= count):
                return -1
        cells[cell, middle] = base + left
    return at


@borrowing_kernel
def _put_parts(words: Words, at: int, cells: Integers, cell: int, beyond: Integers) -> int:
    """Write how a cell's counts part; return the bit after them."""
    if cells[cell, LAST] == 1:
        place = LAST
        for i in range(LAST):
            place -= cells[cell, i]
        return put_few(words, at, place, SHIFT)
    for node in range(LAST):
        low, middle, high = _LOWS[node], _MIDDLES[node], _HIGHS[node]
        base = cells[cell, low] if low >= 0 else 0
        count = cells[cell, high] - base
        left = cells[cell, middle] - base
        if 0 < count <= _FEW:
            at = put_one_of(words, at, left, count)
        elif count > _FEW:
            past = beyond[low] if low >= 0 else 0
            off = left - _guessed(count, beyond[middle] - past, beyond[high] - past)
            folded = 2 * off - 1 if off > 0 else -2 * off
            at, _ = put_near(words, at, folded, (length_of(count) + 1) >> 1)
    return at


@kernel
def _get_edges(
    words: Words, at: int, bits: int, state: Integers, oldest: int, live: int, runs: Integers
) -> tuple[int, Integers]:
    """Fill the runs of the total's edges; return (the bit after them, or -1; the runs)."""
    time = state[NOW] - 1
    count = 0
    edges = 0
    fresh = True
    guess = 96
    while edges < live:
        gap, at, length = get_near(words, at, (guess + 4) >> 3)
        if gap < 0 or at > bits:
            return -1, runs
        if gap == 0 and count > 0:
            more, at, _ = get_near(words, at, 1)
            if more < 0 or at > bits or more >= live - edges or not fresh:
                return -1, runs
            edges += more + 1
            runs[1, count - 1] = edges
            fresh = False
            continue
        if gap > time - oldest:
            return -1, runs
        guess += ((length << 3) - guess) >> 2
        time -= gap
        edges += 1
        if count == runs.shape[1]:
            runs = with_columns(runs, count, 1)
        runs[0, count] = time
        runs[1, count] = edges
        count += 1
        fresh = True
    state[RUNS] = count
    return at, runs


@borrowing_kernel
def _put_edges(words: Words, at: int, state: Integers, runs: Integers) -> int:
    """Write the runs of the total's edges; return the bit after them."""
    later = state[NOW] - 1
    edges = 0
    guess = 96
    for run in range(state[RUNS]):
        at, length = put_near(words, at, later - runs[0, run], (guess + 4) >> 3)
        guess += ((length << 3) - guess) >> 2
        more = runs[1, run] - edges - 1
        if more > 0:
            at, _ = put_near(words, at, 0, (guess + 4) >> 3)
            at, _ = put_near(words, at, more - 1, 1)
        later = runs[0, run]
        edges = runs[1, run]
    return at


@borrowing_kernel
def _get_cells(
    words: Words,
    at: int,
    bits: int,
    now: int,
    oldest: int,
    cells: Integers,
    start: int,
    end: int,
    beyond: Integers,
) -> int:
    """Fill cells start..end - 1 of a band; return the bit after, or -1. `beyond`: WIDTH numbers."""
    beyond[:] = 0
    time = now - 1
    time_guess = 96
    count_guess = 8
    for cell in range(end - 1, start - 1, -1):
        gap, at, length = get_near(words, at, (time_guess + 4) >> 3)
        if not (0 <= gap <= time - oldest):
            return -1
        time_guess = (
            length << 3 if cell == end - 1 else time_guess + (((length << 3) - time_guess) >> 2)
        )
        time -= gap
        more, at, length = get_near(words, at, (count_guess + 4) >> 3)
        if not (0 <= more < MAX_EVENTS) or at > bits:
            return -1
        count_guess += ((length << 3) - count_guess) >> 1
        cells[cell, LAST] = more + 1
        cells[cell, TIME] = time
        cells[cell, ONE_TIME] = 1
        if more > 0:
            cells[cell, ONE_TIME] = get_few(words, at, 1)
            at += 1
        at = _get_parts(words, at, cells, cell, beyond)
        if at < 0 or at > bits:
            return -1
        for i in range(WIDTH):
            beyond[i] += cells[cell, i]
        if beyond[LAST] > MAX_EVENTS:
            return -1
    return at


@borrowing_kernel
def _put_cells(
    words: Words, at: int, now: int, cells: Integers, start: int, end: int, beyond: Integers
) -> int:
    """Write cells start..end - 1 of a band; return the bit after. `beyond`: WIDTH numbers."""
    beyond[:] = 0
    later = now - 1
    time_guess = 96
    count_guess = 8
    for cell in range(end - 1, start - 1, -1):
        at, length = put_near(words, at, later - cells[cell, TIME], (time_guess + 4) >> 3)
        time_guess = (
            length << 3 if cell == end - 1 else time_guess + (((length << 3) - time_guess) >> 2)
        )
        later = cells[cell, TIME]
        at, length = put_near(words, at, cells[cell, LAST] - 1, (count_guess + 4) >> 3)
        count_guess += ((length << 3) - count_guess) >> 1
        if cells[cell, LAST] > 1:
            at = put_few(words, at, cells[cell, ONE_TIME], 1)
        at = _put_parts(words, at, cells, cell, beyond)
        for i in range(WIDTH):
            beyond[i] += cells[cell, i]
    return at


@kernel
def read(
    data: Bytes,
    start: int,
    end: int,
    head: Integers,
    state: Integers,
    runs: Integers,
    table: Integers,
    cells: Integers,
) -> tuple[int, int, int, Integers, Integers, Integers]:
    """Fill `state`, the runs, the table and the cells from data[start:end].

    Returns (error, its two numbers, the runs, the table, the cells), which are the given ones or
    longer ones, of a length that the bytes bound. Nothing is believed. Cost: O(end - start).
    """
    error_code, number, at = open_body(data, start, end, VALUE_QUANTILES, VALUE_QUANTILES)
    if error_code != error_codes.OK:
        return error_code, number, 0, runs, table, cells
    for i in (SPAN, PER_OCTAVE, EPSILON):
        found, at = get_varint(data, at, end)
        if found != head[i]:
            return error_codes.OTHER_SETTINGS, 0, 0, runs, table, cells
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0, runs, table, cells
    total, at = get_varint(data, at, end)
    live, at = get_varint(data, at, end)
    bands, at = get_varint(data, at, end)
    if not (0 <= total < TOTAL_LIMIT and 0 <= live <= bucket_count(total, head[PER_LEVEL])):
        return error_codes.CORRUPTED, 0, 0, runs, table, cells
    if live > 0 and bucket_at(total, head[PER_LEVEL], live - 1)[0] >= MAX_EVENTS:
        return error_codes.CORRUPTED, 0, 0, runs, table, cells
    size = end - at
    bits = 8 * size
    if not (0 <= bands <= bits):
        return error_codes.CORRUPTED, 0, 0, runs, table, cells
    words = np.zeros((size >> 2) + 32, np.uint32)
    words.view(np.uint8)[:size] = data[at:end]
    state[NOW] = now
    state[TOTAL] = total
    oldest = max(now - head[SPAN], TIME_MIN)
    bit, runs = _get_edges(words, 0, bits, state, oldest, live, runs)
    if bit < 0:
        return error_codes.CORRUPTED, 0, 0, runs, table, cells
    if bands > table.shape[1]:
        table = np.empty((ROWS, 2 * bands), np.int64)
    used = 0
    events = 0
    lowest = lowest_band(head)
    before = lowest - 1
    beyond = np.empty(WIDTH, np.int64)
    for band in range(bands):
        step, bit, _ = get_near(words, bit, 2 if band > 0 else length_of(-lowest))
        counted, bit, _ = get_near(words, bit, _GUESSED_COUNT)
        more, bit, _ = get_near(words, bit, _GUESSED_COUNT)
        if bit > bits or step < 0 or not (0 <= counted < COUNTS) or not (0 <= more < bits - bit):
            return error_codes.CORRUPTED, 0, 0, runs, table, cells
        if step >= -2 * lowest or before + 1 + step > -lowest - 1:
            return error_codes.CORRUPTED, 0, 0, runs, table, cells
        before += 1 + step
        last = used + more + 1
        if last + _SLACK > len(cells):
            longer = np.empty((2 * last + _SLACK, COLUMNS), np.int64)
            longer[:used] = cells[:used]
            cells = longer
        bit = _get_cells(words, bit, bits, now, oldest, cells, used, last, beyond)
        if bit < 0:
            return error_codes.CORRUPTED, 0, 0, runs, table, cells
        for cell in range(used, last):
            events += cells[cell, LAST]
        if events > 2 * MAX_EVENTS:
            return error_codes.CORRUPTED, 0, 0, runs, table, cells
        table[ID, band] = before
        table[COUNTED, band] = counted
        table[BASE, band] = used
        table[START, band] = used
        table[END, band] = last
        table[ROOM, band] = last + _SLACK
        used = last + _SLACK
    if (bit + 7) >> 3 != size or (bit & 7 != 0 and get_few(words, bit, 8 - (bit & 7)) != 0):
        return error_codes.CORRUPTED, 0, 0, runs, table, cells
    state[BANDS] = bands
    state[USED] = used
    return error_codes.OK, 0, 0, runs, table, cells


@borrowing_kernel
def expire(
    head: Integers, state: Integers, runs: Integers, table: Integers, cells: Integers
) -> None:
    """Drop the edges, the cells and the bands that are in no window from now on."""
    oldest = state[NOW] - head[SPAN]
    while state[RUNS] > 0 and runs[0, state[RUNS] - 1] < oldest:
        state[RUNS] -= 1
    kept = 0
    for band in range(state[BANDS]):
        start, end = table[START, band], table[END, band]
        while start < end and cells[start, TIME] < oldest:
            start += 1
        if start < end:
            table[START, band] = start
            for row in range(ROWS):
                table[row, kept] = table[row, band]
            kept += 1
    state[BANDS] = kept


@borrowing_kernel
def room_for(state: Integers, table: Integers) -> int:
    """Return how many bytes a state may take at most, from which nothing has to expire."""
    bits = 2 * LONGEST * int(state[RUNS]) + 64
    for band in range(state[BANDS]):
        bits += 3 * LONGEST + _CELL_BITS * int(table[END, band] - table[START, band])
    return wire.BODY + 7 * wire.MAX_VARINT + (bits >> 3)


@kernel
def write(
    data: Bytes,
    start: int,
    head: Integers,
    state: Integers,
    runs: Integers,
    table: Integers,
    cells: Integers,
    words: Words,
) -> int:
    """Write a state, out of which what has expired is gone, at `start`; return the offset after it.

    data has `room_for` bytes from `start`, and so has `words`. Cost: O(bytes written).
    """
    at = open_envelope(data, start, VALUE_QUANTILES)
    for i in (SPAN, PER_OCTAVE, EPSILON):
        at = put_varint(data, at, head[i])
    at = put_varint(data, at, wire.zigzag(state[NOW]))
    at = put_varint(data, at, state[TOTAL])
    at = put_varint(data, at, runs[1, state[RUNS] - 1] if state[RUNS] > 0 else 0)
    at = put_varint(data, at, state[BANDS])
    words[0] = 0
    bit = _put_edges(words, 0, state, runs)
    lowest = lowest_band(head)
    before = lowest - 1
    beyond = np.empty(WIDTH, np.int64)
    for band in range(state[BANDS]):
        step = table[ID, band] - before - 1
        bit, _ = put_near(words, bit, step, 2 if band > 0 else length_of(-lowest))
        bit, _ = put_near(words, bit, table[COUNTED, band], _GUESSED_COUNT)
        first, last = table[START, band], table[END, band]
        bit, _ = put_near(words, bit, last - first - 1, _GUESSED_COUNT)
        bit = _put_cells(words, bit, state[NOW], cells, first, last, beyond)
        before = table[ID, band]
    size = (bit + 7) >> 3
    data[at : at + size] = words.view(np.uint8)[:size]
    seal(data, start, at + size)
    return int(at + size)
