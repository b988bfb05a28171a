"""The newest items and the times of bits, as bytes and back: one encoder, one decoder.

The body (envelope and numbers: see wire.py) is, in this order:

    epsilon in 10^-6, delta in 10^-9, span, seed
    now, zigzag coded                     last event time + 1, or what it was advanced to
    how many of the newest items are kept, and of each, newest to oldest, of equal times the
        largest first:
        now - 1 - t_1, t_1 - t_2, ... of the time it was last seen; the item, in 8 bytes
    how many levels have a bit that is stored, and if there are any, a string of bits, low ones
    of each byte first, of each of these levels:
        how many of its bits are stored, in as many bits as the number of bitmaps takes
        which ones: the gaps between those that are not, if these are fewer, else between those
            that are, Rice coded with the k of their mean
        k, in 6 bits, and of each that is stored its age, now - 1 - time, Rice coded with this k

Bits that one of these items sets are not stored: their time is that of the newest such item. So
five items take less than 100 bytes, and a state with fewer items than are kept has no bits.

Rice coded with k: number >> k ones and a zero, then the low k bits; from 24 ones on, 24 ones and
the number in 53 bits. k is the least with 2^(k + 1) > 0.69 mean: a function of the numbers.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_bits, open_envelope, put_bits, seal
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.distinct.codec import BITS, COUNT, NOW, SPAN, STORED

LEAN_DISTINCT = 30

# Places in the array of what a synopsis was made with, after those of every one of distinct items.
BITMAPS, EXACT = 4, 5
HEAD_SIZE = 6

# Place in the array of what is kept, after those.
LEVELS = 2
STATE_SIZE = 3

NEVER = TIME_MIN - 1  # the last time of a bit that is not set
LONGEST_HEAD = wire.BODY + (STORED + 3) * wire.MAX_VARINT
LONGEST_ITEM = wire.MAX_VARINT + 8
LONGEST_BIT = 20  # its age and its gap
LONGEST_LEVEL = 16
SHORTEST_ITEM = 9

_ONES = 24
_WIDE = 53


@borrowing_kernel
def put_string(data: Bytes, at: int, number: int, size: int) -> int:
    """Write the low `size` bits of `number` behind those before `at`; return the bit after."""
    while size > 0:
        place = at & 7
        taken = min(8 - place, size)
        before = int(np.int64(data[at >> 3])) if place > 0 else 0
        data[at >> 3] = before | ((number & ((1 << taken) - 1)) << place)
        number >>= taken
        at += taken
        size -= taken
    return at


@borrowing_kernel
def get_string(data: Bytes, at: int, end: int, size: int) -> tuple[int, int]:
    """Read `size` bits; return (number, the bit after them), or (-1, at) if `end` lies before."""
    if at + size > end:
        return -1, at
    number = 0
    done = 0
    while done < size:
        place = at & 7
        taken = min(8 - place, size - done)
        byte = int(np.int64(data[at >> 3]))
        number |= ((byte >> place) & ((1 << taken) - 1)) << done
        done += taken
        at += taken
    return number, at


@borrowing_kernel
def put_rice(data: Bytes, at: int, number: int, k: int) -> int:
    """Write `number`, below 2^53; return the bit after it."""
    ones = number >> k
    if ones >= _ONES:
        at = put_string(data, at, (1 << _ONES) - 1, _ONES)
        return put_string(data, at, number, _WIDE)
    at = put_string(data, at, (1 << ones) - 1, ones + 1)
    return put_string(data, at, number, k)


@borrowing_kernel
def get_rice(data: Bytes, at: int, end: int, k: int) -> tuple[int, int]:
    """Read a number; return (it, the bit after it), or (-1, at) if there is none before `end`."""
    ones = 0
    while at < end and ones < _ONES and (int(np.int64(data[at >> 3])) >> (at & 7)) & 1:
        ones += 1
        at += 1
    if ones == _ONES:
        return get_string(data, at, end, _WIDE)
    low, at = get_string(data, at + 1, end, k)
    if low < 0:
        return -1, at
    return (ones << k) | low, at


@borrowing_kernel
def rice_of(total: float, number: int) -> int:
    """Return the k for `number` numbers with this sum."""
    k = 0
    while k < _WIDE and (2 << k) * float(number) <= 0.69 * total:
        k += 1
    return k


@borrowing_kernel
def read_newest(
    data: Bytes, at: int, end: int, head: Integers, state: Integers, ids: Integers, times: Integers
) -> tuple[int, int]:
    """Fill slots 0..COUNT - 1, oldest first; return (error, the offset of the string of bits)."""
    time = state[NOW] - 1
    oldest = max(state[NOW] - head[SPAN], TIME_MIN)
    if state[COUNT] > head[EXACT]:
        return error_codes.CORRUPTED, at
    for slot in range(state[COUNT] - 1, -1, -1):
        gap, at = get_varint(data, at, end)
        if gap < 0 or gap > time - oldest or end - at < 8:
            return error_codes.CORRUPTED, at
        time -= gap
        times[slot] = time
        ids[slot] = get_bits(data, at)
        at += 8
    state[LEVELS], at = get_varint(data, at, end)
    if not (0 <= state[LEVELS] <= BITS) or (state[LEVELS] == 0 and at < end):
        return error_codes.CORRUPTED, at
    if state[LEVELS] > 0 and state[COUNT] < head[EXACT]:  # only what has no room leaves bits alone
        return error_codes.CORRUPTED, at
    return error_codes.OK, at


@kernel
def read_bits(
    data: Bytes,
    at: int,
    end: int,
    head: Integers,
    state: Integers,
    last: Integers,
    touched: Integers,
    number: int,
) -> tuple[int, int]:
    """Merge the stored bits' times into `last`, and those that had none into touched[number:].

    Returns (error, how many are touched then). Nothing is believed. Cost: O(end - at).
    """
    bit = 8 * at
    stop = 8 * end
    found = np.empty(head[BITMAPS], np.int64)
    for level in range(state[LEVELS]):
        stored, bit = _get_places(data, bit, stop, head[BITMAPS], found)
        if stored < 0:
            return error_codes.CORRUPTED, number
        k, bit = get_string(data, bit, stop, 6)
        if not (0 <= k <= _WIDE):
            return error_codes.CORRUPTED, number
        for i in range(stored):
            age, bit = get_rice(data, bit, stop, k)
            if age < 0 or age >= head[SPAN] or state[NOW] - 1 - age < TIME_MIN:
                return error_codes.CORRUPTED, number
            place = level * head[BITMAPS] + found[i]
            if last[place] == NEVER:
                touched[number] = place
                number += 1
            last[place] = max(last[place], state[NOW] - 1 - age)
    if bit > stop or stop - bit >= 8:
        return error_codes.CORRUPTED, number
    return error_codes.OK, number


@borrowing_kernel
def _width(number: int) -> int:
    """Return how many bits `number` takes."""
    width = 0
    while number >> width:
        width += 1
    return width


@borrowing_kernel
def _get_places(data: Bytes, bit: int, stop: int, bitmaps: int, found: Integers) -> tuple[int, int]:
    """Fill `found` with the bitmaps of a level; return (how many, the bit after), or (-1, bit)."""
    stored, bit = get_string(data, bit, stop, _width(bitmaps))
    if not (0 <= stored <= bitmaps):
        return -1, bit
    named = min(stored, bitmaps - stored)
    k = rice_of(float(bitmaps - named), named + 1)
    next_one = 0
    number = 0
    for _ in range(named):
        gap, bit = get_rice(data, bit, stop, k)
        if gap < 0 or gap >= bitmaps - next_one:
            return -1, bit
        if stored > named:
            for place in range(next_one, next_one + gap):
                found[number] = place
                number += 1
        else:
            found[number] = next_one + gap
            number += 1
        next_one += gap + 1
    if stored > named:
        for place in range(next_one, bitmaps):
            found[number] = place
            number += 1
    return stored, bit


@borrowing_kernel
def _put_places(data: Bytes, bit: int, times: Integers) -> tuple[int, int]:
    """Write which of a level's bits have a time; return (how many, the bit after)."""
    bitmaps = len(times)
    stored = 0
    for place in range(bitmaps):
        stored += int(times[place] != NEVER)
    bit = put_string(data, bit, stored, _width(bitmaps))
    named = min(stored, bitmaps - stored)
    k = rice_of(float(bitmaps - named), named + 1)
    next_one = 0
    for place in range(bitmaps):
        if named > 0 and (times[place] != NEVER) == (stored == named):
            bit = put_rice(data, bit, place - next_one, k)
            next_one = place + 1
    return stored, bit


@borrowing_kernel
def write(
    data: Bytes,
    start: int,
    head: Integers,
    now: int,
    newest: Integers,
    ids: Integers,
    times: Integers,
    last: Integers,
    levels: int,
) -> int:
    """Write a synopsis at `start` of bytes with room for it; return the offset after it.

    newest: the slots of the items that are kept, oldest first. last: the times of bits that are
    stored, NEVER of others, in the first `levels` levels. Cost: O(items + levels * bitmaps).
    """
    at = open_envelope(data, start, LEAN_DISTINCT)
    for i in range(STORED):
        at = put_varint(data, at, head[i])
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, len(newest))
    time = now - 1
    for i in range(len(newest) - 1, -1, -1):
        slot = newest[i]
        at = put_varint(data, at, time - times[slot])
        time = times[slot]
        at = put_bits(data, at, ids[slot])
    at = put_varint(data, at, levels)
    bit = 8 * at
    for level in range(levels):
        own = last[level * head[BITMAPS] : (level + 1) * head[BITMAPS]]
        bit = _put_level(data, bit, now, own)
    at = (bit + 7) >> 3
    seal(data, start, at)
    return at


@borrowing_kernel
def _put_level(data: Bytes, bit: int, now: int, times: Integers) -> int:
    """Write a level's bits and their ages; return the bit after them."""
    stored, bit = _put_places(data, bit, times)
    total = 0.0
    for place in range(len(times)):
        if times[place] != NEVER:
            total += float(now - 1 - times[place])
    k = rice_of(total, max(stored, 1))
    bit = put_string(data, bit, k, 6)
    for place in range(len(times)):
        if times[place] != NEVER:
            bit = put_rice(data, bit, now - 1 - times[place], k)
    return bit
