"""Samples of values."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, Listed, of_field
from slidestat.declare.runners.work import Int64s, Work
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.sampling.sample import (
    SampleParameters,
    SlidingSample,
    run_sample_batch,
)


@dataclass(frozen=True)
class SampleRunner:
    """A uniform sample of a field's values; in its lists the item is the number of the event."""

    parameters: SampleParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        return of_field(
            self.field, f"sample of {self.parameters.size}, seed {self.parameters.seed}"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.field)
        of_key = list(pairwise(starts.tolist()))
        queries = list(pairwise(work.query_starts.tolist()))
        lists: list[list[list[Listed]]] = [[] for _ in range(len(work.query_times))]
        # In rounds, as a state is asked between its events: the first question of each key, the
        # second of each, and so on; then what comes after the last.
        known, taken = list(states), [first for first, _ in of_key]
        rounds = max((end - first for first, end in queries), default=0)
        for turn in range(rounds + 1):
            asked = [first + turn if first + turn < end else -1 for first, end in queries]
            ends = [
                last
                if query < 0
                else first + int(np.searchsorted(times[first:last], work.query_times[query]))
                for query, (first, last) in zip(asked, of_key, strict=True)
            ]
            sizes = [end - first for first, end in zip(taken, ends, strict=True)]
            rows = np.repeat(np.array(taken) - np.cumsum([0, *sizes])[:-1], sizes)
            rows = rows + np.arange(len(rows))
            known = [
                *run_sample_batch(
                    self.parameters, known, Batch(np.cumsum([0, *sizes]), times[rows], values[rows])
                )
            ]
            taken = ends
            for state, query in zip(known, asked, strict=True):
                if query >= 0:
                    lists[query] = self._listed(state, int(work.query_times[query]), work.windows)
        return Answered([state or b"" for state in known], {}, lists)

    def _listed(self, state: bytes | None, now: int, windows: Int64s) -> list[list[Listed]]:
        sample = SlidingSample.from_bytes(state or b"")
        found = [sample.sample(window, now) for window in windows.tolist()]
        return [
            [
                Listed(str(index), (value, value, value))
                for index, value in zip(of.indices.tolist(), of.values.tolist(), strict=True)
            ]
            for of in found
        ]
