"""Sums or means of parts of a field's values: below the first of some cuts, between each two, and
from the last one on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slidestat.declare.parted import Parted, parts_of, run_parted
from slidestat.declare.runners.runner import Answered, Float64s, of_field
from slidestat.declare.runners.spreads import SpreadRunner
from slidestat.declare.runners.sums import SumRunner
from slidestat.declare.runners.work import Work
from slidestat.synopses.core.batch import Batch


@dataclass(frozen=True)
class PartedRunner:
    """A runner of each part: of sums, which are those of magnitudes, or of means. An answer has one
    more axis, a place for each part.
    """

    of_one: SumRunner | SpreadRunner
    cuts: tuple[float, ...]

    @property
    def meaning(self) -> str:
        p = self.of_one.parameters
        cuts = ", ".join(map(str, self.cuts))
        return of_field(
            self.of_one.field,
            f"{self.what}s parted at {cuts}, epsilon {float(p.epsilon)}, {p.decimals} decimals",
        )

    @property
    def what(self) -> str:
        """The name of the answer of `of_one` that is given for each part."""
        return "sum" if isinstance(self.of_one, SumRunner) else "mean"

    @property
    def answer(self) -> str:
        """The name of its answer."""
        return f"parted {self.what}"

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self.cuts) + 1

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.of_one.field)
        parts = np.searchsorted(self.cuts, values, "right")
        kept = np.abs(values) if self.what == "sum" else values
        events = Parted(starts, times, parts, kept)
        found, answers = run_parted(self._fed, self.count, states, events, *work.queries)
        return Answered(found, {self.answer: answers})

    def synopses(self, state: bytes) -> list[bytes]:
        """Return the synopsis of each part of a state; SynopsisError for one of other parts."""
        return [part or self._empty for part in parts_of(state, self.count)]

    @cached_property
    def _empty(self) -> bytes:
        """The synopsis of a part that has had no event."""
        return self.of_one.fed([None], Batch([0, 0], (), ())).states[0]

    def _fed(self, states: Sequence[bytes | None], batch: Batch) -> tuple[list[bytes], Float64s]:
        fed = self.of_one.fed(states, batch)
        return fed.states, fed.answers[self.what]
