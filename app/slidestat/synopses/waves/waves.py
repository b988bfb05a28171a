"""Waves of one key, as the bytes that are stored and sent: of counts, of sums, of positions.

Source: Gibbons and Tirthapura, "Distributed Streams Algorithms for Sliding Windows" (2002). What
each wave promises and costs: README.md. Why, and three differences from the paper: docs/proofs.md.

Counts (section 3.2, the optimal wave, with duplicated positions, which are event times): of each
level i the c = (1 / epsilon + 1) / 2 newest events are kept whose rank 2^i divides and 2^(i+1) does
not.

>>> from slidestat.synopses import CountWave
>>> from slidestat.synopses import WaveParameters
>>> visits = CountWave.create(WaveParameters(epsilon=0.1, span=60_000))
>>> visits.insert([1_000, 2_000, 2_000, 59_000])
>>> visits.query(1_000, now=60_000)
Estimate(estimate=1.0, lower=1.0, upper=1.0)

Sums (section 3.3, figure 5): an event of value v is v units at once, z - v + 1 to z; its level is
the largest i with a multiple of 2^i among them, and each level keeps its c newest events.

Positions (section 5, Nth most recent 1): a wave over positions that carries ranks, where the wave
of a count is one over ranks that carries positions. Here positions are event times, most of which
have no event: an event at t, the one before being at t', stands for the positions t' + 1 to t, as
an event of value v stands for v units in the sum wave. Events of one time are one item, and each
level keeps its c newest items.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import NO_QUERIES, Batch, BatchResult, integers, row_of, split
from slidestat.synopses.core.envelope import refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.stored import Estimating, Stored
from slidestat.synopses.waves import codec, pool
from slidestat.synopses.waves.ages import age_steps
from slidestat.synopses.waves.kernel import run
from slidestat.synopses.waves.parameters import MAX_VALUE, WaveParameters

KINDS = {"count": codec.COUNT, "sum": codec.SUM, "position": codec.POSITION}
MAX_NUMBER = (1 << 61) - 1
"""No event further back than this is asked for by number."""


def _values(kind: int, batch: Batch) -> Integers:
    if kind != codec.SUM:
        batch.require_no_values()
        return NO_QUERIES
    array = integers("values", batch.values)
    batch.require("a value", array.shape)
    outside = (array < 0) | (array > MAX_VALUE)
    if outside.any():
        value = int(array[np.argmax(outside)])
        raise SynopsisError(f"value {value} cannot be summed: values are from 0 to 2^53")
    return array


def require_numbers(asks: Integers) -> None:
    """Raise SynopsisError for numbers that no event has, from the newest on."""
    if not all(1 <= ask <= MAX_NUMBER for ask in asks.tolist()):
        raise SynopsisError(f"the number of an event asked for must be from 1 to {MAX_NUMBER}")


def run_wave_batch(
    kind: str, parameters: WaveParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many waves of one kind ("count", "sum" or "position") at once, one a group.

    The values of `batch` are int64 for a sum, 0 to 2^53, else None. Its spans are windows of counts
    and sums; of positions, which newest event is asked for (1 is the last), from 1 to 2^61 - 1.
    Raises SynopsisError also for values that cannot be summed, and if the span's upper bound would
    come to 2^62. Cost: O(bytes in + events + queries * items + bytes out).
    """
    if kind not in KINDS:
        raise SynopsisError(f"a wave is one of {', '.join(KINDS)}, not {kind!r}")
    if kind == "position":
        require_numbers(batch.columns.spans)
    else:
        batch.within(parameters.span)
    values = _values(KINDS[kind], batch)
    answers = np.empty((3, *batch.shape), np.float64)
    head = np.array([KINDS[kind], parameters.span, parameters.per_level], np.int64)
    out, ends = drive(run, (head,), states, batch.columns, values, answers, kinds=(KINDS[kind],))
    return BatchResult(split(out, ends), *answers)


class Item(NamedTuple):
    """An item of a wave: its time, the units (of a position: events) before it and through it."""

    time: int
    before: int
    through: int
    level: int


class StoredWave(Stored[WaveParameters]):
    """A wave of one stream of events; times are as in `Stored`."""

    kind: ClassVar[str]

    @classmethod
    def _opened(cls, data: bytes) -> tuple[WaveParameters, int]:
        head, state, _ = _read(data, cls.kind)
        parameters = WaveParameters(1 / (2 * int(head[codec.PER_LEVEL]) - 1), int(head[codec.SPAN]))
        return parameters, int(state[pool.NOW])

    def items(self) -> list[Item]:
        """Return the live items, oldest to newest."""
        state, items = self._decoded()
        found = []
        slot = int(state[pool.HEAD])
        while slot >= 0:
            item = items[:, slot].tolist()
            through = item[pool.THROUGH]
            before = through - item[pool.GROUP if self.kind == "position" else pool.VALUE]
            found.append(Item(item[pool.TIME], before, through, item[pool.LEVEL]))
            slot = item[pool.NEWER]
        return found

    def totals(self) -> tuple[int, int]:
        """Return the units (of a position: events) seen, and those through the newest item lost.

        Both are lowered by the same multiple of 2^61 once they are huge.
        """
        state, _ = self._decoded()
        return int(state[pool.TOTAL]), int(state[pool.LOST])

    def check(self) -> None:
        """Raise SynopsisError unless the stored state is one that events can leave.

        Items are in order, apart, inside the span, after what was lost, and no level has more than
        it may. Decoding refuses all else. Cost: O(items).
        """
        items = self.items()
        total, lost = self.totals()
        if items and (items[-1].through != total or items[0].before < lost):
            raise SynopsisError("the newest item is missing, or an expired one is still there")
        for older, newer in pairwise(items):
            if older.through > newer.before or older.time > newer.time:
                raise SynopsisError(f"items {older} and {newer} overlap or are out of order")
        if items and not (self._now - self._parameters.span <= items[0].time):
            raise SynopsisError(f"item {items[0]} has expired")
        if items and items[-1].time >= self._now:
            raise SynopsisError(f"item {items[-1]} is not before {self._now}")

    def _decoded(self) -> tuple[Integers, Integers]:
        """Return the wave's numbers and its items, as kernels have them."""
        return _read(self._data, self.kind)[1:]

    def _no_values(self) -> Integers | None:
        return NO_QUERIES if self.kind == "sum" else None

    def _run(self, batch: Batch) -> BatchResult:
        return run_wave_batch(self.kind, self._parameters, [self._data], batch)


def _read(data: bytes, kind: str) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and its items."""
    array = np.frombuffer(bytearray(data), np.uint8)
    head = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(pool.STATE_SIZE, np.int64)
    levels = np.empty((pool.LEVEL_ROWS, pool.LEVELS), np.int64)
    items = np.empty((pool.ITEM_ROWS, len(array)), np.int64)
    error_code, number, at = codec.read_head(array, 0, len(array), KINDS[kind], head)
    if error_code == error_codes.OK:
        error_code = codec.decode(array, at, len(array), head, state, items, levels)
    if error_code != error_codes.OK:
        raise refused(error_code, number, KINDS[kind])
    return head, state, items


class _TimesWave(StoredWave):
    """A wave that takes times alone."""

    def insert(self, times: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on.

        Raises SynopsisError, and takes in nothing, if a time goes back. Cost: O(events + bytes).
        """
        self._insert(times, None)


class CountWave(_TimesWave, Estimating[WaveParameters]):
    """A deterministic wave that counts events; a window of n at `now` is [now - n, now)."""

    kinds: ClassVar[tuple[int, ...]] = (codec.COUNT,)
    kind = "count"


class SumWave(StoredWave, Estimating[WaveParameters]):
    """A deterministic wave that sums whole numbers; a window of n at `now` is [now - n, now)."""

    kinds: ClassVar[tuple[int, ...]] = (codec.SUM,)
    kind = "sum"

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a value, 0 to 2^53, for each.

        Raises SynopsisError, and takes in nothing, if a time goes back, a value is out of range or
        no whole number, or `upper` would come to 2^62. Cost: O(events + bytes).
        """
        self._insert(times, np.atleast_1d(row_of("values", values)))


class PositionWave(_TimesWave):
    """A deterministic wave that knows how old the Nth most recent event is."""

    kinds: ClassVar[tuple[int, ...]] = (codec.POSITION,)
    kind = "position"

    def query(self, number: int, now: int | None = None) -> Estimate:
        """Answer how long before `now` the `number`th most recent event was; 1 is the last.

        `now` as in `Stored`. SynopsisError for a number below 1. Cost: O(bytes).
        """
        return self._run(self._question(number, now)).only()

    def ages(self, now: int | None = None) -> tuple[Integers, Floats]:
        """Answer for all events at once, from the newest on: int64[S], how many in a row have one
        answer, and float64[3, S], these answers: estimates, lowers and uppers.

        `now` as in `query`. Cost: O(bytes).
        """
        counts, answers = age_steps(*self._decoded(), self._at(now))
        return counts, answers
