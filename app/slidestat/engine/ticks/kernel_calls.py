"""Calls of the synopses' kernels: all keys of a slice in one call for each synopsis."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from slidestat.declare.statistics.runner import Answered, ItemColumn, Runner, Work
from slidestat.declare.topology import Topology
from slidestat.engine.events import Events, distinct_texts
from slidestat.engine.keys.key_runs import KeyRuns
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.states.states import States
from slidestat.errors import SlidestatError
from slidestat.synopses.core.errors import NewerVersionError, SynopsisError, WindowTooLargeError

Int64s = npt.NDArray[np.int64]


class KernelCalls:
    """The synopses of a topology, called for many keys at once."""

    def __init__(
        self,
        topology: Topology,
        observed: PartitionWork,
        starts: Mapping[Runner, int] = MappingProxyType({}),
    ) -> None:
        """Create the calls; `starts` are the times from which on synopses that were added take
        events in.
        """
        self._starts = starts
        self._runners = list(dict.fromkeys(topology.runners))
        self._columns = topology.columns
        self._windows = np.array(topology.window_lengths, dtype=np.int64)
        self._observed = observed

    def absorb(
        self,
        states: States,
        runs: KeyRuns,
        times: Int64s,
        events: Events,
        query_times: Int64s,
    ) -> dict[Runner, Answered]:
        """Insert events, by key, into the synopses of keys, and answer at each query between them.
        `times` are those of the events, or are used in their place.
        """
        query_starts = np.searchsorted(runs.run_of, np.arange(len(runs.starts)))
        work = self._work(runs.starts, times, events, query_starts, query_times)
        answered: dict[Runner, Answered] = {}
        before = np.full(len(runs.starts) - 1, None, object)
        for runner, synopses in zip(self._runners, states.synopses, strict=True):
            before[runs.first] = synopses
            start = self._starts.get(runner)
            own = work if start is None else work.among(events.times >= start)
            answered[runner] = self._run(runner, before.tolist(), own)
        return answered

    def ask(self, states: States, groups: Int64s, times: Int64s) -> dict[Runner, Answered]:
        """Answer queries of these keys, by key and time, as their states are."""
        none = Events.none(self._columns)
        query_starts = np.searchsorted(groups, np.arange(len(states) + 1))
        starts = np.zeros(len(states) + 1, np.int64)
        work = self._work(starts, none.times, none, query_starts, times)
        return {
            runner: self._run(runner, synopses.tolist(), work)
            for runner, synopses in zip(self._runners, states.synopses, strict=True)
        }

    def _work(
        self,
        starts: Int64s,
        times: Int64s,
        events: Events,
        query_starts: Int64s,
        query_times: Int64s,
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

    def _run(self, runner: Runner, states: Sequence[bytes | None], work: Work) -> Answered:
        started = perf_counter()
        try:
            return runner.run(states, work)
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
