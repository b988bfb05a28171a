"""Quantiles, by rank and by value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, CombinableRunner, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.blocks.parameters import QuantileParameters
from slidestat.synopses.quantiles.quantile_batch import run_quantile_batch
from slidestat.synopses.value_quantiles.batch import run_value_quantile_batch
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters


@dataclass(frozen=True)
class QuantileRunner(CombinableRunner):
    """Quantiles of a field, by rank; an answer has one more axis, a place for each quantile."""

    parameters: QuantileParameters
    field: FieldPath
    quantiles: tuple[float, ...]

    @property
    def meaning(self) -> str:
        return of_field(self.field, f"quantiles, epsilon {float(self.parameters.epsilon)}")

    def combined(self, other: Self) -> Self:
        return replace(self, quantiles=tuple(sorted({*self.quantiles, *other.quantiles})))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_quantile_batch(
            self.parameters, states, work.values_of(self.field), self.quantiles
        )
        # Which is which: statistics that share a state may ask for others.
        asked = np.array(self.quantiles, np.float64)
        return Answered(result.states, {"quantile": figures_of(result), "quantiles": asked})


@dataclass(frozen=True)
class ValueQuantileRunner(CombinableRunner):
    """Quantiles of a field, by value; an answer is one as of a `QuantileRunner`. That of `ranked`
    values, "rank", is float64[4, 3, Q, W, values], as `run_value_quantile_batch` has it.
    """

    parameters: ValueQuantileParameters
    field: FieldPath
    quantiles: tuple[float, ...] = ()
    ranked: tuple[float, ...] = ()

    @property
    def meaning(self) -> str:
        p = self.parameters
        errors = f"relative error {float(p.relative_error)}, epsilon {float(p.epsilon)}"
        return of_field(self.field, f"quantiles by value, {errors}")

    def combined(self, other: Self) -> Self:
        return replace(self, quantiles=tuple(sorted({*self.quantiles, *other.quantiles})))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_value_quantile_batch(
            self.parameters,
            states,
            work.values_of(self.field),
            self.quantiles,
            self.ranked,
        )
        asked = np.array(self.quantiles, np.float64)
        answers = {"quantile": figures_of(result), "quantiles": asked, "rank": result.ranks}
        return Answered(result.states, answers)
