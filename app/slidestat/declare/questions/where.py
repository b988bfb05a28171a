"""A question to the state of distinct items by a field: how many are there where it says a text?

Source: Gibbons, Tirthapura 2002, section 5: predicates at query time. Nobody has to have thought of
the text while the events came. It is asked (`live_query.py`), never declared: a topology keeps the
`Distinct` that it is asked of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.statistics.base import Promise, Statistic
from slidestat.declare.statistics.items import Distinct
from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from slidestat.declare.runners import Runner


@dataclass(frozen=True, kw_only=True)
class DistinctWhere(Distinct):
    """The number of different items with `text` in the field `by`."""

    text: str

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.distinct import DistinctWhereRunner

        return DistinctWhereRunner(self.parameters(span), field, self.by_path, self.text)

    def promise(self, span: int) -> Promise:
        """Return the promise: a share of epsilon of all pairs, of which there are at most as many
        as events.
        """
        confidence = 1 - self.parameters(span).predicate_delta
        return Promise(share_error=self.epsilon, confidence=confidence)


def asked_where(where: str, declared: Mapping[str, Statistic]) -> dict[str, DistinctWhere]:
    """Return the statistics of a topology, by their labels, that can be asked `where`,
    "FIELD=TEXT".

    Raises SlidestatError for a field by which there are no distinct items, and for no item's text.
    """
    fields: set[str] = set()
    asked: dict[str, DistinctWhere] = {}
    for label, statistic in declared.items():
        if isinstance(statistic, Distinct) and statistic.by_path is not None:
            field = field_text(statistic.by_path)
            fields.add(field)
            if where.startswith(f"{field}="):
                text = where.removeprefix(f"{field}=")
                asked[label] = DistinctWhere(**vars(statistic), text=text)
    if not fields:
        raise SlidestatError(
            f"where is {where!r}, but the topology has no distinct items by a field.",
            'Declare them with by, as Distinct(field="user", by="country"); it counts from then'
            " on.",
        )
    texts = {statistic.text for statistic in asked.values()}
    if len(texts) != 1:
        raise SlidestatError(
            f"where is {where!r}.",
            f"Write {' or '.join(f'{field}=TEXT' for field in sorted(fields))}.",
        )
    (text,) = texts
    if len(text) > MAX_ITEM_LENGTH:
        raise SlidestatError(
            f"where has a text of {len(text)} characters.",
            f"Items have at most {MAX_ITEM_LENGTH}.",
        )
    return asked
