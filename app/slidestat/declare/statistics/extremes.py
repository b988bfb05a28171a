"""The least and the largest value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Promise, ValueStatistic, check_epsilon, plain
from slidestat.declare.statistics.runner import (
    Answered,
    Runner,
    UnitedRunner,
    Work,
    figures_of,
    of_field,
)
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.rounding import with_rounded


@dataclass(frozen=True)
class ExtremeRunner(UnitedRunner):
    """The least or the largest of a field."""

    parameters: synopses.ExtremeParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        return of_field(
            self.field, f"{self.parameters.side}, epsilon {float(self.parameters.epsilon)}"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = synopses.run_extreme_batch(self.parameters, states, work.values_of(self.field))
        return Answered(result.states, {self.parameters.side: figures_of(result)})

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        united = synopses.union_extremes(bundles, times, windows)
        return Answered([], {self.parameters.side: figures_of(united)})


@dataclass(frozen=True, kw_only=True)
class _Extreme(ValueStatistic):
    """An extreme: exact with an epsilon of 0, otherwise to that relative error, in bounded memory.

    epsilon: the largest error, as a share of the value, 0.0001 to 0.5; or 0, which is exact.
    promise: off by at most epsilon of the exact value.
    union: the extreme of the parties' extremes; the error is that of one party.
    """

    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon != 0:
            check_epsilon(self.kind, self.epsilon, 0.0001, 0.5)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ExtremeRunner(self._parameters(span), field)

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=self._parameters(span).relative_error)

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return plain(with_rounded(answers[self.kind]))

    def _parameters(self, span: int) -> synopses.ExtremeParameters:
        return synopses.ExtremeParameters(side=self.kind, span=span, epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Minimum(_Extreme):
    """The least value."""

    kind: ClassVar[str] = "minimum"


@dataclass(frozen=True, kw_only=True)
class Maximum(_Extreme):
    """The largest value."""

    kind: ClassVar[str] = "maximum"
