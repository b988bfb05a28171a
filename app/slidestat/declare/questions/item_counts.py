"""A question to the state of top items: how often did an item come, listed or not?

It is asked (`live_query.py`), never declared: a topology keeps the `TopItems` that it is asked of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.statistics.items import TopItems
from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from slidestat.declare.runners import Listed, Runner


@dataclass(frozen=True, kw_only=True)
class ItemCounts(TopItems):
    """The counts of the given `items`."""

    items: tuple[str, ...]

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.frequent import ItemCountRunner

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
