"""Events that were read and are not in their keys' states yet: there was no reason, or the
watermark is behind them.

An event waits until its key's state is needed: for a tick, a query, its turn for a checkpoint. One
that is ahead of the watermark waits for that as well. Both wait here, in columns; what lies up to a
time is given back in order of (time, offset), however it came.

Events are kept in parts: what a batch brought, and runs of many batches, sorted, their texts
numbered. To take what lies before a time costs a look at each part and what is taken, not what
stays. A waiting event takes 28 bytes, 8 more for each number and 4 for each item, and each
different text of a run once. Where runs have more than 64 MiB, further ones go to files.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidestat.declare.columns import Columns
from slidestat.engine.events import Events, distinct_texts, joined
from slidestat.engine.keys.keyed_events import KeySlices
from slidestat.engine.records import NO_TIME
from slidestat.synopses.core.arrays import Integers

# Events that wait long, in files: the operating system has in memory what of them is looked at.
#
# A file is mapped into memory and has no name from then on: it is gone with the last array that
# looks into it, also when the process is killed. None is read again by another process, which has
# its events from the source.


def in_file(events: Events, path: Path) -> Events:
    """Return the same events in a file that was at `path` for a moment.

    Its arrays cannot be written to. Costs a copy of the events to the disk. Raises OSError where
    there is no room for them.
    """
    columns = [events.offsets, events.times, events.keys, *events.numbers, *events.items]
    # Arrow keeps a truth value in a bit, of which no view is possible.
    columns += [condition.view(np.uint8) for condition in events.conditions]
    batch = pa.record_batch(list(map(pa.array, columns)), list(map(str, range(len(columns)))))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.memory_map(str(path)) as mapped:
        path.unlink()
        offsets, times, keys, *rest = pa.ipc.open_file(mapped).get_batch(0).columns
    numbers, items = rest[: len(events.numbers)], rest[len(events.numbers) :]
    items, conditions = items[: len(events.items)], items[len(events.items) :]
    return Events(
        offsets.to_numpy(),
        times.to_numpy(),
        keys,
        tuple(column.to_numpy() for column in numbers),
        tuple(items),
        tuple(column.to_numpy().view(np.bool_) for column in conditions),
    )


# The newest events; more of them become a run.
_RUN_EVENTS = 32_768
# Runs in memory; further ones go to files.
_MEMORY_BYTES = 64 * 2**20


class _Part(NamedTuple):
    """Some events, with their bounds; with `in_order`, their times rise."""

    events: Events
    first_time: int
    last_time: int
    first_offset: int
    last_offset: int
    in_order: bool
    # The number of events in the whole, of which these are a view.
    whole: int
    # Whether they are in a file.
    is_filed: bool = False

    @classmethod
    def of(cls, events: Events, whole: int = 0, *, is_filed: bool = False) -> "_Part":
        times = events.times
        in_order = bool((times[1:] >= times[:-1]).all())
        first, last = (times[0], times[-1]) if in_order else (times.min(), times.max())
        offsets = int(events.offsets.min()), int(events.offsets.max())
        whole = whole or len(events)
        return cls(events, int(first), int(last), *offsets, in_order, whole, is_filed)

    @property
    def memory_bytes(self) -> int:
        """Return what they take of the memory."""
        return 0 if self.is_filed else self.events.nbytes

    def all(self) -> Events:
        """Return all of the part's events, in memory."""
        # Kernels are compiled for arrays that may be written, which a file's are not.
        return _copied(self.events) if self.is_filed else self.events

    def split(self, until: int) -> tuple[Events, "_Part"]:
        """Return the events up to a time, and the rest as a part; neither is empty."""
        if not self.in_order:
            early = self.events.times <= until
            rest = self.events.take(np.flatnonzero(~early))
            return self.events.take(np.flatnonzero(early)), _Part.of(rest)
        end, count = int(np.searchsorted(self.events.times, until, "right")), len(self.events)
        rest = self.events.between(end, count)
        if self.is_filed:
            return _copied(self.events.between(0, end)), _Part.of(rest, self.whole, is_filed=True)
        if 4 * len(rest) > 3 * self.whole:
            return self.events.between(0, end), _Part.of(rest, self.whole)
        # The memory of the whole is held by any view of it.
        return self.events.between(0, end), _Part.of(_copied(rest))

    def upto(self, until: int) -> Events:
        """Return the events up to a time."""
        if self.first_time > until:
            return self.events.between(0, 0)
        return self.events if self.last_time <= until else self.split(until)[0]


class EventStore:
    """The events of a partition that wait."""

    def __init__(
        self, columns: Columns, file: Path | None = None, *, whole_ms: bool = False
    ) -> None:
        """Use files, each at `file` for a moment, for what is more than memory is to hold. With
        `whole_ms` events of the last millisecond of a time are not taken: more may come in it.
        """
        self._columns = columns
        self._held = int(whole_ms)
        self._file = file
        self._runs: list[_Part] = []
        self._newest: list[_Part] = []
        self._newest_events = 0
        # Events that are being taken some keys at a time.
        self._sliced: KeySlices | None = None
        # Since all that lay before a time was taken.
        self.added_events = 0
        self.added_bytes = 0

    def __len__(self) -> int:
        return sum(len(part.events) for part in self._parts())

    def copy(self) -> "EventStore":
        """Return a store of the same events, which wait there independently."""
        other = EventStore(self._columns, whole_ms=bool(self._held))
        other._runs, other._newest = [*self._untaken(), *self._runs], list(self._newest)
        return other

    def add(self, events: Events) -> None:
        """Take in events, later ones than all that were added before."""
        if not len(events):
            return
        if self._newest_events >= _RUN_EVENTS:
            run = joined([part.events for part in self._newest], self._columns)
            self._runs.append(self._placed(run.in_order().numbered()))
            self._newest, self._newest_events = [], 0
        self._newest.append(_Part.of(events))
        self._newest_events += len(events)
        self.added_events += len(events)
        self.added_bytes += events.nbytes

    def take(self, until: int) -> Events:
        """Return and remove the events with times up to `until`, by (time, offset)."""
        taken: list[Events] = []
        self._runs = _cut(self._runs, until - self._held, taken)
        self._newest = _cut(self._newest, until - self._held, taken)
        self._newest_events = sum(len(part.events) for part in self._newest)
        self.added_events = self.added_bytes = 0
        return joined(taken, self._columns).in_order()

    def slices(self, until: int) -> KeySlices:
        """Return the events with times up to `until`, to be taken some keys at a time.

        All of them must be taken before events are added to this store, or others taken from it;
        until then they wait.
        """
        self._sliced = KeySlices(self.take(until))
        return self._sliced

    def take_keys(self, until: int, wanted: Callable[[str], bool]) -> Events:
        """Return and remove, as `take` does, the events of the keys that are wanted."""
        events = self.take(until)
        keys, places = distinct_texts(events.keys)
        rows = np.array([wanted(key) for key in keys], bool)[places]
        rest = events.take(np.flatnonzero(~rows))
        if len(rest):
            self._runs.insert(0, _Part.of(rest))
            self.added_events, self.added_bytes = len(rest), rest.nbytes
        return events.take(np.flatnonzero(rows))

    def of_keys(self, keys: Sequence[str], until: int) -> Events:
        """Return the events of some keys with times up to `until`, by (time, offset); they stay in
        the store. Costs a look at each event that waits.
        """
        found = []
        for part in self._parts():
            events = part.upto(until)
            rows = _rows_of(events.keys, keys)
            if len(rows):
                found.append(events.take(rows))
        return joined(found, self._columns).in_order()

    def keys(self, until: int) -> set[str]:
        """Return the keys of events with times up to `until`."""
        return {
            key
            for part in self._parts()
            if part.first_time <= until
            for key in part.upto(until).keys.unique().to_pylist()
        }

    def discard(self, offsets: Sequence[int]) -> None:
        """Drop the events at these offsets."""
        if not offsets:
            return
        self._runs = _without(self._runs, offsets)
        self._newest = _without(self._newest, offsets)
        self._newest_events = sum(len(part.events) for part in self._newest)

    def first_time(self) -> int | None:
        """Return the least time that waits."""
        return min((part.first_time for part in self._parts()), default=None)

    def last_time(self) -> int:
        """Return the largest time that waits; NO_TIME if nothing does."""
        return max((part.last_time for part in self._parts()), default=NO_TIME)

    def first_offset(self, until: int | None = None) -> int | None:
        """Return the least offset that waits; with `until`, of parts with events by that time."""
        offsets = (
            part.first_offset
            for part in self._parts()
            if until is None or part.first_time <= until - self._held
        )
        return min(offsets, default=None)

    def has_between(self, start: int, end: int) -> bool:
        """Return whether an event waits with start <= time < end."""
        for part in self._parts():
            if part.first_time < end and part.last_time >= start:
                times = part.events.times
                if ((times >= start) & (times < end)).any():
                    return True
        return False

    def _placed(self, run: Events) -> _Part:
        """Return a part of a run, in memory or in a file."""
        in_memory = sum(part.memory_bytes for part in self._runs)
        if self._file is None or in_memory + run.nbytes <= _MEMORY_BYTES:
            return _Part.of(run)
        return _Part.of(in_file(run, self._file), is_filed=True)

    def _parts(self) -> list[_Part]:
        return [*self._untaken(), *self._runs, *self._newest]

    def _untaken(self) -> list[_Part]:
        """Return the parts that the slices left."""
        if self._sliced is None or self._sliced.next_key is None:
            return []
        return [_Part.of(self._sliced.rest)]


def _cut(parts: list[_Part], until: int, taken: list[Events]) -> list[_Part]:
    """Return the parts that are left; `taken` gets the events with times up to `until`."""
    left = []
    for part in parts:
        if part.first_time > until:
            left.append(part)
        elif part.last_time <= until:
            taken.append(part.all())
        else:
            early, rest = part.split(until)
            taken.append(early)
            left.append(rest)
    return left


def _without(parts: list[_Part], offsets: Sequence[int]) -> list[_Part]:
    """Return the parts without the events at these offsets."""
    left, first, last = [], min(offsets), max(offsets)
    for part in parts:
        if part.last_offset < first or part.first_offset > last:
            left.append(part)
            continue
        kept = ~np.isin(part.events.offsets, offsets)
        if kept.all():
            left.append(part)
        elif kept.any():
            left.append(_Part.of(part.events.take(np.flatnonzero(kept))))
    return left


def _copied(events: Events) -> Events:
    return events.take(np.arange(len(events)))


def _rows_of(column: pa.Array, texts: Sequence[str]) -> Integers:
    """Return the rows where the column has one of the texts."""
    is_coded = pa.types.is_dictionary(column.type)
    # The texts that are looked for alone become Python's.
    known = column.dictionary if is_coded else column
    is_one = pc.is_in(known, pa.array(texts, known.type)).to_numpy(zero_copy_only=False)
    if is_coded:
        is_one = is_one[column.indices.to_numpy(zero_copy_only=False)]
    return np.flatnonzero(is_one)
