"""Frequent items over the union of a bundle's parts.

Source: Arasu and Manku 2004, lemma 4.1 (counts of disjoint parts of a window add up), for parts of
several streams. Promises: README.md, as of one part. Cost: one batch over all parts, and
O(items * log). Proof: docs/proofs.md.

The same holds for texts and for chosen items: counts are added up by the texts' ids, which are the
same in every part. Where two texts have one id (named_items.py), the first part that lists it says
which text is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.columns import column_limit, get_column, put_column
from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.envelope import Body, damaged, varint
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.core.parameters import PARTS, is_from
from slidestat.synopses.frequent.frequent_items import (
    FrequentBatch,
    FrequentItems,
    part_of,
    run_frequent_batch,
)
from slidestat.synopses.frequent.named_codec import MAX_TEXT
from slidestat.synopses.frequent.named_items import (
    ItemParameters,
    NamedBatch,
    NamedItem,
    NamedItems,
    added_lists,
    item_bounds,
    run_named_items_batch,
)
from slidestat.synopses.frequent_pairs.layout import PairedParameters
from slidestat.synopses.frequent_pairs.paired_items import PairedItems, run_paired_items_batch
from slidestat.synopses.merge.bundle import Asked, Bundle, ask
from slidestat.synopses.merge.summary import WindowFigure, WindowSummary, must_agree


@dataclass(frozen=True)
class UnionItems:
    """The items that may have the share in the union of one bundle's windows, rising by item.

    items, lowers, uppers: int64, alike. unlisted: what an item that no part lists may have at most.
    events_low and events_high bound the events of the window.
    """

    items: Integers
    lowers: Integers
    uppers: Integers
    unlisted: int
    events_low: int
    events_high: int


def union_items(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, share: float
) -> list[list[UnionItems]]:
    """Return, for each bundle and span, the items that may have `share` of [time - span, time).

    times: int64[B]; spans: int64[K], 1 to the span kept. share: from epsilon, or 0 for all items
    that are known, to 1, taken to the millionth. Raises SynopsisError as `ask` does, and for a
    share below epsilon that is not 0, for items would be missed.
    """
    asked: Asked[FrequentParameters | PairedParameters] = ask(
        PairedParameters, (*FrequentItems.kinds, *PairedItems.kinds), bundles, times, spans
    )
    made_with, states = asked.parameters, asked.states
    if isinstance(made_with, PairedParameters):
        parts = run_paired_items_batch(made_with, states, asked.batch(), 0)
    else:
        parts = run_frequent_batch(made_with, states, asked.batch(), 0)
    lists = _united(asked, parts, share)
    columns = [
        np.split(column, lists.ends[1:-1]) for column in (lists.items, lists.lowers, lists.uppers)
    ]
    found = zip(*columns, strict=True)
    return [[UnionItems(*next(found), *facts) for facts in query] for query in _facts(lists)]


def check_share(share: float, epsilon: float) -> None:
    """Raise SynopsisError for a share at which items would be missed, or that is none."""
    if not (is_from(0, 0, share) or is_from(epsilon, 1, share)):
        raise SynopsisError(f"a share must be 0, or from epsilon, {epsilon}, to 1, not {share!r}")


def _united(
    asked: Asked[Any],
    parts: FrequentBatch,
    share: float,
    instead: int = 0,
    scales: Sequence[int] = (1,),
) -> NamedBatch:
    """Return the lists of each `len(scales)` bundles in a row, each weighed by its scale."""
    check_share(share, asked.parameters.epsilon)
    bundles, spans = len(asked.starts) - 1, len(asked.spans)
    bundle = np.repeat(np.repeat(np.arange(bundles), np.diff(asked.starts)), spans)
    places = np.arange(len(bundle))
    return added_lists(
        parts,
        (bundles // len(scales), spans),
        bundle // len(scales) * spans + places % spans,
        places,
        np.array(scales, np.int64)[bundle % len(scales)],
        share,
        instead,
    )


class UnionNamedItems(NamedTuple):
    """The texts that may have the share in the union of one bundle's windows, most frequent first.

    unlisted: what a text that no part lists may have at most; events_low and events_high bound the
    events of the window.
    """

    items: list[NamedItem]
    unlisted: int
    events_low: int
    events_high: int


def union_lists(
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
    share: float,
    instead: int = 0,
    scales: Sequence[int] = (1,),
) -> NamedBatch:
    """Return, as the queries of a batch, the texts that may have `share` of [time - span, time).

    times, spans, share and what is raised: as of `union_items`; instead: as of
    `run_named_items_batch`. With `scales`, each `len(scales)` bundles in a row have one list
    together, in which their counts are multiplied by these.
    """
    asked: Asked[ItemParameters] = ask(PairedParameters, NamedItems.kinds, bundles, times, spans)
    parts = run_named_items_batch(asked.parameters, asked.states, asked.batch(), (), 0)
    return _united(asked, parts, share, instead, scales)


def union_named_items(
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
    share: float,
    instead: int = 0,
) -> list[list[UnionNamedItems]]:
    """Return, for each bundle and span, the texts that may have `share` of [time - span, time).

    All is as of `union_lists`.
    """
    lists = union_lists(bundles, times, spans, share, instead)
    found: list[list[UnionNamedItems]] = []
    for query, facts in enumerate(_facts(lists)):
        found.append([])
        for span, of_window in enumerate(facts):
            found[-1].append(UnionNamedItems(lists.ranked(query, span), *of_window))
    return found


def _facts(lists: NamedBatch) -> list[list[list[int]]]:
    """Return `unlisted`, `events_low` and `events_high` of each query and span."""
    facts = lists.unlisted, lists.events_low, lists.events_high
    return np.stack(facts, axis=-1).tolist()  # type: ignore[no-any-return]


def union_item_counts(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, texts: Sequence[str]
) -> Floats:
    """Return float64[3, bundles, spans, texts]: estimates, lowers and uppers of how often each text
    came in [time - span, time).

    times, spans and what is raised: as of `union_items`. Cost: as there.
    """
    lowers, uppers = item_bounds(union_lists(bundles, times, spans, 0), texts)
    return np.stack(((lowers + uppers) / 2, lowers, uppers))


# Frequent items of one window: bounds for the counts of at most MOST_ITEMS of them.
#
# Source: mergeable summaries (Agarwal, Cormode, Huang, Phillips, Wei, Yi 2012, section 3: merging
# Misra-Gries summaries), with the bounds of each item carried along.
#
# Promises: README.md. With together at most MOST_ITEMS items nothing is left out, and
# merging is associative to the byte; the order of one merge never shows. Why: docs/proofs.md.
#
# The body (see summary.py) has whether items are texts, the least number of events and how many
# more there may be, `unlisted`, and how many items are listed; then (columns.py) the items, rising,
# their lower bounds, and the widths; of texts also the length in bytes of each, and all texts.

MOST_ITEMS = 2_048
_MOST_EVENTS = 1 << 62


class WindowItem(NamedTuple):
    """`lower <= count of the item <= upper`; the estimate is in the middle. text: of named ones."""

    item: int
    text: str | None
    estimate: float
    lower: int
    upper: int

    @property
    def name(self) -> str:
        """Return its text, or the number as a text."""
        return str(self.item) if self.text is None else self.text


@dataclass(frozen=True)
class WindowItems(WindowSummary):
    """ids, lowers, uppers: int64[k], by rising id, which is the item if that is a number; else
    `texts` has the text of each id.

    unlisted: what an item that is not listed may have at most. events_low and events_high bound the
    events of the window.
    """

    ids: Integers
    lowers: Integers
    uppers: Integers
    unlisted: int
    events_low: int
    events_high: int
    texts: Mapping[int, bytes] | None = field(default=None)

    form: ClassVar[int] = 5
    kinds: ClassVar[tuple[int, ...]] = (*FrequentItems.kinds, *NamedItems.kinds, *PairedItems.kinds)

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowItems":
        families: tuple[type[NamedItems | PairedItems | FrequentItems], ...]
        families = NamedItems, PairedItems, FrequentItems
        family = next(one for one in families if state[3] in one.kinds)
        found = family.from_bytes(state).listed(n, 0, now)
        texts = None
        if isinstance(found, NamedBatch):
            names = [name.encode("utf-8", "surrogatepass") for name in found.names]
            texts = dict(zip(found.items.tolist(), names, strict=True))
        order = np.argsort(found.items)
        items, lowers, uppers = (c[order] for c in (found.items, found.lowers, found.uppers))
        facts = (found.unlisted, found.events_low, found.events_high)
        rest, least, most = (int(fact[0, 0]) for fact in facts)
        return _within_room(cls(items, lowers, uppers, rest, least, most, texts))

    def merge(self, *others: "WindowItems") -> "WindowItems":
        parts = (self, *others)
        must_agree(self._what, tuple(other._what for other in others))
        most = sum(part.events_high for part in parts)
        if most > _MOST_EVENTS:
            raise WindowTooLargeError("the windows hold more than 2^62 events together")
        unlisted = sum(part.unlisted for part in parts)
        items, which = np.unique(np.concatenate([part.ids for part in parts]), return_inverse=True)
        lowers = np.zeros(len(items), np.int64)
        uppers = np.full(len(items), unlisted, np.int64)
        np.add.at(lowers, which, np.concatenate([part.lowers for part in parts]))
        # where it is listed, an item has its own upper bound in place of that for all others
        np.add.at(uppers, which, np.concatenate([part.uppers - part.unlisted for part in parts]))
        texts: dict[int, bytes] | None = None
        if self.texts is not None:
            texts = {}
            for item, text in (pair for part in parts for pair in (part.texts or {}).items()):
                texts[item] = min(text, texts.get(item, text))  # two texts of one id: either
        least = sum(part.events_low for part in parts)
        return _within_room(WindowItems(items, lowers, uppers, unlisted, least, most, texts))

    def items(self, share: float = 0.0) -> list[WindowItem]:
        """Return the items that may have `share` of the events, the most frequent first.

        The share is taken to the millionth.
        """
        least = part_of(share) * self.events_low
        columns = (self.ids.tolist(), self.lowers.tolist(), self.uppers.tolist())
        found = [
            WindowItem(item, self._text(item), (lower + upper) / 2, lower, upper)
            for item, lower, upper in zip(*columns, strict=True)
            if upper * PARTS >= least
        ]
        return sorted(found, key=lambda one: (-one.estimate, one.text or "", one.item))

    def _text(self, item: int) -> str | None:
        if self.texts is None:
            return None
        return self.texts[item].decode("utf-8", "surrogatepass")

    @property
    def _what(self) -> str:
        return "numbers" if self.texts is None else "texts"

    def figures(self, _quantiles: Sequence[float], share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("item", item, item=item.name) for item in self.items(share)]

    def body(self) -> bytes:
        size = len(self.ids)
        head = [0 if self.texts is None else 1]
        head += [self.events_low, self.events_high - self.events_low, self.unlisted, size]
        columns = [self.ids, self.lowers, self.uppers - self.lowers]
        texts = []
        if self.texts is not None:
            texts = [self.texts[item] for item in self.ids.tolist()]
            columns.append(np.array([len(text) for text in texts], np.int64))
        room = np.empty(len(columns) * column_limit(size), np.uint8)
        at = 0
        for column in columns:
            at = put_column(room, at, column, False)
        return b"".join([*map(varint, head), room[:at].tobytes(), *texts])

    @classmethod
    def from_body(cls, body: Body) -> "WindowItems":
        is_named = body.number(most=1)
        least, more, unlisted = (body.number(most=_MOST_EVENTS) for _ in range(3))
        size = body.number(most=MOST_ITEMS)
        columns = [np.empty(size, np.int64) for _ in range(3 + is_named)]
        for column in columns:
            body.at = get_column(body.array, body.at, len(body.array), column, False)
            if body.at < 0:
                raise damaged()
        items, lowers, widths = columns[:3]
        sound = np.all((lowers >= 0) & (widths >= 0) & (widths <= _MOST_EVENTS - lowers))
        if not sound or np.any(items[1:] <= items[:-1]) or least + more > _MOST_EVENTS:
            raise damaged()
        texts = None
        if is_named:
            sizes = columns[3]
            if np.any((sizes < 0) | (sizes > MAX_TEXT)):
                raise damaged()
            texts = {
                item: body.taken(length)
                for item, length in zip(items.tolist(), sizes.tolist(), strict=True)
            }
            try:
                for text in texts.values():
                    text.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                raise damaged() from None
        return cls(items, lowers, lowers + widths, unlisted, least, least + more, texts)


def _within_room(whole: WindowItems) -> WindowItems:
    """Return a summary of the same window that lists at most MOST_ITEMS items."""
    if len(whole.ids) <= MOST_ITEMS:
        return whole
    off = int(np.sort(whole.lowers)[-MOST_ITEMS - 1])
    stays = whole.lowers > off
    unlisted = max(whole.unlisted, int(whole.uppers[~stays].max()))
    ids, texts = whole.ids[stays], whole.texts
    if texts is not None:
        texts = {item: texts[item] for item in ids.tolist()}
    lowers, uppers = whole.lowers[stays] - off, whole.uppers[stays]
    return replace(whole, ids=ids, lowers=lowers, uppers=uppers, unlisted=unlisted, texts=texts)
