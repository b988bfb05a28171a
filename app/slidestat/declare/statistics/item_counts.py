"""Counts of any items, which nobody need have named before, hashed to counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Promise, Series, Sketched
from slidestat.declare.statistics.histograms import checked_items
from slidestat.declare.statistics.runner import (
    Answered,
    CombinableRunner,
    PastRunner,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    of_field,
)
from slidestat.synopses.core.arrays import Floats, Integers


@dataclass(frozen=True)
class ItemCountsRunner(CombinableRunner, UnitedRunner, PastRunner):
    """Counts of any items, answered for `items`, on which states do not depend."""

    parameters: synopses.HashedCountParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = f"hashed counts, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}"
        return of_field(self.field, what)

    def combined(self, other: Self) -> Self:
        return replace(self, items=tuple(dict.fromkeys((*self.items, *other.items))))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        new_states, counters = self._fed(states, work)
        return Answered(new_states, self._answers(counters))

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        """Answer as `run`: counters are taken to the past first, so that chance enters once."""
        from slidestat.synopses.past.past import past_totals

        _, counters = self._fed(states, work.longer(ago))
        return Answered([], self._answers(past_totals(counters)))

    def union(self, asked: Unions) -> Answered:
        counters = synopses.union_hashed_counts(self.parameters, *asked, self._asked)
        return Answered([], self._answers(counters))

    @property
    def _asked(self) -> Integers:
        return synopses.item_ids(self.items, self.parameters.seed)

    def _fed(self, states: Sequence[bytes | None], work: Work) -> synopses.HashedCounts:
        batch, (items,) = work.items_of(self.field)
        ids = batch.holding(items.ids(self.parameters.seed))
        return synopses.run_hashed_counts_batch(self.parameters, states, ids, self._asked)

    def _answers(self, counters: Floats) -> dict[str, Floats]:
        counts = synopses.item_counts(self.parameters, counters)
        each = {_of(item): counts[..., place] for place, item in enumerate(self.items)}
        return {"item_counts": counts, **each}


@dataclass(frozen=True, kw_only=True)
class ItemCounts(Sketched):
    """The count of any item, asked for when it is wanted: items are hashed to counters, a Count-Min
    sketch over sliding windows (ECM-sketch). Its bytes do not grow with the number of items.

    `slidestat query KEY --item TEXT` asks for any item in any window. What must be within a share
    of itself is named beforehand, in `items`; the most frequent ones are found by `top`.

    items: up to 100 different texts whose counts are in every record; others can be asked for all
    the same, and a change of these keeps what is counted.
    epsilon: the largest error, as a share of the window's events, 0.001 to 0.5. Halved, it takes up
    to four times the bytes.
    delta: the chance of a larger error, or of a lower bound that does not hold, 1e-9 to 0.5.
    seed: of the hash functions, 0 to 2^63 - 1. Choose another one where somebody who knows it could
    choose the items.
    promise: a count is at most its upper bound, always. With a probability of 1 - delta, for each
    item and window of a stream that does not depend on the seed, it is at least its lower bound,
    and the estimate is off by at most epsilon of the window's events; it is never more than epsilon
    of the count too low.
    union: counters add up; the error and the confidence are those of one party.
    """

    kind: ClassVar[str] = "item_counts"
    has_past: ClassVar[bool] = True
    least_figure: ClassVar[float] = 0.0
    least_epsilon: ClassVar[float] = 0.001
    epsilon: float = 0.05
    items: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "items", checked_items(self.kind, self.items, least=0))

    def runner(self, span: int, field: FieldPath) -> Runner:
        parameters = synopses.HashedCountParameters(
            epsilon=self.epsilon, delta=self.delta, span=span, seed=self.seed
        )
        return ItemCountsRunner(parameters, field, tuple(self.items))

    def promise(self, _span: int) -> Promise:
        return Promise(share_error=self.epsilon, confidence=1 - self.delta)

    def series(self) -> Sequence[Series]:
        return [Series(item=item) for item in self.items]

    def numbers(self, answers: Mapping[str, Floats], _windows: Floats) -> Floats:
        if not self.items:
            return answers[self.kind][..., :0]
        return np.stack([answers[_of(item)] for item in self.items], axis=-1)


def _of(item: str) -> str:
    """Return the name of an item's answer."""
    return f"count of {item}"
