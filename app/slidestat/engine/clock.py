"""Event time of a partition: its clock, watermarks and ticks."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.engine.checkpoints.checkpoint import Checkpoint, Loss, Recent
from slidestat.engine.records import NO_TIME
from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core.arrays import Integers

# The clock of a partition: the event time reached, which no single event can determine.
#
# The watermark is this clock less the lateness. A clock that followed the largest time would be
# moved by one event of a wrong clock, and all that follow would be late until the others catch up.
# So:
#
# - the *front* is the largest time that most of any 16 consecutive records have reached (of the
#   first records: more than half of them, two at least). Eight wrong times among 16 records do not
#   move it;
# - a record moves the clock at once if it jumps no further than a *step* beyond the clock, and lies
#   no further than the lateness and two steps beyond the front, which is some records behind: in a
#   stream without jumps the clock is the largest time, record by record;
# - one that jumps further is a *suspect*: it waits, and the front follows once most have come as
#   far. Where they have not among the next 15, and it lies further ahead than lateness and step
#   explain, it is refused.
#
# A step is a second or an eighth of the lateness, whichever is longer; or eight times the second
# longest step that the front has made in 16 records, where records are far apart. (The longest may
# be a night without events. There is no second one to take before 16 records have come.)
#
# So the watermark never lies more than two steps beyond a time that most of 16 records had reached.
# All is a function of the records' order alone; unreadable records, whose time is not known, take
# no part in it.

# Records that decide together: more than half of them are the majority.
RECORDS = 16
# As far a record may jump on its own, in ms or numbers of a sequence.
LEAST_STEP = 1_000
_SHARE_OF_LATENESS = 8
_TIMES_THE_PACE = 8

_NO_OFFSET = -1


class Refused(NamedTuple):
    """A suspect that was not confirmed: its offset, how far ahead of the clock it was in the end,
    and the record at which that was clear.
    """

    offset: int
    ahead: int
    decided_at: int


class Reading(NamedTuple):
    """The clock after each record, `clocks` int64[n], and the suspects that were refused."""

    clocks: Integers
    refused: Sequence[Refused]


class EventClock:
    """The clock of one partition as records come, and as it was at any of them that a restart may
    begin with. About 20 ns a record, and 16 bytes for each that is not settled.
    """

    def __init__(self, start: Checkpoint, lateness: int) -> None:
        self._lateness = lateness
        self._now = _State.of(start)
        self._settled = self._now.copy()
        self._entries: deque[tuple[Integers, Integers]] = deque()

    @property
    def time(self) -> int:
        """The event time reached so far."""
        return self._now.clock

    @property
    def least_step(self) -> int:
        """The largest jump ahead of the others that a record may always make."""
        return max(LEAST_STEP, self._lateness // _SHARE_OF_LATENESS)

    @property
    def suspects(self) -> list[int]:
        """The offsets of the suspects that are not decided, as far as they were read here."""
        now = self._now
        suspects = now.offsets[: now.count][now.times[: now.count] > now.clock]
        return sorted(suspects[suspects != _NO_OFFSET].tolist())

    def read(self, offsets: Integers, times: Integers) -> Reading:
        """Move the clock by records: int64[n] of rising offsets, and of times or NO_TIME."""
        self._entries.append((offsets, times))
        return self._now.advance(offsets, times, self._lateness)

    def settle(self, next_offset: int) -> Recent:
        """Return the clock's state just before `next_offset`, which is not before the last one."""
        if self._entries and self._entries[-1][0][-1] < next_offset:
            self._settled = self._now.copy()
            self._entries.clear()
        while self._entries:
            offsets, times = self._entries[0]
            settled = int(np.searchsorted(offsets, next_offset))
            self._settled.advance(offsets[:settled], times[:settled], self._lateness)
            if settled < len(offsets):
                self._entries[0] = (offsets[settled:], times[settled:])
                break
            self._entries.popleft()
        return self._settled.recent()


class _State:
    """The clock and the recent times from which it continues. The last `count` readable records and
    their steps of the front are in ring buffers; the next record goes to the place `at`.
    """

    def __init__(self) -> None:
        self.clock = self.front = NO_TIME
        self.count = self.at = 0
        self.times = np.full(RECORDS, NO_TIME, np.int64)
        self.offsets = np.full(RECORDS, _NO_OFFSET, np.int64)
        self.steps = np.zeros(RECORDS, np.int64)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "_State":
        """Return the state at a checkpoint, without earlier records' offsets: it needs none."""
        state, recent = cls(), checkpoint.recent
        state.clock = checkpoint.max_time
        # A checkpoint of version 1 has the largest time alone.
        state.front = recent.front if recent.times else checkpoint.max_time
        state.count = len(recent.times)
        state.at = state.count % RECORDS
        state.times[: state.count] = recent.times
        state.steps[: state.count] = recent.steps
        return state

    def copy(self) -> "_State":
        other = _State()
        other.clock, other.front = self.clock, self.front
        other.count, other.at = self.count, self.at
        other.times, other.offsets = self.times.copy(), self.offsets.copy()
        other.steps = self.steps.copy()
        return other

    def recent(self) -> Recent:
        """Return the recent times and steps, oldest first."""
        order = (np.arange(self.count) + self.at) % self.count if self.count else slice(0)
        return Recent(
            self.front, tuple(self.times[order].tolist()), tuple(self.steps[order].tolist())
        )

    def advance(self, offsets: Integers, times: Integers, lateness: int) -> Reading:
        clocks = np.empty(len(times), np.int64)
        refused = np.empty((len(times), 3), np.int64)
        *after, found = _advance(
            offsets,
            times,
            lateness,
            max(LEAST_STEP, lateness // _SHARE_OF_LATENESS),
            (self.clock, self.front, self.count, self.at),
            self.times,
            self.offsets,
            self.steps,
            clocks,
            refused,
        )
        # Whole numbers of Python, also where kernels are Python and bring those of numpy.
        self.clock, self.front, self.count, self.at = map(int, after)
        return Reading(clocks, [Refused(*row) for row in refused[:found].tolist()])


@kernel
def _advance(
    offsets: Integers,
    times: Integers,
    lateness: int,
    least_step: int,
    before: tuple[int, int, int, int],
    ring: Integers,
    ring_offsets: Integers,
    steps: Integers,
    clocks: Integers,
    refused: Integers,
) -> tuple[int, int, int, int, int]:
    """Fill in `clocks` and `refused`, change the rings; (clock, front, count, at, refusals)."""
    clock, front, count, at = before
    found = 0
    ranked = np.empty(RECORDS, np.int64)
    ranked[:count] = np.sort(ring[:count])
    for row in range(len(times)):
        time = times[row]
        if time == NO_TIME:
            clocks[row] = clock
            continue
        if count == RECORDS:
            oldest = ring[at]
            ahead = oldest - clock
            is_far = ahead > lateness + least_step  # the least step, as it costs nothing
            if is_far and ahead > lateness + _step(steps, count, least_step):
                refused[found, 0] = ring_offsets[at]
                refused[found, 1] = ahead
                refused[found, 2] = offsets[row]
                found += 1
            _replace(ranked, count, oldest, time)
        else:
            ranked[count] = NO_TIME
            count += 1
            _replace(ranked, count, NO_TIME, time)
        ring[at] = time
        ring_offsets[at] = offsets[row]
        steps[at] = 0
        if count > 1:
            reached = ranked[count - 1 - count // 2]
            if reached > front:
                if front != NO_TIME:
                    steps[at] = reached - front
                front = reached
        at = (at + 1) % RECORDS

        clock = max(clock, front)
        if front != NO_TIME and ranked[count - 1] > clock:
            near = min(clock, front + lateness + least_step) + least_step
            step = least_step if time <= near else _step(steps, count, least_step)
            if near < time <= min(clock, front + lateness + step) + step:
                clock = max(clock, time)
            else:
                place = count - 1
                while place >= 0 and ranked[place] > near and ranked[place] > clock:
                    place -= 1
                if place >= 0:
                    clock = max(clock, ranked[place])
        clocks[row] = clock
    return clock, front, count, at, found


@borrowing_kernel
def _step(steps: Integers, count: int, least_step: int) -> int:
    """Return the largest jump that a record may make at the current pace."""
    longest = second = 0
    for place in range(count):
        if steps[place] > longest:
            longest, second = steps[place], longest
        elif steps[place] > second:
            second = steps[place]
    pace = second if count == RECORDS else longest
    return max(least_step, _TIMES_THE_PACE * pace)


@borrowing_kernel
def _replace(ranked: Integers, count: int, old: int, new: int) -> None:
    """Replace `old` by `new` among rising numbers, which stay sorted."""
    place = 0  # In a stream in order the oldest is the least.
    while ranked[place] != old:
        place += 1
    while place + 1 < count and ranked[place + 1] < new:
        ranked[place] = ranked[place + 1]
        place += 1
    while place > 0 and ranked[place - 1] > new:
        ranked[place] = ranked[place - 1]
        place -= 1
    ranked[place] = new


# Watermarks, lateness and emission ticks of one partition, as array operations.
#
# The watermark after a record is the partition's clock (above) less the lateness. A
# record is late if its time lies below the watermark of the records before it. Ticks are the
# multiples of `every`; an event at time t belongs to the first tick after t, whose windows are the
# ones it is new in. All of this is a function of the records alone, never of where a batch ended.

Times = TypeVar("Times", int, Integers)


def late_by(times: Integers, clocks: Integers, before: int, lateness: int) -> Integers:
    """Return int64[n]: how far each time lies below the watermark of the records before it; <= 0 if
    on time. `clocks` has the partition's clock after each record, `before` is the one before them.
    """
    previous = np.empty_like(clocks)
    previous[:1] = before
    previous[1:] = clocks[:-1]
    return previous - lateness - times


def tick_after(times: Times, every: int) -> Times:
    """Return the first multiple of `every` that is greater than each time."""
    return (times // every + 1) * every


def closing_tick(last_time: Times, span: int, every: int) -> Times:
    """Return for each `last_time` the first multiple of `every` whose window of `span` begins after
    it; `span` may also be a length of silence, or, of an array of times, a window of the calendar.
    """
    if isinstance(span, CalendarWindow) and not isinstance(last_time, int):
        return span.next_starts(last_time) // every * every + every
    return (last_time + span) // every * every + every


def ticks_through(first: Integers, last: Integers, every: int) -> tuple[Integers, Integers]:
    """Return all ticks from `first`, a tick of each row, up to `last`: int64[m] rows and ticks."""
    counts = np.maximum((last - first) // every + 1, 0)
    rows = np.repeat(np.arange(len(first)), counts)
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, first[rows] + steps * every


@kernel
def group_rows(groups: Integers, count: int) -> tuple[Integers, Integers]:
    """Return the rows by group, in their order within it: a counting sort, O(n + count).

    `groups` int64[n] with values in [0, count). Returns (order int64[n], starts int64[count + 1]):
    the rows of group g are order[starts[g]:starts[g + 1]].
    """
    starts = np.zeros(count + 1, dtype=np.int64)
    for group in groups:
        starts[group + 1] += 1
    for group in range(count):
        starts[group + 1] += starts[group]
    order = np.empty(len(groups), dtype=np.int64)
    place = starts[:-1].copy()
    for row in range(len(groups)):
        order[place[groups[row]]] = row
        place[groups[row]] += 1
    return order, starts


# The clock of a partition as another reading of all its records has found it.


class GivenClock(EventClock):
    """A clock that is set from outside, for a reader of some records of a partition only."""

    def __init__(self, lateness: int) -> None:
        super().__init__(Checkpoint(next_offset=0), lateness)
        self._given = np.empty(0, np.int64)

    def give(self, clocks: Integers) -> None:
        """Set the clock after each of the records that are read next, int64[n]."""
        self._given = clocks

    def read(self, offsets: Integers, times: Integers) -> Reading:  # noqa: ARG002  # It is known.
        """Return what was given; nothing is refused."""
        self._now.clock = int(self._given[-1])
        return Reading(self._given, ())

    def settle(self, next_offset: int) -> Recent:  # noqa: ARG002
        """Return no recent times: the clock continues with those that it is given."""
        return Recent()


# The watermark's advance, and the ticks that it passes.


@dataclass(frozen=True, slots=True)
class Advance:
    """An advance of the watermark, from `before`, to watermarks[i] after the record at offsets[i].

    Up to the watermark `emitted` everything was emitted before, and acknowledged; `loss` is the
    newest loss of records.
    """

    before: int
    offsets: Integers
    watermarks: Integers
    emitted: int
    loss: Loss | None

    @classmethod
    def at_once(
        cls, before: int, offset: int, watermark: int, emitted: int, loss: Loss | None
    ) -> "Advance":
        """Return an advance to `watermark` by one record, at `offset`."""
        offsets, watermarks = np.array([offset], np.int64), np.array([watermark], np.int64)
        return cls(before, offsets, watermarks, emitted, loss)

    @property
    def watermark(self) -> int:
        """The watermark at the end."""
        return int(self.watermarks[-1])

    @property
    def last_offset(self) -> int:
        """The offset of the last record that was read."""
        return int(self.offsets[-1])

    def until(self, watermark: int) -> "Advance":
        """Return the same advance, up to `watermark`."""
        return replace(self, watermarks=np.minimum(self.watermarks, watermark))

    def up_to(self, watermark: int) -> tuple["Advance", "Advance"]:
        """Return the advance up to `watermark`, and the one from there on."""
        return self.until(watermark), replace(self, before=watermark)

    def source_offsets(self, ticks: Integers) -> Integers:
        """Return int64[n]: for each tick the offset of the record that passed it."""
        return self.offsets[np.searchsorted(self.watermarks, ticks)]
