"""What the waves of one key have in common: a state kept as the bytes that are stored and sent."""

from itertools import pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from app.synopses import faults
from app.synopses.batch import NO_QUERIES, integers
from app.synopses.errors import SynopsisError
from app.synopses.estimate import Estimate
from app.synopses.histogram_codec import TIME_MIN, Integers
from app.synopses.waves.wave_batch import KINDS, run_wave_batch
from app.synopses.waves.wave_codec import HEAD_SIZE, KIND, PER_LEVEL, SPAN, decode, place, read_head
from app.synopses.waves.wave_parameters import WaveParameters
from app.synopses.waves.wave_pool import (
    GROUP,
    HEAD,
    ITEM_ROWS,
    LEVEL_ROWS,
    LEVELS,
    LOST,
    NEWER,
    NOW,
    STATE_SIZE,
    THROUGH,
    TIME,
    TOTAL,
    VALUE,
    level_between,
)
from app.synopses.wire import VERSION


class Item(NamedTuple):
    """An item of a wave: its time, the units (of a position: events) before it and through it."""

    time: int
    before: int
    through: int
    level: int


class StoredWave:
    """A wave of one stream of events.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall.
    """

    kind: ClassVar[str]

    def __init__(self, parameters: WaveParameters, data: bytes, now: int) -> None:
        self._parameters = parameters
        self._data = data
        self._now = now

    @classmethod
    def create(cls, parameters: WaveParameters) -> Self:
        """Return a wave that has seen nothing."""
        none = NO_QUERIES if cls.kind == "sum" else None
        result = run_wave_batch(cls.kind, parameters, [None], [0, 0], [], none, [0, 0], [], [])
        return cls(parameters, result.states[0], TIME_MIN)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        The parameters' epsilon is then the promised error, which may be below the one once asked
        for. Cost: O(len(data)).
        """
        head, state, _ = _read(data, cls.kind)
        parameters = WaveParameters(1 / (2 * int(head[PER_LEVEL]) - 1), int(head[SPAN]))
        return cls(parameters, bytes(data), int(state[NOW]))

    @property
    def parameters(self) -> WaveParameters:
        """What the wave was made with."""
        return self._parameters

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to; -2^61 before any."""
        return self._now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        return self._data

    def advance(self, now: int) -> None:
        """Move on to `now` without events, dropping what expires; SynopsisError if it goes back."""
        none = NO_QUERIES if self.kind == "sum" else None
        self._run(NO_QUERIES, none, np.array([_time(now)], np.int64))

    def items(self) -> list[Item]:
        """Return the live items, oldest to newest."""
        _, state, items = _read(self._data, self.kind)
        found = []
        slot = int(state[HEAD])
        while slot >= 0:
            item = items[:, slot].tolist()
            before = item[THROUGH] - item[GROUP if self.kind == "position" else VALUE]
            level = int(
                level_between(place(item[TIME] - item[VALUE]), place(item[TIME]))
                if self.kind == "position"
                else level_between(before, item[THROUGH])
            )
            found.append(Item(item[TIME], before, item[THROUGH], level))
            slot = item[NEWER]
        return found

    def totals(self) -> tuple[int, int]:
        """Return the units (of a position: events) seen, and those through the newest item lost.

        Both are lowered by the same multiple of 2^61 once they are huge.
        """
        _, state, _ = _read(self._data, self.kind)
        return int(state[TOTAL]), int(state[LOST])

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

    def _ask(self, ask: int, now: int | None) -> Estimate:
        at = self._now if now is None else _time(now)
        none = NO_QUERIES if self.kind == "sum" else None
        result = run_wave_batch(
            self.kind, self._parameters, [self._data], [0, 0], [], none, [0, 1], [at], [ask]
        )
        figures = result.estimates, result.lowers, result.uppers
        return Estimate(*(float(figure[0, 0]) for figure in figures))

    def _insert(self, times: npt.ArrayLike, values: npt.ArrayLike | None) -> None:
        column = integers("times", np.atleast_1d(times))
        self._run(column, None if values is None else np.atleast_1d(values), None)

    def _run(self, times: Integers, values: npt.ArrayLike | None, to: Integers | None) -> None:
        ends = [0, len(times)]
        result = run_wave_batch(
            self.kind, self._parameters, [self._data], ends, times, values, [0, 0], [], [], to
        )
        if to is not None:
            self._now = int(to[0])
        elif len(times) > 0:
            self._now = max(self._now, int(times[-1]) + 1)
        self._data = result.states[0]


def _time(number: int) -> int:
    if not (TIME_MIN <= number <= -TIME_MIN):
        raise SynopsisError(f"{number} is out of range: times are from -2^61 to 2^61 - 1")
    return number


def _read(data: bytes, kind: str) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and its items."""
    array = np.frombuffer(bytearray(data), np.uint8)
    head = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    levels = np.empty((LEVEL_ROWS, LEVELS), np.int64)
    items = np.empty((ITEM_ROWS, len(array)), np.int64)
    fault, number, at = read_head(array, 0, len(array), head)
    if fault == faults.OK and head[KIND] != KINDS[kind]:
        raise faults.synopsis_error(faults.OTHER_KIND, int(head[KIND]), KINDS[kind], -1)
    if fault == faults.OK:
        fault = decode(array, at, len(array), head, state, items, levels)
    if fault != faults.OK:
        raise faults.synopsis_error(fault, int(number), VERSION, -1)
    return head, state, items
