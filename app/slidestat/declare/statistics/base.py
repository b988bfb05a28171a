"""A declared statistic: the field it reads, the synopsis that keeps it, and its figures."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat.declare.columns import Column, Limits
from slidestat.declare.expressions.expression import Expression, condition_of
from slidestat.declare.fields import Field, FieldPath, field_path, field_text
from slidestat.declare.statistics.runner import Listed, Runner
from slidestat.declare.values import check_seed, check_values, check_whole, is_number
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Floats

DECIMALS = 3
PLACES = 6

# A name in each output record and for its readers, such as the column of a table.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A figure's error: |estimate - exact| is at most the sum of these; see schemas.emission."""

    relative_error: float = 0.0
    absolute_error: float = 0.0
    share_error: float = 0.0
    deviation_error: float = 0.0
    magnitude_error: float = 0.0
    confidence: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """One of a statistic's figures in each window: what distinguishes it from the others, and its
    own `share_error` where they differ.
    """

    quantile: float | None = None
    at_least: float | None = None
    below: float | None = None
    item: str | None = None
    share_error: float | None = None


@dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """A statistic of each key over each window.

    name: what the figures are called, in 1 to 100 letters, digits, '_', '.' and '-'; without one,
    the kind, and the field if it is not the topology's own.
    where: the condition on an event to be taken in, as SQL: "status >= 500". It needs a `name`.

    A docstring says of each parameter what it is, and with `promise:` what its figures keep.
    Raises SlidestatError, naming the parameter, for what cannot be.
    """

    kind: ClassVar[str]
    # Figures are of all events since the key's first: such keys are kept for ever, or for the
    # topology's `forget_after`.
    is_landmark: ClassVar[bool] = False
    # Has its figures in each window; otherwise once in an emission.
    has_windows: ClassVar[bool] = True
    # Makes no sense where windows are of events.
    needs_time: ClassVar[bool] = False
    # States answer for windows that ended before now.
    has_past: ClassVar[bool] = False
    # Synopses of many streams answer over all of them.
    can_be_united: ClassVar[bool] = True
    # No figure is below this.
    least_figure: ClassVar[float] = -math.inf
    # The most events of a key that its windows can hold; None: no limit.
    most_events: ClassVar[int | None] = None
    # The least and the largest `epsilon` that it takes; None where it has none, or an exception.
    epsilons: ClassVar[tuple[float, float] | None] = None
    # `decimals` are those of the units of a sum.
    keeps_decimals: ClassVar[bool] = False
    name: str = ""
    where: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        if not isinstance(self.name, str) or (self.name and not _NAME.fullmatch(self.name)):
            raise SlidestatError(
                f"the name of {self.kind} is {self.name!r}.",
                "Use 1 to 100 letters, digits, '_', '.' and '-'.",
            )
        if self.condition is not None and not self.name:
            raise SlidestatError(
                f"the where of {self.kind} is {self.where!r}, and it has no name.",
                'Give it one, such as name="errors": the name tells its figures from others.',
            )
        self._check_field()
        if self.epsilons is not None:
            check_epsilon(self.kind, vars(self)["epsilon"], *self.epsilons)
        if self.keeps_decimals:
            check_whole(self.kind, "decimals", vars(self)["decimals"], 0, 9)

    def _check_field(self) -> None:
        """Raise SlidestatError for a field that no event can have."""
        return

    @property
    def condition(self) -> Expression | None:
        """The condition on its events, None if it takes all."""
        return condition_of(self.where, f"the where of {self.kind}")

    def label(self, _value_field: FieldPath) -> str:
        """Return the name of the figures, in a topology with this value field."""
        return self.name or self.kind

    def path(self, value_field: FieldPath) -> FieldPath:
        """Return the path of the field that it reads, in a topology with this value field."""
        return value_field

    def columns(self, _value_field: FieldPath) -> tuple[Column, ...]:
        """Return the fields that it reads of an event, `path` first; none for times alone."""
        return ()

    @abstractmethod
    def runner(self, span: int, field: FieldPath) -> Runner:
        """Return the synopsis that keeps it, for windows of up to `span`; equal ones are kept once.

        `field` is the path of what it reads.
        """

    def one_window_runner(self, _span: int, _field: FieldPath) -> Runner | None:
        """Return the synopsis that keeps it for the window of the last `span` events alone; None if
        the synopsis for all windows is as small.
        """
        return None

    @abstractmethod
    def promise(self, span: int) -> Promise:
        """Return the error that its figures keep."""

    def series(self) -> Sequence[Series]:
        """Return its figures in each window."""
        return (Series(),)

    @property
    def later_fields(self) -> Set[str]:
        """Return the fields that mean nothing as they are: fingerprints from before they were there
        stay the same without them.
        """
        return frozenset()

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        """Return estimates, lowers and uppers as float64[3, queries, windows, series]; here of one
        series, its kind's.

        `answers` are its runner's; `_windows` float64[windows] the lengths asked for. Raises
        SlidestatError where none of them has the name of the kind.
        """
        if self.kind not in answers:
            names = ", ".join(map(repr, answers))
            raise SlidestatError(
                f"{type(self).__name__} says no figures: its runner answers {names}.",
                f"Give it a method `numbers`, or have its runner answer {self.kind!r}.",
            )
        return plain(answers[self.kind])


@dataclass(frozen=True, kw_only=True)
class ValueStatistic(Statistic):
    """A statistic of what a field has.

    field: the path of what it reads; without one, the topology's `value_field`.
    """

    field: Field = ""

    def _check_field(self) -> None:
        if self.field != "":
            field_path(self.field, f"the field of {self.kind}")

    def label(self, value_field: FieldPath) -> str:
        path = self.path(value_field)
        return self.name or labelled(self.kind, None if path == value_field else path)

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        return (Column(self.path(value_field), self.limits),)

    @property
    def limits(self) -> Limits | None:
        """The numbers it can take; others make a dead letter."""
        return Limits()

    def path(self, value_field: FieldPath) -> FieldPath:
        return field_path(self.field, "field") if self.field else value_field


@dataclass(frozen=True, kw_only=True)
class ListStatistic(ValueStatistic):
    """A statistic whose figures in a window are as many as its synopsis finds."""

    @abstractmethod
    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        """Return the items of a window that are given, of those that its synopsis lists."""

    def numbers(self, _answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        """Return no numbers, as no figure is there in every answer: float64[3, 0, 0, 0]."""
        return np.empty((3, 0, 0, 0))


class WeighedStatistic(ValueStatistic):
    """A statistic of items that may read from another field, `weight`, how much of each came."""

    weight: Field

    @property
    @abstractmethod
    def weight_limits(self) -> Limits:
        """The weights it can take; others make a dead letter."""

    @property
    def weight_path(self) -> FieldPath | None:
        """The field of an event's weight, None without one; raises SlidestatError for no field."""
        return None if self.weight == "" else field_path(self.weight, f"the weight of {self.kind}")

    def label(self, value_field: FieldPath) -> str:
        label = super().label(value_field)
        weight = self.weight_path
        return label if self.name or weight is None else labelled(f"{label}_of", weight)

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        items, weight = super().columns(value_field), self.weight_path
        return items if weight is None else (*items, Column(weight, self.weight_limits))


class DividedStatistic(ValueStatistic):
    """A statistic that may read another field, `by`, which says of what part an event is."""

    by: Field

    @abstractmethod
    def by_column(self, path: FieldPath) -> Column:
        """Return the column of that field."""

    @property
    def by_path(self) -> FieldPath | None:
        """The field of an event's part, None without one; raises SlidestatError for no field."""
        return None if self.by == "" else field_path(self.by, f"the by of {self.kind}")

    def label(self, value_field: FieldPath) -> str:
        label, by = super().label(value_field), self.by_path
        return label if self.name or by is None else labelled(f"{label}_by", by)

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        own, by = super().columns(value_field), self.by_path
        if by is None:
            return own
        if by == self.path(value_field):
            raise SlidestatError(
                f"the by of {self.kind} is {self.by!r}, its field.",
                "Name another field, or leave it out.",
            )
        return (*own, self.by_column(by))


@dataclass(frozen=True, kw_only=True)
class Sketched(ValueStatistic):
    """A randomised statistic of items: texts, numbers or truth values.

    Synopses with the same parameters and seed can be merged.

    epsilon: the largest error, as a share of the figure, 0.005 to 0.5.
    delta: the chance of a larger error, or of bounds that do not hold, 1e-9 to 0.5.
    seed: of the hash functions, 0 to 2^63 - 1. Choose another one where somebody who knows it could
    choose the items.
    promise: off by at most epsilon of the exact figure, and within the bounds, with a probability
    of 1 - delta, for a stream that does not depend on the seed.
    """

    least_epsilon: ClassVar[float] = 0.005
    least_delta: ClassVar[float] = 1e-9
    # Decimals of `delta` that are kept; of `epsilon` they are six.
    delta_places: ClassVar[int] = 9
    seed_bits: ClassVar[int] = 63
    limits = None  # as items have none
    epsilon: float = 0.1
    delta: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, self.least_epsilon, 0.5)
        if not is_number(self.delta) or not self.least_delta <= self.delta <= 0.5:
            raise SlidestatError(
                f"the delta of {self.kind} is {self.delta!r}.",
                f"Give the chance of a larger error, from {self.least_delta} to 0.5; 0.01 is one in"
                " a hundred.",
            )
        check_places(self.kind, "epsilon", self.epsilon, PLACES)
        check_places(self.kind, "delta", self.delta, self.delta_places)
        check_seed(self.kind, self.seed, self.seed_bits)

    def promise(self, _span: int) -> Promise:
        return Promise(relative_error=self.epsilon, confidence=1 - self.delta)


def labelled(kind: str, path: FieldPath | None) -> str:
    """Return a figure's name from its kind and, if it reads one, its field."""
    if path is None:
        return kind
    return f"{kind}_" + re.sub(r"[^A-Za-z0-9_.-]", "_", field_text(path))


def check_epsilon(
    kind: str, epsilon: float, least: float, most: float, name: str = "epsilon"
) -> None:
    """Raise SlidestatError for an error outside of what its synopsis can do."""
    if not is_number(epsilon) or not least <= epsilon <= most:
        raise SlidestatError(
            f"the {name} of {kind} is {epsilon!r}.",
            f"Give an error from {least} to {most}; 0.01 is one per cent.",
        )


def check_places(kind: str, name: str, number: float, places: int) -> None:
    """Raise SlidestatError for a number of more decimal places than are kept of it."""
    if round(number, places) != number:
        raise SlidestatError(
            f"the {name} of {kind} is {number!r}, of more than {places} decimals.",
            f"Give {round(number, places)!r}.",
        )


def plain(numbers: Floats) -> Floats:
    """Return one series as a table of one: [3, queries, windows] to [3, queries, windows, 1]."""
    return numbers[..., np.newaxis]
