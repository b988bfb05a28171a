"""Mean, variance and standard deviation."""

from collections.abc import Sequence
from dataclasses import dataclass

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
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
        result = run_spread_batch(self.parameters, states, work.values_of(self.field))
        return Answered(
            result.states,
            {
                "mean": figures_of(result.mean),
                "variance": figures_of(result.variance),
                "deviation": figures_of(result.deviation),
            },
        )
