"""Numbers of events, in a window and a second, and the age of the last event, or the nth last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Promise, Statistic, plain
from slidestat.declare.statistics.runner import (
    AdditiveRunner,
    Answered,
    CombinableRunner,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    figures_of,
)
from slidestat.declare.values import check_whole
from slidestat.synopses.core.arrays import Floats


@dataclass(frozen=True)
class CountRunner(UnitedRunner, AdditiveRunner):
    """The number of events."""

    parameters: synopses.CountParameters

    @property
    def meaning(self) -> str:
        return f"count, epsilon {float(self.parameters.epsilon)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = synopses.run_batch(self.parameters, states, work.batch)
        return Answered(result.states, {"count": figures_of(result)})

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_totals(*asked)
        return Answered([], {"count": figures_of(united)})


@dataclass(frozen=True, kw_only=True)
class Count(Statistic):
    """The number of events: an exponential histogram.

    epsilon: the largest error, as a share of the count, 0.0001 to 1.
    promise: off by at most epsilon of the exact count; exact while it is small.
    union: answers and bounds add up; off by at most the relative error of one party.
    """

    kind: ClassVar[str] = "count"
    least_figure: ClassVar[float] = 0.0
    has_past: ClassVar[bool] = True
    epsilons: ClassVar[tuple[float, float]] = 0.0001, 1
    epsilon: float = 0.01

    def runner(self, span: int, _field: FieldPath) -> Runner:
        return CountRunner(synopses.CountParameters(epsilon=self.epsilon, span=span))

    def promise(self, span: int) -> Promise:
        error = synopses.CountParameters(epsilon=self.epsilon, span=span).relative_error
        return Promise(relative_error=error)


@dataclass(frozen=True, kw_only=True)
class Rate(Count):
    """Events a second: a window's count by its length. It shares the state of an equal Count.

    epsilon: the largest error, as a share of the rate, 0.0001 to 1.
    promise: off by at most epsilon of the exact rate, and what two roundings of a double add.
    """

    kind: ClassVar[str] = "rate"
    needs_time: ClassVar[bool] = True

    def promise(self, span: int) -> Promise:
        # Product and quotient round once each.
        return Promise(relative_error=super().promise(span).relative_error + 2.0**-51)

    def numbers(self, answers: Mapping[str, Floats], windows: Floats) -> Floats:
        rates = answers["count"] * 1_000 / windows
        # Bounds are rounded outwards; what is exact zero stays so.
        rates[1] = np.where(rates[1] > 0, np.nextafter(rates[1], 0), 0)
        rates[2] = np.where(rates[2] > 0, np.nextafter(rates[2], np.inf), 0)
        return plain(rates)


_LARGEST_NUMBER = 10**12


@dataclass(frozen=True)
class AgeRunner(CombinableRunner, UnitedRunner):
    """The ages of events, by their `numbers` counted back from the last one, rising; an answer has
    a place for each of them instead of one for each window. Numbers that are not in the span are
    NaN.
    """

    parameters: synopses.WaveParameters
    numbers: tuple[int, ...]

    @property
    def meaning(self) -> str:
        return f"ages of events, epsilon {float(self.parameters.epsilon)}"

    def combined(self, other: Self) -> Self:
        return replace(self, numbers=tuple(sorted({*self.numbers, *other.numbers})))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = synopses.run_wave_batch(
            "position", self.parameters, states, work.batch.asking_for(self.numbers)
        )
        return Answered(result.states, self._as_answers(figures_of(result)))

    def union(self, asked: Unions) -> Answered:
        ages = synopses.union_ages(asked.bundles, asked.times, self.numbers)
        return Answered([], self._as_answers(figures_of(ages)))

    def _as_answers(self, ages: Floats) -> dict[str, Floats]:
        """Return the answers by their names, from float64[3, Q, numbers], the ages."""
        # The number of older events that are kept depends on when the key was last forgotten.
        older = (ages[1] > self.parameters.span) | np.isinf(ages[2])
        ages[:, older] = np.nan
        return {"age": ages, "ages of": np.array(self.numbers)}


@dataclass(frozen=True, kw_only=True)
class AgeOfLast(Statistic):
    """The milliseconds from the nth last event to the windows' end: a wave over positions.

    Where windows are of events it counts them: the place of the nth last one that is taken in,
    counted back from the key's newest event, which is at 1; of a sequence, in its numbers.

    It has one figure, whatever the windows, and none (null) if the span has not so many events. One
    that is a little older than the span may still be given. Those with one epsilon share a state.

    number: which one, 1 to 1,000,000,000,000; 1 is the last event, 100 the 100th last.
    epsilon: the largest error, as a share of the age, 0.0001 to 1.
    promise: off by at most epsilon of the exact age; that of the last event is exact.
    union: the nth smallest age of all parties, where windows are of time; off by at most the
    relative error of one party.
    """

    kind: ClassVar[str] = "age_of_last"
    least_figure: ClassVar[float] = 0.0
    has_windows: ClassVar[bool] = False
    epsilons: ClassVar[tuple[float, float]] = 0.0001, 1
    number: int = 1
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.kind, "number", self.number, 1, _LARGEST_NUMBER)

    def label(self, _value_field: FieldPath) -> str:
        return self.name or (self.kind if self.number == 1 else f"{self.kind}_{self.number}")

    def runner(self, span: int, _field: FieldPath) -> Runner:
        return AgeRunner(self._parameters(span), (self.number,))

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=self._parameters(span).relative_error)

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        place = np.searchsorted(answers["ages of"], self.number)
        return answers["age"][..., place : place + 1, np.newaxis]

    def _parameters(self, span: int) -> synopses.WaveParameters:
        return synopses.WaveParameters(epsilon=self.epsilon, span=span)
