"""A question to the state of top items: how often did an item come, listed or not?

It is asked (`live_query.py`), never declared: a topology keeps the `TopItems` that it is asked of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class ItemCountRunner(UnitedRunner, PastRunner):
    """A question to the states of a `TopRunner`: how often each of `items` came. It takes no events
    in.
    """

    parameters: synopses.PairedParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        return f"{TopRunner(self.parameters, self.field).meaning} counted of {list(self.items)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        require_question(work)
        from slidestat.synopses.frequent.named_batch import run_item_counts

        states, counts = run_item_counts(self.parameters, states, *work.queries, self.items)
        return Answered(states, {}, self.listed(counts))

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.frequent.named_batch import run_item_counts
        from slidestat.synopses.past.past import past_totals

        require_question(work)
        _, counts = run_item_counts(self.parameters, states, *work.longer(ago).queries, self.items)
        return Answered([], {}, self.listed(past_totals(counts[:, :, :-1], counts[:, :, -1:])))

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        counts = synopses.union_item_counts(bundles, times, windows, self.items)
        return Answered([], {}, self.listed(counts))

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
        return ItemCountRunner(self.parameters(span), field, self.items)

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
