"""A question to the state of top items: how often did an item come, listed or not?

It is asked (`live_query.py`), never declared: a topology keeps the `TopItems` that it is asked of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.statistics.runner import (
    Answered,
    Listed,
    PastRunner,
    Runner,
    UnitedRunner,
    Work,
    require_question,
)
from slidestat.declare.statistics.top import TopItems, TopRunner
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Floats, Integers

if TYPE_CHECKING:
    from slidestat.synopses.frequent.named_batch import NamedBatch


@dataclass(frozen=True)
class ItemCountRunner(UnitedRunner, PastRunner):
    """A question to the states of a `TopRunner`: how often each of `items` came. It takes no events
    in.
    """

    top: TopRunner
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        return f"{self.top.meaning} counted of {list(self.items)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        require_question(work)
        lists = self.top.lists(states, work, 0)
        return Answered(lists.states, {}, self.listed(self._counts(lists)))

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.past.past import past_totals

        require_question(work)
        counts = self._counts(self.top.lists(states, work.longer(ago), 0))
        return Answered([], {}, self.listed(past_totals(counts[:, :, :-1], counts[:, :, -1:])))

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        lists = self.top.union_lists(bundles, times, windows, 0)
        return Answered([], {}, self.listed(self._counts(lists)))

    def bundles(self, published: Mapping[str, bytes], empty: bytes) -> list[synopses.Bundle]:
        return self.top.bundles(published, empty)

    def _counts(self, lists: NamedBatch) -> Floats:
        """Return float64[3, Q, W, items]: estimates, lowers and uppers."""
        from slidestat.synopses.frequent.named_batch import item_bounds

        bounds = item_bounds(lists, self.items)
        pairs = bounds.reshape(2, -1).T.tolist()
        figures = np.array([self.top.numbers(low, high) for low, high in pairs])
        return figures.T.reshape(3, *bounds.shape[1:])

    def listed(self, counts: Floats) -> list[list[list[Listed]]]:
        """Return float64[3, Q, W, items] as a list for each query and window, items in their
        order.
        """
        return [
            [
                [
                    Listed(item, (estimate, lower, upper))
                    for item, (estimate, lower, upper) in zip(self.items, row, strict=True)
                ]
                for row in windows
            ]
            for windows in np.moveaxis(counts, 0, 3).tolist()
        ]


@dataclass(frozen=True, kw_only=True)
class ItemCounts(TopItems):
    """The counts of the given `items`."""

    items: tuple[str, ...]

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ItemCountRunner(self.top_runner(span, field), self.items)

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return listed


def asked_items(items: Sequence[str], declared: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Return the statistics of a topology, by their labels, that can be asked how often `items`
    came.

    Raises SlidestatError for a text that no item has, and where no statistic can be asked.
    """
    for item in items:
        if len(item) > MAX_ITEM_LENGTH:
            raise SlidestatError(
                f"item is a text of {len(item):,} characters.",
                f"Items have at most {MAX_ITEM_LENGTH:,}.",
            )
    asked: dict[str, Statistic] = {
        label: ItemCounts(**vars(statistic), items=tuple(dict.fromkeys(items)))
        for label, statistic in declared.items()
        if type(statistic) is TopItems
    }
    if not asked:
        raise SlidestatError(
            "item is given, but the topology has no top items.",
            'Declare them as kind = "top", TopItems() in Python; they count from then on.',
        )
    return asked
