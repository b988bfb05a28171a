"""Totals since a key's first event, exactly, in addition to those over windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import (
    DECIMALS,
    Promise,
    Statistic,
    ValueStatistic,
    check_decimals,
    plain,
)
from slidestat.declare.statistics.runner import Answered, Runner, Work, figures_of, of_field
from slidestat.synopses.core.arrays import Floats

if TYPE_CHECKING:
    from slidestat.synopses.exponential_histogram.landmark import LandmarkParameters


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
        from slidestat.synopses.exponential_histogram.landmark import run_landmark_batch

        result = run_landmark_batch(self.parameters, states, batch)
        answers = {
            "landmark_count": np.stack([result.counts.astype(np.float64)] * 3),
            "landmark_sum": figures_of(result.sums),
        }
        return Answered(
            result.states, {name: answer[..., np.newaxis] for name, answer in answers.items()}
        )


@dataclass(frozen=True, kw_only=True)
class LandmarkCount(Statistic):
    """The number of events since the key's first one.

    promise: exact.
    """

    kind: ClassVar[str] = "landmark_count"
    least_figure: ClassVar[float] = 0.0
    is_landmark: ClassVar[bool] = True
    has_windows: ClassVar[bool] = False
    can_be_united: ClassVar[bool] = False

    def runner(self, _span: int, _field: FieldPath) -> Runner:
        return LandmarkRunner(_parameters(0), None)

    def promise(self, _span: int) -> Promise:
        return Promise()

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return plain(answers[self.kind])


@dataclass(frozen=True, kw_only=True)
class LandmarkSum(ValueStatistic):
    """The sum of non-negative values since the key's first event.

    decimals: the decimal places kept, 0 to 9. A value may be from 0 to 2^44 / 10^decimals; others
    make dead letters.
    promise: exact but for the rounding of a double, while values have no more decimal places than
    are kept; those that have more add at most 10^-decimals in all, and a millionth of it.
    """

    kind: ClassVar[str] = "landmark_sum"
    least_figure: ClassVar[float] = 0.0
    is_landmark: ClassVar[bool] = True
    has_windows: ClassVar[bool] = False
    can_be_united: ClassVar[bool] = False
    decimals: int = DECIMALS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_decimals(self.kind, self.decimals)

    @property
    def limits(self) -> Limits:
        """The limits of a sum over windows."""
        return Limits(0.0, float(2**44 // 10**self.decimals))

    def runner(self, _span: int, field: FieldPath) -> Runner:
        return LandmarkRunner(_parameters(self.decimals), field)

    def promise(self, _span: int) -> Promise:
        """Return the promise: the absolute error is what values of more than `decimals` places may
        add.
        """
        return Promise(
            relative_error=2.0**-47, absolute_error=(1 + 2.0**-19) * 10.0**-self.decimals
        )

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return plain(answers[self.kind])


def _parameters(decimals: int) -> LandmarkParameters:
    from slidestat.synopses.exponential_histogram.landmark import LandmarkParameters

    return LandmarkParameters(decimals=decimals)
