"""What a topology says of one partition, exactly: slow, plain Python, none of the product's code.

A record is read with the standard library's JSON; windows are recounted from all events for each
figure. Only the declaration (Topology) and the published limits of an event are shared.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Sequence
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from slidestat.declare.times.lengths import duration_ms
from slidestat.declare.topology import Topology
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH
from tests.engine.meant import meant
from tests.oracles import decimal


class Record(NamedTuple):
    """A record of the source partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


_time = attrgetter("time")

ALL = 0
AGES = -1


class Event(NamedTuple):
    """A readable record's fields; `value` is the decimal number as written, None if it has none."""

    key: str
    time: int
    value: Fraction | None


class Fate(Enum):
    """What becomes of a record."""

    COUNTED = "counted"
    DEAD = "dead"
    LATE = "late"
    PASSED_OVER = "passed over"


class Emission(NamedTuple):
    """A key at a tick: the values of each window, by its length; of all events, by ALL, and how
    long before the tick they were, or where windows are of events, how many ago, by AGES.
    """

    tick: int
    key: str
    source_offset: int
    values: dict[int, list[Fraction | None]]


def read(record: bytes | None, topology: Topology) -> Event | None:
    """The event of a record whose value is to be summed; None for what cannot be read as one, and
    where no statistic can do without the value that it lacks.
    """
    try:
        fields = json.loads(record, parse_constant=str)
        if topology.publishes_partitions:  # which has one key, whatever the events have
            fields = {**fields, "key": f"{topology.source}/3"}
        key, time, value = fields["key"], fields["time"], fields.get("value")
    except (ValueError, KeyError, TypeError):
        return None
    key = str(key) if type(key) is int else key
    if type(key) is not str or type(time) is not int:
        return None
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not EARLIEST_TIME_MS <= time < LATEST_TIME_MS:
        return None
    if value is None:
        return Event(key, time, None) if len(readers(topology)) < len(topology.labels) else None
    limits = [column.limits for column in topology.columns.numbers if column.limits]
    good = type(value) in (int, float) and all(value >= limit.least for limit in limits)
    return Event(key, time, decimal(value)) if good else None


def readers(topology: Topology) -> list[str]:
    """The labels of the statistics that read the value."""
    labelled = zip(topology.labels, topology.statistics, strict=True)
    return [label for label, s in labelled if s.columns(topology.value_path)]


def _event(record: Record, topology: Topology) -> Event | None:
    """The event of a record, None also for one that its own timestamp says is of the future."""
    event = read(record.value, topology)
    if event is None or topology.is_sequence or record.timestamp <= 0:
        return event
    return None if event.time - record.timestamp > topology.ahead_ms else event


def is_passed_over(record: bytes | None, topology: Topology) -> bool:
    """Whether a record's value is none that the topology asks for, whatever else is in it."""
    if record is None:
        return topology.tombstones == "pass-over"
    if not topology.where:
        return False
    try:
        fields = json.loads(record or b"", parse_constant=int)
    except ValueError:
        return False
    if type(fields) is not dict or type(fields.get("value")) not in (int, float, type(None)):
        return False
    return not meant(topology.where, fields.get("value"))


class Clock:
    """How far event time has come, by the words of the document: after each record, from all the
    records before it.
    """

    def __init__(self, lateness: int) -> None:
        self.time = self.front = float("-inf")
        self._lateness = lateness
        self._read: list[tuple[int, int]] = []  # offsets and times
        self._steps: list[float] = []  # of the front

    def read(self, offset: int, time: int) -> tuple[int, int] | None:
        """Go on by a record; the offset of one that is refused now, and how far it is ahead."""
        refused = None
        if len(self._read) >= 16:
            suspect, suspected = self._read[-16]
            if suspected > self.time + self._lateness + self._jump():
                refused = suspect, int(suspected - self.time)
        self._read.append((offset, time))
        last = sorted(time for _, time in self._read[-16:])
        step = 0.0
        if len(last) >= 2:
            # The latest time that more than half of them have reached.
            reached = last[(len(last) - 1) // 2]
            if reached > self.front:
                step = reached - self.front if self.front > float("-inf") else 0
                self.front = reached
        self._steps.append(step)
        self.time = max(self.time, self.front)
        if self.front > float("-inf"):
            reached, small = self.time, max(1_000, self._lateness // 8)

            def limit(step: float) -> float:
                return min(reached, self.front + self._lateness + step) + step

            if time <= limit(self._jump()):
                self.time = max(self.time, time)
            self.time = max([self.time, *(t for t in last if t <= limit(small))])
        return refused

    def _jump(self) -> float:
        longest = sorted(self._steps[-16:], reverse=True)
        pace = longest[len(longest) == 16] if longest else 0
        return max(1_000, self._lateness // 8, 8 * pace)


class Model:
    """Fates, watermarks and emissions of `records`, which are in offset order; those at the offsets
    `refused` move the watermark and are not counted.
    """

    def __init__(
        self, topology: Topology, records: Sequence[Record], refused: Collection[int] = ()
    ) -> None:
        self.records = records
        self.events = [_event(record, topology) for record in records]
        self._readers = [
            (label, statistic.where)
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            if statistic.columns(topology.value_path)
        ]
        self.fates: list[Fate] = []
        self.late_by: dict[int, int] = {}
        self.watermarks: list[float] = []
        # By how much each suspect that was not confirmed lay ahead of the clock.
        self.ahead: dict[int, int] = {}
        # The dead ones, in the order in which that becomes clear.
        self.dead: list[int] = []
        clock, watermark = Clock(topology.lateness_ms), float("-inf")
        place: dict[int, int] = {}
        for row, (record, event) in enumerate(zip(records, self.events, strict=True)):
            passed_over = is_passed_over(record.value, topology)
            if event is None:
                self.fates.append(Fate.PASSED_OVER if passed_over else Fate.DEAD)
                if not passed_over:
                    self.dead.append(record.offset)
                self.watermarks.append(watermark)
                continue
            if passed_over:
                self.fates.append(Fate.PASSED_OVER)
            elif event.time < watermark:
                self.fates.append(Fate.LATE)
                self.late_by[record.offset] = int(watermark) - event.time
            else:
                self.fates.append(Fate.DEAD if record.offset in refused else Fate.COUNTED)
            place[record.offset] = row
            unconfirmed = clock.read(record.offset, event.time)
            if unconfirmed and self.fates[place[unconfirmed[0]]] is Fate.COUNTED:
                self.fates[place[unconfirmed[0]]] = Fate.DEAD
                self.ahead[unconfirmed[0]] = unconfirmed[1]
                self.dead.append(unconfirmed[0])
            if self.fates[row] is Fate.DEAD:
                self.dead.append(record.offset)
            watermark = clock.time - topology.lateness_ms
            self.watermarks.append(watermark)
        self.emissions = list(self._emissions(topology))

    def offsets(self, fate: Fate) -> list[int]:
        """Offsets of the records that came to this."""
        return [r.offset for r, f in zip(self.records, self.fates, strict=True) if f is fate]

    def of_key(self) -> dict[str, list[Event]]:
        """The counted events of each key, by time."""
        counted = [
            event
            for event, fate in zip(self.events, self.fates, strict=True)
            if event is not None and fate is Fate.COUNTED
        ]
        of_key: dict[str, list[Event]] = {}
        for event in sorted(counted, key=lambda event: event.time):
            of_key.setdefault(event.key, []).append(event)
        return of_key

    def counts_before(self, offset: int) -> tuple[int, int, int, int]:
        """(read, counted, dead, late) of the records before `offset`."""
        before = [f for r, f in zip(self.records, self.fates, strict=True) if r.offset < offset]
        fates = (Fate.COUNTED, Fate.DEAD, Fate.LATE)
        return (len(before), *map(before.count, fates))

    def passed_over_before(self, offset: int) -> int:
        """How many of the records before `offset` the topology does not ask for."""
        rows = zip(self.records, self.fates, strict=True)
        return sum(r.offset < offset and f is Fate.PASSED_OVER for r, f in rows)

    def left_out_before(self, offset: int) -> dict[str, int]:
        """How many of the counted records before `offset` each statistic leaves out."""
        rows = zip(self.records, self.events, self.fates, strict=True)
        lacking = sum(
            record.offset < offset
            and fate is Fate.COUNTED
            and event is not None
            and event.value is None
            for record, event, fate in rows
        )
        asked = [label for label, where in self._readers if not where or meant(where, None)]
        return dict.fromkeys(asked, lacking) if lacking else {}

    def watermark_before(self, offset: int) -> float:
        """The watermark after the records before `offset`."""
        before = [
            w for r, w in zip(self.records, self.watermarks, strict=True) if r.offset < offset
        ]
        return before[-1] if before else float("-inf")

    def _emissions(self, topology: Topology) -> list[Emission]:
        found = []
        needs_all = not all(statistic.has_windows for statistic in topology.statistics)
        for key, events in self.of_key().items():
            if key in topology.publish and not topology.publishes_partitions:
                continue  # its answers are the referee's
            times = [event.time for event in events]
            for tick in sorted(ticks_of(topology, times)):
                passed = bisect_left(self.watermarks, tick)
                if passed == len(self.records):
                    continue
                lived = since_forgotten(topology, events[: bisect_left(times, tick)])
                values = {
                    n: [event.value for event in inside(topology, lived, n, tick)]
                    for n in topology.window_lengths
                }
                if needs_all:
                    values |= of_all(topology, lived, tick)
                found.append(Emission(tick, key, self.records[passed].offset, values))
        return sorted(found, key=lambda emission: emission[:2])


def is_forgotten(topology: Topology, events: Sequence[Event], watermark: int) -> bool:
    """Whether a key with these events is told of no more, though no window of time says so."""
    if not topology.forget_after:
        return False
    silence = duration_ms(topology.forget_after, "forget_after")
    ticks = silent_ticks(silence, topology.every_ms, [events[-1].time])
    return max(ticks) <= watermark


def of_all(
    topology: Topology, events: Sequence[Event], end: int
) -> dict[int, list[Fraction | None]]:
    """The values of all of a key's events, and how long before `end` they were."""
    ages = [Fraction(end - event.time) for event in events]
    if topology.span_length.of_events:
        ages = [Fraction(age) for age in range(len(events), 0, -1)]
    return {ALL: [event.value for event in events], AGES: ages}


def ticks_of(topology: Topology, times: Sequence[int]) -> set[int]:
    """The ticks after a key's events, and the first ones at which the span has none of them, or the
    last one was so long ago that the key is forgotten; and what `emit` asks for beside.
    """
    every = topology.every_ms
    due = list(times)
    if topology.every_events:
        due, number = [], 0
        for before, time in pairwise([-(2**62), *times]):
            silence = topology.forget_ms or 2**62
            number = 1 if time - before >= silence else number + 1
            due += [time] if number % topology.every_events == 0 else []
    ticks = {(time // every + 1) * every for time in due}
    silences = [] if topology.span_length.of_events else [topology.span_length.length]
    if silences and topology.emit == "windows":
        silences += [duration_ms(window, "windows") for window in topology.windows]
    if topology.emit == "always":
        ticks |= ticks_of_span(topology.span_length.length, every, times)
    if topology.forget_after:
        silences.append(duration_ms(topology.forget_after, "forget_after"))
    return ticks.union(*(silent_ticks(silence, every, times) for silence in silences))


def silent_ticks(silence: int, every: int, times: Sequence[int]) -> set[int]:
    """The first ticks at which a key's last event was more than so long ago."""
    ticks = set()
    for time, following in pairwise([*times, 2**62]):
        tick = time // every * every
        while tick - silence <= time:
            tick += every
        if following >= tick:
            ticks.add(tick)
    return ticks


def ticks_of_span(span: int, every: int, times: Sequence[int]) -> set[int]:
    """All ticks at which the span has any of a key's events."""
    return {
        tick
        for time in set(times)
        for tick in range(time // every * every, time + span + 1, every)
        if tick - span <= time < tick
    }


def since_forgotten(topology: Topology, events: Sequence[Event]) -> Sequence[Event]:
    """The events since the key was forgotten last, or all."""
    if not topology.forget_after:
        return events
    after = duration_ms(topology.forget_after, "forget_after")
    first = 0
    for place, (event, following) in enumerate(pairwise(events), 1):
        if following.time - event.time >= after:
            first = place
    return events[first:]


def inside(topology: Topology, events: Sequence[Event], n: int, tick: int) -> Sequence[Event]:
    """The events of the window of n that ends at `tick`; `events` are a key's, by time."""
    end = bisect_left(events, tick, key=_time)
    if topology.span_length.of_events:
        return events[max(0, end - n) : end]
    return events[bisect_left(events, tick - n, key=_time) : end]
