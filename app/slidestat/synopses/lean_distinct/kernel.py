"""Lean distinct items while they are in memory: what events, queries and time do to them.

Slots hold the newest items of the state and then the events, in the order of time; `last` holds of
each bit when it was set last, or NEVER, and `touched` the bits that have a time. A group that has
fewer events and kept items than are answered exactly needs no bits, and hashes nothing.
"""

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.keyed import with_room
from slidestat.synopses.core.philox import philox
from slidestat.synopses.distinct.codec import BITS, COUNT, NOW, SEED, SPAN, STORED, read_head
from slidestat.synopses.distinct.kernel import first_zeros, in_order, place_of, room_for, table_mask
from slidestat.synopses.lean_distinct import codec

_MASK = (1 << 32) - 1
_ODD = (1 << 30) | 1
_STREAM = 30  # tells these draws from others of the same seed


@borrowing_kernel
def bit_of(item: int, head: Integers) -> int:
    """Return the bit that an item sets: i * bitmaps + b, bit i of bitmap b.

    b is uniform but for a share of bitmaps / 2^32. i is how many of 62 random bits are 0 before the
    first 1.
    """
    seed = head[SEED]
    a, b, c, _ = philox(
        item & _MASK, (item >> 32) & _MASK, 0, _STREAM, seed & _MASK, (seed >> 32) & _MASK
    )
    return int(first_zeros(b, c) * head[codec.BITMAPS] + ((a * head[codec.BITMAPS]) >> 32))


@borrowing_kernel
def set_bit(bit: int, time: int, last: Integers, touched: Integers, number: int) -> int:
    """Note that `bit` was set at `time`; return how many are touched then."""
    if last[bit] == codec.NEVER:
        touched[number] = bit
        number += 1
    last[bit] = max(last[bit], time)
    return number


@borrowing_kernel
def newest(
    ids: Integers,
    times: Integers,
    count: int,
    start: int,
    wanted: int,
    with_ties: bool,
    found: Integers,
    table: Integers,
    stamps: Integers,
    stamp: int,
    mixers: Integers,
) -> int:
    """Fill `found` with the slots of the `wanted` newest items from `start` on, newest first.

    Each at its last time; `with_ties` also those of the time of the last one. `table` and `stamps`
    as in `place_of`. Returns how many there are. Cost: the slots that are looked at.
    """
    number = 0
    slot = count - 1
    while slot >= 0 and times[slot] >= start:
        if number >= wanted and not (with_ties and times[slot] == times[found[number - 1]]):
            break
        at = place_of(ids[slot], ids, table, stamps, stamp, mixers)
        if stamps[at] != stamp:
            stamps[at] = stamp
            table[at] = slot
            found[number] = slot
            number += 1
        slot -= 1
    return number


@borrowing_kernel
def bits_since(start: int, last: Integers, touched: Integers, number: int) -> int:
    """Return how many bits were set from `start` on."""
    bits = 0
    for i in range(number):
        bits += int(last[touched[i]] >= start)
    return bits


@kernel
def finish(
    out: Bytes,
    end: int,
    head: Integers,
    now: int,
    ids: Integers,
    times: Integers,
    found: Integers,
    last: Integers,
    touched: Integers,
    number: int,
) -> tuple[Bytes, int]:
    """Write the state behind out[:end], and forget all bits; return (out, its new end).

    found: the newest items from the span on, with ties, newest first.
    """
    kept = found[::-1].copy()
    in_order(ids, times, kept)
    kept = kept[max(len(kept) - head[codec.EXACT], 0) :]
    levels = 0
    if number > 0:
        for slot in kept:
            last[bit_of(ids[slot], head)] = codec.NEVER
        for i in range(number):
            if last[touched[i]] < now - head[SPAN]:
                last[touched[i]] = codec.NEVER
            if last[touched[i]] != codec.NEVER:
                levels = max(levels, touched[i] // head[codec.BITMAPS] + 1)
    room = (
        codec.LONGEST_HEAD
        + codec.LONGEST_ITEM * len(kept)
        + codec.LONGEST_BIT * number
        + codec.LONGEST_LEVEL * levels
    )
    out = with_room(out, end, room)
    end = codec.write(out, end, head, now, kept, ids, times, last, levels)
    for i in range(number):
        last[touched[i]] = codec.NEVER
    return out, end


@kernel
def read_state(
    arena: Bytes,
    begin: int,
    stop: int,
    head: Integers,
    found: Integers,
    state: Integers,
    ids: Integers,
    times: Integers,
    last: Integers,
    touched: Integers,
    number: int,
) -> tuple[int, int, int]:
    """Read a stored state: its items into ids and times, and its bits as `read_bits` does.

    Returns (error, its number, how many bits are touched then).
    """
    error_code, other, at = read_head(
        arena, begin, stop, codec.LEAN_DISTINCT, codec.SHORTEST_ITEM, found, state
    )
    if error_code != error_codes.OK:
        return error_code, other, number
    for i in range(STORED):
        if found[i] != head[i]:
            return error_codes.OTHER_SETTINGS, 0, number
    error_code, at = codec.read_newest(arena, at, stop, head, state, ids, times)
    if error_code == error_codes.OK and state[codec.LEVELS] > 0:
        error_code, number = codec.read_bits(arena, at, stop, head, state, last, touched, number)
    return error_code, 0, number


@kernel
def mixers_of(head: Integers) -> Integers:
    """Return what `place_of` mixes items with: odd numbers of the seed, and room for a mask."""
    mixers = np.empty(4, np.int64)
    seed = head[SEED]
    a, b, c, _ = philox(0, 0, 1, _STREAM, seed & _MASK, (seed >> 32) & _MASK)
    mixers[0] = (a >> 1) | _ODD
    mixers[1] = (b >> 1) | _ODD
    mixers[2] = (c >> 1) | _ODD
    return mixers


@kernel
def run(
    head: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    items: Integers,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order, as `drive` describes; `events` are times.

    answers[0] is the number of distinct items where it is known, else -1 and answers[1] how many
    bits are set.
    """
    starts, events, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    room = room_for(offsets, starts, codec.SHORTEST_ITEM)
    ids = np.empty(room, np.int64)
    times = np.empty(room, np.int64)
    found = np.empty(room, np.int64)
    table = np.empty(table_mask(room) + 1, np.int64)
    stamps = np.zeros(len(table), np.int64)
    stamp = 0
    mixers = mixers_of(head)
    last = np.full(BITS * head[codec.BITMAPS], codec.NEVER, np.int64)
    touched = np.empty(len(last), np.int64)
    stored = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        state[NOW] = TIME_MIN
        state[COUNT] = 0
        state[codec.LEVELS] = 0
        begin, stop = offsets[group], offsets[group + 1]
        number = 0
        if begin < stop:
            error_code, a, number = read_state(
                arena, begin, stop, head, stored, state, ids, times, last, touched, 0
            )
            if error_code != error_codes.OK:
                return error_code, group, a, 0, out, ends
        count = state[COUNT]
        error_code, a, b, after = follows(columns, group, state[NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        more = starts[group + 1] - event
        many = number > 0 or count + more >= head[codec.EXACT]
        if many:
            for slot in range(count):
                number = set_bit(bit_of(ids[slot], head), times[slot], last, touched, number)
        mixers[3] = table_mask(count + more)
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            while event < cuts[group + query]:
                ids[count] = items[event]
                times[count] = events[event]
                if many:
                    bit = bit_of(items[event], head)
                    number = set_bit(bit, events[event], last, touched, number)
                count += 1
                event += 1
            if query == query_starts[group + 1]:
                break
            for i in range(len(spans)):
                start = query_times[query] - spans[i]
                stamp += 1
                seen = newest(
                    ids,
                    times,
                    count,
                    start,
                    head[codec.EXACT],
                    False,
                    found,
                    table,
                    stamps,
                    stamp,
                    mixers,
                )
                answers[0, query, i] = seen if seen < head[codec.EXACT] else -1
                answers[1, query, i] = 0
                if seen == head[codec.EXACT]:
                    answers[1, query, i] = bits_since(start, last, touched, number)
        if begin < stop and more == 0 and after == state[NOW]:  # it was only asked
            out = with_room(out, end, stop - begin)
            out[end : end + stop - begin] = arena[begin:stop]
            end += stop - begin
            ends[group + 1] = end
            for i in range(number):
                last[touched[i]] = codec.NEVER
            continue
        stamp += 1
        oldest = max(after - head[SPAN], TIME_MIN)
        seen = newest(
            ids, times, count, oldest, head[codec.EXACT], True, found, table, stamps, stamp, mixers
        )
        kept = found[:seen]
        out, end = finish(out, end, head, after, ids, times, kept, last, touched, number)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends


@kernel
def unite(head: Integers, arena: Bytes, offsets: Integers) -> tuple[int, int, int, Bytes, Integers]:
    """Return the one state that has seen what all states of `arena` have seen.

    Returns (error, the part that has it, its number, new arena, its offsets).
    """
    ends = np.zeros(2, np.int64)
    out = np.empty(len(arena) + 64, np.uint8)
    ids = np.empty(len(arena) // codec.SHORTEST_ITEM + 1, np.int64)
    times = np.empty(len(ids), np.int64)
    last = np.full(BITS * head[codec.BITMAPS], codec.NEVER, np.int64)
    touched = np.empty(len(last), np.int64)
    stored = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    now = TIME_MIN
    count = number = 0
    for part in range(len(offsets) - 1):
        error_code, a, number = read_state(
            *(arena, offsets[part], offsets[part + 1], head, stored, state),
            *(ids[count:], times[count:], last, touched, number),
        )
        if error_code != error_codes.OK:
            return error_code, part, a, out, ends
        now = max(now, state[NOW])
        count += state[COUNT]
    order = np.argsort(times[:count])
    ids = ids[order]
    times = times[order]
    for slot in range(count):
        number = set_bit(bit_of(ids[slot], head), times[slot], last, touched, number)
    found = np.empty(count, np.int64)
    table = np.empty(table_mask(count) + 1, np.int64)
    stamps = np.zeros(len(table), np.int64)
    mixers = mixers_of(head)
    mixers[3] = table_mask(count)
    oldest = max(now - head[SPAN], TIME_MIN)
    seen = newest(
        ids, times, count, oldest, head[codec.EXACT], True, found, table, stamps, 1, mixers
    )
    kept = found[:seen]
    out, ends[1] = finish(out, 0, head, now, ids, times, kept, last, touched, number)
    return error_codes.OK, 0, 0, out, ends
