"""Count and sum since the first event."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.exponential_histogram.landmark import LandmarkParameters, run_landmark_batch


@dataclass(frozen=True)
class LandmarkRunner:
    """Count and sum of all events of a key, or their count alone; an answer has one window."""

    parameters: LandmarkParameters
    field: FieldPath | None

    @property
    def meaning(self) -> str:
        if self.field is None:
            return "landmark count"
        return of_field(self.field, f"landmark sum, {self.parameters.decimals} decimals")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        if self.field is None:
            batch = work.batch.holding(np.zeros(len(work.times)))
        else:
            batch = work.values_of(self.field)
        result = run_landmark_batch(self.parameters, states, batch)
        answers = {
            "landmark_count": np.stack([result.counts.astype(np.float64)] * 3),
            "landmark_sum": figures_of(result.sums),
        }
        return Answered(
            result.states, {name: answer[..., np.newaxis] for name, answer in answers.items()}
        )
