"""The number of different items of a field, and the norm of how often each came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Column, Limits
from slidestat.declare.fields import Field, FieldPath
from slidestat.declare.statistics.base import (
    PLACES,
    DividedStatistic,
    Sketched,
    WeighedStatistic,
    check_places,
)
from slidestat.declare.statistics.runner import (
    Answered,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    figures_of,
    of_field,
)
from slidestat.declare.values import is_number
from slidestat.errors import SlidestatError

_LARGEST_DELTA_BY = 0.1
_LEAST_DELTA_LEAN, _LARGEST_DELTA_LEAN = 1e-6, 0.1


@dataclass(frozen=True)
class DistinctRunner(UnitedRunner):
    """The number of different items of a field, or of pairs of its items and those of `by`."""

    parameters: synopses.DistinctParameters
    field: FieldPath
    by: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = of_field(
            self.field,
            f"distinct, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )
        # A list, as no other field's path is written so.
        return what if self.by is None else f"{what} by {list(self.by)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        from slidestat.synopses.distinct.items import paired_ids

        if self.by is None:
            batch, (items,) = work.items_of(self.field)
            ids = items.ids()
        else:
            batch, (firsts, seconds) = work.items_of(self.field, self.by)
            ids = paired_ids(firsts.ids(), seconds.ids(self.parameters.seed))
        result = synopses.run_distinct_batch(self.parameters, states, batch.holding(ids))
        return Answered(result.states, {"distinct": figures_of(result)})

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_distinct(*asked)
        return Answered([], {"distinct": figures_of(united)})


@dataclass(frozen=True, kw_only=True)
class Distinct(DividedStatistic, Sketched):
    """The number of different items: exact while they are few, then a randomised wave.

    by: another field. With it, how many different pairs of an item and what that field says; then a
    question may be for the items of one country, say, alone (`--where country=NL`), off by at most
    epsilon of all pairs, with a confidence of about 1 - 2 delta; delta is at most 0.1.
    union: randomised waves are merged into that of the union; the error and the confidence are
    those of one party.
    """

    kind: ClassVar[str] = "distinct"
    least_figure: ClassVar[float] = 0.0
    by: Field = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_path is not None and self.delta > _LARGEST_DELTA_BY:
            raise SlidestatError(
                f"the delta of distinct is {self.delta}, and it has a by: an answer for one value"
                " of that field misses twice as often.",
                f"Give at most {_LARGEST_DELTA_BY}.",
            )

    def by_column(self, path: FieldPath) -> Column:
        return Column(path, None)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return DistinctRunner(self.parameters(span), field, self.by_path)

    def parameters(self, span: int) -> synopses.DistinctParameters:
        """Return the parameters of the wave that keeps it."""
        return synopses.DistinctParameters(
            epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed
        )


@dataclass(frozen=True)
class LeanDistinctRunner(UnitedRunner):
    """The number of different items of a field, by bitmaps."""

    parameters: synopses.LeanDistinctParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        p = self.parameters
        return of_field(
            self.field,
            f"lean distinct, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        result = synopses.run_lean_distinct_batch(
            self.parameters, states, batch.holding(items.ids())
        )
        return Answered(result.states, {"lean_distinct": figures_of(result)})

    def union(self, asked: Unions) -> Answered:
        united = synopses.union_lean_distinct(*asked)
        return Answered([], {"lean_distinct": figures_of(united)})


@dataclass(frozen=True, kw_only=True)
class LeanDistinct(Sketched):
    """The number of different items, in a tenth of the bytes that `distinct` takes of a busy key.

    Exact below 4 / epsilon of them. It answers for all of them alone: `distinct` has a `by`.

    epsilon: the largest error, as a share of the figure, 0.01 to 0.5.
    delta: the chance of a larger error, or of bounds that do not hold, 1e-6 to 0.1.
    union: the later one of the times of each bit; the error and the confidence are those of one
    party.
    """

    kind: ClassVar[str] = "lean_distinct"
    least_figure: ClassVar[float] = 0.0
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
        return LeanDistinctRunner(self.parameters(span), field)

    def parameters(self, span: int) -> synopses.LeanDistinctParameters:
        """Return the parameters of the synopsis that keeps it."""
        return synopses.LeanDistinctParameters(
            epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed
        )


# A window holds weights of 2^30, and 2^17 of the largest must fit, however they share buckets.
_LARGEST_WEIGHT = 2048.0


@dataclass(frozen=True)
class NormRunner:
    """The L_p norm of the items of a field, or of how much of a `weight` came of each."""

    parameters: synopses.LpNormParameters
    field: FieldPath
    weight: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = of_field(
            self.field,
            f"norm, p {p.p}, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )
        return what if self.weight is None else f"{what} weighing {list(self.weight)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        weights = None
        if self.weight is None:
            batch, (items,) = work.items_of(self.field)
        else:
            weighed, items, numbers = work.weighed(self.field, self.weight)
            batch = weighed.batch
            weights = np.maximum(np.rint(numbers), 1).astype(np.int64)
        result = synopses.run_lp_norm_batch(
            self.parameters, states, batch.holding(items.ids()), weights
        )
        return Answered(result.states, {"norm": figures_of(result)})


@dataclass(frozen=True, kw_only=True)
class Norm(WeighedStatistic, Sketched):
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
    least_figure: ClassVar[float] = 0.0
    can_be_united: ClassVar[bool] = False
    # Half of what its synopsis holds: the rest is for older events, in one bucket with the first.
    most_events: ClassVar[int | None] = 1 << 29
    least_epsilon: ClassVar[float] = 0.05
    least_delta: ClassVar[float] = 1e-6
    delta_places: ClassVar[int] = PLACES
    seed_bits: ClassVar[int] = 62
    epsilon: float = 0.3
    delta: float = 0.05
    p: float = 2.0
    weight: Field = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.p) or not (self.p == 1 or 1.05 <= self.p <= 2):
            raise SlidestatError(f"the p of {self.kind} is {self.p!r}.", "Give 1, or 1.05 to 2.")
        check_places(self.kind, "p", self.p, PLACES)
        _ = self.weight_path

    @property
    def weight_limits(self) -> Limits:
        return Limits(1.0, _LARGEST_WEIGHT)

    def runner(self, span: int, field: FieldPath) -> Runner:
        parameters = synopses.LpNormParameters(
            p=float(self.p), epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed
        )
        return NormRunner(parameters, field, self.weight_path)
