"""The figures of emissions, and changes of alerts, each with its place in the order of a
partition's output. They are formatted as text only when they are due: a text takes five times as
much memory.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.engine.keys.key_timers import Place
from slidestat.engine.keys.keyed_events import places_in
from slidestat.synopses.core.arrays import Bools, Integers

PlacedAlert = tuple[Place, AlertRecord]

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class PlacedAnswers:
    """The answers of n places in order of (tick, key): `ticks` int64[n]; `ranks` int64[n], each
    key's place among `names`, which rise; `figures` n, float64[n, figures, 3] or n lists; and the
    offsets of the records that led to them, int64[n]. `alerts` are in order, too.
    """

    ticks: Integers
    names: Sequence[str]
    ranks: Integers
    figures: npt.NDArray[Any]
    source_offsets: Integers
    alerts: Sequence[PlacedAlert] = ()

    @classmethod
    def joined(cls, parts: Sequence["PlacedAnswers"]) -> "PlacedAnswers":
        """Return the answers of all parts, in order; of one place in the order of the parts."""
        parts = [part for part in parts if not part.is_empty]
        if len(parts) <= 1:
            return parts[0] if parts else NOTHING
        names, ranks = _ranked(parts)
        alerts = sorted((it for part in parts for it in part.alerts), key=_place_of)
        ticks = np.concatenate([part.ticks for part in parts])
        offsets = np.concatenate([part.source_offsets for part in parts])
        order = np.lexsort((ranks, ticks))
        figures = _in_order([part.figures for part in parts if len(part)], order)
        return cls(ticks[order], names, ranks[order], figures, offsets[order], alerts)

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def is_empty(self) -> bool:
        """Return whether there is neither an answer nor an alert."""
        return not (len(self.ticks) or self.alerts)

    def with_alerts(self, alerts: Sequence[PlacedAlert]) -> "PlacedAnswers":
        """Return the same answers, with these alerts in any order."""
        return replace(self, alerts=sorted(alerts, key=_place_of)) if alerts else self

    def keys(self) -> tuple[list[str], Integers]:
        """Return the keys that have answers here, and of each answer the place of its key there."""
        is_there = np.zeros(len(self.names), bool)
        is_there[self.ranks] = True
        names = [self.names[rank] for rank in np.flatnonzero(is_there).tolist()]
        return names, (np.cumsum(is_there) - 1)[self.ranks]

    def places(self) -> Iterator[Place]:
        names = self.names
        for tick, rank in zip(self.ticks.tolist(), self.ranks.tolist(), strict=True):
            yield tick, names[rank]

    def where(self, wanted: Bools, alerts: Iterable[PlacedAlert]) -> "PlacedAnswers":
        """Return the answers that are wanted, with these alerts."""
        return self._of(np.flatnonzero(wanted), list(alerts))

    def between(self, start: int, end: int) -> "PlacedAnswers":
        """Return the answers from `start` up to `end`, without alerts; nothing is copied."""
        return self._of(slice(start, end), ())

    def split(self, end: Place) -> tuple["PlacedAnswers", "PlacedAnswers"]:
        """Split the answers and alerts into those before a place, and the rest."""
        tick, key = end
        first, last = np.searchsorted(self.ticks, tick), np.searchsorted(self.ticks, tick, "right")
        rank = bisect_left(self.names, key)
        sure = int(first + np.searchsorted(self.ranks[first:last], rank))
        alert = bisect_left(self.alerts, end, key=_place_of)
        return (
            self._of(slice(sure), self.alerts[:alert]),
            self._of(slice(sure, None), self.alerts[alert:]),
        )

    def _of(self, rows: Integers | slice, alerts: Sequence[PlacedAlert]) -> "PlacedAnswers":
        return PlacedAnswers(
            self.ticks[rows],
            self.names,
            self.ranks[rows],
            self.figures[rows],
            self.source_offsets[rows],
            alerts,
        )


NOTHING = PlacedAnswers(_NONE, (), _NONE, _NONE, _NONE)


def newest(parts: Sequence[PlacedAnswers]) -> PlacedAnswers:
    """Return the answers of all parts, in order; of several at one place, the last part's."""
    last: dict[Place, int] = {}
    for number, part in enumerate(parts):
        last.update(dict.fromkeys(part.places(), number))
        last.update(dict.fromkeys((place for place, _ in part.alerts), number))
    return PlacedAnswers.joined(
        [
            part.where(
                np.array([last[place] == number for place in part.places()], bool),
                (it for it in part.alerts if last[it[0]] == number),
            )
            for number, part in enumerate(parts)
        ]
    )


def _in_order(parts: Sequence[npt.NDArray[Any]], order: Integers) -> npt.NDArray[Any]:
    """Return the rows of all parts in this order. They are large, and are copied once."""
    if not parts:
        return _NONE
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    rows = np.empty((len(order), *parts[0].shape[1:]), parts[0].dtype)
    start = 0
    for part in parts:
        rows[places[start : start + len(part)]] = part
        start += len(part)
    return rows


def _place_of(placed: PlacedAlert) -> Place:
    return placed[0]


def _ranked(parts: Sequence[PlacedAnswers]) -> tuple[Sequence[str], Integers]:
    """Return the names of all parts, rising, and the place of each answer's key among them."""
    keys = [part.keys() for part in parts if len(part)]
    if all(one[-1] < other[0] for (one, _), (other, _) in pairwise(keys)):
        # Names from slices lie in this order.
        begins = np.cumsum([0, *(len(names) for names, _ in keys)]).tolist()
        ranks = [places + begin for (_, places), begin in zip(keys, begins, strict=False)]
        return [name for names, _ in keys for name in names], np.concatenate([_NONE, *ranks])
    names = sorted({name for some, _ in keys for name in some})
    ranks = [places_in(names, some)[places] for some, places in keys]
    return names, np.concatenate([_NONE, *ranks])
