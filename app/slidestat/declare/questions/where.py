"""A question to the state of distinct items by a field: how many are there where it says a text?

Source: Gibbons, Tirthapura 2002, section 5: predicates at query time. Nobody has to have thought of
the text while the events came. It is asked (`live_query.py`), never declared: a topology keeps the
`Distinct` that it is asked of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slidestat import synopses
from slidestat.declare.statistics.runner import (
    Answered,
    Runner,
    UnitedRunner,
    Work,
    require_question,
)
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError

if TYPE_CHECKING:
    from slidestat.synopses.distinct.wave import Predicate

from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.statistics.base import Promise, Statistic
from slidestat.declare.statistics.distinct import Distinct, DistinctRunner
from slidestat.errors import SlidestatError


@dataclass(frozen=True)
class DistinctWhereRunner(UnitedRunner):
    """A question to the states of a `DistinctRunner`: how many of the items have `text` in the
    field `by`. It takes no events in.
    """

    parameters: synopses.DistinctParameters
    field: FieldPath
    by: FieldPath | None
    text: str

    @property
    def meaning(self) -> str:
        asked_of = DistinctRunner(self.parameters, self.field, self.by)
        return f"{asked_of.meaning} where it is {self.text!r}"

    @property
    def is_meant(self) -> Predicate:
        """The predicate that an item has the text."""
        return synopses.second_is(self.text, self.parameters.seed)

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        require_question(work)
        answers = np.empty((3, len(work.query_times), len(work.windows)))
        waves, is_meant = list(map(self._wave, states)), self.is_meant
        for wave, queries in zip(waves, pairwise(work.query_starts.tolist()), strict=True):
            for query in range(*queries):
                for place, window in enumerate(work.windows.tolist()):
                    found = wave.query(window, int(work.query_times[query]), is_meant)
                    answers[:, query, place] = found.estimate, found.lower, found.upper
        return Answered([wave.to_bytes() for wave in waves], {"distinct": answers})

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        is_meant = self.is_meant
        found = [
            [
                answer[:3]
                for answer in synopses.union_distinct_where(bundle, windows, time, is_meant)
            ]
            for bundle, time in zip(bundles, times, strict=True)
        ]
        return Answered([], {"distinct": np.moveaxis(np.array(found, np.float64), 2, 0)})

    def _wave(self, state: bytes | None) -> synopses.DistinctWave:
        if state is None:
            return synopses.DistinctWave.create(self.parameters)
        wave = synopses.DistinctWave.from_bytes(state)
        if wave.parameters != self.parameters:
            raise SynopsisError("the state was made with other parameters")
        return wave


@dataclass(frozen=True, kw_only=True)
class DistinctWhere(Distinct):
    """The number of different items with `text` in the field `by`."""

    text: str

    def runner(self, span: int, field: FieldPath) -> Runner:
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
