"""The least and the largest values."""

from collections.abc import Sequence
from dataclasses import dataclass

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.extremes.extreme import ExtremeParameters, run_extreme_batch


@dataclass(frozen=True)
class ExtremeRunner:
    """The least or the largest of a field."""

    parameters: ExtremeParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        return of_field(
            self.field, f"{self.parameters.side}, epsilon {float(self.parameters.epsilon)}"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_extreme_batch(self.parameters, states, work.values_of(self.field))
        return Answered(result.states, {self.parameters.side: figures_of(result)})
