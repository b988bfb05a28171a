"""At which tick something is due for which key."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.columns import fitted
from slidestat.engine.keys.key_numbers import KeyNumbers
from slidestat.synopses.core.arrays import Bools, Integers

Place = tuple[int, str]  # of what is due at a tick for a key: by tick, then by key

NOT_DUE = 2**63 - 1
"""In place of a tick."""

_NONE = np.empty(0, np.int64)


class KeyTimers:
    """A register of timers, one tick for each key, by its number.

    Costs what is due, however many keys wait.
    """

    def __init__(self) -> None:
        self._tick_of = np.empty(0, np.int64)
        # Numbers may be listed here at a tick that is no longer theirs: they are skipped.
        self._numbers_at: dict[int, list[Integers]] = {}
        self._ticks: list[int] = []

    def fit(self, capacity: int) -> None:
        """Make room for so many numbers."""
        self._tick_of = fitted(self._tick_of, capacity, fill=NOT_DUE)

    def ticks(self) -> list[int]:
        """Return the ticks at which something may be due, in no order."""
        return self._ticks

    def are_armed(self) -> Bools:
        """Return bool[n]: for which numbers something is due."""
        armed: Bools = self._tick_of != NOT_DUE
        return armed

    def due(self, numbers: Integers) -> Integers:
        """Return the ticks at which these are due, NOT_DUE for one that is not."""
        return self._tick_of[numbers]

    def due_until(self, watermark: int) -> tuple[Integers, Integers]:
        """Return the numbers that are due at or before `watermark`, and their ticks."""
        numbers = np.flatnonzero(self._tick_of <= watermark)
        return numbers, self._tick_of[numbers]

    def arm(self, numbers: Integers, ticks: Integers) -> None:
        """Arm each number's timer for its tick, unless it is due later."""
        now = self._tick_of[numbers]
        is_later = (now == NOT_DUE) | (now < ticks)
        self.set(numbers[is_later], ticks[is_later])

    def set(self, numbers: Integers, ticks: Integers) -> None:
        """Set each number's timer to its tick, whenever it was due; no number is there twice."""
        self._tick_of[numbers] = ticks
        order = np.argsort(ticks, kind="stable")
        numbers, ticks = numbers[order], ticks[order]
        begins = np.flatnonzero(np.diff(ticks, prepend=NOT_DUE))
        for tick, part in zip(ticks[begins].tolist(), np.split(numbers, begins[1:]), strict=False):
            at_tick = self._numbers_at.get(tick)
            if at_tick is None:
                self._numbers_at[tick] = [part]
                heappush(self._ticks, tick)
            else:
                at_tick.append(part)

    def next_due(self, watermark: int) -> int | None:
        """Return the first tick at or before `watermark` at which something may be due, None if
        there is none.
        """
        return self._ticks[0] if self._ticks and self._ticks[0] <= watermark else None

    def take(self, numbers: Integers, watermark: int) -> Integers:
        """Return and clear the ticks at which these are due, if that is at or before `watermark`,
        else NOT_DUE.
        """
        ticks = self._tick_of[numbers]
        is_due = ticks <= watermark
        self._tick_of[numbers[is_due]] = NOT_DUE
        return np.where(is_due, ticks, NOT_DUE)

    def pop(self, tick: int) -> Integers:
        """Return and clear the numbers due at `tick`, if it is the first of all ticks, else
        none.
        """
        if not self._ticks or self._ticks[0] != tick:
            return _NONE
        heappop(self._ticks)
        # One that was due here, then earlier, and is again, is listed twice.
        at_tick = np.unique(np.concatenate(self._numbers_at.pop(tick)))
        due: Integers = at_tick[self._tick_of[at_tick] == tick]
        self._tick_of[due] = NOT_DUE
        return due


# Ticks that are due for keys without events, some keys at a time.

Names = npt.NDArray[np.object_]


class DueKeys(NamedTuple):
    """The numbers of keys, and the tick at which each is due."""

    numbers: Integers
    ticks: Integers

    @classmethod
    def joined(cls, parts: "list[DueKeys]") -> "DueKeys":
        """Return the due keys of all parts."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(part.numbers for part in parts)]),
            np.concatenate([none, *(part.ticks for part in parts)]),
        )

    @classmethod
    def at(cls, tick: int, numbers: Integers) -> "DueKeys":
        """Return keys that are all due at one tick."""
        return cls(numbers, np.full(len(numbers), tick))


class DueSlice(NamedTuple):
    """Ticks that are due, of `opened` keys and of `closing` ones: all those before `end` that were
    in no slice before.
    """

    opened: DueKeys
    closing: DueKeys
    end: Place


def due_slices(
    names: KeyNumbers,
    opened: KeyTimers,
    closing: KeyTimers,
    watermark: int,
    size: Callable[[], int],
) -> Iterator[DueSlice]:
    """Yield the timers of two kinds that are due at or before `watermark`, in slices in order of
    time: several whole ticks of about `size()` keys together, or a part of one tick with up to so
    many. What is armed meanwhile at or after the end of the last slice comes in one of the next.
    """
    whole: list[tuple[DueKeys, DueKeys]] = []
    waiting, end = 0, (0, "")
    while True:
        nexts = (opened.next_due(watermark), closing.next_due(watermark))
        ticks = [tick for tick in nexts if tick is not None]
        if waiting and (waiting >= size() or not ticks):
            yield _slice_of(whole, end)
            whole, waiting = [], 0
            continue
        if not ticks:
            return
        tick = min(ticks)
        to_open, to_close = opened.pop(tick), closing.pop(tick)
        count = len(to_open) + len(to_close)
        if count <= size():
            whole.append((DueKeys.at(tick, to_open), DueKeys.at(tick, to_close)))
            waiting, end = waiting + count, (tick + 1, "")
            continue
        if waiting:
            yield _slice_of(whole, end)
            whole, waiting = [], 0
            # What was armed meanwhile for the tick in hand.
            to_open = np.concatenate((to_open, opened.pop(tick)))
            to_close = np.concatenate((to_close, closing.pop(tick)))
        yield from _parts(names, tick, to_open, to_close, size)


def _slice_of(whole: list[tuple[DueKeys, DueKeys]], end: Place) -> DueSlice:
    return DueSlice(
        DueKeys.joined([opened for opened, _ in whole]),
        DueKeys.joined([closing for _, closing in whole]),
        end,
    )


def _parts(
    names: KeyNumbers, tick: int, opened: Integers, closing: Integers, size: Callable[[], int]
) -> Iterator[DueSlice]:
    numbers = np.union1d(opened, closing)
    by_name = sorted(zip(names.names(numbers), numbers.tolist(), strict=True))
    start = 0
    while start < len(by_name):
        end = start + size()
        part = np.array([number for _, number in by_name[start:end]], np.int64)
        yield DueSlice(
            DueKeys.at(tick, part[np.isin(part, opened)]),
            DueKeys.at(tick, part[np.isin(part, closing)]),
            (tick, by_name[end][0]) if end < len(by_name) else (tick + 1, ""),
        )
        start = end
