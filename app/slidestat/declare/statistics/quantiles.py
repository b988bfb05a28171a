"""Quantiles of a field's numbers: by value, and by rank."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Promise, Series, ValueStatistic, check_epsilon
from slidestat.declare.statistics.runner import (
    Answered,
    CombinableRunner,
    PastRunner,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    figures_of,
    of_field,
    require_question,
)
from slidestat.declare.values import is_list, is_number
from slidestat.errors import SlidestatError
from slidestat.options import QUANTILES
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.rounding import with_rounded

_LARGEST = 1e15
_LEAST = 2.0**-30
_DECIMALS = 6


@dataclass(frozen=True, kw_only=True)
class QuantileStatistic(ValueStatistic):
    """The part that all quantiles share: which ones are asked for.

    quantiles: which ones, numbers from 0 to 1 of at most six decimals; the median is 0.5.
    """

    quantiles: Sequence[float] = QUANTILES

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = is_list(self.quantiles)
        if not listed or not self.quantiles or not all(map(_is_share, self.quantiles)):
            guess = _guess(self.quantiles) if listed else ""
            raise SlidestatError(
                f"the quantiles are {_listed(self.quantiles)}.",
                f"{guess}Give a list of numbers from 0 to 1, such as [0.5, 0.99]; the median is"
                " 0.5.",
            )
        # No figure is of the quantile -0.0.
        object.__setattr__(self, "quantiles", tuple(abs(float(p)) for p in self.quantiles))
        for quantile in self.quantiles:
            if round(quantile, _DECIMALS) != quantile:
                raise SlidestatError(
                    f"the quantile {quantile!r} has more than six decimals.",
                    f"Give {round(quantile, _DECIMALS)!r}.",
                )
        if len(set(self.quantiles)) != len(self.quantiles):
            raise SlidestatError(
                f"the quantiles are {_listed(self.quantiles)}.", "Give each of them once."
            )

    @abstractmethod
    def series(self) -> Sequence[Series]:
        """Return a series for each of `quantiles`."""

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        places = np.searchsorted(answers["quantiles"], self.quantiles)
        return with_rounded(answers["quantile"][..., places])


@dataclass(frozen=True)
class ValueQuantileRunner(CombinableRunner, UnitedRunner, PastRunner):
    """Quantiles of a field, by value; an answer is one as of a `QuantileRunner`. The answer of
    `ranked` values, "rank", is float64[4, 3, Q, W, values], as `synopses.run_value_quantile_batch`
    has it.
    """

    parameters: synopses.ValueQuantileParameters
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
        result = synopses.run_value_quantile_batch(
            self.parameters, states, work.values_of(self.field), self.quantiles, self.ranked
        )
        asked = np.array(self.quantiles, np.float64)
        answers = {"quantile": figures_of(result), "quantiles": asked, "rank": result.ranks}
        return Answered(result.states, answers)

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.past.past import past_value_quantiles

        require_question(work)
        known = self.run(states, work.longer(ago)).states  # which refuses what cannot be asked
        windows, parts = work.windows.tolist(), self.quantiles
        found = [
            past_value_quantiles(self.parameters, known[group], time, windows, ago, parts)
            for group, time in work.asked
        ]
        figures = np.moveaxis(np.array(found).reshape(-1, 3, len(windows), len(parts)), 0, 1)
        asked = np.array(self.quantiles, np.float64)
        return Answered([], {"quantile": figures, "quantiles": asked})

    def union(self, asked: Unions) -> Answered:
        if self.ranked:
            ranks = synopses.union_value_ranks(*asked, self.ranked)
            return Answered([], {"rank": ranks})
        united = synopses.union_value_quantiles(*asked, self.quantiles)
        parts = np.array(self.quantiles, np.float64)
        return Answered([], {"quantile": figures_of(united), "quantiles": parts})


@dataclass(frozen=True, kw_only=True)
class Quantiles(QuantileStatistic):
    """The values below which shares of the window's events lie, such as the p99.

    And the other way round: running workers tell how many events are at most as large as any value,
    and how many are more, in number and share (`slidestat query --rank 250`, `rank=250` over HTTP).
    Bounds always hold; the smaller of the two is within epsilon of itself, of a value that is off
    by at most twice relative_error, or a little above that.

    relative_error: how far a value may be off, as a share of it, 0.001 to 0.5.
    epsilon: how far the number of events beyond a value may be off, as a share of that number,
    0.001 to 0.5. A value may be up to 10^15, of either sign; others make dead letters. What is
    nearer to zero than 10^-9 may be taken for zero.
    promise: an estimate of p is within relative_error of a q-quantile, q within epsilon of p, or of
    1 - p if that is less: of p99 with 0.1, from p98.9 to p99.1; lower and upper are values between
    which the p-quantile lies.
    union: bounds on the counts of bins add up; both errors are those of one party.
    """

    kind: ClassVar[str] = "quantile"
    has_past: ClassVar[bool] = True
    relative_error: float = 0.01
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.relative_error, 0.001, 0.5, "relative_error")
        check_epsilon(self.kind, self.epsilon, 0.001, 0.5)

    @property
    def limits(self) -> Limits:
        """The limits: magnitudes that have a bin."""
        return Limits(-_LARGEST, _LARGEST)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ValueQuantileRunner(self.parameters(span), field, tuple(sorted(self.quantiles)))

    def promise(self, span: int) -> Promise:
        """Return the promise: its share is that of the median, the largest that there can be."""
        return Promise(
            relative_error=self.parameters(span).value_error,
            absolute_error=_LEAST,
            share_error=self.epsilon / 2,
        )

    def series(self) -> Sequence[Series]:
        return [Series(quantile=p, share_error=self._share_error(p)) for p in self.quantiles]

    def _share_error(self, p: float) -> float:
        exact = Fraction(repr(p))
        return float(Fraction(repr(float(self.epsilon))) * min(exact, 1 - exact))

    def parameters(self, span: int) -> synopses.ValueQuantileParameters:
        """Return the synopsis' parameters for windows of up to `span`."""
        return synopses.ValueQuantileParameters(self.relative_error, self.epsilon, span)


@dataclass(frozen=True)
class QuantileRunner(CombinableRunner, UnitedRunner):
    """Quantiles of a field, by rank; an answer has one more axis, a place for each quantile."""

    parameters: synopses.QuantileParameters
    field: FieldPath
    quantiles: tuple[float, ...]

    @property
    def meaning(self) -> str:
        return of_field(self.field, f"quantiles, epsilon {float(self.parameters.epsilon)}")

    def combined(self, other: Self) -> Self:
        return replace(self, quantiles=tuple(sorted({*self.quantiles, *other.quantiles})))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = synopses.run_quantile_batch(
            self.parameters, states, work.values_of(self.field), self.quantiles
        )
        # The quantiles of each row: statistics that share a state may ask for others.
        asked = np.array(self.quantiles, np.float64)
        return Answered(result.states, {"quantile": figures_of(result), "quantiles": asked})

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_quantiles(*asked, self.quantiles)
        parts = np.array(self.quantiles, np.float64)
        return Answered([], {"quantile": figures_of(united), "quantiles": parts})


@dataclass(frozen=True, kw_only=True)
class RankQuantiles(QuantileStatistic):
    """The values of rank ceil(p m) of the window's m, for each p of `quantiles`, whatever they are.

    epsilon: the largest error of the rank, as a share of the window's events, 0.001 to 0.5.
    promise: the rank of an estimate is off by at most epsilon m; lower and upper are values between
    which the quantile lies.
    union: ranks add up; off by at most epsilon of the events of all parties.
    """

    kind: ClassVar[str] = "rank_quantile"
    epsilons: ClassVar[tuple[float, float]] = 0.001, 0.5
    epsilon: float = 0.01

    def runner(self, span: int, field: FieldPath) -> Runner:
        return QuantileRunner(self._parameters(span), field, tuple(sorted(self.quantiles)))

    def one_window_runner(self, span: int, field: FieldPath) -> Runner:
        parameters = synopses.FixedQuantileParameters(self.epsilon, span)
        return QuantileRunner(parameters, field, tuple(sorted(self.quantiles)))

    def promise(self, span: int) -> Promise:
        return Promise(share_error=self._parameters(span).rank_error)

    def series(self) -> Sequence[Series]:
        return [Series(quantile=p) for p in self.quantiles]

    def _parameters(self, span: int) -> synopses.QuantileParameters:
        return synopses.QuantileParameters(epsilon=self.epsilon, span=span)


def _listed(quantiles: object) -> str:
    """Return the quantiles as a person would write them."""
    if isinstance(quantiles, tuple | list) and quantiles:
        return ", ".join(map(repr, quantiles))
    return repr(quantiles)


def _is_share(number: object) -> bool:
    return is_number(number) and 0 <= number <= 1


def _guess(quantiles: Sequence[object]) -> str:
    """Return the probable meaning, such as 0.99 of 99, or ""."""
    for p in quantiles:
        if isinstance(p, int | float) and 1 < p <= 100:
            return f"Did you mean {p / 100:.6g}? "
    return ""
