"""Numbers of events, in a window and a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Promise, Statistic, plain
from slidestat.declare.statistics.runner import (
    AdditiveRunner,
    Answered,
    Runner,
    UnitedRunner,
    Work,
    figures_of,
)
from slidestat.synopses.core.arrays import Floats, Integers


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

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        united = synopses.union_totals(bundles, times, windows)
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

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return plain(answers["count"])


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
