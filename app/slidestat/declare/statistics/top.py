"""The items of a field that come most often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import ListStatistic, Promise, check_epsilon
from slidestat.declare.statistics.runner import (
    Answered,
    CombinableRunner,
    Listed,
    PastRunner,
    Runner,
    UnitedRunner,
    Work,
    of_field,
    require_question,
)
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers

if TYPE_CHECKING:
    from slidestat.synopses.past.past import PastList

_MOST_LISTED = 1_000


@dataclass(frozen=True)
class TopRunner(CombinableRunner, UnitedRunner, PastRunner):
    """The items of a field that came most often: those with a share of epsilon, and maybe others
    with less. Where none has it and counts are exact, `instead` others, the most frequent ones.
    """

    parameters: synopses.PairedParameters
    field: FieldPath
    instead: int = 0

    @property
    def meaning(self) -> str:
        return of_field(
            self.field, f"frequent items in pairs, epsilon {float(self.parameters.epsilon)}"
        )

    def combined(self, other: Self) -> Self:
        return replace(self, instead=max(self.instead, other.instead))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        result = synopses.run_named_items_batch(
            self.parameters,
            states,
            batch.holding(items.codes),
            items.texts,
            self.parameters.epsilon,
            self.instead,
        )
        found = [
            Listed(name, ((lower + upper) / 2, float(lower), float(upper)))
            for name, lower, upper in zip(
                result.names, result.lowers.tolist(), result.uppers.tolist(), strict=True
            )
        ]
        ends = result.ends.tolist()
        windows = len(work.windows)
        lists = [
            [
                sorted(found[ends[at] : ends[at + 1]], key=lambda item: (-item.numbers[0], item))
                for at in range(query * windows, (query + 1) * windows)
            ]
            for query in range(len(work.query_times))
        ]
        return Answered(result.states, {}, lists)

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.past.past import past_items

        require_question(work)
        batch, (items,) = work.longer(ago).items_of(self.field)
        result = synopses.run_named_items_batch(
            self.parameters, states, batch.holding(items.codes), items.texts, 0
        )
        windows = len(work.windows)
        lists = [
            [self._listed(past_items(result, query, at, windows)) for at in range(windows)]
            for query in range(len(work.query_times))
        ]
        return Answered([], {}, lists)

    def _listed(self, past: PastList) -> list[Listed]:
        """Return the items that may have a share of epsilon; where none may, all that may have
        come.
        """
        least = self.parameters.epsilon * past.events_low
        items = [it for it in past.items if it.upper >= least] or past.items
        listed = [Listed(it.name, ((it.lower + it.upper) / 2, it.lower, it.upper)) for it in items]
        return sorted(listed, key=lambda item: (-item.numbers[0], item))

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        lists = synopses.union_named_items(
            bundles, times, windows, self.parameters.epsilon, self.instead
        )
        return Answered(
            [],
            {},
            [
                [
                    [Listed(text, (mid, low, high)) for text, mid, low, high in window.items]
                    for window in bundle
                ]
                for bundle in lists
            ],
        )


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
    union: counts add up, by the items' ids; off by less than epsilon of the events of all parties.
    """

    kind: ClassVar[str] = "top"
    has_past: ClassVar[bool] = True
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
        return TopRunner(self.parameters(span), field, self.limit)

    def promise(self, span: int) -> Promise:
        """Return the promise: bounds are less than epsilon m apart, and the estimate is their
        middle.
        """
        return Promise(share_error=self.parameters(span).relative_width / 2)

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return listed[: self.limit]

    def parameters(self, span: int) -> synopses.PairedParameters:
        return synopses.PairedParameters(epsilon=self.epsilon, span=span)
