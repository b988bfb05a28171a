"""Any function of the events of a window, kept as buckets that carry a sketch each.

Source: Datar, Gionis, Indyk, Motwani 2002, section 5 (properties P1-P5, invariants 5.1 and 5.2),
with the rule for merging of Braverman and Ostrovsky 2007 ("Smooth histograms"). The following is
for intervals of a stream, AB being A and, right after it, B. A function f qualifies if

    P1, P3:  f(A) >= 0 and f(AB) >= f(A) + f(B);
    P2:      f of an interval that is not 0 lies between 1 and some F;
    P4:      f(AB)^(1/r) <= f(A)^(1/r) + f(B)^(1/r), for an r >= 1, its order;
    P5:      a sketch of a fixed number of whole numbers tells f, and that of AB is the sum of those
             of A and B.

Rule. From new to old, neighbours are merged into A while, B being all that is newer,

    f(AB) <= (1 + beta) f(B)                                                               (5.1)

and AB has a weight of at most 2^28. Neighbours are merged after as many new buckets as there were
then, 32 at least. The bounds that follow, the space, and C_f: docs/proofs.md. If sketches give f
only roughly (lp_norm.py), (5.1) and the width of the bounds hold as roughly; bounds hold always.

A bucket of one event keeps the event itself, an item and a weight, not its sketch: a key with few
events stays small, and a window of nothing else is known exactly.

The body (envelope and numbers: see wire.py) is, in this order:

    settings                              what the synopsis was made with, of its kind
    now, zigzag coded                     last event time + 1, or what it was advanced to
    new buckets until neighbours are merged again
    number of live buckets, then of each, newest to oldest:
        the oldest time of the bucket before (at first, now - 1) - the newest of this one
        0 for one event, else 1 + newest - oldest time
        the weight of its events
        of one event, its item, coded as in cells_codec.py after 0; else the numbers of the sketch,
            each zigzag coded
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bools, Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.envelope import refused
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.keyed import get_now, open_body, open_envelope, seal
from slidestat.synopses.core.wire import get_varint, put_varint
from slidestat.synopses.value_histogram.cells_codec import read_id, write_id

LEAST_STEP = 32
"""Neighbours are merged after so many new buckets at least."""

MAX_WEIGHT = 1 << 30
"""The weights of the live buckets come to at most this, those of events included that have expired
in a bucket which has one in the span: their sketch cannot be separated, and must not overflow."""

MAX_MERGED = MAX_WEIGHT >> 2
"""No bucket of several events has a weight above this. So where a window of a span holds at most
half of MAX_WEIGHT, what is older in its first bucket does not go beyond MAX_WEIGHT."""

MAX_PER_WEIGHT = 1 << 32
"""No number of a sketch is more than this, of either sign, for each unit of weight."""


class Function(ABC):
    """A qualifying function: its constants, its sketches, and their estimates.

    Sketches are int64, and no number in one is more than 2^32 times the weight of its events.
    """

    order: float
    """The r of P4."""

    width: int
    """How many numbers a sketch has."""

    @abstractmethod
    def sketches(self, items: Integers, weights: Integers) -> Integers:
        """Return the sketches of single events, int64[events, width]."""

    @abstractmethod
    def sizes(self, sketches: Integers) -> Floats:
        """Return f, or what is taken for it where buckets are merged, for each of the sketches."""


@dataclass
class Buckets:
    """The state: buckets from old to new.

    newest, first: times of their newest and oldest event. items: of buckets of one event, 0 of
    others. weights: of all their events. single: which have one event. sketches: of the others, in
    their order. left: new buckets until neighbours are merged. now: the last event's time + 1, or
    the time advanced to.
    """

    width: int
    newest: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    first: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    items: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    single: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    sketches: Integers = field(init=False)
    left: int = LEAST_STEP
    now: int = TIME_MIN

    def __post_init__(self) -> None:
        self.sketches = np.empty((0, self.width), np.int64)

    def drop_before(self, oldest: int) -> None:
        """Drop the buckets of which no event has a time from `oldest` on."""
        gone = int(np.searchsorted(self.newest, oldest))
        if gone > 0:
            merged = gone - int(np.count_nonzero(self.single[:gone]))
            for name in ("newest", "first", "items", "weights", "single"):
                setattr(self, name, getattr(self, name)[gone:])
            self.sketches = self.sketches[merged:]

    def rows(self, function: Function, start: int = 0) -> Integers:
        """Return the sketches of the buckets from number `start` on. Cost: O(buckets * width)."""
        single = self.single[start:]
        rows = np.empty((len(single), self.width), np.int64)
        merged = int(np.count_nonzero(~single))
        rows[~single] = self.sketches[len(self.sketches) - merged :]
        rows[single] = function.sketches(self.items[start:][single], self.weights[start:][single])
        return rows


@kernel
def _starts(sizes: Floats, weights: Integers, beta: float) -> Integers:
    """Return the first of each group to be merged, newest first; sizes[i] is f of 0..i."""
    starts = np.empty(len(sizes), np.int64)
    groups = 0
    i = 0
    while i < len(sizes):
        starts[groups] = i
        groups += 1
        limit = (1.0 + beta) * sizes[i - 1] if i > 0 else -1.0
        weight = weights[i]
        i += 1
        while i < len(sizes) and sizes[i] <= limit and weight + weights[i] <= MAX_MERGED:
            weight += weights[i]
            i += 1
    return starts[:groups]


def _merge(function: Function, beta: float, buckets: Buckets) -> None:
    """Merge neighbours as the rule says. Cost: O(buckets * width)."""
    count = len(buckets.newest)
    rows = buckets.rows(function)[::-1]
    sums = np.cumsum(rows, axis=0)
    starts = _starts(function.sizes(sums), buckets.weights[::-1], beta)
    lasts = np.append(starts[1:], count) - 1
    alone = starts == lasts
    merged = np.add.reduceat(rows, starts, axis=0)
    single = buckets.single[::-1][starts] & alone
    buckets.items = np.where(single, buckets.items[::-1][starts], 0)[::-1]
    buckets.weights = np.add.reduceat(buckets.weights[::-1], starts)[::-1]
    buckets.newest = buckets.newest[::-1][starts][::-1]
    buckets.first = buckets.first[::-1][lasts][::-1]
    buckets.sketches = merged[~single][::-1]
    buckets.single = single[::-1]


def absorb(
    function: Function,
    beta: float,
    span: int,
    buckets: Buckets,
    times: Integers,
    items: Integers,
    weights: Integers,
) -> None:
    """Take in events with weights of 1 or more, whose times have been checked.

    Raises WindowTooLargeError if at any event the weights of the live buckets come to more than
    2^30: those in the span, and those older ones that share a bucket with the oldest of them. Where
    batches end does not show in that. The buckets are then of no use. Cost: O(events), and
    O(buckets * width) each time neighbours are merged.
    """
    at = 0
    while at < len(times):
        stop = min(at + buckets.left, len(times))
        chunk = slice(at, stop)
        live = np.concatenate([buckets.weights, weights[chunk]])
        newest = np.concatenate([buckets.newest, times[chunk]])
        sums = np.concatenate([[0], np.cumsum(live)])
        gone = np.searchsorted(newest, times[chunk] + 1 - span)
        ends = np.arange(len(live) - (stop - at), len(live)) + 1
        if np.any(sums[ends] - sums[gone] > MAX_WEIGHT):
            raise WindowTooLargeError(
                "the weights in the span, with older ones in one bucket with them, come to more "
                "than 2^30, which is more than can be kept"
            )
        buckets.newest = newest
        buckets.weights = live
        buckets.first = np.concatenate([buckets.first, times[chunk]])
        buckets.items = np.concatenate([buckets.items, items[chunk]])
        buckets.single = np.concatenate([buckets.single, np.ones(stop - at, np.bool_)])
        buckets.left -= stop - at
        buckets.now = max(buckets.now, int(times[stop - 1]) + 1)
        if buckets.left == 0:
            buckets.drop_before(buckets.now - span)
            _merge(function, beta, buckets)
            buckets.left = max(LEAST_STEP, len(buckets.newest))
        at = stop
    buckets.drop_before(buckets.now - span)


@dataclass(frozen=True)
class Window:
    """The knowledge of a window: sketches of what is surely in it, and of what may be.

    Or, where only buckets of one event are in it, those events, and both sketches None.
    """

    inner: Integers | None
    outer: Integers | None
    items: Integers
    weights: Integers


def look(function: Function, buckets: Buckets, start: int) -> Window:
    """Return what is known of the events with time >= `start`. Cost: O(buckets * width)."""
    low = int(np.searchsorted(buckets.newest, start))
    items, weights = buckets.items[low:], buckets.weights[low:]
    if bool(np.all(buckets.single[low:])):
        return Window(None, None, items, weights)
    rows = buckets.rows(function, low)
    outer = rows.sum(axis=0)
    inner = outer - rows[0] if buckets.first[low] < start else outer
    return Window(inner, outer, items, weights)


_LEAST_BUCKET = 4
"""No bucket takes fewer bytes."""

_MAX_LEFT = 1 << 40

# Rows of the columns that kernels see buckets as, newest to oldest.
_NEWEST, _FIRST, _ITEM, _WEIGHT, _SINGLE = 0, 1, 2, 3, 4
_ROWS = 5


@kernel
def _read(
    data: Bytes, kind: int, settings: Bytes, span: int, width: int
) -> tuple[int, int, int, int, Integers, Integers]:
    """Return (error, its number or now, new buckets left, merged buckets, columns, sketches)."""
    none = np.empty((_ROWS, 0), np.int64)
    rows = np.empty((0, width), np.int64)
    end = len(data)
    error_code, number, at = open_body(data, 0, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0, 0, none, rows
    if end - at < len(settings):
        return error_codes.OTHER_SETTINGS, 0, 0, 0, none, rows
    for i in range(len(settings)):
        if data[at + i] != settings[i]:
            return error_codes.OTHER_SETTINGS, 0, 0, 0, none, rows
    now, at = get_now(data, at + len(settings), end)
    if at < 0:
        return error_codes.CORRUPTED, 0, 0, 0, none, rows
    left, at = get_varint(data, at, end)
    live, at = get_varint(data, at, end)
    if not (1 <= left <= _MAX_LEFT and 0 <= live <= (end - at) // _LEAST_BUCKET):
        return error_codes.CORRUPTED, 0, 0, 0, none, rows
    columns = np.empty((_ROWS, live), np.int64)
    rows = np.empty((min(live, (end - at) // width), width), np.int64)
    oldest = max(now - span, TIME_MIN)
    time = now - 1
    merged = 0
    total = 0
    for i in range(live):
        gap, at = get_varint(data, at, end)
        form, at = get_varint(data, at, end)
        weight, at = get_varint(data, at, end)
        if not (0 <= gap <= time - oldest and 1 <= weight <= MAX_WEIGHT - total):
            return error_codes.CORRUPTED, 0, 0, 0, none, rows
        total += weight
        newest = time - gap
        if not (0 <= form <= 1 + newest - TIME_MIN):
            return error_codes.CORRUPTED, 0, 0, 0, none, rows
        item = 0
        if form == 0:
            item, at = read_id(data, at, end, 0)
            if at < 0:
                return error_codes.CORRUPTED, 0, 0, 0, none, rows
        else:
            if merged == len(rows):
                return error_codes.CORRUPTED, 0, 0, 0, none, rows
            for j in range(width):
                folded, at = get_varint(data, at, end)
                number = wire.unzigzag(folded)
                if folded < 0 or abs(number) > weight * MAX_PER_WEIGHT:
                    return error_codes.CORRUPTED, 0, 0, 0, none, rows
                rows[merged, j] = number
            merged += 1
        time = newest - max(form - 1, 0)
        columns[_NEWEST, i] = newest
        columns[_FIRST, i] = time
        columns[_ITEM, i] = item
        columns[_WEIGHT, i] = weight
        columns[_SINGLE, i] = form == 0
        if time < oldest and i < live - 1:
            return error_codes.CORRUPTED, 0, 0, 0, none, rows
    if at != end:
        return error_codes.CORRUPTED, 0, 0, 0, none, rows
    return error_codes.OK, now, left, merged, columns, rows


@kernel
def _write(
    kind: int, settings: Bytes, now: int, left: int, columns: Integers, rows: Integers
) -> Bytes:
    """Return the bytes of buckets that are all live. Cost: O(bytes written)."""
    live = columns.shape[1]
    room = wire.BODY + len(settings) + wire.MAX_VARINT * (3 + 4 * live + rows.size)
    data = np.empty(room, np.uint8)
    at = open_envelope(data, 0, kind)
    for i in range(len(settings)):
        data[at] = settings[i]
        at += 1
    at = put_varint(data, at, wire.zigzag(now))
    at = put_varint(data, at, left)
    at = put_varint(data, at, live)
    time = now - 1
    merged = 0
    for i in range(live):
        at = put_varint(data, at, time - columns[_NEWEST, i])
        time = columns[_FIRST, i]
        if columns[_SINGLE, i]:
            at = put_varint(data, at, 0)
            at = put_varint(data, at, columns[_WEIGHT, i])
            at = write_id(data, at, columns[_ITEM, i], 0)
        else:
            at = put_varint(data, at, 1 + columns[_NEWEST, i] - time)
            at = put_varint(data, at, columns[_WEIGHT, i])
            for j in range(rows.shape[1]):
                at = put_varint(data, at, wire.zigzag(rows[merged, j]))
            merged += 1
    seal(data, 0, at)
    return data[:at].copy()


def read(data: bytes, kind: int, settings: bytes, span: int, width: int) -> Buckets:
    """Return the buckets in `data`; SynopsisError unless it is of `kind` and has `settings`.

    Nothing is believed. Cost: O(len(data)).
    """
    array = np.frombuffer(bytearray(data), np.uint8)
    own = np.frombuffer(bytearray(settings), np.uint8)
    error_code, number, left, merged, columns, rows = _read(array, kind, own, span, width)
    if error_code != error_codes.OK:
        raise refused(error_code, number, kind)
    buckets = Buckets(width)
    buckets.newest, buckets.first, buckets.items, buckets.weights = columns[:_SINGLE, ::-1]
    buckets.single = columns[_SINGLE, ::-1] != 0
    buckets.sketches = rows[:merged][::-1]
    buckets.left = int(left)
    buckets.now = int(number)
    return buckets


def write(buckets: Buckets, kind: int, settings: bytes, span: int) -> bytes:
    """Return the buckets as bytes, those that have expired left out."""
    buckets.drop_before(buckets.now - span)
    columns = np.empty((_ROWS, len(buckets.newest)), np.int64)
    columns[_NEWEST] = buckets.newest[::-1]
    columns[_FIRST] = buckets.first[::-1]
    columns[_ITEM] = buckets.items[::-1]
    columns[_WEIGHT] = buckets.weights[::-1]
    columns[_SINGLE] = buckets.single[::-1]
    rows = np.ascontiguousarray(buckets.sketches[::-1])
    own = np.frombuffer(bytearray(settings), np.uint8)
    return bytes(_write(kind, own, buckets.now, buckets.left, columns, rows).tobytes())
