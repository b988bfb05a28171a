"""A batch's events and queries, cut into runs: stretches of a key's events that share a state.

A key whose newest event is a span or more older than the next one starts again from nothing: no
window that has the next one reaches back to it. Where figures cover more than a span of time, so
does one whose newest event is `forget_after` older. So what a state holds follows from the events
alone, and the state of a key that has been silent for so long may be deleted at any time without a
trace. The queries before the next event still go to the old state.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.engine.checkpoints.checkpoint import NO_TIME

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """R runs of G keys, each key's in order. `starts` int64[R + 1] is where each begins among the
    events; `run_of` int64[Q] the run of each query; `first` and `last` int64[G] those of each key.
    The first run of a key continues its stored state, the others start from nothing.
    """

    starts: Int64s
    run_of: Int64s
    first: Int64s
    last: Int64s

    def numbers_before(self, numbers: Int64s, starts: Int64s) -> Int64s:
        """Return int64[R]: the offset from the place of a run's event to its number. The first run
        of a key continues from `numbers` int64[G], the others from 0; keys begin at `starts`.
        """
        before = -self.starts[:-1]
        before[self.first] = numbers - starts[:-1]
        return before


def cut(
    groups: Int64s,
    gaps: npt.NDArray[np.bool_],
    times: Int64s,
    keys: int,
    query_groups: Int64s,
    query_times: Int64s,
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


def previous_times(groups: Int64s, times: Int64s, last_times: Int64s) -> Int64s:
    """Return int64[n]: the time of the previous event of the same key, NO_TIME if there is none.
    `last_times` int64[G] are those of the keys' states.
    """
    previous = last_times[groups]
    same = groups[1:] == groups[:-1]
    previous[1:][same] = times[:-1][same]
    return previous


def gaps_of(previous: Int64s, times: Int64s, silence: int) -> npt.NDArray[np.bool_]:
    """Return bool[n]: whether at least `silence` has passed since the previous event of the same
    key.
    """
    gaps: npt.NDArray[np.bool_] = (previous != NO_TIME) & (times - previous >= silence)
    return gaps
