"""The minimum or the maximum of a window, exact or to a relative error, for any window n <= N.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.4: the list of pairs of value and time that
both rise (the monotone queue), and why an exact extreme needs N log(R / N) bits for R values at
worst. Rounding the values, which bounds it, is ours. Promises: moments/README.md.

How a value is rounded. The bits of a positive double, read as a whole number, rise with it. Its
rank is that number without its lowest 52 - m bits, so a rank is an exponent and m bits of the
fraction, and needs no logarithm. Below 2^-1022, where doubles lie evenly and have no exponent, the
fraction is brought to 52 bits, and the exponent is how far it was shifted: 52 exponents more, below
the others. 0 is the rank of zero alone; the rank of -x is that of x, negative. With m = 52 a rank
is a value, and its bits are taken as they are.

Why that keeps the promise: docs/proofs.md. For a minimum, ranks are negated: then the largest rank
is looked for in both.

The kept state. An event is kept while no later event has its rank or a larger one: then no window
that ends now can need it. Kept ranks fall strictly from old to new, and the oldest kept event of a
window has the window's extreme (the monotone queue). At most one event of a time is kept.

The body (envelope and numbers: see wire.py) is, in this order:

    side                                  0 minimum, 1 maximum
    m                                     kind 9 only
    span
    now, zigzag coded                     last event time + 1, or what it was advanced to
    number of kept events, then of each, newest to oldest:
        now - 1 - t_1, then t_1 - t_2 - 1, ...
        kind 8: the bits of the value, 8 bytes
        kind 9: rank_1, zigzag coded, then rank_2 - rank_1 - 1, ...

In memory they are queue[0, i] = time and queue[1, i] = rank, oldest to newest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, keyed, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Batch, BatchResult, Columns, follows, split
from slidestat.synopses.core.envelope import decoded
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SPAN, MIN_EPSILON, check_whole, is_from
from slidestat.synopses.core.stored import Estimating, StoredSynopsis
from slidestat.synopses.core.wire import get_varint, put_varint

EXACT = 8
APPROXIMATE = 9

SIDE, FRACTION_BITS, SPAN = 0, 1, 2
HEAD_SIZE = 3

ALL_BITS = 52
MAX_APPROXIMATE_BITS = 19  # what an epsilon of 10^-6 asks for

# Places in the array of a state's numbers.
NOW, OLDEST, KEPT = 0, 1, 2
STATE_SIZE = 3
_FIRST_ROOM = 16
_LONGEST_HEAD = wire.BODY + 2 + 3 * wire.MAX_VARINT
_NO_VALUE = 0x7FF8 << 48  # the bits of a NaN
_INFINITY = 0x7FF << 52
_SIGN = -(1 << 63)
_SIZE = (1 << 63) - 1
_LEAST_NORMAL = 1 << 52
_SHIFTS = 52


@borrowing_kernel
def _rank(bits: int, head: Integers) -> int:
    """Return the rank of the finite double with these bits."""
    rank = int(bits & _SIZE)
    if rank > 0 and head[FRACTION_BITS] < ALL_BITS:
        exponents = _SHIFTS
        while rank < _LEAST_NORMAL:  # until the first of the 53 bits is where it belongs
            rank <<= 1
            exponents -= 1
        rank = (rank >> (ALL_BITS - head[FRACTION_BITS])) + (exponents << head[FRACTION_BITS])
    return rank if (bits >= 0) == (head[SIDE] == 1) else -rank  # -0.0 is 0.0


@borrowing_kernel
def _edges(rank: int, head: Integers) -> tuple[int, int, int]:
    """Return the bits of (middle, least, largest) of the doubles of a rank.

    Not of that rank if no double has it, as happens below 2^-1022.
    """
    one_exponent = 1 << head[FRACTION_BITS]
    dropped = ALL_BITS - head[FRACTION_BITS]
    low = high = abs(rank)
    if rank != 0 and dropped > 0:
        low -= _SHIFTS * one_exponent
        shifted = 0
        while low < one_exponent:
            low += one_exponent
            shifted += 1
        low <<= dropped
        high = (low + ((1 << dropped) - 1)) >> shifted
        low = (low + ((1 << shifted) - 1)) >> shifted
    middle = low + ((high - low + 1) >> 1)
    if rank == 0 or (rank > 0) == (head[SIDE] == 1):
        return middle, low, high
    return middle | _SIGN, high | _SIGN, low | _SIGN


@borrowing_kernel
def _top_rank(head: Integers) -> int:
    """Return the largest rank a finite value can have; the least is its negative."""
    dropped = ALL_BITS - head[FRACTION_BITS]
    exponents = _SHIFTS if dropped > 0 else 0
    return int(((_INFINITY - 1) >> dropped) + (exponents << head[FRACTION_BITS]))


@kernel
def read(
    data: Bytes, start: int, end: int, head: Integers, state: Integers, queue: Integers
) -> tuple[int, int, Integers]:
    """Fill `head`, `state` and the queue; return (error, its number, the queue).

    The queue is the given one, or a larger one, never longer than the bytes. Nothing is believed.
    Cost: O(end - start).
    """
    error_code, kind, at = keyed.open_body(data, start, end, EXACT, APPROXIMATE)
    if error_code != error_codes.OK:
        return error_code, kind, queue
    head[SIDE], at = get_varint(data, at, end)
    head[FRACTION_BITS] = ALL_BITS
    if kind == APPROXIMATE:
        head[FRACTION_BITS], at = get_varint(data, at, end)
        if not (0 <= head[FRACTION_BITS] <= MAX_APPROXIMATE_BITS):
            return error_codes.CORRUPTED, 0, queue
    head[SPAN], at = get_varint(data, at, end)
    if not (0 <= head[SIDE] <= 1 and 1 <= head[SPAN] <= MAX_SPAN):
        return error_codes.CORRUPTED, 0, queue
    now, at = keyed.get_now(data, at, end)
    if at < 0:
        return error_codes.CORRUPTED, 0, queue
    kept, at = get_varint(data, at, end)
    if not (0 <= kept <= end - at):
        return error_codes.CORRUPTED, 0, queue
    if kept > queue.shape[1]:
        queue = np.empty((2, kept), np.int64)
    top = _top_rank(head)
    oldest = max(now - head[SPAN], TIME_MIN)
    time = now
    rank = -top - 1
    for i in range(kept - 1, -1, -1):
        gap, at = get_varint(data, at, end)
        if not (0 <= gap < time - oldest):
            return error_codes.CORRUPTED, 0, queue
        time -= gap + 1
        if kind == EXACT:
            if end - at < 8:
                return error_codes.CORRUPTED, 0, queue
            bits = keyed.get_bits(data, at)
            at += 8
            if (bits & _INFINITY) == _INFINITY or bits == _SIGN:
                return error_codes.CORRUPTED, 0, queue
            older = _rank(bits, head)
        else:
            step, at = get_varint(data, at, end)
            if not (0 <= step < 1 << 40):
                return error_codes.CORRUPTED, 0, queue
            older = wire.unzigzag(step) if i == kept - 1 else rank + 1 + step
        if older <= rank or older > top or _rank(_edges(older, head)[0], head) != older:
            return error_codes.CORRUPTED, 0, queue  # the last is a rank that no double has
        rank = older
        queue[0, i] = time
        queue[1, i] = rank
    if at != end:
        return error_codes.CORRUPTED, 0, queue
    state[NOW] = now
    state[OLDEST] = 0
    state[KEPT] = kept
    return error_codes.OK, 0, queue


@borrowing_kernel
def _write(data: Bytes, start: int, head: Integers, state: Integers, queue: Integers) -> int:
    """Write a state at `start`, expired events left out; return the offset after it."""
    now = state[NOW]
    while state[OLDEST] < state[KEPT] and queue[0, state[OLDEST]] < now - head[SPAN]:
        state[OLDEST] += 1
    exact = head[FRACTION_BITS] == ALL_BITS
    at = keyed.open_envelope(data, start, EXACT if exact else APPROXIMATE)
    at = put_varint(data, at, head[SIDE])
    if not exact:
        at = put_varint(data, at, head[FRACTION_BITS])
    at = put_varint(data, at, head[SPAN])
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, state[KEPT] - state[OLDEST])
    later = now
    for i in range(state[KEPT] - 1, state[OLDEST] - 1, -1):
        at = put_varint(data, at, later - queue[0, i] - 1)
        later = queue[0, i]
        if exact:
            at = keyed.put_bits(data, at, _edges(queue[1, i], head)[0])
        elif i == state[KEPT] - 1:
            at = put_varint(data, at, wire.zigzag(queue[1, i]))
        else:
            at = put_varint(data, at, queue[1, i] - queue[1, i + 1] - 1)
    keyed.seal(data, start, at)
    return at


@borrowing_kernel
def _absorb(
    head: Integers,
    state: Integers,
    queue: Integers,
    times: Integers,
    bits: Integers,
    first: int,
    last: int,
) -> tuple[int, int]:
    """Take in the events first..last - 1, as long as the queue has room.

    Returns (error, its event); without one, the first event that was not taken in.
    """
    kept = state[KEPT]
    event = first
    while event < last:
        if (bits[event] & _INFINITY) == _INFINITY:
            return error_codes.NOT_FINITE, event
        rank = _rank(bits[event], head)
        if not (kept > 0 and queue[0, kept - 1] == times[event] and queue[1, kept - 1] >= rank):
            while kept > 0 and queue[1, kept - 1] <= rank:
                kept -= 1
            if kept == queue.shape[1]:
                break
            queue[0, kept] = times[event]
            queue[1, kept] = rank
            kept += 1
        event += 1
    state[KEPT] = kept
    return error_codes.OK, event


@borrowing_kernel
def _answer(
    head: Integers, state: Integers, queue: Integers, start: int, answers: Integers, q: int, k: int
) -> None:
    """Write the bits of estimate, lower and upper for events from time `start` on: a search."""
    low = keyed.first_from(queue[0], state[OLDEST], state[KEPT], start)
    if low == state[KEPT]:
        answers[0, q, k] = answers[1, q, k] = answers[2, q, k] = _NO_VALUE
    else:
        answers[0, q, k], answers[1, q, k], answers[2, q, k] = _edges(queue[1, low], head)


@kernel
def run(
    head: Integers,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    bits: Integers,
    answers: Integers,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order, as `drive` describes; doubles are bits."""
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    found = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    queue = np.empty((2, _FIRST_ROOM), np.int64)
    out = np.empty(len(arena) + 64 * groups + 64, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        state[NOW] = TIME_MIN
        state[OLDEST] = state[KEPT] = 0
        if offsets[group] < offsets[group + 1]:
            error_code, number, queue = read(
                arena, offsets[group], offsets[group + 1], found, state, queue
            )
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, ends
            for i in range(HEAD_SIZE):
                if found[i] != head[i]:
                    return error_codes.OTHER_SETTINGS, group, 0, 0, out, ends
        error_code, a, b, after = follows(columns, group, state[NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, ends
        event = starts[group]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            cut = cuts[group + query]
            if cut > event:
                error_code, event = _absorb(head, state, queue, times, bits, event, cut)
                while error_code == error_codes.OK and event < cut:
                    queue = keyed.with_columns(queue, queue.shape[1], 1)
                    error_code, event = _absorb(head, state, queue, times, bits, event, cut)
                if error_code != error_codes.OK:
                    return error_code, group, event, 0, out, ends
                state[NOW] = times[cut - 1] + 1
            if query == query_starts[group + 1]:
                break
            for k in range(len(spans)):
                _answer(head, state, queue, query_times[query] - spans[k], answers, query, k)
        state[NOW] = after
        room = _LONGEST_HEAD + 2 * wire.MAX_VARINT * state[KEPT]
        if len(out) - end < room:
            out = keyed.with_room(out, end, room)
        end = _write(out, end, head, state, queue)
        ends[group + 1] = end
    return error_codes.OK, 0, 0, 0, out, ends


_SIDES = ("minimum", "maximum")


@dataclass(frozen=True)
class ExtremeParameters:
    """A minimum or a maximum over windows of up to `span`.

    side: "minimum" or "maximum". span: longest window kept, 1 to 2^53, in the unit of the event
    times. epsilon: 0 for the exact one, else the largest relative error wanted, 10^-6 to 1/2.
    Raises SynopsisError for anything else.
    """

    side: str
    span: int
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.side not in _SIDES:
            raise SynopsisError(f"side must be minimum or maximum, not {self.side!r}")
        check_whole("span", self.span, 1, MAX_SPAN)
        if not (is_from(0, 0, self.epsilon) or is_from(MIN_EPSILON, 0.5, self.epsilon)):
            raise SynopsisError(f"epsilon must be 0 or 1e-06 to 0.5, not {self.epsilon!r}")

    @property
    def fraction_bits(self) -> int:
        """The number of bits of a value's fraction that are kept: the fewest that keep epsilon."""
        if self.epsilon == 0:
            return ALL_BITS
        bits = 0
        while 0.5 ** (bits + 1) > self.epsilon:
            bits += 1
        return bits

    @property
    def relative_error(self) -> float:
        """The promise: 2^-(m + 1) <= epsilon for m fraction bits; 0 for the exact one."""
        return 0.0 if self.epsilon == 0 else 0.5 ** (self.fraction_bits + 1)


def run_extreme_batch(
    parameters: ExtremeParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many extremes at once, one a group (key); the values are float64.

    Raises SynopsisError also for values that are not finite. Cost: O(bytes in + events + queries *
    log + bytes out).
    """
    columns, values = batch.within(parameters.span), batch.doubles()
    head = np.empty(HEAD_SIZE, np.int64)
    head[SIDE] = _SIDES.index(parameters.side)
    head[FRACTION_BITS] = parameters.fraction_bits
    head[SPAN] = parameters.span
    answers: Floats = np.empty((3, *batch.shape), np.float64)
    own = values.view(np.int64), answers.view(np.int64)
    kinds = EXACT, APPROXIMATE
    out, ends = keyed.drive(run, (head,), states, columns, *own, kinds=kinds, values=values)
    return BatchResult(split(out, ends), *answers)


class Extreme(StoredSynopsis[ExtremeParameters], Estimating[ExtremeParameters]):
    """The minimum or the maximum of one stream's values, over any window up to the span.

    >>> from slidestat.synopses import Extreme, ExtremeParameters
    >>> warmest = Extreme.create(ExtremeParameters("maximum", span=60_000))
    >>> warmest.insert([1_000, 2_000, 50_000], [21.5, 23.0, 19.5])
    >>> warmest.query(60_000).estimate, warmest.query(1_000).estimate
    (23.0, 19.5)
    """

    kinds: ClassVar[tuple[int, ...]] = (EXACT, APPROXIMATE)

    run_batch = staticmethod(run_extreme_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[ExtremeParameters, int]:
        head, state, _ = _read(data)
        bits = int(head[FRACTION_BITS])
        epsilon = 0.0 if bits == ALL_BITS else max(MIN_EPSILON, 0.5 ** (bits + 1))
        parameters = ExtremeParameters(_SIDES[int(head[SIDE])], int(head[SPAN]), epsilon)
        return parameters, int(state[NOW])

    def kept(self) -> int:
        """Return how many events are kept."""
        return int(_read(self._data)[1][KEPT])

    def check(self) -> None:
        """Raise SynopsisError unless times live and ranks fall strictly. Cost: O(bytes)."""
        _, state, queue = _read(self._data)
        kept = int(state[KEPT])
        times, ranks = queue[0, :kept], queue[1, :kept]
        if bool(np.any(np.diff(times) <= 0)) or bool(np.any(ranks[1:] >= ranks[:-1])):
            raise SynopsisError("the queue is out of order")
        if kept > 0 and not (self._now - self._parameters.span <= times[0] <= self._now - 1):
            raise SynopsisError("the queue holds what has expired")


def _read(data: bytes) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and its queue."""
    head, state = np.empty(HEAD_SIZE, np.int64), np.empty(STATE_SIZE, np.int64)
    (queue,) = decoded(read, data, Extreme.kinds, head, state, np.empty((2, 0), np.int64))
    return head, state, queue
