"""How often each text came, of one key over any window: the frequent ones, by name.

Source: as paired_items.py: Misra and Gries 1982; Lee and Ting 2006. The items are 64-bit ids of the
texts (`synopses.distinct.item_ids`), and the state has besides their counts the texts of exactly
those ids that it still holds, in an entry that has not expired. With `FrequentParameters` the ids
are kept in blocks, as frequent_items.py has them: before 0.1.0 all were, and such states are read.

Promises about items hold for texts, and the kept state follows from the events, so no split shows.
A text of more than 256 bytes is shown, and stored, cut and with an ellipsis, but counted by all of
it. Two texts with the same id are counted as one, under the name that came last: some two of x
texts that were not chosen for it have one with a chance of x^2 / 2^65.

>>> from slidestat.synopses import NamedItems, PairedParameters
>>> paths = NamedItems.create(PairedParameters(epsilon=0.01, span=60_000))
>>> paths.insert([1_000, 2_000, 2_000, 59_000], ["/", "/", "/about", "/"])
>>> paths.query(60_000, 0.5)
[NamedItem(text='/', estimate=3.0, lower=3.0, upper=3.0)]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.memory import FREQUENT
from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.blocks.run import RunResult, run_blocks
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import (
    NO_QUERIES,
    TIME_MAX,
    Batch,
    Joined,
    joined,
    require_states,
    split,
)
from slidestat.synopses.core.envelope import damaged, refused
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.core.parameters import PARTS, is_from
from slidestat.synopses.core.stored import Stored, moving
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.frequent.frequent_items import FrequentBatch, FrequentItems, part_of
from slidestat.synopses.frequent.named_codec import (
    IN_BLOCKS,
    IN_PAIRS,
    MAX_TEXT,
    name_ids,
    open_inner,
    read_texts,
    write_named,
)
from slidestat.synopses.frequent_pairs.layout import PAIRED, PairedParameters
from slidestat.synopses.frequent_pairs.paired_items import PairedItems, run_pairs

ItemParameters = PairedParameters | FrequentParameters
"""Named items are kept in pairs, or in blocks, as they were before."""

_CUT = "…".encode()
_MOST_ADDED = 2.0**62


@dataclass(frozen=True)
class NamedBatch(FrequentBatch):
    """The result of a batch, as `FrequentBatch`: the items are ids, in no order to rely on, and
    their names are alike, names[at:to].
    """

    names: list[str] = field(kw_only=True)

    def listed(self, query: int, span: int) -> Iterator[tuple[int, str, int, int]]:
        """Return the id, the name, and the bounds of each item of a list."""
        place = query * self.unlisted.shape[1] + span
        own = slice(self.ends[place], self.ends[place + 1])
        bounds = self.lowers[own].tolist(), self.uppers[own].tolist()
        return zip(self.items[own].tolist(), self.names[own], *bounds, strict=True)

    def ranked(self, query: int, span: int) -> list["NamedItem"]:
        """Return the items of a list, most frequent first."""
        rows = self.listed(query, span)
        items = [NamedItem(text, (a + b) / 2, float(a), float(b)) for _, text, a, b in rows]
        return sorted(items, key=lambda item: (-item.estimate, item.text))


@dataclass(frozen=True)
class Known:
    """The texts of the states of a batch: text i is arena[places[0, i]:places[1, i]]."""

    arena: Bytes
    places: Integers

    def text(self, i: int) -> str:
        """Return text i; raises SynopsisError if it is none."""
        try:
            text = self.arena[self.places[0, i] : self.places[1, i]].tobytes()
            return text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise damaged() from None


def encoded(texts: Sequence[str]) -> tuple[Integers, list[bytes]]:
    """Return the ids of texts, and their UTF-8 bytes as they are stored and shown.

    More than MAX_TEXT bytes are cut at the end of a character, and end in an ellipsis instead: the
    id is still that of the whole text. Raises SynopsisError for what is no text.
    """
    try:
        # a lone surrogate, as JSON can have, is a character like any other
        whole = [text.encode("utf-8", "surrogatepass") for text in texts]
    except AttributeError:
        wrong = next(text for text in texts if not isinstance(text, str))
        raise SynopsisError(f"items must be texts, not {wrong!r}") from None
    return item_ids(whole), [text if len(text) <= MAX_TEXT else _cut(text) for text in whole]


def _cut(text: bytes) -> bytes:
    end = MAX_TEXT - len(_CUT)
    while text[end] & 0xC0 == 0x80:
        end -= 1
    return text[:end] + _CUT


def was_cut(text: bytes) -> bool:
    """Return whether a stored text may be the cut start of a longer one, whose id it has."""
    return text.endswith(_CUT) and len(text) > MAX_TEXT - 4


def _as_words(
    distinct: Integers, stored: Sequence[bytes]
) -> tuple[Integers, Integers, Integers, Bytes]:
    """Return the ids of texts in order, each with its place, or -1 if several texts have it; and
    the texts as one run of bytes, in which text i ends at ends[i + 1].
    """
    words, code_of_word, uses = np.unique(distinct, return_index=True, return_counts=True)
    ends = np.zeros(len(stored) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, stored), np.int64, len(stored)), out=ends[1:])
    written = np.frombuffer(bytearray().join(stored), np.uint8)
    return words, np.where(uses == 1, code_of_word, -1), ends, written


def kinds_of(parameters: ItemParameters) -> tuple[int, int]:
    """Return the kind of named items with these parameters, and that of the states of their ids."""
    return (IN_PAIRS, PAIRED) if isinstance(parameters, PairedParameters) else (IN_BLOCKS, FREQUENT)


def run_ids(
    parameters: ItemParameters,
    states: Sequence[bytes | None],
    batch: Batch,
    ids: Integers,
    share: float,
    instead: int,
) -> tuple[RunResult, Known]:
    """Run the states of the ids that are in `states`; `ids` has those of the events.

    Raises SynopsisError, also for texts that are not one for each id held.
    """
    require_states(states, batch.columns)
    arena, outer = joined(states)
    kind, of_ids = kinds_of(parameters)
    error_code, group, number, inner, offsets = open_inner(arena, outer, kind, of_ids)
    if error_code == error_codes.OK:
        part = part_of(share)
        inside = Joined(inner[: offsets[-1]], offsets)
        if isinstance(parameters, PairedParameters):
            ran = run_pairs(parameters, inside, batch, ids, part, instead)
        else:
            parts = np.array([part, instead], np.int64)
            ran = run_blocks(parameters, inside, batch, ids, parts, holds=True)
        error_code, group, places = read_texts(arena, outer, np.diff(offsets), ran.held[0])
    if error_code != error_codes.OK:
        place = int(group) if len(states) > 1 else -1
        raise error_codes.synopsis_error(error_code, int(number), 0, place, (kind,))
    return ran, Known(arena, places)


def run_named_items_batch(
    parameters: ItemParameters,
    states: Sequence[bytes | None],
    batch: Batch,
    texts: Sequence[str],
    share: float,
    instead: int = 0,
) -> NamedBatch:
    """Feed and ask many summaries of named items at once, one a group (key).

    The values are int64, the place of the event's item in `texts`. share: as for
    `run_frequent_batch`. instead: where no item has the share and counts are exact, list so many
    that came most often, of equals those of the least ids.

    Raises SynopsisError as `run_frequent_batch` does, and for a value that is no place in `texts`.
    Cost: that of `run_frequent_batch`, O(bytes of texts), and for each key that is touched O((items
    held + events) * log).
    """
    part_of(share)
    column = batch.items("codes")
    if len(column) > 0 and not (column.min() >= 0 and column.max() < len(texts)):
        raise SynopsisError(f"a code must be the place of one of {len(texts)} texts")
    distinct, stored = encoded(texts)
    ids = distinct[column]
    columns = batch.columns
    ran, known = run_ids(parameters, states, batch, ids, share, instead)

    words, word_codes, text_ends, written = _as_words(distinct, stored)

    held = ran.before, ran.held[0], known.arena, known.places
    both = *held, words, word_codes, written, text_ends, columns.starts, columns.times, ids, column

    def named(asked: Integers, to: Integers, groups: Integers, untils: Integers) -> Integers:
        places: Integers = name_ids(*both, asked, to, groups, untils)
        return places

    groups = np.arange(batch.groups)
    held_to = ran.held[1, 1:]
    places = named(ran.now[: ran.held[1, -1]], held_to, groups, np.full_like(groups, TIME_MAX + 1))
    kind, _ = kinds_of(parameters)
    out, offsets = write_named(
        kind, ran.out, ran.offsets, held_to, places, known.arena, known.places, written, text_ends
    )
    rows = np.arange(1, len(columns.query_times) + 1)
    listed = named(
        ran.lists[0],
        ran.ends[rows * len(columns.spans)],
        np.repeat(groups, np.diff(columns.query_starts)),
        columns.query_times,
    )
    names = _texts_at(listed, known, stored)
    return NamedBatch(split(out, offsets), ran.ends, *ran.lists, *ran.facts, names=names)


def item_bounds(lists: NamedBatch, texts: Sequence[str]) -> Integers:
    """Return int64[2, queries, spans, texts], lowers and uppers of how often each text came, from
    lists of all items that are held: those for a share of 0.

    Two texts with one id count as one (named_items.py).
    """
    ids = item_ids(texts)
    bounds = np.zeros((2, *lists.unlisted.shape, len(ids)), np.int64)
    bounds[1] = lists.unlisted[:, :, np.newaxis]
    for query, span in np.ndindex(lists.unlisted.shape):
        place = query * lists.unlisted.shape[1] + span
        listed = slice(lists.ends[place], lists.ends[place + 1])
        items = lists.items[listed]
        order = np.argsort(items)
        places = np.searchsorted(items[order], ids)
        there = np.flatnonzero(places < len(order))
        there = there[items[order][places[there]] == ids[there]]
        own = order[places[there]]
        bounds[:, query, span, there] = lists.lowers[listed][own], lists.uppers[listed][own]
    return bounds


def added_lists(
    lists: FrequentBatch,
    shape: tuple[int, int],
    owners: Integers,
    places: Integers,
    scales: Integers,
    share: float,
    instead: int = 0,
) -> NamedBatch:
    """Return lists that are sums of others, of separate events: for queries and spans of `shape`.

    The list at place owners[i] of the result, counted query by query, has that at places[i] of
    `lists` in it, scales[i] times. `lists` are of all items that are held, those for a share of 0.
    share, instead: which items the results have, as of `run_named_items_batch`; exact counts are
    compared once they are added up. A name is that of the first list that has the item. The result
    has no states. Raises WindowTooLargeError for windows of more than 2^62 in all.

    Source: Arasu and Manku 2004, lemma 4.1. Counts of separate events add up, and so do bounds: of
    an item that a list does not have, they are 0 and its `unlisted`.
    """
    size = shape[0] * shape[1]
    most = np.zeros(size)
    np.add.at(most, owners, lists.events_high.reshape(-1)[places] * scales.astype(np.float64))
    if (most > _MOST_ADDED).any():
        raise WindowTooLargeError("the windows hold more than 2^62 in all")
    facts = np.zeros((3, size), np.int64)
    for total, each in zip(
        facts, (lists.unlisted, lists.events_low, lists.events_high), strict=True
    ):
        np.add.at(total, owners, each.reshape(-1)[places] * scales)
    unlisted, fewest, _ = facts
    starts = lists.ends[places]
    sizes = lists.ends[places + 1] - starts
    rows = np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    of, scale = np.repeat(owners, sizes), np.repeat(scales, sizes)
    order = np.lexsort((lists.items[rows], of))
    rows, of, scale = rows[order], of[order], scale[order]
    items = lists.items[rows]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (items[1:] != items[:-1]) | (of[1:] != of[:-1])
    first = np.flatnonzero(is_first)
    other = np.repeat(lists.unlisted.reshape(-1)[places], sizes)[order]
    of = of[first]
    lowers = np.add.reduceat(lists.lowers[rows] * scale, first)
    # For an item that a list has, its own upper bound replaces the list's bound for all others.
    uppers = unlisted[of] + np.add.reduceat((lists.uppers[rows] - other) * scale, first)
    # Products of 10^6 and what a window has need not fit in 64 bits.
    wholes, rest = np.divmod(fewest, PARTS)
    part = part_of(share)
    listed = uppers >= (part * wholes - -part * rest // PARTS)[of]
    is_open = np.bincount(of[listed | (lowers != uppers)], minlength=size) + unlisted > 0
    for place in np.flatnonzero(~is_open) if instead else ():
        own = slice(*np.searchsorted(of, (place, place + 1)))
        listed[own.start + np.argsort(-lowers[own], kind="stable")[:instead]] = True
    ends = np.concatenate(
        (np.zeros(1, np.int64), np.cumsum(np.bincount(of[listed], minlength=size)))
    )
    names = lists.names if isinstance(lists, NamedBatch) else ()
    return NamedBatch(
        [],
        ends,
        items[first[listed]],
        lowers[listed],
        uppers[listed],
        *facts.reshape(3, *shape),
        names=[names[row] for row in rows[first[listed]].tolist()] if names else [],
    )


def _texts_at(places: Integers, known: Known, stored: Sequence[bytes]) -> list[str]:
    """Return the texts at places as `name_ids` gives them: below 0 those of the events."""
    return [
        known.text(place) if place >= 0 else stored[-1 - place].decode("utf-8", "surrogatepass")
        for place in places.tolist()
    ]


class NamedItem(NamedTuple):
    """`lower <= count of the text <= upper`; the estimate is in the middle."""

    text: str
    estimate: float
    lower: float
    upper: float


class NamedItems(Stored[ItemParameters]):
    """A synopsis of the texts of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (IN_BLOCKS, IN_PAIRS)

    is_checked_when_read = True

    @classmethod
    def _opened(cls, data: bytes) -> tuple[ItemParameters, int]:
        counts = _counts_of(data)
        return counts.parameters, counts.now

    def insert(self, times: npt.ArrayLike, texts: Sequence[str]) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a text for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or an item is no text.
        """
        places: dict[str, int] = {}
        row = [texts] if isinstance(texts, str) else texts
        try:
            codes = [places.setdefault(text, len(places)) for text in row]
        except TypeError:
            raise SynopsisError(f"items must be texts, not {texts!r}") from None
        self._insert(times, (np.array(codes, np.int64), list(places)))

    def query(self, n: int, share: float, now: int | None = None) -> list[NamedItem]:
        """Return the texts that may have `share` of the window [now - n, now), most frequent first.

        1 <= n <= span; `now` as in `Stored`. The share is taken to the millionth; one below epsilon
        raises SynopsisError, for texts would be missed.
        """
        epsilon = self._parameters.epsilon
        if not is_from(epsilon, 1, share):
            raise SynopsisError(f"a share must be from epsilon, {epsilon}, to 1, not {share!r}")
        return self.listed(n, share, now).ranked(0, 0)

    def stored_texts(self) -> list[str]:
        """Return the texts that the state has, rising by id."""
        known, ids = self._texts()
        return [known.text(i) for i in range(len(ids))]

    def check(self) -> None:
        """Raise SynopsisError unless the counts are sound, and each text is that of its id."""
        counts = _counts_of(self._data)
        counts.check()
        known, ids = self._texts()
        texts = [known.text(i).encode("utf-8", "surrogatepass") for i in range(len(ids))]
        for one, found, text in zip(ids.tolist(), item_ids(texts).tolist(), texts, strict=True):
            if one != found and not was_cut(text):
                raise SynopsisError(f"{text!r} is not the text of the id that is held")

    def _texts(self) -> tuple[Known, Integers]:
        nothing = moving(NO_QUERIES, NO_QUERIES, None)
        ran, known = run_ids(self._parameters, [self._data], nothing, NO_QUERIES, 0, 0)
        return known, ran.before[: ran.held[0, -1]]

    def _no_values(self) -> tuple[Integers, list[str]]:
        return NO_QUERIES, []

    def listed(self, n: int, share: float, now: int | None = None) -> NamedBatch:
        """Return the texts that may have `share`, 0 to 1, of a window, as a batch lists them."""
        return self._run(self._question(n, now), share)

    def _run(self, batch: Batch, share: float = 0) -> NamedBatch:
        codes, texts = batch.values
        own = batch.holding(codes)
        return run_named_items_batch(self._parameters, [self._data], own, texts, share)


def _counts_of(data: bytes) -> PairedItems | FrequentItems:
    """Return the summary of ids in stored bytes; raises SynopsisError."""
    is_old = data[3:4] == bytes([IN_BLOCKS])
    kinds = (IN_BLOCKS, FREQUENT) if is_old else (IN_PAIRS, PAIRED)
    error_code, _, number, inner, ends = open_inner(*joined([data]), *kinds)
    if error_code != error_codes.OK:
        raise refused(error_code, number, kinds[0])
    state = inner[: ends[1]].tobytes()
    return FrequentItems.from_bytes(state) if is_old else PairedItems.from_bytes(state)
