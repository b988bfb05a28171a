"""Mean, variance and standard deviation, and means of parts of the values."""

from collections.abc import Sequence
from dataclasses import dataclass

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.moments.spread import SpreadParameters, run_spread_batch


@dataclass(frozen=True)
class SpreadRunner:
    """Mean, variance and standard deviation of a field."""

    parameters: SpreadParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        return of_field(
            self.field,
            f"spread, epsilon {float(parameters.epsilon)}, {parameters.decimals} decimals",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        return self.fed(states, work.values_of(self.field))

    def fed(self, states: Sequence[bytes | None], batch: Batch) -> Answered:
        """Do the same with the events that have the field, and its values."""
        result = run_spread_batch(self.parameters, states, batch)
        return Answered(
            result.states,
            {
                "mean": figures_of(result.mean),
                "variance": figures_of(result.variance),
                "deviation": figures_of(result.deviation),
            },
        )
