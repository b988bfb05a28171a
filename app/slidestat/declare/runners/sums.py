"""Counts and sums, also of parts of the values: exponential histograms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.parted import Parted, run_parted
from slidestat.declare.runners.runner import Answered, Float64s, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.parameters import CountParameters, SumParameters
from slidestat.synopses.exponential_histogram.batch import run_batch


@dataclass(frozen=True)
class CountRunner:
    """How many events."""

    parameters: CountParameters

    @property
    def meaning(self) -> str:
        return f"count, epsilon {float(self.parameters.epsilon)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_batch(self.parameters, states, work.batch)
        return Answered(result.states, {"count": figures_of(result)})


@dataclass(frozen=True)
class SumRunner:
    """The sum of a field."""

    parameters: SumParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        return of_field(
            self.field, f"sum, epsilon {float(parameters.epsilon)}, {parameters.decimals} decimals"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_batch(self.parameters, states, work.values_of(self.field))
        return Answered(result.states, {"sum": figures_of(result)})


@dataclass(frozen=True)
class PartedSumRunner:
    """Sums of the magnitudes of a field's values below the first of `cuts`, between each two, and
    from the last one on; an answer has one more axis, a place for each part.
    """

    parameters: SumParameters
    field: FieldPath
    cuts: tuple[float, ...]

    @property
    def meaning(self) -> str:
        p = self.parameters
        cuts = ", ".join(map(str, self.cuts))
        return of_field(
            self.field,
            f"sums parted at {cuts}, epsilon {float(p.epsilon)}, {p.decimals} decimals",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.field)
        parts = np.searchsorted(self.cuts, values, "right")
        events = Parted(starts, times, parts, np.abs(values))
        found, answers = run_parted(self._fed, len(self.cuts) + 1, states, events, *work.queries)
        return Answered(found, {"parted sum": answers})

    def _fed(self, states: Sequence[bytes | None], batch: Batch) -> tuple[list[bytes], Float64s]:
        result = run_batch(self.parameters, states, batch)
        return result.states, figures_of(result)
