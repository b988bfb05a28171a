"""Items and when each was last seen, as bytes and back: one encoder, one decoder.

The body (envelope and numbers: see wire.py) is, in this order:

    epsilon in 10^-6 (of bitmaps: their number), delta in 10^-9, span, seed
    now, zigzag coded                     last event time + 1, or what it was advanced to
    number of kept items, and if there are any:
        width: one byte, how many bytes the largest item takes, zigzag coded
        of each item, newest to oldest, of equal times the largest first:
            now - 1 - t_1, t_1 - t_2, ... of the time it was last seen
            the item, zigzag coded, in `width` bytes, little-endian
            its level in each instance, a byte each; only from `capacity` items on

Five items take less than 100 bytes: without levels there is nothing of the instances in a state.
Flajolet-Martin bitmaps are kept alike: their items are the bits that are set, and there are no
levels.

In memory items are in slots, oldest to newest: ids and times, and levels[slot, instance], which is
UNKNOWN until it is asked for.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.envelope import named_by_bytes, refused
from slidestat.synopses.core.keyed import (
    get_bits,
    get_now,
    open_body,
    open_envelope,
    put_bits,
    seal,
)
from slidestat.synopses.core.wire import get_fixed, get_varint, put_fixed, put_varint
from slidestat.synopses.distinct.field_hash import MAX_LEVEL

BITMAPS = 18
RANDOMISED_WAVE = 19

BITS = 63
"""The bits of a Flajolet-Martin bitmap."""

# Places in the array of what a wave was made with; the first four are stored.
EPSILON, DELTA, SPAN, SEED, INSTANCES, CAPACITY, KIND = 0, 1, 2, 3, 4, 5, 6
STORED = 4
HEAD_SIZE = 7

# Places in the array of what is kept.
NOW, COUNT = 0, 1
STATE_SIZE = 2

UNKNOWN = -1

P = TypeVar("P")
Levels = npt.NDArray[np.int8]
LONGEST_HEAD = wire.BODY + (STORED + 2) * wire.MAX_VARINT + 1
LONGEST_ITEM = wire.MAX_VARINT + 8  # without levels
SHORTEST_ITEM = 2

_POSITIVE = (1 << 63) - 1


@borrowing_kernel
def read_head(
    data: Bytes, start: int, end: int, kind: int, shortest: int, head: Integers, state: Integers
) -> tuple[int, int, int]:
    """Fill the stored part of `head`, and `state`, of `kind`, whose items take `shortest` bytes or
    more; return (error, its number, offset of items).
    """
    error_code, other, at = open_body(data, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, other, at
    for i in range(STORED):
        head[i], at = get_varint(data, at, end)
        if head[i] < 0:
            return error_codes.CORRUPTED, 0, at
    now, at = get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, 0, at
    number, at = get_varint(data, at, end)
    if not (0 <= number <= (end - at) // shortest):
        return error_codes.CORRUPTED, 0, at
    state[NOW] = now
    state[COUNT] = number
    return error_codes.OK, 0, at


@borrowing_kernel
def _get_item(data: Bytes, at: int, width: int) -> int:
    """Read a zigzag coded item, as the 64 bits of an int64."""
    # With a known length, the compiler unrolls loops.
    folded = get_bits(data, at) if width == 8 else get_fixed(data, at, width)
    return ((folded >> 1) & _POSITIVE) ^ -(folded & 1)


@borrowing_kernel
def _put_item(data: Bytes, at: int, folded: int, width: int) -> int:
    """Write the low `width` bytes of `folded`; return the offset after them."""
    return put_bits(data, at, folded) if width == 8 else put_fixed(data, at, folded, width)


@borrowing_kernel
def _width_of(bits: int) -> int:
    """Return how many bytes the 64 bits of `bits` take, at least 1."""
    width = 8
    while width > 1 and (bits >> (8 * (width - 1))) & 0xFF == 0:
        width -= 1
    return width


@borrowing_kernel
def read_items(
    data: Bytes,
    at: int,
    end: int,
    head: Integers,
    state: Integers,
    ids: Integers,
    times: Integers,
    levels: Levels,
) -> int:
    """Fill slots 0..COUNT - 1; return an error code. `head` is whole. Cost: O(end - at).

    Nothing is believed, but that no item is there twice and that levels are the items' own.
    """
    number = state[COUNT]
    if number == 0:
        return error_codes.OK if at == end else error_codes.CORRUPTED
    width = int(np.int64(data[at]))
    at += 1
    with_levels = number >= head[CAPACITY]
    fixed = width + (head[INSTANCES] if with_levels else 0)
    if not (1 <= width <= 8):
        return error_codes.CORRUPTED
    oldest = max(state[NOW] - head[SPAN], TIME_MIN)
    time = state[NOW] - 1
    bits = 0
    for slot in range(number - 1, -1, -1):
        gap, at = get_varint(data, at, end)
        if not (0 <= gap <= time - oldest) or end - at < fixed:
            return error_codes.CORRUPTED
        time -= gap
        item = _get_item(data, at, width)
        at += width
        if slot < number - 1 and gap == 0 and item >= ids[slot + 1]:
            return error_codes.CORRUPTED
        ids[slot] = item
        times[slot] = time
        bits |= wire.zigzag(item)
        if with_levels:
            for instance in range(head[INSTANCES]):
                if data[at] > MAX_LEVEL:
                    return error_codes.CORRUPTED
                levels[slot, instance] = np.int64(data[at])
                at += 1
        else:
            levels[slot, 0] = UNKNOWN
    if at != end or _width_of(bits) != width:
        return error_codes.CORRUPTED
    return error_codes.OK


@borrowing_kernel
def write(
    data: Bytes,
    start: int,
    head: Integers,
    now: int,
    order: Integers,
    ids: Integers,
    times: Integers,
    levels: Levels,
) -> int:
    """Write the slots order[0..], oldest to newest, at `start`; return the offset after it."""
    number = len(order)
    at = open_envelope(data, start, head[KIND])
    for i in range(STORED):
        at = put_varint(data, at, head[i])
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, number)
    if number > 0:
        bits = 0
        for slot in order:
            bits |= wire.zigzag(ids[slot])
        width = _width_of(bits)
        data[at] = width
        at += 1
        time = now - 1
        for i in range(number - 1, -1, -1):
            slot = order[i]
            at = put_varint(data, at, time - times[slot])
            time = times[slot]
            at = _put_item(data, at, wire.zigzag(ids[slot]), width)
            if number >= head[CAPACITY]:
                for instance in range(head[INSTANCES]):
                    data[at] = levels[slot, instance]
                    at += 1
    seal(data, start, at)
    return at


class Kept(NamedTuple):
    """The content of a state, oldest first: int64 items and times, and int8 levels, a row each."""

    items: Integers
    times: Integers
    levels: Levels

    def since(self, start: int) -> "Kept":
        """Return what was last seen at the time `start` or later. Cost: O(log kept)."""
        first = int(np.searchsorted(self.times, start))
        return Kept(self.items[first:], self.times[first:], self.levels[first:])


def read_state(data: bytes, kind: int, complete: Callable[[Integers], P]) -> tuple[P, int, Kept]:
    """Decode `data`, a state of `kind`; returns its parameters, its time and what is kept.

    `complete` is given `head`, its stored part filled: it fills the rest, and returns the
    parameters. Raises SynopsisError for anything that is no such state. Cost: O(len(data)).
    """
    array = np.frombuffer(bytearray(data), np.uint8)
    head = np.zeros(HEAD_SIZE, np.int64)
    head[KIND] = kind
    state = np.empty(STATE_SIZE, np.int64)
    error_code, number, at = read_head(array, 0, len(array), kind, SHORTEST_ITEM, head, state)
    if error_code != error_codes.OK:
        raise refused(error_code, number, kind)
    parameters = named_by_bytes(complete, head)
    count = int(state[COUNT])
    kept = Kept(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty((count, int(head[INSTANCES])), np.int8),
    )
    error_code = read_items(array, at, len(array), head, state, *kept)
    if error_code != error_codes.OK:
        raise refused(error_code, 0)
    return parameters, int(state[NOW]), kept
