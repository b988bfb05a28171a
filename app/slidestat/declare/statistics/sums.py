"""Sums: of values that are not negative, of values of both signs, and of those between edges; and
totals since a key's first event, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import DECIMALS, Promise, Statistic, ValueStatistic, plain
from slidestat.declare.statistics.histograms import EdgedBy
from slidestat.declare.statistics.parted import PartedRunner, PartRunner
from slidestat.declare.statistics.runner import (
    AdditiveRunner,
    Answered,
    Runner,
    Unions,
    Work,
    figures_of,
    of_field,
)
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.rounding import EXACT, rounded_sum, with_rounded

_ZERO = 0.0


def _in_texts(figures: Floats, decimals: int) -> Floats:
    """Return float64[3, ...] with bounds that hold also for the texts by which figures are written.

    Up to 2^53 units, decimals are as far apart as doubles, and none lies between a bound and its
    shortest text. From there on such a text may be nearer than what it bounds.
    """
    return with_rounded(figures, EXACT / 10**decimals)


@dataclass(frozen=True)
class SumRunner(PartRunner, AdditiveRunner):
    """The sum of a field."""

    what: ClassVar[str] = "sum"
    of_magnitudes: ClassVar[bool] = True
    parameters: synopses.SumParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        return of_field(
            self.field, f"sum, epsilon {float(parameters.epsilon)}, {parameters.decimals} decimals"
        )

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_totals(*asked)
        return Answered([], {"sum": figures_of(united)})

    def fed(self, states: Sequence[bytes | None], batch: synopses.Batch) -> Answered:
        result = synopses.run_batch(self.parameters, states, batch)
        return Answered(result.states, {"sum": figures_of(result)})


@dataclass(frozen=True, kw_only=True)
class _Sums(ValueStatistic):
    """Sums of values: exponential histograms of their units."""

    has_past: ClassVar[bool] = True
    epsilons: ClassVar[tuple[float, float]] = 0.0001, 1
    keeps_decimals: ClassVar[bool] = True
    epsilon: float = 0.01
    decimals: int = DECIMALS

    def _parameters(self, span: int) -> synopses.SumParameters:
        return synopses.SumParameters(epsilon=self.epsilon, span=span, decimals=self.decimals)


@dataclass(frozen=True, kw_only=True)
class Sum(_Sums):
    """The sum of non-negative values: an exponential histogram of their units.

    epsilon: the largest error, as a share of the sum, 0.0001 to 1.
    decimals: the decimal places kept, 0 to 9. A value may be from 0 to 2^44 / 10^decimals; others
    make dead letters.
    promise: off by at most epsilon of the exact sum; of values with more decimal places than are
    kept, by 10^-decimals more in all.
    union: answers and bounds add up; off by at most the relative error of one party, and the
    rounding of its decimals once for each party.
    """

    kind: ClassVar[str] = "sum"
    least_figure: ClassVar[float] = 0.0

    @property
    def limits(self) -> Limits:
        """The limits: a window holds 2^62 units, a quarter of a million of the largest values."""
        return Limits(0.0, float(2**44 // 10**self.decimals))

    def runner(self, span: int, field: FieldPath) -> Runner:
        return SumRunner(self._parameters(span), field)

    def promise(self, span: int) -> Promise:
        """Return the promise: values of more than `decimals` places may add its absolute error."""
        return Promise(
            relative_error=self._parameters(span).relative_error,
            absolute_error=float(10**-self.decimals),
        )

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return plain(_in_texts(answers[self.kind], self.decimals))


@dataclass(frozen=True, kw_only=True)
class _SignedSums(_Sums):
    """Sums of parts of the values, below and above zero: an exponential histogram each.

    epsilon: the largest error, as a share of the sum of the magnitudes, 0.0001 to 1.
    decimals: the decimal places kept, 0 to 9. A value may be up to 2^44 / 10^decimals, of either
    sign; others make dead letters.
    union: answers and bounds of each part of the values add up; off by at most the share of the
    magnitudes of one party, and what rounding adds, once for each party.
    """

    @property
    def limits(self) -> Limits:
        """The limits of a sum of values of one sign, in both directions."""
        largest = float(2**44 // 10**self.decimals)
        return Limits(-largest, largest)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return PartedRunner(SumRunner(self._parameters(span), field), self._cuts, self._by)

    def promise(self, span: int) -> Promise:
        """Return the promise: the absolute error is what values of more than `decimals` places may
        add, both below zero and above; that of magnitudes includes the rounding when the two sums
        are added.
        """
        return Promise(
            magnitude_error=self._parameters(span).relative_error + 2.0**-46,
            absolute_error=2 * (1 + 2.0**-19) * 10.0**-self.decimals,
        )

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        figures = answers["parted sum"]
        places = range(len(self._edges) + 1)
        if self._by is None:
            starts = np.array([-np.inf, *self._cuts])
            signs = np.where(starts < _ZERO, -1.0, 1.0)
            bins = np.searchsorted(self._edges, starts, "right")
        else:
            signs, bins = np.tile([-1.0, 1.0], len(places)), np.repeat(places, 2)
        sums = [_added(figures[..., bins == place], signs[bins == place]) for place in places]
        return _in_texts(np.stack(sums, axis=-1), self.decimals)

    @property
    def _edges(self) -> tuple[float, ...]:
        """The edges between which each figure's values lie, or what `_by` has of their events."""
        return ()

    @property
    def _by(self) -> FieldPath | None:
        return None

    @property
    def _cuts(self) -> tuple[float, ...]:
        """The edges, and zero if they are of the values: parts have values of one sign."""
        return self._edges if self._by is not None else tuple(sorted({_ZERO, *self._edges}))


@dataclass(frozen=True, kw_only=True)
class NetSum(_SignedSums):
    """The sum of values of both signs: what came in less what went out.

    promise: off by at most epsilon of the sum of the magnitudes of the window's values, so of
    values of one sign by at most epsilon of the sum; of values with more decimal places than are
    kept, by two units of the last one more in all, or a little above that.
    """

    kind: ClassVar[str] = "net_sum"


@dataclass(frozen=True, kw_only=True)
class SumHistogram(EdgedBy, _SignedSums):
    """The sums of the values below the first edge, between each two, and from the last one on; or
    with `by`, those of the events whose other field lies there, such as euros by distance.

    edges: 1 to 100 numbers that rise; a value that is an edge lies above it.
    by: another field. With it, the edges are of that field: any number. An event that lacks one of
    both fields is in no sum.
    promise: each is off by at most epsilon of the sum of its values' magnitudes, which is epsilon
    of itself where they are of one sign; of values with more decimal places than are kept, by two
    units of the last one more in all, or a little above that.
    """

    kind: ClassVar[str] = "sum_histogram"

    @property
    def _by(self) -> FieldPath | None:
        return self.by_path


def _added(answers: Floats, signs: Floats) -> Floats:
    """Return float64[3, Q, W], the sums of float64[3, Q, W, parts], each part with its sign.

    Bounds are rounded outwards where a double cannot hold them.
    """
    total = np.zeros(answers.shape[:3])
    for part, sign in enumerate(signs.tolist()):
        figures = answers[..., part] if sign > 0 else -answers[[0, 2, 1], ..., part]
        total[0] += figures[0]
        total[1] = rounded_sum(total[1], figures[1], -np.inf)
        total[2] = rounded_sum(total[2], figures[2], np.inf)
    total[0] = np.clip(total[0], total[1], total[2])
    return total


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
    keeps_decimals: ClassVar[bool] = True
    decimals: int = DECIMALS

    @property
    def limits(self) -> Limits:
        """The limits of a sum over windows."""
        return Limits(0.0, float(2**44 // 10**self.decimals))

    def runner(self, _span: int, field: FieldPath) -> Runner:
        return LandmarkRunner(_parameters(self.decimals), field)

    def promise(self, _span: int) -> Promise:
        """Return the promise: values of more than `decimals` places may add its absolute error."""
        return Promise(
            relative_error=2.0**-47, absolute_error=(1 + 2.0**-19) * 10.0**-self.decimals
        )

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return plain(_in_texts(answers[self.kind], self.decimals))


def _parameters(decimals: int) -> LandmarkParameters:
    from slidestat.synopses.exponential_histogram.landmark import LandmarkParameters

    return LandmarkParameters(decimals=decimals)
