"""A uniform sample of a window's values, for questions that nobody foresaw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import ListStatistic, Promise
from slidestat.declare.statistics.runner import Answered, Listed, Runner, Work, of_field
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.rounding import EXACT, with_rounded

_LARGEST_SIZE = 1_000


@dataclass(frozen=True)
class SampleRunner:
    """A uniform sample of a field's values; in its lists the item is the number of the event."""

    parameters: synopses.SampleParameters
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
                *synopses.run_sample_batch(
                    self.parameters,
                    known,
                    synopses.Batch(np.cumsum([0, *sizes]), times[rows], values[rows]),
                )
            ]
            taken = ends
            for state, query in zip(known, asked, strict=True):
                if query >= 0:
                    lists[query] = self._listed(state, int(work.query_times[query]), work.windows)
        return Answered([state or b"" for state in known], {}, lists)

    def _listed(self, state: bytes | None, now: int, windows: Integers) -> list[list[Listed]]:
        sample = synopses.SlidingSample.from_bytes(state or b"")
        found = [sample.sample(window, now) for window in windows.tolist()]
        return [
            [
                Listed(str(index), (value, value, value))
                for index, value in zip(of.indices.tolist(), of.values.tolist(), strict=True)
            ]
            for of in found
        ]


@dataclass(frozen=True, kw_only=True)
class Sample(ListStatistic):
    """Values of the window drawn at random, each set of them as likely as any other, old to new.

    Each has a figure, whose estimate and bounds are the value, and whose item is the event's number
    among the key's events since its state began. A window of at most `size` events is given whole.
    A share that is estimated from k values is within 1.36 / sqrt(k) in 95 of 100 cases. Replays
    draw the same. Keys with one seed draw events of the same numbers: estimates of one key hold,
    those of different keys are not independent.

    size: how many values are drawn, 1 to 1,000.
    seed: of the draws, 0 to 2^63 - 1.
    promise: values as they were, none drawn twice; all of them if there are at most `size`.
    """

    kind: ClassVar[str] = "sample"
    can_be_united: ClassVar[bool] = False
    size: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.size) is not int or not 1 <= self.size <= _LARGEST_SIZE:
            raise SlidestatError(
                f"the size of {self.kind} is {self.size!r}.",
                f"Give a whole number from 1 to {_LARGEST_SIZE:,}.",
            )
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise SlidestatError(
                f"the seed of {self.kind} is {self.seed!r}.", "Give a whole number from 0 on."
            )

    @property
    def limits(self) -> Limits:
        """The limits: any number."""
        return Limits()

    def runner(self, span: int, field: FieldPath) -> Runner:
        return SampleRunner(synopses.SampleParameters(self.size, span, self.seed), field)

    def promise(self, _span: int) -> Promise:
        return Promise()

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return [
            found._replace(numbers=tuple(with_rounded(np.array(found.numbers)).tolist()))
            if abs(found.numbers[0]) >= EXACT
            else found
            for found in listed
        ]
