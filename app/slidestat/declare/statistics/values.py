"""Sums and extremes of a field's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import (
    DECIMALS,
    Float64s,
    Promise,
    ValueStatistic,
    check_decimals,
    check_epsilon,
    plain,
)
from slidestat.synopses.core.parameters import SumParameters
from slidestat.synopses.core.rounding import with_rounded

if TYPE_CHECKING:
    from slidestat.declare.runners import Runner
    from slidestat.synopses.extremes.extreme import ExtremeParameters


@dataclass(frozen=True, kw_only=True)
class Sum(ValueStatistic):
    """The sum of non-negative values: an exponential histogram of their units.

    epsilon: the largest error, as a share of the sum, 0.0001 to 1.
    decimals: the decimal places kept, 0 to 9. A value may be from 0 to 2^44 / 10^decimals; others
    make dead letters.
    promise: off by at most epsilon of the exact sum; of values with more decimal places than are
    kept, by 10^-decimals more in all.
    """

    kind: ClassVar[str] = "sum"
    epsilon: float = 0.01
    decimals: int = DECIMALS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, 0.0001, 1)
        check_decimals(self.kind, self.decimals)

    @property
    def limits(self) -> Limits:
        """The limits: a window holds 2^62 units, so a quarter of a million of the largest values
        fill it.
        """
        return Limits(0.0, float(2**44 // 10**self.decimals))

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.sums import SumRunner

        return SumRunner(self._parameters(span), field)

    def promise(self, span: int) -> Promise:
        """Return the promise: the absolute error is what values of more than `decimals` places may
        add.
        """
        return Promise(
            relative_error=self._parameters(span).relative_error,
            absolute_error=float(10**-self.decimals),
        )

    def numbers(self, answers: Mapping[str, Float64s], _windows: Float64s) -> Float64s:
        return plain(answers[self.kind])

    def _parameters(self, span: int) -> SumParameters:
        return SumParameters(epsilon=self.epsilon, span=span, decimals=self.decimals)


@dataclass(frozen=True, kw_only=True)
class _Extreme(ValueStatistic):
    """An extreme: exact with an epsilon of 0, otherwise to that relative error, in bounded memory.

    epsilon: the largest error, as a share of the value, 0.0001 to 0.5; or 0, which is exact.
    promise: off by at most epsilon of the exact value.
    """

    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon != 0:
            check_epsilon(self.kind, self.epsilon, 0.0001, 0.5)

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.extremes import ExtremeRunner

        return ExtremeRunner(self._parameters(span), field)

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=self._parameters(span).relative_error)

    def numbers(self, answers: Mapping[str, Float64s], _windows: Float64s) -> Float64s:
        return plain(with_rounded(answers[self.kind]))

    def _parameters(self, span: int) -> ExtremeParameters:
        from slidestat.synopses.extremes.extreme import ExtremeParameters

        return ExtremeParameters(side=self.kind, span=span, epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Minimum(_Extreme):
    """The least value."""

    kind: ClassVar[str] = "minimum"


@dataclass(frozen=True, kw_only=True)
class Maximum(_Extreme):
    """The largest value."""

    kind: ClassVar[str] = "maximum"
