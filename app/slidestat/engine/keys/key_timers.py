"""At which tick something is due for which key."""

from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from slidestat.engine.states.columns import fitted

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

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
        self._numbers_at: dict[int, list[Int64s]] = {}
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

    def due(self, numbers: Int64s) -> Int64s:
        """Return the ticks at which these are due, NOT_DUE for one that is not."""
        return self._tick_of[numbers]

    def due_until(self, watermark: int) -> tuple[Int64s, Int64s]:
        """Return the numbers that are due at or before `watermark`, and their ticks."""
        numbers = np.flatnonzero(self._tick_of <= watermark)
        return numbers, self._tick_of[numbers]

    def arm(self, numbers: Int64s, ticks: Int64s) -> None:
        """Arm each number's timer for its tick, unless it is due later."""
        now = self._tick_of[numbers]
        is_later = (now == NOT_DUE) | (now < ticks)
        self.set(numbers[is_later], ticks[is_later])

    def set(self, numbers: Int64s, ticks: Int64s) -> None:
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

    def take(self, numbers: Int64s, watermark: int) -> Int64s:
        """Return and clear the ticks at which these are due, if that is at or before `watermark`,
        else NOT_DUE.
        """
        ticks = self._tick_of[numbers]
        is_due = ticks <= watermark
        self._tick_of[numbers[is_due]] = NOT_DUE
        return np.where(is_due, ticks, NOT_DUE)

    def pop(self, tick: int) -> Int64s:
        """Return and clear the numbers due at `tick`, if it is the first of all ticks, else
        none.
        """
        if not self._ticks or self._ticks[0] != tick:
            return _NONE
        heappop(self._ticks)
        # One that was due here, then earlier, and is again, is listed twice.
        at_tick = np.unique(np.concatenate(self._numbers_at.pop(tick)))
        due: Int64s = at_tick[self._tick_of[at_tick] == tick]
        self._tick_of[due] = NOT_DUE
        return due
