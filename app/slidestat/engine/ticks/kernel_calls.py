"""Calls of the synopses' kernels: all keys of a slice in one call for each synopsis."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.statistics.runner import (
    Answered,
    BorrowingRunner,
    ItemColumn,
    Runner,
    Work,
    run_by_calendar,
)
from slidestat.declare.topology import Topology
from slidestat.engine.events import Events, distinct_texts
from slidestat.engine.keys.states import States
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.records import NO_TIME
from slidestat.engine.ticks.queries import Queries
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import NewerVersionError, SynopsisError, WindowTooLargeError

# A batch's events and queries, cut into runs: stretches of a key's events that share a state.
#
# A key whose newest event is a span or more older than the next one starts again from nothing: no
# window that has the next one reaches back to it. Where figures cover more than a span of time, so
# does one whose newest event is `forget_after` older. So what a state holds follows from the events
# alone, and the state of a key that has been silent for so long may be deleted at any time without
# a trace. The queries before the next event still go to the old state.


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """R runs of G keys, each key's in order. `starts` int64[R + 1] is where each begins among the
    events; `run_of` int64[Q] the run of each query; `first` and `last` int64[G] those of each key.
    The first run of a key continues its stored state, the others start from nothing.
    """

    starts: Integers
    run_of: Integers
    first: Integers
    last: Integers

    def numbers_before(self, numbers: Integers, starts: Integers) -> Integers:
        """Return int64[R]: the offset from the place of a run's event to its number. The first run
        of a key continues from `numbers` int64[G], the others from 0; keys begin at `starts`.
        """
        before = -self.starts[:-1]
        before[self.first] = numbers - starts[:-1]
        return before


def cut(
    groups: Integers,
    gaps: npt.NDArray[np.bool_],
    times: Integers,
    keys: int,
    query_groups: Integers,
    query_times: Integers,
) -> KeyRuns:
    """Cut the events of `keys` keys before the events where `gaps` is true.

    `groups`, `gaps` and `times` are those of the events, by key and time; queries likewise. A query
    belongs to the run of the last event before it.
    """
    rows = np.flatnonzero(gaps)
    group_starts = np.searchsorted(groups, np.arange(keys + 1))
    if not len(rows):
        numbers = np.arange(keys)
        return KeyRuns(group_starts, query_groups, numbers, numbers)
    cuts = list(zip(groups[rows].tolist(), times[rows].tolist(), strict=True))
    before = np.searchsorted(groups[rows], np.arange(keys + 1))
    first = np.arange(keys) + before[:-1]
    last = np.arange(keys) + before[1:]
    queries = zip(query_groups.tolist(), query_times.tolist(), strict=True)
    run_of = np.array([group + bisect_left(cuts, (group, time)) for group, time in queries])
    starts = np.sort(np.concatenate((group_starts, rows)), kind="stable")
    return KeyRuns(starts, run_of.astype(np.int64), first, last)


def previous_times(groups: Integers, times: Integers, last_times: Integers) -> Integers:
    """Return int64[n]: the time of the previous event of the same key, NO_TIME if there is none.
    `last_times` int64[G] are those of the keys' states.
    """
    previous = last_times[groups]
    same = groups[1:] == groups[:-1]
    previous[1:][same] = times[:-1][same]
    return previous


def gaps_of(previous: Integers, times: Integers, silence: int | None) -> npt.NDArray[np.bool_]:
    """Return bool[n]: whether `silence` has passed since the key's previous event; None: never."""
    if silence is None:
        return np.zeros(len(times), dtype=bool)
    gaps: npt.NDArray[np.bool_] = (previous != NO_TIME) & (times - previous >= silence)
    return gaps


def numbers_in_life(groups: Integers, gaps: npt.NDArray[np.bool_], counts: Integers) -> Integers:
    """Return int64[n]: which event of its key each is, the first one being 1, since the last of the
    `gaps`, or of all if there is none; `counts` int64[G] are the numbers of events before.
    """
    rows = np.arange(len(groups))
    begins = np.ones(len(groups), bool)
    begins[1:] = groups[1:] != groups[:-1]
    before = np.where(begins & ~gaps, counts[groups], 0)
    begins |= gaps
    starts = np.flatnonzero(begins)
    run = np.cumsum(begins) - 1
    numbers: Integers = before[starts][run] + rows - starts[run] + 1
    return numbers


class Ran(NamedTuple):
    """The runs of some keys' events, and the answers of their synopses."""

    runs: KeyRuns
    answered: dict[Runner, Answered]


_Call = Callable[[Sequence[bytes | None], Work], Answered]


class KernelCalls:
    """The synopses of a topology, called for many keys at once."""

    def __init__(
        self,
        topology: Topology,
        observed: PartitionWork,
        starts: Mapping[Runner, int] = MappingProxyType({}),
        further: Iterable[BorrowingRunner] = (),
    ) -> None:
        """Create the calls; `starts` are the times from which on synopses that were added take
        events in, and `further` windows are asked for besides those of the topology.
        """
        self._starts = starts
        self._runners = list(dict.fromkeys(topology.runners))
        self._columns = topology.columns
        self._of_events = topology.span_length.of_events
        self._windows = np.array(topology.window_lengths, dtype=np.int64)
        # Runners that need windows of their own length at each tick.
        of_calendar = {
            runner
            for runner, statistic in zip(topology.runners, topology.statistics, strict=True)
            if statistic.has_windows and topology.calendar_windows
        }
        # The calls of each runner: its own, and of those that borrow its states.
        self._calls: dict[Runner, list[tuple[Runner, _Call]]] = {}
        for runner in self._runners:
            call: _Call = runner.run
            if runner in of_calendar:
                call = partial(run_by_calendar, runner, windows=topology.window_lengths)
            self._calls[runner] = [(runner, call)]
        for window in dict.fromkeys((*topology.further_windows, *further)):
            self._calls[window.runner].append((window, window.run))
        self._observed = observed

    def absorb(
        self,
        states: States,
        events: Events,
        groups: Integers,
        gaps: npt.NDArray[np.bool_],
        queries: Queries,
    ) -> Ran:
        """Insert events, by key, into the synopses of keys, and answer at each query between them.
        `groups` are the places of the events' keys, and a key starts from nothing where `gaps` is
        true. The `states` stay as they are.
        """
        times, query_times = events.times, queries.times
        runs = cut(groups, gaps, times, len(states), *queries)
        if self._of_events:
            # Events are numbered by key, and the numbers are used as times: so a window of time is
            # a window of events. A key that starts again is numbered from the start.
            starts = np.searchsorted(groups, np.arange(len(states) + 1))
            passed = queries.events_before(groups, times, starts)
            before = runs.numbers_before(states.counts, starts)
            query_times = before[runs.run_of] + starts[queries.groups] + passed + 1
            times = np.repeat(before, np.diff(runs.starts)) + np.arange(len(groups)) + 1
        query_starts = np.searchsorted(runs.run_of, np.arange(len(runs.starts)))
        work = self._work(runs.starts, times, events, query_starts, query_times)
        answered: dict[Runner, Answered] = {}
        known = np.full(len(runs.starts) - 1, None, object)
        for runner, synopses in zip(self._runners, states.synopses, strict=True):
            known[runs.first] = synopses
            start = self._starts.get(runner)
            own = work if start is None else work.among(events.times >= start)
            stored = known.tolist()
            with self._called(runner):
                for each, run in self._calls[runner]:
                    answered[each] = run(stored, own)
        return Ran(runs, answered)

    def ask(self, states: States, queries: Queries) -> dict[Runner, Answered]:
        """Answer queries of these keys, by key and time, as their states are. Windows of events
        are those of each key's last events, whatever the time.
        """
        none = Events.none(self._columns)
        groups, times = queries
        if self._of_events:
            times = states.counts[groups] + 1
        query_starts = np.searchsorted(groups, np.arange(len(states) + 1))
        starts = np.zeros(len(states) + 1, np.int64)
        work = self._work(starts, none.times, none, query_starts, times)
        answered: dict[Runner, Answered] = {}
        for runner, synopses in zip(self._runners, states.synopses, strict=True):
            stored = synopses.tolist()
            with self._called(runner):
                for each, run in self._calls[runner]:
                    answered[each] = run(stored, work)
        return answered

    def _work(
        self,
        starts: Integers,
        times: Integers,
        events: Events,
        query_starts: Integers,
        query_times: Integers,
    ) -> Work:
        """Return the work for the runners."""
        columns = self._columns
        return Work(
            starts,
            times,
            {
                column.path: values
                for column, values in zip(columns.numbers, events.numbers, strict=True)
            },
            {
                column.path: ItemColumn(*distinct_texts(items))
                for column, items in zip(columns.items, events.items, strict=True)
            },
            query_starts,
            query_times,
            self._windows,
            dict(zip(columns.conditions, events.conditions, strict=True)),
        )

    @contextmanager
    def _called(self, runner: Runner) -> Iterator[None]:
        """Time calls of kernels over a runner's states, and say what users can do about errors."""
        started = perf_counter()
        try:
            yield
        except WindowTooLargeError as error:
            raise SlidestatError(
                f"The {runner.meaning} has outgrown its window: {error.rule}.",
                "Give the statistic fewer decimals, or the topology a shorter span.",
            ) from error
        except SynopsisError as error:
            raise unusable_state(runner.meaning, error) from error
        finally:
            self._observed.kernel_s += perf_counter() - started


def unusable_state(of: str, error: SynopsisError) -> SlidestatError:
    """Return the error for a stored state that is not one `of` what is kept, with what to do."""
    advice = (
        "Run a slidestat as new as the one that has written it: update this one."
        if isinstance(error, NewerVersionError)
        else "Delete the worker's data folder; it is restored from the changelog. If that has it,"
        " too, give the topology another name: it begins anew."
    )
    return SlidestatError(f"A stored state is not that of the {of}: {error.rule}.", advice)
