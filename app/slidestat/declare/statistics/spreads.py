"""Centre and spread of values of any sign: mean, variance, standard deviation, root mean square,
means of the values between edges, and the least and the largest value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from typing import ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import (
    DECIMALS,
    Promise,
    ValueStatistic,
    check_epsilon,
    plain,
)
from slidestat.declare.statistics.histograms import EdgedBy
from slidestat.declare.statistics.parted import PartedRunner, PartRunner
from slidestat.declare.statistics.runner import (
    Answered,
    Bounded,
    PastRunner,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    figures_of,
    of_field,
    require_question,
)
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.rounding import with_rounded

_NAMES = "mean", "variance", "deviation"


@dataclass(frozen=True)
class SpreadRunner(PartRunner, PastRunner):
    """Mean, variance and standard deviation of a field."""

    what: ClassVar[str] = "mean"
    parameters: synopses.SpreadParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        return of_field(
            self.field,
            f"spread, epsilon {float(parameters.epsilon)}, {parameters.decimals} decimals",
        )

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_spreads(*asked)
        return Answered([], _figures(united.mean, united.variance, united.deviation))

    def fed(self, states: Sequence[bytes | None], batch: synopses.Batch) -> Answered:
        result = synopses.run_spread_batch(self.parameters, states, batch)
        figures = _figures(result.mean, result.variance, result.deviation)
        return Answered(result.states, figures | {"events": figures_of(result.events)})

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.past.past import past_spreads, past_totals

        require_question(work)
        asked = work.longer(ago).values_of(self.field)
        fed = self.fed(states, asked)  # which refuses what cannot be asked
        known, events = fed.states, fed.answers["events"]
        windows = work.windows.tolist()
        found = [past_spreads(known[group], time, windows, ago) for group, time in work.asked]
        answers = np.moveaxis(np.array(found).reshape(-1, len(_NAMES), 3, len(windows)), 0, 2)
        past = dict(zip(_NAMES, answers, strict=True))
        return Answered([], past | {"events": past_totals(events)})


def _figures(mean: Bounded, variance: Bounded, deviation: Bounded) -> dict[str, Floats]:
    return dict(zip(_NAMES, map(figures_of, (mean, variance, deviation)), strict=True))


@dataclass(frozen=True, kw_only=True)
class _Spread(ValueStatistic):
    """The four share one synopsis, if their field, epsilon and decimals are the same.

    epsilon: the largest relative error of the variance, 0.001 to 0.5; of means, so many standard
    deviations.
    decimals: the decimal places kept, 0 to 9. A value may be up to 2^40 / 10^decimals, of either
    sign; others make dead letters.
    union: exact moments of whole buckets add up; the error is that of one party.
    """

    has_past: ClassVar[bool] = True
    epsilons: ClassVar[tuple[float, float]] = 0.001, 0.5
    keeps_decimals: ClassVar[bool] = True
    epsilon: float = 0.1
    decimals: int = DECIMALS

    @property
    def limits(self) -> Limits:
        """The limits: a window holds 2^60 units, so a million of the largest values fill it."""
        largest = float(2**40 // 10**self.decimals)
        return Limits(-largest, largest)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return SpreadRunner(self._parameters(span), field)

    def _parameters(self, span: int) -> synopses.SpreadParameters:
        return synopses.SpreadParameters(epsilon=self.epsilon, span=span, decimals=self.decimals)

    @property
    def _rounding(self) -> float:
        """The shift of each value with more than `decimals` places, and so of mean and standard
        deviation: half a unit, and the rounding of the computation.
        """
        return 0.5 * (1 + 2.0**-11) * 10.0**-self.decimals


@dataclass(frozen=True, kw_only=True)
class _Means(_Spread):
    """Means, of all values or of some."""

    def promise(self, span: int) -> Promise:
        error = self._parameters(span).mean_error_in_deviations
        return Promise(
            relative_error=2.0**-50,
            absolute_error=(1 + error) * self._rounding,
            deviation_error=error,
        )


@dataclass(frozen=True, kw_only=True)
class Mean(_Means):
    """The mean.

    promise: off by at most epsilon standard deviations of the window's values, and the rounding of
    a double; of values with more decimal places than are kept, by half a unit of the last one more,
    or a little above that.
    """

    kind: ClassVar[str] = "mean"


@dataclass(frozen=True, kw_only=True)
class RootMeanSquare(_Spread):
    """The root mean square: the root of the mean of the squared values, such as of a vibration.

    epsilon: as of the variance, whose synopsis it shares, 0.001 to 0.4.
    promise: off by at most about 2/3 of epsilon of itself, and never by more than epsilon; of
    values with more decimal places than are kept, by half a unit of the last one more, or a little
    above that.
    """

    # Why: with m the mean, s the deviation, and R^2 = m^2 + s^2, the mean is off by at most d s and
    # the variance by e s^2, so R^2 by at most 2 |m| d s + (d^2 + e) s^2. With |m| = R cos(a),
    # s = R sin(a) and h = (d^2 + e) / 2 that is R^2 (d sin(2a) + h (1 - cos(2a))), whose largest
    # value is R^2 (h + root(d^2 + h^2)). If R^2 is off by a share x, its root is off by at most
    # 1 - root(1 - x). Values that are each shifted by r shift R by at most r, as R is a norm.
    kind: ClassVar[str] = "rms"
    least_figure: ClassVar[float] = 0.0
    # From 0.41 on the error of the mean makes the share larger than epsilon.
    epsilons: ClassVar[tuple[float, float]] = 0.001, 0.4

    def promise(self, span: int) -> Promise:
        parameters = self._parameters(span)
        of_mean = parameters.mean_error_in_deviations
        half = (of_mean * of_mean + parameters.relative_error) / 2
        # Squares, sums and roots of doubles are within the last term.
        error = 1 - sqrt(1 - half - hypot(of_mean, half)) + 2.0**-46
        return Promise(relative_error=error, absolute_error=(1 + error) * self._rounding)

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        mean, variance = answers["mean"], answers["variance"]
        ends = np.abs(mean[1:])
        least = np.where(mean[1] * mean[2] > 0, ends.min(axis=0), ends[0] * 0)
        means = np.stack((mean[0], least, ends.max(axis=0)))
        # Bounds are rounded outwards by more than four roundings of a double.
        outwards = np.array([1, 1 - 2.0**-50, 1 + 2.0**-50])[:, np.newaxis, np.newaxis]
        return plain(np.sqrt(means * means + variance) * outwards)


@dataclass(frozen=True, kw_only=True)
class MeanHistogram(EdgedBy, _Means):
    """The means of the values below the first edge, between each two, and from the last one on; or
    with `by`, those of the events whose other field lies there, such as delays by distance.

    edges: 1 to 100 numbers that rise; a value that is an edge lies above it.
    by: another field. With it, the edges are of that field: any number. An event that lacks one of
    both fields is in no mean.
    promise: each is off by at most epsilon standard deviations of its values, and the rounding of a
    double; of values with more decimal places than are kept, by half a unit of the last one more,
    or a little above that. Bounds lie between the edges of the values: lower is at least the double
    before one.
    """

    kind: ClassVar[str] = "mean_histogram"

    def runner(self, span: int, field: FieldPath) -> Runner:
        return PartedRunner(SpreadRunner(self._parameters(span), field), self._edges, self.by_path)

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        if self.by_path is not None:
            return answers["parted mean"]
        # A decimal that reads as the edge may lie below it, by less than the next double does.
        least = np.nextafter([-np.inf, *self.edges], -np.inf)
        return np.clip(answers["parted mean"], least, [*self.edges, np.inf])


@dataclass(frozen=True, kw_only=True)
class Variance(_Spread):
    """The population variance.

    promise: off by at most epsilon of itself; of values with more decimal places than are kept, by
    about a standard deviation times a unit of the last one more.
    """

    kind: ClassVar[str] = "variance"
    least_figure: ClassVar[float] = 0.0

    def promise(self, span: int) -> Promise:
        # A shift by r of each value changes the variance by at most 2 r deviations and r^2.
        error = self._parameters(span).relative_error
        return Promise(
            relative_error=error,
            absolute_error=(1 + error) * self._rounding**2,
            deviation_error=(1 + error) * 2 * self._rounding,
        )


@dataclass(frozen=True, kw_only=True)
class Deviation(_Spread):
    """The population standard deviation.

    promise: off by at most about half of epsilon of itself; of values with more decimal places than
    are kept, by half a unit of the last one more, or a little above that.
    """

    kind: ClassVar[str] = "deviation"
    least_figure: ClassVar[float] = 0.0

    def promise(self, span: int) -> Promise:
        error = self._parameters(span).relative_error_of_deviation
        return Promise(relative_error=error, absolute_error=(1 + error) * self._rounding)


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

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_extremes(*asked)
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
