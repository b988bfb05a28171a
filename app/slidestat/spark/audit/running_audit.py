"""The audit of one key while its events go by in order of time: memory is that of its windows.

The emission of a tick comes after the events before the tick and before all others, so each window
can be recomputed when its emission comes, from the events that are still here. Those of no further
window are dropped: what stays are the events of one span (of windows of last events, as many as
the longest has), and those of one batch.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slidestat.spark.audit.audit_key import Finding, KeyJudge, newest
from slidestat.spark.audit.columns.column import Int64s
from slidestat.spark.audit.declaration import ColumnName
from slidestat.spark.audit.exact_key import ExactKey

# Dropping fewer events costs more than keeping them.
_WORTH_DROPPING = 4_096


class KeyEvents(NamedTuple):
    """Some events of a key in order of time, each with its place: its offset, or of a referee's its
    partition.
    """

    times: Int64s
    places: Int64s
    columns: Mapping[ColumnName, pa.Array]


class Emitted(NamedTuple):
    """An emission as it lies in a lake: the end of its windows, its place on the topic, its bytes,
    and the fingerprint of its declaration.
    """

    tick: int
    place: int
    value: bytes
    mark: str


class RunningAudit:
    """A running audit of one key by one declaration, that of the emissions with the fingerprint
    `mark`.
    """

    def __init__(self, judge: KeyJudge, mark: str) -> None:
        self._judge = judge
        self._mark = mark
        nothing = np.zeros(0, np.int64)
        names = judge.declaration.columns
        self._key = ExactKey(nothing, nothing, {name: [] for name in names})
        # Ticks at which the key is to be emitted, and was, as far as they are not settled.
        self._wanted: set[int] = set()
        self._emitted: set[int] = set()
        # Of a tick that may have further ones.
        self._waiting: list[Emitted] = []

    def go_on(
        self, events: KeyEvents, emitted: Iterable[Emitted], reached_ms: int
    ) -> Iterator[Finding]:
        """Take the next events and emissions of the key, which go up to `reached_ms`, and yield
        what is settled: all ticks before that.
        """
        self._want(events.times)
        self._key.extend(*events)
        for one in emitted:
            self._emitted.add(one.tick)
            if one.mark == self._mark:
                self._waiting.append(one)
        yield from self._settle(reached_ms)
        self._drop(reached_ms)

    def end(self, events: KeyEvents) -> Iterator[Finding]:
        """Take the last events, and yield what is found once nothing comes any more."""
        self._want(events.times)
        self._key.extend(*events)
        last, until = self._key.times[-1:], self._judge.watermark_ms
        self._wanted |= self._judge.due(last, np.full(len(last), until))
        latest = max((until, *self._emitted, *(one.tick for one in self._waiting)))
        yield from self._settle(latest + 1, is_end=True)

    def _want(self, times: Int64s) -> None:
        known = np.append(self._key.times[-1:], times)
        if len(known):
            self._wanted |= self._judge.due(known[:-1], known[1:])

    def _settle_due(self, until_ms: int) -> Iterator[Finding]:
        """Find what was not emitted at the ticks before `until_ms`."""
        settled = {tick for tick in self._wanted if tick < until_ms}
        yield from self._judge.not_emitted(settled - self._emitted)
        self._wanted -= settled
        self._emitted = {tick for tick in self._emitted if tick >= until_ms}

    def _settle(self, until_ms: int, *, is_end: bool = False) -> Iterator[Finding]:
        """Judge what was emitted, or was not, at the ticks before `until_ms`."""
        # What is due after the last event is known when the next one comes.
        sure_ms = min([until_ms, *(last + 1 for last in self._key.times[-1:].tolist())])
        yield from self._settle_due(until_ms if is_end else sure_ms)
        ready = [one for one in self._waiting if one.tick < until_ms]
        self._waiting = [one for one in self._waiting if one.tick >= until_ms]
        for tick, those in groupby(ready, key=lambda one: one.tick):
            records = ((one.place, one.value) for one in those)
            emission, violations = newest(self._judge.name, tick, records)
            yield from violations
            if emission is not None:
                yield from self._judge.emission(self._key, emission)

    def _drop(self, reached_ms: int) -> None:
        """Forget the events that no window which ends at `reached_ms` or later has."""
        declaration, times = self._judge.declaration, self._key.times
        if declaration.of_events:
            droppable = int(np.searchsorted(times, reached_ms)) - declaration.span
        else:
            droppable = int(np.searchsorted(times, reached_ms - declaration.span))
        droppable = min(droppable, len(times) - 1)
        if droppable >= _WORTH_DROPPING:
            self._key.drop(droppable, declaration)
