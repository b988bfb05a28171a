"""Counts of items that are named beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import (
    Float64s,
    Promise,
    Series,
    ValueStatistic,
    check_epsilon,
)
from slidestat.errors import SlidestatError
from slidestat.synopses.core.parameters import CountParameters

if TYPE_CHECKING:
    from slidestat.declare.runners import Runner

_MOST_ITEMS = 100


@dataclass(frozen=True, kw_only=True)
class Items(ValueStatistic):
    """The count of each of the named items, rare ones too: an exponential histogram each.

    items: 1 to 100 different texts, such as ["GET", "POST"], to be given; numbers and truth values
    are written as JSON has them, "404" or "true".
    epsilon: the largest error, as a share of each count, 0.0001 to 1.
    promise: each count is off by at most epsilon of itself.
    """

    kind: ClassVar[str] = "items"
    items: Sequence[str] = ()
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, 0.0001, 1)
        items = self.items
        listed = isinstance(items, Sequence) and not isinstance(items, str)
        texts = listed and all(isinstance(i, str) and len(i) <= MAX_ITEM_LENGTH for i in items)
        if not texts or not 1 <= len(items) <= _MOST_ITEMS or len(set(items)) < len(items):
            said = repr(items) if items else "missing"
            if listed and len(items) > _MOST_ITEMS:
                said = f"{len(items):,}"
            raise SlidestatError(
                f"the items of {self.kind} are {said}.",
                f"Give a list of 1 to {_MOST_ITEMS} different texts of at most"
                f' {MAX_ITEM_LENGTH} characters, such as ["GET", "POST"].',
            )
        object.__setattr__(self, "items", tuple(items))

    @property
    def limits(self) -> None:
        """The limits of items: none."""
        return

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.histograms import ItemsRunner

        return ItemsRunner(CountParameters(self.epsilon, span), field, tuple(sorted(self.items)))

    def promise(self, span: int) -> Promise:
        return Promise(relative_error=CountParameters(self.epsilon, span).relative_error)

    def series(self) -> Sequence[Series]:
        return [Series(item=item) for item in self.items]

    def numbers(self, answers: Mapping[str, Float64s], _windows: Float64s) -> Float64s:
        kept = sorted(self.items)
        return answers["items"][..., [kept.index(item) for item in self.items]]
