"""A randomised wave while it is in memory: what events, queries and time do to it.

Items are in slots, in the order of their latest times. An event of a known item gives up its old
slot and takes a new one at the end; a table finds the slot of an item. Nothing is pushed out before
a batch is over: a query counts what is in its window, and what would have been pushed out cannot
make a level complete that is not.
"""

from math import ceil, floor

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Columns, follows
from slidestat.synopses.core.keyed import first_from, with_room
from slidestat.synopses.distinct import codec
from slidestat.synopses.distinct.field_hash import MAX_LEVEL, level_of, multiples
from slidestat.synopses.distinct.parameters import EPSILONS

_PART = (1 << 31) - 1
_SHORT = 24  # so many are sorted as they come


@borrowing_kernel
def place_of(
    item: int, ids: Integers, table: Integers, stamps: Integers, stamp: int, mixers: Integers
) -> int:
    """Return the place of `item` in the table, or the free one where it belongs.

    A place is free unless its stamp is `stamp`; mixers[3] is the length of the table, a power of
    two, less 1. Products stay below 2^62.
    """
    mixed = (item & _PART) * mixers[0]
    mixed ^= ((item >> 31) & _PART) * mixers[1]
    mixed ^= ((item >> 62) & 3) * mixers[2]
    at = int((mixed >> 20) & mixers[3])
    while stamps[at] == stamp and ids[table[at]] != item:
        at = (at + 1) & mixers[3]
    return at


@borrowing_kernel
def first_zeros(high: int, low: int) -> int:
    """Return how many of the first BITS - 1 of two times 32 random bits are 0 before the first 1:
    which bit of a Flajolet-Martin bitmap an item sets.
    """
    drawn = (high << 30) | (low >> 2)
    zeros = 0
    while zeros < codec.BITS - 1 and (drawn >> (codec.BITS - 2 - zeros)) & 1 == 0:
        zeros += 1
    return zeros


@borrowing_kernel
def fill_levels(
    slot: int, ids: Integers, levels: codec.Levels, polynomials: Integers, window: Integers
) -> None:
    """Make the levels of `slot` known."""
    if levels[slot, 0] == codec.UNKNOWN:
        multiples(ids[slot], window)
        for instance in range(len(polynomials)):
            levels[slot, instance] = level_of(polynomials[instance], window)


@borrowing_kernel
def complete_level(reached: Integers, capacity: int) -> int:
    """Return the lowest level with less than `capacity` items; reached[l] have l as their own.

    Source: Gibbons, Tirthapura 2002, figure 6. There a queue may be full if its tail is the first
    position of the window; a time may have more than one item, so here it may not.
    """
    level = MAX_LEVEL
    items = reached[level]
    while level > 0 and items + reached[level - 1] < capacity:
        level -= 1
        items += reached[level]
    return level


@borrowing_kernel
def bounds_of(estimate: float, epsilon: int, least: int) -> tuple[float, float, float]:
    """Return (estimate, lower, upper), none below `least`, which is known of the exact answer."""
    share = epsilon / EPSILONS
    estimate = max(estimate, float(least))
    lower = max(float(floor(estimate / (1 + share))), float(least))
    return estimate, lower, float(ceil(estimate / (1 - share)))


@kernel
def answer(
    head: Integers,
    polynomials: Integers,
    ids: Integers,
    times: Integers,
    alive: Bytes,
    levels: codec.Levels,
    count: int,
    start: int,
) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of the window of the times from `start` on.

    Cost: O(log kept) and the items in the window.
    """
    first = first_from(times, 0, count, start)
    items = 0
    for slot in range(first, count):
        items += int(np.int64(alive[slot]))
    if items < head[codec.CAPACITY]:
        return float(items), float(items), float(items)
    window = np.empty(16, np.int64)
    reached = np.zeros((head[codec.INSTANCES], MAX_LEVEL + 1), np.int64)
    for slot in range(first, count):
        if alive[slot]:
            fill_levels(slot, ids, levels, polynomials, window)
            for instance in range(head[codec.INSTANCES]):
                reached[instance, levels[slot, instance]] += 1
    estimates = np.empty(head[codec.INSTANCES], np.float64)
    for instance in range(head[codec.INSTANCES]):
        level = complete_level(reached[instance], head[codec.CAPACITY])
        estimates[instance] = float(np.sum(reached[instance, level:])) * 2.0**level
    median = np.sort(estimates)[head[codec.INSTANCES] >> 1]
    return bounds_of(median, head[codec.EPSILON], head[codec.CAPACITY])


@kernel
def in_order(ids: Integers, times: Integers, order: Integers) -> None:
    """Sort the slots `order`, whose times do not fall, by item where times are equal."""
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and times[order[end]] == times[order[start]]:
            if end - start < _SHORT:
                slot = order[end]
                at = end
                while at > start and ids[order[at - 1]] > ids[slot]:
                    order[at] = order[at - 1]
                    at -= 1
                order[at] = slot
            end += 1
        if end - start > _SHORT:
            tied = order[start:end].copy()
            order[start:end] = tied[np.argsort(ids[tied])]
        start = end


@kernel
def _swept(
    head: Integers, polynomials: Integers, ids: Integers, levels: codec.Levels, order: Integers
) -> Integers:
    """Return the slots of `order` that some level of some instance keeps.

    An item of level h is among the `capacity` newest ones of some level exactly if it is among
    those of level h. Cost: O(1) expected a slot and instance.
    """
    window = np.empty(16, np.int64)
    newer = np.zeros((head[codec.INSTANCES], MAX_LEVEL + 1), np.int64)  # that reach a level
    at = len(order)
    for i in range(len(order) - 1, -1, -1):
        slot = order[i]
        fill_levels(slot, ids, levels, polynomials, window)
        kept = False
        for instance in range(head[codec.INSTANCES]):
            level = int(levels[slot, instance])
            kept |= newer[instance, level] < head[codec.CAPACITY]
            for lower in range(level + 1):
                newer[instance, lower] += 1
        if kept:
            at -= 1
            order[at] = slot
    return order[at:]


@borrowing_kernel
def room_for(offsets: Integers, starts: Integers, shortest: int) -> int:
    """Return how many slots the largest group may need, a stored item having `shortest` bytes."""
    most = 1
    for group in range(len(starts) - 1):
        stored = (offsets[group + 1] - offsets[group]) // shortest
        most = max(most, stored + starts[group + 1] - starts[group])
    return most


@borrowing_kernel
def table_mask(items: int) -> int:
    """Return the length less 1 of a table for `items`: a power of two, at most half full."""
    length = 4
    while length < 2 * items:
        length *= 2
    return length - 1


@kernel
def run(
    head: Integers,
    polynomials: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    items: Integers,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries, as `drive` describes; `events` are their times."""
    starts, events, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    room = room_for(offsets, starts, codec.SHORTEST_ITEM)
    ids = np.empty(room, np.int64)
    times = np.empty(room, np.int64)
    alive = np.empty(room, np.uint8)
    levels = np.empty((room, head[codec.INSTANCES]), np.int8)
    order = np.empty(room, np.int64)
    table = np.empty(table_mask(room) + 1, np.int64)
    stamps = np.zeros(len(table), np.int64)
    mixers = np.empty(4, np.int64)
    for i in range(3):  # odd, of 31 bits, of the seed
        mixers[i] = (polynomials[0, i] & _PART) | (1 << 30) | 1
    found = head.copy()
    state = np.empty(codec.STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        state[codec.NOW] = TIME_MIN
        state[codec.COUNT] = 0
        begin, stop = offsets[group], offsets[group + 1]
        if begin < stop:
            error_code, number, at = codec.read_head(
                arena, begin, stop, head[codec.KIND], codec.SHORTEST_ITEM, found, state
            )
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, ends
            for i in range(codec.STORED):
                if found[i] != head[i]:
                    return error_codes.OTHER_SETTINGS, group, 0, 0, out, ends
            error_code = codec.read_items(arena, at, stop, head, state, ids, times, levels)
            if error_code != error_codes.OK:
                return error_code, group, 0, 0, out, ends
        count = state[codec.COUNT]
        mixers[3] = table_mask(count + starts[group + 1] - starts[group])
        stamp = group + 1
        busy = starts[group] < starts[group + 1]
        for slot in range(count):
            alive[slot] = 1
            if not busy:
                continue
            place = place_of(ids[slot], ids, table, stamps, stamp, mixers)
            if stamps[place] == stamp:
                return error_codes.CORRUPTED, group, 0, 0, out, ends
            stamps[place] = stamp
            table[place] = slot
        error_code, a, b, after = follows(columns, group, state[codec.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            while event < cuts[group + query]:
                item, time = items[event], events[event]
                event += 1
                place = place_of(item, ids, table, stamps, stamp, mixers)
                levels[count, 0] = codec.UNKNOWN
                if stamps[place] == stamp:
                    known = table[place]
                    if times[known] == time:
                        continue
                    alive[known] = 0
                    levels[count] = levels[known]
                stamps[place] = stamp
                table[place] = count
                ids[count] = item
                times[count] = time
                alive[count] = 1
                count += 1
            if query == query_starts[group + 1]:
                break
            for i in range(len(spans)):
                start = query_times[query] - spans[i]
                answers[0, query, i], answers[1, query, i], answers[2, query, i] = answer(
                    head, polynomials, ids, times, alive, levels, count, start
                )
        number = 0
        oldest = max(after - head[codec.SPAN], TIME_MIN)
        for slot in range(first_from(times, 0, count, oldest), count):
            if alive[slot]:
                order[number] = slot
                number += 1
        kept = order[:number]
        in_order(ids, times, kept)
        if number >= head[codec.CAPACITY]:
            kept = _swept(head, polynomials, ids, levels, kept)
        out = with_room(
            out, end, codec.LONGEST_HEAD + (codec.LONGEST_ITEM + head[codec.INSTANCES]) * len(kept)
        )
        end = codec.write(out, end, head, after, kept, ids, times, levels)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends
