"""The states of some keys, column by column."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.engine.keys.key_state import FIXED_BYTES, LENGTH_BYTES, KeyState
from slidestat.synopses.core.arrays import Bools, Integers

Objects = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class States:
    """The states of G keys, the fields of `KeyState` one by one: int64[G] each; of each synopsis G
    bytes, None where there is none; and, by the places of keys that have such, their used quotas,
    the state of their alerts, and what was last written of them.
    """

    watermarks: Integers
    offsets: Integers
    last_times: Integers
    counts: Integers
    synopses: Sequence[Objects]
    used: dict[int, bytes]
    alerts: dict[int, bytes]
    written: dict[int, bytes]

    @classmethod
    def of(cls, states: Sequence[KeyState], synopses: int) -> "States":
        """Return the columns of states, each with so many synopses or none."""
        watermarks, offsets, last_times, counts = (
            np.fromiter((state[field] for state in states), np.int64, len(states))
            for field in range(4)
        )
        columns = [
            objects([state.synopses[place] if state.synopses else None for state in states])
            for place in range(synopses)
        ]
        used = {place: state.used for place, state in enumerate(states) if state.used}
        alerts = {place: state.alerts for place, state in enumerate(states) if state.alerts}
        written = {place: state.written for place, state in enumerate(states) if state.written}
        return cls(watermarks, offsets, last_times, counts, columns, used, alerts, written)

    @property
    def clocks(self) -> Integers:
        """The times of the states, int64[G, 3], as `read_clocks` has them."""
        return np.stack((self.watermarks, self.offsets, self.last_times), axis=1)

    @property
    def are_standing(self) -> Bools:
        """Return, as bool[G], of which an alert waits or fires."""
        return np.array([place in self.alerts for place in range(len(self))], bool)

    def __len__(self) -> int:
        return len(self.watermarks)

    def each(self) -> Iterator[KeyState]:
        """Yield the states, one by one; that of a new key has no synopses."""
        columns = (self.watermarks, self.offsets, self.last_times, self.counts)
        synopses: Iterable[tuple[Any, ...]] = zip(
            *(column.tolist() for column in self.synopses), strict=True
        )
        used, alerts, written = self.used, self.alerts, self.written
        rows = zip(*(column.tolist() for column in columns), synopses or repeat(()), strict=False)
        for place, (watermark, offset, last_time, count, own) in enumerate(rows):
            yield KeyState(
                watermark,
                offset,
                last_time,
                count,
                () if None in own else own,
                used.get(place, b""),
                alerts.get(place, b""),
                written.get(place, b""),
            )

    @property
    def beside(self) -> tuple[dict[int, bytes], dict[int, bytes], dict[int, bytes]]:
        """The three dictionaries of what some keys have beside their synopses."""
        return self.used, self.alerts, self.written

    def at(self, places: Integers) -> "States":
        """Return the states at these places, in their order."""
        moved = list(enumerate(places.tolist())) if any(self.beside) else []
        return States(
            self.watermarks[places],
            self.offsets[places],
            self.last_times[places],
            self.counts[places],
            [column[places] for column in self.synopses],
            *({place: kept[it] for place, it in moved if it in kept} for kept in self.beside),
        )

    def replace(self, place: int, state: KeyState) -> None:
        fields = (self.watermarks, self.offsets, self.last_times, self.counts)
        for column, value in zip(fields, state[: len(fields)], strict=True):
            column[place] = value
        for number, synopses in enumerate(self.synopses):
            synopses[place] = state.synopses[number] if state.synopses else None
        own = state.used, state.alerts, state.written
        for kept, given in zip(self.beside, own, strict=True):
            kept.pop(place, None)
            if given:
                kept[place] = given

    def sizes(self) -> Integers:
        """Return the bytes of each state where it is stored, int64[G]; all have synopses."""
        sizes = np.full(len(self), FIXED_BYTES + LENGTH_BYTES * len(self.synopses))
        for column in self.synopses:
            sizes += np.fromiter(map(len, column.tolist()), np.int64, len(self))
        for given in self.beside:
            for place, stored in given.items():
                sizes[place] += LENGTH_BYTES + len(stored)
        return sizes


class Beside(NamedTuple):
    """A key whose extra block (`kept`, next to its synopses) changed with its emissions up to
    `tick`; the first of these was caused by the record at `first_offset`.
    """

    key: str
    kept: bytes
    tick: int
    first_offset: int


def objects(values: Sequence[object]) -> Objects:
    """Return a column of Python objects."""
    column = np.empty(len(values), object)
    column[:] = values
    return column
