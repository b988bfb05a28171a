"""Counts of values in ranges, of those that reach a threshold, and of items named beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sys import float_info
from typing import ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import MAX_ITEM_LENGTH, Column, Limits
from slidestat.declare.fields import Field, FieldPath
from slidestat.declare.statistics.base import DividedStatistic, Promise, Series, ValueStatistic
from slidestat.declare.statistics.runner import (
    AdditiveRunner,
    Answered,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    figures_of,
    of_field,
)
from slidestat.declare.values import is_list, is_number
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.rounding import EXACT

_MOST_EDGES = 100
_MOST_ITEMS = 100
EDGES = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class HistogramRunner(UnitedRunner, AdditiveRunner):
    """Counts between edges; an answer has one more axis, a place for each range."""

    parameters: synopses.ValueHistogramParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        edges = ", ".join(map(str, parameters.edges))
        return of_field(
            self.field, f"histogram, epsilon {float(parameters.epsilon)}, edges {edges}"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = synopses.run_value_histogram_batch(
            self.parameters, states, work.values_of(self.field)
        )
        return Answered(result.states, {"histogram": figures_of(result)})

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_value_histograms(*asked)
        return Answered([], {"histogram": figures_of(united)})


@dataclass(frozen=True, kw_only=True)
class Edged(ValueStatistic):
    """A statistic of the values below the first of its `edges`, between each two, and from the last
    one on.
    """

    edges: Sequence[float] = EDGES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", _rising(self.kind, "edges", self.edges))

    @property
    def _edges(self) -> tuple[float, ...]:
        return tuple(self.edges)

    def series(self) -> Sequence[Series]:
        ends = pairwise((None, *self.edges, None))
        return [Series(at_least=least, below=below) for least, below in ends]


@dataclass(frozen=True, kw_only=True)
class EdgedBy(DividedStatistic, Edged):
    """A statistic of values in ranges: of their own, or of what another field has, `by`."""

    by: Field = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.by_path

    def by_column(self, path: FieldPath) -> Column:
        return _column(path, Limits(), self._edges)


@dataclass(frozen=True, kw_only=True)
class _Counts(ValueStatistic):
    """Counts of values between edges: an exponential histogram each, in one state.

    epsilon: the largest error, as a share of each count, 0.0001 to 1.
    promise: each count is off by at most epsilon of itself.
    union: answers and bounds add up; off by at most the relative error of one party.
    """

    has_past: ClassVar[bool] = True
    epsilons: ClassVar[tuple[float, float]] = 0.0001, 1
    epsilon: float = 0.01

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        return (_column(self.path(value_field), self.limits, self._edges),)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return HistogramRunner(self._parameters(span), field)

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=self._parameters(span).relative_error)

    @property
    def _edges(self) -> tuple[float, ...]:
        raise NotImplementedError

    def _parameters(self, span: int) -> synopses.ValueHistogramParameters:
        return synopses.ValueHistogramParameters(epsilon=self.epsilon, span=span, edges=self._edges)


@dataclass(frozen=True, kw_only=True)
class Histogram(Edged, _Counts):
    """The number of values below the first edge, between each two, and from the last one on.

    edges: 1 to 100 numbers that rise; a value that is an edge lies above it.
    """

    kind: ClassVar[str] = "histogram"
    least_figure: ClassVar[float] = 0.0

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        return answers["histogram"]


@dataclass(frozen=True, kw_only=True)
class Above(_Counts):
    """The number of values that reach each threshold.

    thresholds: 1 to 100 numbers that rise; a value that is a threshold reaches it.
    """

    kind: ClassVar[str] = "above"
    least_figure: ClassVar[float] = 0.0
    thresholds: Sequence[float] = (0.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "thresholds", _rising(self.kind, "thresholds", self.thresholds))

    @property
    def _edges(self) -> tuple[float, ...]:
        return tuple(self.thresholds)

    def series(self) -> Sequence[Series]:
        return [Series(at_least=threshold) for threshold in self.thresholds]

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        # Counts of separate ranges add up, and so do their errors.
        from_the_top = np.cumsum(answers["histogram"][..., ::-1], axis=-1)[..., ::-1]
        return from_the_top[..., 1:]


def _column(path: FieldPath, limits: Limits | None, edges: Sequence[float]) -> Column:
    """Return the column of a field that is compared with edges; its numbers are rounded down if an
    edge is 2^53 or more, as whole numbers there may not be doubles.
    """
    return Column(path, limits, any(abs(edge) >= EXACT for edge in edges))


def _rising(kind: str, parameter: str, numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the numbers as doubles; raises SlidestatError for none, too many, unordered ones, and
    one that would be rounded.
    """
    if is_list(numbers) and 1 <= len(numbers) <= _MOST_EDGES and all(map(_is_double, numbers)):
        edges = tuple(float(number) for number in numbers)
        for number, edge in zip(numbers, edges, strict=True):
            if number != edge:  # Python compares them exactly.
                raise SlidestatError(
                    f"the {parameter} of {kind} have {number}, a whole number that no double is.",
                    f"Give the double next to it, {int(edge)}, or count by a condition,"
                    f' which compares exactly: where = "value >= {number}".',
                )
        if all(a < b for a, b in pairwise(edges)):
            return edges
    raise SlidestatError(
        f"the {parameter} of {kind} are {numbers!r}.",
        f"Give a list of 1 to {_MOST_EDGES} numbers that rise, such as [10, 100].",
    )


def _is_double(number: object) -> bool:
    return is_number(number) and -float_info.max <= number <= float_info.max


@dataclass(frozen=True)
class ItemsRunner(UnitedRunner, AdditiveRunner):
    """Counts of `items` that are named beforehand, rising; an answer has a place for each of them.

    They are the bins of a histogram: bin i + 1 is that of the i-th item.
    """

    parameters: synopses.CountParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        counts = f"counts of {list(self.items)}, epsilon {float(self.parameters.epsilon)}"
        return of_field(self.field, counts)

    @property
    def histogram(self) -> synopses.ValueHistogramParameters:
        """The histogram of the items' places, from 1 on."""
        edges = tuple(map(float, range(1, len(self.items) + 1)))
        return synopses.ValueHistogramParameters(
            self.parameters.epsilon, self.parameters.span, edges
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        place_of = {item: float(place) for place, item in enumerate(self.items, 1)}
        places = np.array([place_of.get(text, 0.0) for text in items.texts])
        places = places[items.codes] if len(items.codes) else np.empty(0)
        rows = np.flatnonzero(places)
        result = synopses.run_value_histogram_batch(
            self.histogram, states, batch.taking(rows, places[rows])
        )
        return Answered(result.states, {"items": figures_of(result)[..., 1:]})

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_value_histograms(*asked)
        return Answered([], {"items": figures_of(united)[..., 1:]})


@dataclass(frozen=True, kw_only=True)
class Items(ValueStatistic):
    """The count of each of the named items, rare ones too: an exponential histogram each.

    items: 1 to 100 different texts, such as ["GET", "POST"], to be given; numbers and truth values
    are written as JSON has them, "404" or "true".
    epsilon: the largest error, as a share of each count, 0.0001 to 1.
    promise: each count is off by at most epsilon of itself.
    union: answers and bounds add up; off by at most the relative error of one party.
    """

    kind: ClassVar[str] = "items"
    has_past: ClassVar[bool] = True
    least_figure: ClassVar[float] = 0.0
    epsilons: ClassVar[tuple[float, float]] = 0.0001, 1
    limits = None  # as items have none
    items: Sequence[str] = ()
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "items", checked_items(self.kind, self.items, least=1))

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ItemsRunner(
            synopses.CountParameters(self.epsilon, span), field, tuple(sorted(self.items))
        )

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=synopses.CountParameters(self.epsilon, span).relative_error)

    def series(self) -> Sequence[Series]:
        return [Series(item=item) for item in self.items]

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        kept = sorted(self.items)
        return answers["items"][..., [kept.index(item) for item in self.items]]


def checked_items(kind: str, items: Sequence[str], least: int) -> tuple[str, ...]:
    """Return the items that a statistic names; raises SlidestatError for less than `least`, for too
    many, and for others than different texts.
    """
    listed = is_list(items)
    texts = listed and all(isinstance(i, str) and len(i) <= MAX_ITEM_LENGTH for i in items)
    if texts and least <= len(items) <= _MOST_ITEMS and len(set(items)) == len(items):
        return tuple(items)
    said = repr(items) if items else "missing"
    if listed and len(items) > _MOST_ITEMS:
        said = f"{len(items):,}"
    raise SlidestatError(
        f"the items of {kind} are {said}.",
        f"Give a list of {least} to {_MOST_ITEMS} different texts of at most"
        f' {MAX_ITEM_LENGTH} characters, such as ["GET", "POST"].',
    )
