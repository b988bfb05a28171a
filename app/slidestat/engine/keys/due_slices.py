"""Ticks that are due for keys without events, some keys at a time."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.key_numbers import KeyNumbers
from slidestat.engine.keys.key_timers import KeyTimers, Place

Int64s = npt.NDArray[np.int64]
Names = npt.NDArray[np.object_]


class DueKeys(NamedTuple):
    """The numbers of keys, and the tick at which each is due."""

    numbers: Int64s
    ticks: Int64s

    @classmethod
    def joined(cls, parts: "list[DueKeys]") -> "DueKeys":
        """Return the due keys of all parts."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(part.numbers for part in parts)]),
            np.concatenate([none, *(part.ticks for part in parts)]),
        )

    @classmethod
    def at(cls, tick: int, numbers: Int64s) -> "DueKeys":
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
    names: KeyNumbers, tick: int, opened: Int64s, closing: Int64s, size: Callable[[], int]
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
