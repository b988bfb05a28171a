"""Items of a field: the most frequent ones, how many different ones, the norm of how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slidestat.declare.columns import Column, Limits
from slidestat.declare.fields import Field, FieldPath, field_path
from slidestat.declare.statistics.base import (
    Float64s,
    ListStatistic,
    Promise,
    ValueStatistic,
    check_epsilon,
    check_places,
    labelled,
    plain,
)
from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from slidestat.declare.runners import Listed, Runner
    from slidestat.synopses.distinct.distinct_parameters import DistinctParameters
    from slidestat.synopses.frequent_pairs.parameters import PairedParameters
    from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters


_MOST_LISTED = 1_000
_PLACES = 6
_LARGEST_DELTA_BY = 0.1
_LEAST_DELTA_LEAN, _LARGEST_DELTA_LEAN = 1e-6, 0.1
# A window holds weights of 2^30, and 2^17 of the largest must fit, however they share buckets.
_LARGEST_WEIGHT = 2048.0


@dataclass(frozen=True, kw_only=True)
class TopItems(ListStatistic):
    """The `limit` items that came most often, each with how often, the most frequent first.

    limit: how many items are listed, 1 to 1,000.
    epsilon: bounds of an item lie less than this share of the window's events apart, 0.001 to 0.5.
    promise: each is off by at most half of epsilon of the window's events. None that has a share of
    epsilon of them is missing, unless there are more than `limit`; what has less may be listed, and
    is within its bounds. Where none has such a share, and the window has so few events (up to about
    10 / epsilon) that counts are exact, the `limit` most frequent ones are listed all the same. So
    a window without items has no event with the field, or so many different ones that none has a
    share of epsilon.
    """

    kind: ClassVar[str] = "top"
    limit: int = 10
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, 0.001, 0.5)
        if type(self.limit) is not int or not 1 <= self.limit <= _MOST_LISTED:
            raise SlidestatError(
                f"the limit of {self.kind} is {self.limit!r}.",
                f"Give a whole number from 1 to {_MOST_LISTED}.",
            )

    @property
    def limits(self) -> None:
        """The limits of items: none."""
        return

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.frequent import TopRunner

        return TopRunner(self.parameters(span), field, self.limit)

    def promise(self, span: int) -> Promise:
        """Return the promise: bounds are less than epsilon m apart, and the estimate is their
        middle.
        """
        return Promise(share_error=self.parameters(span).relative_width / 2)

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return listed[: self.limit]

    def parameters(self, span: int) -> PairedParameters:
        from slidestat.synopses.frequent_pairs.parameters import PairedParameters

        return PairedParameters(epsilon=self.epsilon, span=span)


@dataclass(frozen=True, kw_only=True)
class _Sketched(ValueStatistic):
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
    epsilon: float = 0.1
    delta: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, self.least_epsilon, 0.5)
        number = isinstance(self.delta, int | float) and not isinstance(self.delta, bool)
        if not number or not self.least_delta <= self.delta <= 0.5:
            raise SlidestatError(
                f"the delta of {self.kind} is {self.delta!r}.",
                f"Give the chance of a larger error, from {self.least_delta} to 0.5; 0.01 is one in"
                " a hundred.",
            )
        check_places(self.kind, "epsilon", self.epsilon, _PLACES)
        check_places(self.kind, "delta", self.delta, self.delta_places)
        if type(self.seed) is not int or not 0 <= self.seed < 2**self.seed_bits:
            raise SlidestatError(
                f"the seed of {self.kind} is {self.seed!r}.",
                f"Give a whole number, 0 to 2^{self.seed_bits} - 1.",
            )

    @property
    def limits(self) -> None:
        """The limits of items: none."""
        return

    def promise(self, _span: int) -> Promise:
        return Promise(relative_error=self.epsilon, confidence=1 - self.delta)

    def numbers(self, answers: Mapping[str, Float64s], _windows: Float64s) -> Float64s:
        return plain(answers[self.kind])


@dataclass(frozen=True, kw_only=True)
class Distinct(_Sketched):
    """The number of different items: exact while they are few, then a randomised wave.

    by: another field. With it, how many different pairs of an item and what that field says; then a
    question may be for the items of one country, say, alone (`--where country=NL`), off by at most
    epsilon of all pairs, with a confidence of about 1 - 2 delta; delta is at most 0.1.
    """

    kind: ClassVar[str] = "distinct"
    by: Field = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by == "":
            return
        field_path(self.by, "the by of distinct")
        if self.delta > _LARGEST_DELTA_BY:
            raise SlidestatError(
                f"the delta of distinct is {self.delta}, and it has a by: an answer for one value"
                " of that field misses twice as often.",
                f"Give at most {_LARGEST_DELTA_BY}.",
            )

    @property
    def by_path(self) -> FieldPath | None:
        """The field that a question may choose by."""
        return field_path(self.by, "by") if self.by else None

    def label(self, value_field: FieldPath) -> str:
        label = super().label(value_field)
        return label if self.name or self.by_path is None else labelled(f"{label}_by", self.by_path)

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        items = super().columns(value_field)
        if self.by_path is None:
            return items
        if self.by_path == self.path(value_field):
            raise SlidestatError(
                f"the by of distinct is {self.by!r}, its field.",
                "Name the field that the items are chosen by, or leave it out.",
            )
        return (*items, Column(self.by_path, None))

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.distinct import DistinctRunner

        return DistinctRunner(self.parameters(span), field, self.by_path)

    def parameters(self, span: int) -> DistinctParameters:
        """Return the parameters of the wave that keeps it."""
        from slidestat.synopses.distinct.distinct_parameters import DistinctParameters

        return DistinctParameters(epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class LeanDistinct(_Sketched):
    """The number of different items, in a tenth of the bytes that `distinct` takes of a busy key.

    Exact below 4 / epsilon of them. It answers for all of them alone: `distinct` has a `by`.

    epsilon: the largest error, as a share of the figure, 0.01 to 0.5.
    delta: the chance of a larger error, or of bounds that do not hold, 1e-6 to 0.1.
    """

    kind: ClassVar[str] = "lean_distinct"
    least_epsilon: ClassVar[float] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _LEAST_DELTA_LEAN <= self.delta <= _LARGEST_DELTA_LEAN:
            raise SlidestatError(
                f"the delta of lean_distinct is {self.delta}.",
                f"Give {_LEAST_DELTA_LEAN} to {_LARGEST_DELTA_LEAN}, or ask for distinct, which"
                " takes 1e-9 to 0.5.",
            )

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.distinct import LeanDistinctRunner

        return LeanDistinctRunner(self.parameters(span), field)

    def parameters(self, span: int) -> LeanDistinctParameters:
        """Return the parameters of the synopsis that keeps it."""
        from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters

        return LeanDistinctParameters(
            epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed
        )


@dataclass(frozen=True, kw_only=True)
class Norm(_Sketched):
    """The L_p norm of how often each item came: p = 2 tells how uneven the items are.

    It costs a hundred times what the others do: it is for some dozens of keys.

    epsilon: the largest error, as a share of the norm, 0.05 to 0.5. For a p above 1 this was
    measured of many streams, and is not proven.
    delta: the chance of a larger error, or of bounds that do not hold, 1e-6 to 0.5.
    seed: of the draws, 0 to 2^62 - 1. Choose another one where somebody who knows it could choose
    the items.
    p: which norm, 1 or 1.05 to 2.
    weight: another field. With it, of how much came of each item: a number from 1 to 2,048 of each
    event, rounded to a whole one; others make dead letters.
    """

    kind: ClassVar[str] = "norm"
    can_be_united: ClassVar[bool] = False
    # Half of what its synopsis holds: the rest is for older events, in one bucket with the first.
    most_events: ClassVar[int | None] = 1 << 29
    least_epsilon: ClassVar[float] = 0.05
    least_delta: ClassVar[float] = 1e-6
    delta_places: ClassVar[int] = _PLACES
    seed_bits: ClassVar[int] = 62
    epsilon: float = 0.3
    delta: float = 0.05
    p: float = 2.0
    weight: Field = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.p, int | float) and not isinstance(self.p, bool)
        if not number or not (self.p == 1 or 1.05 <= self.p <= 2):
            raise SlidestatError(f"the p of {self.kind} is {self.p!r}.", "Give 1, or 1.05 to 2.")
        check_places(self.kind, "p", self.p, _PLACES)
        if self.weight != "":
            field_path(self.weight, "the weight of norm")

    @property
    def weight_path(self) -> FieldPath | None:
        """The field of an event's weight."""
        return field_path(self.weight, "weight") if self.weight else None

    def label(self, value_field: FieldPath) -> str:
        label = super().label(value_field)
        weight = self.weight_path
        return label if self.name or weight is None else labelled(f"{label}_of", weight)

    def columns(self, value_field: FieldPath) -> tuple[Column, ...]:
        items = super().columns(value_field)
        if self.weight_path is None:
            return items
        return (*items, Column(self.weight_path, Limits(1.0, _LARGEST_WEIGHT)))

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.norms import NormRunner
        from slidestat.synopses.norm.lp_norm import LpNormParameters

        parameters = LpNormParameters(
            p=float(self.p), epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed
        )
        return NormRunner(parameters, field, self.weight_path)
