"""At which tick something is due for which key."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from slidestat.declare.topology import Topology
from slidestat.engine.clock import Advance, closing_tick, tick_after, ticks_through
from slidestat.engine.keys.columns import fitted
from slidestat.engine.keys.key_numbers import KeyNumbers
from slidestat.engine.records import NO_TIME
from slidestat.synopses.core.arrays import Bools, Integers

Place = tuple[int, str]  # of what is due at a tick for a key: by tick, then by key

NOT_DUE = 2**63 - 1
"""In place of a tick."""

_NONE = np.empty(0, np.int64)


class KeyTimers:
    """A register of timers, one tick a key, by its number; costs what is due, not what waits."""

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
        """Return the first tick up to `watermark` at which something may be due, None for none."""
        return self._ticks[0] if self._ticks and self._ticks[0] <= watermark else None

    def take(self, numbers: Integers, watermark: int) -> Integers:
        """Return and clear the ticks at which these are due up to `watermark`, else NOT_DUE."""
        ticks = self._tick_of[numbers]
        is_due = ticks <= watermark
        self._tick_of[numbers[is_due]] = NOT_DUE
        return np.where(is_due, ticks, NOT_DUE)

    def pop(self, tick: int) -> Integers:
        """Return and clear the numbers due at `tick`, if it is the first tick, else none."""
        if not self._ticks or self._ticks[0] != tick:
            return _NONE
        heappop(self._ticks)
        # A key that was due here, then earlier, and is again, is listed twice.
        at_tick = np.unique(np.concatenate(self._numbers_at.pop(tick)))
        due: Integers = at_tick[self._tick_of[at_tick] == tick]
        self._tick_of[due] = NOT_DUE
        return due


# The ticks at which keys are emitted without new events.


class SilentTicks:
    """The ticks that follow from the time of a key's last event, after the one that has it: the
    first ones at which windows have none of its events, and that at which the key is forgotten; or
    all as long as the span has one.

    They are a function of that time alone, so a restart needs no more than the key's state.
    """

    def __init__(
        self,
        every: int,
        silences: Sequence[int],
        forget: int | None = None,
        always: int | None = None,
    ) -> None:
        """Create the finder of the first ticks after these `silences`, of which `forget` ends a
        key, and of all ticks of a silence of up to `always`.
        """
        self._every = every
        self._silences = silences
        self._forget = forget
        self._always = always

    @classmethod
    def of_emissions(cls, topology: Topology) -> "SilentTicks":
        """Return the ticks at which keys are emitted without new events."""
        always = topology.span_length.length if topology.asks_always else None
        return cls(topology.every_ms, topology.silences, topology.forget_ms, always)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._silences) or self._always is not None

    def next_after(self, last_times: Integers, passed: Integers) -> Integers:
        """Return the first tick of each key after `passed`, NOT_DUE if there is none."""
        coming = np.full(len(last_times), NOT_DUE)
        for silence in self._silences:
            ticks = closing_tick(last_times, silence, self._every)
            coming = np.minimum(coming, np.where(ticks > passed, ticks, NOT_DUE))
        if self._always is not None:
            ticks, last = self._all(last_times, self._always, passed)
            coming = np.minimum(coming, np.where(ticks <= last, ticks, NOT_DUE))
        return coming

    def between(
        self, last_times: Integers, after: Integers, until: Integers
    ) -> tuple[Integers, Integers]:
        """Return all ticks after `after` up to `until`: the places of their keys, and the ticks,
        in no order; one may be there twice.
        """
        closing = self.silences(last_times, after, until)
        if self._always is None:
            return closing
        first, last = self._all(last_times, self._always, after)
        every = ticks_through(first, np.minimum(last, until), self._every)
        rows, ticks = map(np.concatenate, zip(closing, every, strict=True))
        return rows, ticks

    def silences(
        self, last_times: Integers, after: Integers, until: Integers
    ) -> tuple[Integers, Integers]:
        """Return those of `between` at which a silence has lasted for so long that a key is
        emitted, whatever its figures are.
        """
        found = [self._closing(silence, last_times, after, until) for silence in self._silences]
        rows, ticks = zip(*found, strict=True) if found else ((_NONE,), (_NONE,))
        return np.concatenate(rows), np.concatenate(ticks)

    def ends(
        self, last_times: Integers, after: Integers, until: Integers
    ) -> tuple[Integers, Integers]:
        """Return those of `between` at which keys are forgotten."""
        if self._forget is None:
            return _NONE, _NONE
        return self._closing(self._forget, last_times, after, until)

    def _closing(
        self, silence: int, last_times: Integers, after: Integers, until: Integers
    ) -> tuple[Integers, Integers]:
        ticks = closing_tick(last_times, silence, self._every)
        rows = np.flatnonzero((last_times != NO_TIME) & (ticks > after) & (ticks <= until))
        return rows, ticks[rows]

    def _all(self, last_times: Integers, span: int, after: Integers) -> tuple[Integers, Integers]:
        """Return the first tick after `after`, and the last one, of keys that are emitted at each;
        a key without an event has none.
        """
        first = np.maximum(tick_after(last_times, self._every), tick_after(after, self._every))
        last = closing_tick(last_times, span, self._every)
        return first, np.where(last_times != NO_TIME, last, NO_TIME)


class Silences(NamedTuple):
    """Stretches without an event, int64[n] each: the places of their keys, the time of the event
    before each, NO_TIME if there is none; they have the ticks after `after` up to `until`.
    """

    groups: Integers
    last_times: Integers
    after: Integers
    until: Integers

    @classmethod
    def around(
        cls,
        groups: Integers,
        times: Integers,
        previous: Integers,
        last_times: Integers,
        advance: Advance,
    ) -> "Silences":
        """Return the stretches before events, by key and time, `previous` being the time of the one
        before each, and then that behind the last event of each key.
        """
        keys = len(last_times)
        return cls(
            np.concatenate((groups, np.arange(keys))),
            np.concatenate((previous, last_times)),
            np.full(len(times) + keys, advance.before),
            np.concatenate((times, np.full(keys, advance.watermark))),
        )

    def at(self, rows: Integers | Bools) -> "Silences":
        """Return some of the stretches."""
        return Silences(*(column[rows] for column in self))


NO_SILENCES = Silences(_NONE, _NONE, _NONE, _NONE)


# A firing alert is written again each day of event time: topics may delete records after a few.
_AGAIN_MS = 86_400_000


class AlertTicks:
    """The ticks of a silence at which alerts are evaluated: of each key the first at which a window
    that an alert reads has none of its events, or all while a figure grows that one reads; of a key
    of which an alert waits or fires, all as long as that may change, and then one a day.

    With no event in its windows figures stay what they are. So it may change for as many ticks
    after that as a condition must hold.
    """

    def __init__(self, topology: Topology) -> None:
        every, emptied = topology.every_ms, topology.alert_silences
        grows = topology.span_length.length if topology.alerts_change_in_silence else None
        self._of_all = SilentTicks(every, emptied, always=grows)
        longest = max((*emptied, grows or 0), default=0)
        reach = longest + max(topology.alert_ticks) * every
        self._of_standing = SilentTicks(every, (), always=reach)
        self._again = None if topology.is_sequence else -(-_AGAIN_MS // every) * every

    def of_all(self, silences: Silences) -> tuple[Integers, Integers]:
        """Return the ticks of all keys: the places of their keys, and the ticks, in no order."""
        return self._between(self._of_all, silences)

    def of_standing(self, silences: Silences) -> tuple[Integers, Integers]:
        """Return the ticks of keys of which an alert waits or fires, as `of_all` does."""
        groups, ticks = self._between(self._of_standing, silences)
        if self._again is None:
            return groups, ticks
        first = tick_after(np.maximum(silences.last_times, silences.after), self._again)
        last = np.where(silences.last_times != NO_TIME, silences.until, NO_TIME)
        rows, further = ticks_through(first, last, self._again)
        return np.concatenate((groups, silences.groups[rows])), np.concatenate((ticks, further))

    def are_again(self, ticks: Integers) -> Bools:
        """Return bool[n]: at which ticks the alerts that fire are written again."""
        if self._again is None:
            return np.zeros(len(ticks), bool)
        again: Bools = ticks % self._again == 0
        return again

    def next_after(self, last_times: Integers, passed: Integers, is_standing: Bools) -> Integers:
        """Return the first tick of each key after `passed`, NOT_DUE if there is none."""
        coming = self._of_all.next_after(last_times, passed)
        standing = self._of_standing.next_after(last_times, passed)
        if self._again is not None:
            again = tick_after(np.maximum(last_times, passed), self._again)
            standing = np.minimum(standing, again)
        return np.where(is_standing, np.minimum(coming, standing), coming)

    def _between(self, ticks: SilentTicks, silences: Silences) -> tuple[Integers, Integers]:
        rows, found = ticks.between(silences.last_times, silences.after, silences.until)
        return silences.groups[rows], found


# Ticks that are due for keys without events, some keys at a time.


class DueKeys(NamedTuple):
    """The numbers of keys, and the tick at which each is due."""

    numbers: Integers
    ticks: Integers

    @classmethod
    def joined(cls, parts: "list[DueKeys]") -> "DueKeys":
        numbers, ticks = zip((_NONE, _NONE), *parts, strict=True)
        return cls(np.concatenate(numbers), np.concatenate(ticks))

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
    step: int | None = None,
) -> Iterator[DueSlice]:
    """Yield the timers of two kinds that are due at or before `watermark`, in slices in order of
    time: several whole ticks of about `size()` keys together, or a part of one tick with up to so
    many. Keys that are armed meanwhile at or after the end of the last slice come in one of the
    next.

    With a `step` each key is due again so much later, and so on: slices end before that becomes too
    much.
    """
    whole: list[tuple[DueKeys, DueKeys]] = []
    waiting, end, first = 0, (0, ""), 0
    while True:
        nexts = (opened.next_due(watermark), closing.next_due(watermark))
        ticks = [tick for tick in nexts if tick is not None]
        is_full = waiting >= size() or not ticks
        if waiting and step is not None:
            horizon = first + max(1, size() // waiting) * step
            if not ticks or min(ticks) >= horizon:
                is_full, end = True, max(end, (min(horizon, watermark + 1), ""))
        if waiting and is_full:
            yield _slice_of(whole, end)
            whole, waiting = [], 0
            continue
        if not ticks:
            return
        tick = min(ticks)
        to_open, to_close = opened.pop(tick), closing.pop(tick)
        count = len(to_open) + len(to_close)
        if count <= size():
            first = first if waiting else tick
            whole.append((DueKeys.at(tick, to_open), DueKeys.at(tick, to_close)))
            waiting, end = waiting + count, (tick + 1, "")
            continue
        if waiting:
            yield _slice_of(whole, end)
            whole, waiting = [], 0
            # Keys that were armed for this tick while it was being answered.
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
