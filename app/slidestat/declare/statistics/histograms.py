"""Counts of values in ranges, and of those that reach a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sys import float_info
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slidestat.declare.columns import Column
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import (
    Float64s,
    Promise,
    Series,
    ValueStatistic,
    check_epsilon,
)
from slidestat.errors import SlidestatError
from slidestat.synopses.core.rounding import EXACT

if TYPE_CHECKING:
    from slidestat.declare.runners import Runner
    from slidestat.synopses.value_histogram.value_histogram import ValueHistogramParameters

_MOST_EDGES = 100

EDGES = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, kw_only=True)
class _Counts(ValueStatistic):
    """Counts of values between edges: an exponential histogram each, in one state.

    epsilon: the largest error, as a share of each count, 0.0001 to 1.
    promise: each count is off by at most epsilon of itself.
    """

    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, 0.0001, 1)

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        """Return the column of the field; its numbers are rounded down if an edge is 2^53 or more,
        as whole numbers there may not be doubles.
        """
        rounds_down = any(abs(edge) >= EXACT for edge in self._edges)
        return (Column(self.path(value_field), self.limits, rounds_down),)

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.histograms import HistogramRunner

        return HistogramRunner(self._parameters(span), field)

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=self._parameters(span).relative_error)

    @property
    def _edges(self) -> tuple[float, ...]:
        raise NotImplementedError

    def _parameters(self, span: int) -> ValueHistogramParameters:
        from slidestat.synopses.value_histogram.value_histogram import ValueHistogramParameters

        return ValueHistogramParameters(epsilon=self.epsilon, span=span, edges=self._edges)


@dataclass(frozen=True, kw_only=True)
class Histogram(_Counts):
    """The number of values below the first edge, between each two, and from the last one on.

    edges: 1 to 100 numbers that rise; a value that is an edge lies above it.
    """

    kind: ClassVar[str] = "histogram"
    edges: Sequence[float] = EDGES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", rising(self.kind, "edges", self.edges))

    @property
    def _edges(self) -> tuple[float, ...]:
        return tuple(self.edges)

    def series(self) -> Sequence[Series]:
        return ranges(self.edges)

    def numbers(self, answers: Mapping[str, Float64s], _windows: Float64s) -> Float64s:
        return answers["histogram"]


@dataclass(frozen=True, kw_only=True)
class Above(_Counts):
    """The number of values that reach each threshold.

    thresholds: 1 to 100 numbers that rise; a value that is a threshold reaches it.
    """

    kind: ClassVar[str] = "above"
    thresholds: Sequence[float] = (0.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "thresholds", rising(self.kind, "thresholds", self.thresholds))

    @property
    def _edges(self) -> tuple[float, ...]:
        return tuple(self.thresholds)

    def series(self) -> Sequence[Series]:
        return [Series(at_least=threshold) for threshold in self.thresholds]

    def numbers(self, answers: Mapping[str, Float64s], _windows: Float64s) -> Float64s:
        # Counts of separate ranges add up, and so do their errors.
        from_the_top = np.cumsum(answers["histogram"][..., ::-1], axis=-1)[..., ::-1]
        return from_the_top[..., 1:]


def ranges(edges: Sequence[float]) -> list[Series]:
    """Return the series of the values below the first edge, between each two, and from the last one
    on.
    """
    return [Series(at_least=least, below=below) for least, below in pairwise((None, *edges, None))]


def rising(kind: str, parameter: str, numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the numbers as doubles; raises SlidestatError for none, too many, and unordered
    ones.
    """
    listed = isinstance(numbers, Sequence) and not isinstance(numbers, str)
    if listed and 1 <= len(numbers) <= _MOST_EDGES and all(map(_is_double, numbers)):
        edges = tuple(float(number) for number in numbers)
        if all(a < b for a, b in pairwise(edges)):
            return edges
    raise SlidestatError(
        f"the {parameter} of {kind} are {numbers!r}.",
        f"Give a list of 1 to {_MOST_EDGES} numbers that rise, such as [10, 100].",
    )


def _is_double(number: object) -> bool:
    if not isinstance(number, int | float) or isinstance(number, bool):
        return False
    return -float_info.max <= number <= float_info.max
