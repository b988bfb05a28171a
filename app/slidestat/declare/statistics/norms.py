"""The norm of how often items of a field came: how uneven they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Limits
from slidestat.declare.fields import Field, FieldPath
from slidestat.declare.statistics.base import PLACES, Sketched, WeighedStatistic, check_places
from slidestat.declare.statistics.runner import Answered, Runner, Work, figures_of, of_field
from slidestat.errors import SlidestatError

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
        number = isinstance(self.p, int | float) and not isinstance(self.p, bool)
        if not number or not (self.p == 1 or 1.05 <= self.p <= 2):
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
