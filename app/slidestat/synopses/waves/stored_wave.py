"""The part that waves of one key share: a state kept as the bytes that are stored and sent."""

from itertools import pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import NO_QUERIES
from slidestat.synopses.core.envelope import refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.stored import Stored, asking, moving
from slidestat.synopses.waves.wave_batch import KINDS, run_wave_batch
from slidestat.synopses.waves.wave_codec import (
    HEAD_SIZE,
    KIND,
    PER_LEVEL,
    SPAN,
    decode,
    place,
    read_head,
)
from slidestat.synopses.waves.wave_parameters import WaveParameters
from slidestat.synopses.waves.wave_pool import (
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
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        The parameters' epsilon is then the promised error, which may be below the one once asked
        for. Cost: O(len(data)).
        """
        head, state, _ = _read(data, cls.kind)
        parameters = WaveParameters(1 / (2 * int(head[PER_LEVEL]) - 1), int(head[SPAN]))
        return cls(parameters, bytes(data), int(state[NOW]))

    def items(self) -> list[Item]:
        """Return the live items, oldest to newest."""
        state, items = self._decoded()
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
        state, _ = self._decoded()
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

    def _decoded(self) -> tuple[Integers, Integers]:
        """Return the wave's numbers and its items, as kernels have them."""
        _, state, items = _read(self._data, self.kind)
        return state, items

    def _ask(self, ask: int, now: int | None) -> Estimate:
        asked = asking(self._no_values(), self._at(now), ask)
        return run_wave_batch(self.kind, self._parameters, [self._data], asked).only()

    def _no_values(self) -> Integers | None:
        return NO_QUERIES if self.kind == "sum" else None

    def _moved(self, times: Integers, values: npt.ArrayLike | None, to: Integers | None) -> bytes:
        values = None if values is None else np.atleast_1d(values)
        batch = moving(times, values, to)
        return run_wave_batch(self.kind, self._parameters, [self._data], batch).states[0]


def _read(data: bytes, kind: str) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and its items."""
    array = np.frombuffer(bytearray(data), np.uint8)
    head = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    levels = np.empty((LEVEL_ROWS, LEVELS), np.int64)
    items = np.empty((ITEM_ROWS, len(array)), np.int64)
    error_code, number, at = read_head(array, 0, len(array), head)
    if error_code == error_codes.OK and head[KIND] != KINDS[kind]:
        raise refused(data, error_codes.OTHER_KIND, int(head[KIND]), KINDS[kind])
    if error_code == error_codes.OK:
        error_code = decode(array, at, len(array), head, state, items, levels)
    if error_code != error_codes.OK:
        raise refused(data, error_code, int(number), KINDS[kind])
    return head, state, items
