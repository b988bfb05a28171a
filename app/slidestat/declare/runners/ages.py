"""The ages of the last events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from slidestat.declare.runners.runner import Answered, CombinableRunner, Float64s, figures_of
from slidestat.declare.runners.work import Work
from slidestat.synopses.waves.wave_batch import run_wave_batch
from slidestat.synopses.waves.wave_parameters import WaveParameters


@dataclass(frozen=True)
class AgeRunner(CombinableRunner):
    """The ages of events, by their `numbers` counted back from the last one, rising; an answer has
    a place for each of them instead of one for each window. Those that are not in the span are NaN.
    """

    parameters: WaveParameters
    numbers: tuple[int, ...]

    @property
    def meaning(self) -> str:
        return f"ages of events, epsilon {float(self.parameters.epsilon)}"

    def combined(self, other: Self) -> Self:
        return replace(self, numbers=tuple(sorted({*self.numbers, *other.numbers})))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_wave_batch(
            "position", self.parameters, states, work.batch.asking_for(self.numbers)
        )
        return Answered(result.states, self.told(figures_of(result)))

    def told(self, ages: Float64s) -> dict[str, Float64s]:
        """Return the answers by their names, from float64[3, Q, numbers], the ages."""
        # What is kept of older events depends on when a key was last forgotten.
        older = (ages[1] > self.parameters.span) | np.isinf(ages[2])
        ages[:, older] = np.nan
        return {"age": ages, "ages of": np.array(self.numbers)}
