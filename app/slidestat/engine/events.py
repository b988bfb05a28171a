"""On-time events as columns, and those that wait for the watermark."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.declare.columns import Columns

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


@dataclass(slots=True)
class Events:
    """`offsets` and `times` int64[n], `keys` n texts; `numbers` float64[n] and `items` n texts for
    each of the topology's columns.
    """

    offsets: Int64s
    times: Int64s
    keys: list[str]
    numbers: tuple[Float64s, ...]
    items: tuple[list[str], ...]

    @classmethod
    def none(cls, columns: Columns) -> "Events":
        """No events of these columns."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            [],
            tuple(np.empty(0) for _ in columns.numbers),
            tuple([] for _ in columns.items),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Int64s) -> "Events":
        """The events of these rows, in their order."""
        places = rows.tolist()
        return Events(
            self.offsets[rows],
            self.times[rows],
            [self.keys[row] for row in places],
            tuple(column[rows] for column in self.numbers),
            tuple([column[row] for row in places] for column in self.items),
        )

    def between(self, start: int, end: int) -> "Events":
        """The events of rows `start` up to but not including `end`."""
        return Events(
            self.offsets[start:end],
            self.times[start:end],
            self.keys[start:end],
            tuple(column[start:end] for column in self.numbers),
            tuple(column[start:end] for column in self.items),
        )

    def then(self, other: "Events") -> "Events":
        """These, and then the others."""
        if not self.keys:
            return other
        return Events(
            np.concatenate((self.offsets, other.offsets)),
            np.concatenate((self.times, other.times)),
            self.keys + other.keys,
            tuple(np.concatenate(pair) for pair in zip(self.numbers, other.numbers, strict=True)),
            tuple(mine + theirs for mine, theirs in zip(self.items, other.items, strict=True)),
        )


class ReorderBuffer:
    """Events that the watermark has not reached yet; it gives them back in order of their times."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._waiting = Events.none(columns)

    def copy(self) -> "ReorderBuffer":
        """The same events, waiting on their own."""
        other = ReorderBuffer(self._columns)
        other._waiting = self._waiting
        return other

    def without(self, offsets: Sequence[int]) -> "ReorderBuffer":
        """What waits, but for the events at these offsets."""
        other = self.copy()
        if len(offsets):
            kept = ~np.isin(self._waiting.offsets, offsets)
            other._waiting = self._waiting.take(np.flatnonzero(kept))
        return other

    def first_offset(self) -> int | None:
        """The least offset that waits."""
        return int(self._waiting.offsets.min()) if len(self._waiting) else None

    @property
    def events(self) -> Events:
        """The events that wait."""
        return self._waiting

    def release(self, events: Events, watermark: int) -> Events:
        """Take `events` in, and give those with times up to `watermark`, by (time, offset)."""
        events = self._waiting.then(events)
        ready = events.times <= watermark
        rows = np.flatnonzero(ready)
        released = rows[np.lexsort((events.offsets[rows], events.times[rows]))]
        self._waiting = events.take(np.flatnonzero(~ready))
        return events.take(released)
