"""A wave as bytes, and back: one encoder, one decoder, for counts, sums and positions.

The body (envelope and numbers: see wire.py) is, in this order:

    span, items per level
    total                            units ever inserted (positions: events), lowered as below
    total - lost                     lost: the units up to the newest item that expired, or 0
    now, zigzag coded                last event time + 1, or what it was advanced to
    now - 1 - lost time              positions only, and only if lost > 0
    number of live items
    the live items, newest to oldest, each as
        time of the next newer item (of the newest: now - 1) less its own
        value - 1                    sums
        units between this item and the next newer one, the newest excepted       sums
        events of this time - 1      positions
        events between this item and the next newer one, the newest excepted      positions
        start - time of the next older item       positions; start is the time of the event
                                     before; the oldest item refers to the lost time instead, or,
                                     if nothing is lost, to one tick before the earliest time

A count stores no ranks: which ranks are in the wave follows from the total (`next_rank`). The
newest item ends at the total, as the newest of its level. The part that may be in the window, total
- lost, is below 2^62; so totals can be lowered by canonical.py's rule, which moves no live item
(wave_pool.TOP).
"""

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.parameters import MAX_SPAN
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.exponential_histogram.canonical import LIVE_LIMIT, TOTAL_LIMIT
from slidestat.synopses.waves import pool
from slidestat.synopses.waves.parameters import MAX_PER_LEVEL, MAX_VALUE

COUNT = 3
SUM = 4
POSITION = 5

# Places in the array of what a wave was made with.
KIND, SPAN, PER_LEVEL = 0, 1, 2
HEAD_SIZE = 3

_LONGEST_HEAD = wire.BODY + 8 * wire.MAX_VARINT
_LONGEST_ITEM = 4 * wire.MAX_VARINT


@borrowing_kernel
def place(time: int) -> int:
    """Return a time as a number from 1 on."""
    return time - TIME_MIN + 1


@borrowing_kernel
def read_head(data: Bytes, start: int, end: int, kind: int, head: Integers) -> tuple[int, int, int]:
    """Check the envelope of data[start:end], of a kind, and fill `head`.

    Returns (error, its number, offset).
    """
    error_code, number, at = open_body(data, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, start
    span, at = get_varint(data, at, end)
    per_level, at = get_varint(data, at, end)
    if not (1 <= span <= MAX_SPAN and 1 <= per_level <= MAX_PER_LEVEL):
        return error_codes.CORRUPTED, 0, start
    head[KIND] = kind
    head[SPAN] = span
    head[PER_LEVEL] = per_level
    return error_codes.OK, 0, at


@borrowing_kernel
def next_rank(total: int, per_level: int, rank: int) -> int:
    """Return the largest rank below `rank` that is in the wave of a count of `total`, or 0.

    From level i < TOP (ranks that 2^i divides and 2^(i+1) does not) the wave has the `per_level`
    most recent. So rank u of level i is in it while floor((total - u) / 2^(i+1)) < per_level, and
    what holds for a multiple of 2^i of that level holds for its multiples of higher levels too:
    look at the next multiple of 2^i for each i, from the least that may hold. Cost: O(log total).
    """
    level = 0
    while level < pool.TOP:
        candidate = ((rank - 1) >> level) << level
        if (total - candidate) >> (level + 1) < per_level:
            return candidate
        level += 1
    return ((rank - 1) >> pool.TOP) << pool.TOP


@borrowing_kernel
def _link(
    state: Integers, items: Integers, levels: Integers, per_level: int, slot: int, level: int
) -> bool:
    """Put the item in `slot` before all others, as decoding goes backwards; False if it cannot."""
    if pool.is_full(levels, level, per_level):
        return False
    head = state[pool.HEAD]
    items[pool.OLDER, slot] = -1
    items[pool.NEWER, slot] = head
    if head < 0:
        state[pool.TAIL] = slot
    else:
        items[pool.OLDER, head] = slot
    state[pool.HEAD] = slot
    items[pool.LEVEL, slot] = level
    items[pool.LEVEL_NEWER, slot] = levels[pool.OLDEST_SLOT, level]
    if levels[pool.OLDEST_SLOT, level] < 0:
        levels[pool.NEWEST_SLOT, level] = slot
    levels[pool.OLDEST_SLOT, level] = slot
    levels[pool.HELD, level] += 1
    state[pool.SIZE] += 1
    state[pool.FRESH] = slot + 1
    return True


@borrowing_kernel
def decode(
    data: Bytes, at: int, end: int, head: Integers, state: Integers, items: Integers,
    levels: Integers,
) -> int:  # fmt: skip
    """Fill state, items and levels from data[at:end]; `at` and `head` are what `read_head` gave.

    items has room for end - at of them, or for one more than a wave can have. Returns an error.
    Nothing is believed: totals, times, levels and numbers of items must fit each other. Cost:
    O(end - at), times O(log total) for a count.
    """
    pool.clear(state, levels)
    kind = head[KIND]
    total, at = get_varint(data, at, end)
    since, at = get_varint(data, at, end)
    now, at = get_now(data, at, end)
    if not (0 <= total < TOTAL_LIMIT and 0 <= since <= min(total, LIVE_LIMIT - 1)) or at < 0:
        return error_codes.CORRUPTED
    lost = total - since
    oldest = max(now - head[SPAN], TIME_MIN)
    lost_time = TIME_MIN - 1
    if kind == POSITION and lost > 0:
        age, at = get_varint(data, at, end)
        if not (0 <= age <= now - 1 - TIME_MIN) or now - 1 - age >= oldest:
            return error_codes.CORRUPTED
        lost_time = now - 1 - age
    live, at = get_varint(data, at, end)
    if not (0 <= live <= end - at):
        return error_codes.CORRUPTED
    later = now - 1
    start = total  # where the newer item starts, in units
    rank = total + 1
    begin = now  # the time of the event before the newer item
    for slot in range(live):
        age, at = get_varint(data, at, end)
        if not (0 <= age <= later - oldest):
            return error_codes.CORRUPTED
        time = later - age
        later = time
        value = 1
        between = 0
        group = 1
        if kind == COUNT:
            rank = next_rank(total, head[PER_LEVEL], rank)
            between = start - rank
        else:
            own, at = get_varint(data, at, end)
            if own < 0 or (kind == SUM and own >= MAX_VALUE):
                return error_codes.CORRUPTED
            if kind == SUM:
                value = own + 1
            elif own >= total:
                return error_codes.CORRUPTED
            else:
                group = own + 1
            if slot > 0:
                between, at = get_varint(data, at, end)
        through = start - between
        length = group if kind == POSITION else value
        if between < 0 or through < lost + length:
            return error_codes.CORRUPTED
        if kind == POSITION:
            if slot > 0 and ((begin == time) != (between == 0) or begin < time):
                return error_codes.CORRUPTED
            slack, at = get_varint(data, at, end)
            # The next older item is not known yet: its time is read ahead.
            older = lost_time
            if slot < live - 1:
                ahead, _ = get_varint(data, at, end)
                if not (0 <= ahead <= later - oldest):
                    return error_codes.CORRUPTED
                older = later - ahead
            elif (slack == 0) != (through - group == lost):
                return error_codes.CORRUPTED
            if not (0 <= slack < time - older):
                return error_codes.CORRUPTED
            begin = older + slack
            value = time - begin
            level = pool.level_between(place(begin), place(time))
        else:
            level = pool.level_between(through - value, through)
        items[pool.TIME, slot] = time
        items[pool.THROUGH, slot] = through
        items[pool.VALUE, slot] = value
        items[pool.GROUP, slot] = group
        if not _link(state, items, levels, head[PER_LEVEL], slot, level):
            return error_codes.CORRUPTED
        start = through - length
    if at != end or (live == 0 and since > 0):
        return error_codes.CORRUPTED
    if kind == COUNT and lost < next_rank(total, head[PER_LEVEL], rank):
        return error_codes.CORRUPTED
    state[pool.TOTAL] = total
    state[pool.NOW] = now
    state[pool.LOST] = lost
    state[pool.LOST_TIME] = lost_time
    return error_codes.OK


@borrowing_kernel
def encoded_limit(state: Integers) -> int:
    """Return how many bytes the wave may take at most."""
    return _LONGEST_HEAD + int(state[pool.SIZE]) * _LONGEST_ITEM


@borrowing_kernel
def encode(data: Bytes, start: int, head: Integers, state: Integers, items: Integers) -> int:
    """Write a wave, whose items are all live, at `start`; return the offset after it.

    data has `encoded_limit` bytes from `start`. Cost: O(bytes written).
    """
    kind = head[KIND]
    now = state[pool.NOW]
    at = open_envelope(data, start, kind)
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, head[PER_LEVEL])
    at = put_varint(data, at, state[pool.TOTAL])
    at = put_varint(data, at, state[pool.TOTAL] - state[pool.LOST])
    at = put_varint(data, at, wire.zigzag(now))
    if kind == POSITION and state[pool.LOST] > 0:
        at = put_varint(data, at, now - 1 - state[pool.LOST_TIME])
    at = put_varint(data, at, state[pool.SIZE])
    later = now - 1
    units = state[pool.TOTAL]
    slot = state[pool.TAIL]
    while slot >= 0:
        at = put_varint(data, at, later - items[pool.TIME, slot])
        later = items[pool.TIME, slot]
        if kind != COUNT:
            own = items[pool.VALUE, slot] if kind == SUM else items[pool.GROUP, slot]
            at = put_varint(data, at, own - 1)
            if slot != state[pool.TAIL]:
                at = put_varint(data, at, units - items[pool.THROUGH, slot])
            units = items[pool.THROUGH, slot] - own
        older = items[pool.OLDER, slot]
        if kind == POSITION:
            before = items[pool.TIME, older] if older >= 0 else state[pool.LOST_TIME]
            at = put_varint(data, at, later - items[pool.VALUE, slot] - before)
        slot = older
    seal(data, start, at)
    return at
