"""Events of a key that others may yet come before: its runs are in order, and overlap."""

import numpy as np
import pyarrow as pa

from slidestat.spark.audit.events.runs import Run


class WaitingEvents:
    """A queue that puts the events of runs in order: of time, and of places where times are the
    same.

    It has those that lie behind the beginning of the last run: as many as the source is out of
    order, and those of one batch.
    """

    def __init__(self, texts: int) -> None:
        nothing = np.zeros(0, np.int64)
        self._nothing = Run(nothing, nothing, [pa.array([], pa.string())] * texts)
        self._events = self._nothing

    def next(self, events: Run, until_ms: int) -> Run:
        """Take further events, none of them before those that were given out, and give out in
        order what lies before `until_ms`; no event comes from before that any more.
        """
        known = _in_order(_joined(self._events, events))
        count = int(np.searchsorted(known.times, until_ms))
        self._events = _part(known, slice(count, None))
        return _part(known, slice(0, count))

    def rest(self) -> Run:
        """Give out all that waits."""
        events, self._events = self._events, self._nothing
        return events


def _joined(first: Run, second: Run) -> Run:
    if not len(first.times) or not len(second.times):
        return first if len(first.times) else second
    return Run(
        np.concatenate([first.times, second.times]),
        np.concatenate([first.places, second.places]),
        [pa.concat_arrays(both) for both in zip(first.texts, second.texts, strict=True)],
    )


def _in_order(events: Run) -> Run:
    later, same = np.diff(events.times), np.diff(events.places)
    if np.all((later > 0) | ((later == 0) & (same >= 0))):
        return events
    order = np.lexsort((events.places, events.times))
    place = pa.array(order)
    texts = [column.take(place) for column in events.texts]
    return Run(events.times[order], events.places[order], texts)


def _part(events: Run, rows: slice) -> Run:
    return Run(events.times[rows], events.places[rows], [column[rows] for column in events.texts])
