"""Counts and sums, also of parts of the values: exponential histograms."""

from collections.abc import Sequence
from dataclasses import dataclass

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.parameters import CountParameters, SumParameters
from slidestat.synopses.exponential_histogram.batch import run_batch


@dataclass(frozen=True)
class CountRunner:
    """The number of events."""

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
        return self.fed(states, work.values_of(self.field))

    def fed(self, states: Sequence[bytes | None], batch: Batch) -> Answered:
        """Do the same with the events that have the field, and its values."""
        result = run_batch(self.parameters, states, batch)
        return Answered(result.states, {"sum": figures_of(result)})
