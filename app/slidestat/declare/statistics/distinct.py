"""The number of different items of a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from slidestat import synopses
from slidestat.declare.columns import Column
from slidestat.declare.fields import Field, FieldPath, field_path
from slidestat.declare.statistics.base import Sketched, labelled
from slidestat.declare.statistics.runner import (
    Answered,
    Runner,
    UnitedRunner,
    Work,
    figures_of,
    of_field,
)
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers

_LARGEST_DELTA_BY = 0.1
_LEAST_DELTA_LEAN, _LARGEST_DELTA_LEAN = 1e-6, 0.1


@dataclass(frozen=True)
class DistinctRunner(UnitedRunner):
    """The number of different items of a field, or of pairs of an item and the value of the field
    `by`.
    """

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
        # As a list: no other field's path is written so.
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

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        united = synopses.union_distinct(bundles, times, windows)
        return Answered([], {"distinct": figures_of(united)})


@dataclass(frozen=True, kw_only=True)
class Distinct(Sketched):
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

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        united = synopses.union_lean_distinct(bundles, times, windows)
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
