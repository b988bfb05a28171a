"""Questions to stored states, which are asked (`live_query.py`), never declared.

- What were the figures of windows that ended so long before? (synopses/past/past.py)
- How often did an item come, of counts of any items, or of top items, listed or not?
- How many events are at most as large as a value, of quantiles by value?
- How many distinct items are there where a field by which they are declared has a text? Source:
  Gibbons, Tirthapura 2002, section 5: predicates at query time. Nobody has to have thought of the
  text while the events came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from sys import float_info
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from slidestat import synopses
from slidestat.declare.columns import MAX_ITEM_LENGTH
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.statistics.base import Promise, Statistic
from slidestat.declare.statistics.distinct import Distinct, DistinctRunner
from slidestat.declare.statistics.item_counts import ItemCounts
from slidestat.declare.statistics.quantiles import Quantiles, ValueQuantileRunner
from slidestat.declare.statistics.runner import (
    Answered,
    Listed,
    PastRunner,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    require_question,
)
from slidestat.declare.statistics.top import TopItems, TopRunner
from slidestat.declare.topology import Topology
from slidestat.declare.values import is_number
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.errors import SynopsisError

if TYPE_CHECKING:
    from slidestat.synopses.distinct.wave import Predicate
    from slidestat.synopses.frequent.named_items import NamedBatch


def past_statistics(ago: str, declared: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Return the statistics of a topology, by their labels, that can be asked of the past.

    Raises SlidestatError where none can be.
    """
    asked = {label: statistic for label, statistic in declared.items() if statistic.has_past}
    if not asked:
        raise SlidestatError(
            f"ago is {ago!r}, but of what the topology keeps nothing can be asked of the past.",
            "It needs counts, sums, means, histograms, quantiles by value, counts of items or top"
            " items. Of others, read the emissions of that time.",
        )
    return asked


def past_windows(ago: str, windows: Sequence[str], topology: Topology) -> tuple[int, Sequence[str]]:
    """Return how long ago the windows ended, and which are asked for: those given, or all of the
    topology's that the span covers.

    Raises SlidestatError for windows of events, and for what is longer than the span.
    """
    span = topology.span_length
    if span.of_events:
        raise SlidestatError(
            f"ago is {ago!r}, but the windows of {topology.name} are a key's last events.",
            "How many there were by then is not kept: leave it out, or read the emissions of that"
            " time.",
        )
    before = topology.duration(ago, "ago")
    lengths = {
        text: topology.window(text, "window").length
        for text in windows or topology.windows or (topology.span,)
    }
    covered = [text for text, length in lengths.items() if length + before <= span.length]
    missing = [text for text in windows if text not in covered]
    if missing or not covered:
        asked = f"window is {missing[0]!r}, and ago" if missing else "ago"
        raise SlidestatError(
            f"{asked} is {ago!r}: the windows begin before the {topology.span!r} that are kept.",
            f"Window and ago together are at most {topology.span!r}: ask for less, or declare a"
            " longer span, which is kept from then on.",
        )
    return before, covered


def past_figure(figure: Figure) -> Figure:
    """Return a figure of the past with the error that its bounds leave: what is promised of a
    window that ends now is not promised of it.
    """
    error = 0.0
    estimate, lower, upper = figure.estimate, figure.lower, figure.upper
    if estimate is not None and lower is not None and upper is not None and lower < upper:
        error = math.nextafter(max(upper - estimate, estimate - lower), math.inf)
    return msgspec.structs.replace(
        figure,
        relative_error=0.0,
        absolute_error=error,
        share_error=0.0,
        deviation_error=0.0,
        magnitude_error=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class AskedTopology(Topology):
    """A declared topology with the windows and statistics of a question in place of its own. Its
    states are those that `kept_by` keeps.
    """

    kept_by: Topology

    @property
    def states_of(self) -> Topology:
        """The topology whose states are kept."""
        return self.kept_by


def asked_topology(kept_by: Topology, **asked: Any) -> AskedTopology:
    """Return `kept_by` with the fields `asked`; raises SlidestatError for what cannot be."""
    declared = {field.name: getattr(kept_by, field.name) for field in fields(kept_by)}
    return AskedTopology(**{**declared, **asked}, kept_by=kept_by)


@dataclass(frozen=True)
class ItemCountRunner(UnitedRunner, PastRunner):
    """A question to states of a `TopRunner`: how often each of `items` came. Takes no events in."""

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
        return Answered([], {}, self.listed(past_totals(counts)))

    def union(self, asked: Unions) -> Answered:
        lists = self.top.union_lists(asked, 0)
        return Answered([], {}, self.listed(self._counts(lists)))

    def bundles(self, published: Mapping[str, bytes], empty: bytes) -> list[synopses.Bundle]:
        return self.top.bundles(published, empty)

    def _counts(self, lists: NamedBatch) -> Floats:
        """Return float64[3, Q, W, items]: estimates, lowers and uppers."""
        from slidestat.synopses.frequent.named_items import item_bounds

        bounds = item_bounds(lists, self.items)
        pairs = bounds.reshape(2, -1).T.tolist()
        figures = np.array([self.top.numbers(low, high) for low, high in pairs])
        return figures.T.reshape(3, *bounds.shape[1:])

    def listed(self, counts: Floats) -> list[list[list[Listed]]]:
        """Return float64[3, Q, W, items] as a list for each query and window, items in order."""
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
class TopCounts(TopItems):
    """The counts of the given `items`."""

    items: tuple[str, ...]

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ItemCountRunner(self.top_runner(span, field), self.items)

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return listed


def asked_items(items: Sequence[str], declared: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Return the statistics of a topology, by their labels, that can tell how often `items` came.

    Raises SlidestatError for a text that no item has, and where no statistic can be asked.
    """
    for item in items:
        if not isinstance(item, str):
            raise SlidestatError(f"item is {item!r}, which is no text.", 'Write "404" for 404.')
        if len(item) > MAX_ITEM_LENGTH:
            raise SlidestatError(
                f"item is a text of {len(item):,} characters.",
                f"Items have at most {MAX_ITEM_LENGTH:,}.",
            )
    different = tuple(dict.fromkeys(items))
    asked: dict[str, Statistic] = {
        label: replace(statistic, items=different)
        if isinstance(statistic, ItemCounts)
        else TopCounts(**vars(statistic), items=different)
        for label, statistic in declared.items()
        if type(statistic) in (TopItems, ItemCounts)
    }
    if not asked:
        raise SlidestatError(
            "item is given, but the topology has neither counts of items nor top items.",
            'Declare kind = "item_counts" or kind = "top", ItemCounts() or TopItems() in Python;'
            " they count from then on.",
        )
    return asked


@dataclass(frozen=True, kw_only=True)
class Ranks(Quantiles):
    """The ranks of the given `values` among the events."""

    values: tuple[float, ...]

    def runner(self, span: int, field: FieldPath) -> Runner:
        return ValueQuantileRunner(self.parameters(span), field, ranked=self.values)


def asked_ranks(values: Sequence[float], declared: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Return the statistics of a topology, by their labels, that can rank `values`.

    Raises SlidestatError for what is no finite number, and where no statistic can be asked.
    """
    for value in values:
        if not is_number(value) or not -float_info.max <= value <= float_info.max:
            raise SlidestatError(
                f"rank is {value!r}, which is no finite number.", "Give a value, such as 250."
            )
    asked: dict[str, Statistic] = {
        label: Ranks(**vars(statistic), values=tuple(dict.fromkeys(map(float, values))))
        for label, statistic in declared.items()
        if type(statistic) is Quantiles
    }
    if not asked:
        raise SlidestatError(
            "rank is given, but the topology has no quantiles by value.",
            'Declare them as kind = "quantile", Quantiles() in Python; they count from then on.',
        )
    return asked


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

    def union(self, asked: Unions) -> Answered:
        from slidestat.synopses.merge.bundle import part_times

        windows, is_meant = asked.windows, self.is_meant
        found = [
            [answer[:3] for answer in synopses.union_distinct_where(bundle, windows, at, is_meant)]
            for bundle, at in zip(asked.bundles, part_times(*asked[:2]), strict=True)
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
        """Return the promise: a share of epsilon of all pairs, which are at most the events."""
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
            if isinstance(where, str) and where.startswith(f"{field}="):
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
            f"where has a text of {len(text)} characters.", f"Items have at most {MAX_ITEM_LENGTH}."
        )
    return asked
