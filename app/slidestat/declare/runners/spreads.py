"""Mean, variance and standard deviation, and means of parts of the values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.parted import Parted, run_parted
from slidestat.declare.runners.runner import Answered, Float64s, figures_of, of_field
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
        result = run_spread_batch(self.parameters, states, work.values_of(self.field))
        return Answered(
            result.states,
            {
                "mean": figures_of(result.mean),
                "variance": figures_of(result.variance),
                "deviation": figures_of(result.deviation),
            },
        )


@dataclass(frozen=True)
class PartedMeanRunner:
    """Means of a field's values below the first of `edges`, between each two, and from the last one
    on; an answer has one more axis, a place for each part.
    """

    parameters: SpreadParameters
    field: FieldPath
    edges: tuple[float, ...]

    @property
    def meaning(self) -> str:
        p = self.parameters
        edges = ", ".join(map(str, self.edges))
        return of_field(
            self.field,
            f"means parted at {edges}, epsilon {float(p.epsilon)}, {p.decimals} decimals",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.field)
        events = Parted(starts, times, np.searchsorted(self.edges, values, "right"), values)
        found, answers = run_parted(self._fed, len(self.edges) + 1, states, events, *work.queries)
        return Answered(found, {"parted mean": answers})

    def _fed(self, states: Sequence[bytes | None], batch: Batch) -> tuple[list[bytes], Float64s]:
        result = run_spread_batch(self.parameters, states, batch)
        return result.states, figures_of(result.mean)
