"""How often each text came, of one key over any window: the frequent ones, by name.

Source: as paired_items.py: Misra and Gries 1982; Lee and Ting 2006. The items are 64-bit ids of the
texts (`synopses.distinct.item_ids`), and the state has besides their counts the texts of exactly
those ids that it still holds, in an entry that has not expired. With `FrequentParameters` the ids
are kept in blocks, as frequent_items.py has them: before 0.1.0 all were, and such states are read.

Contract: of paired_items.py, for texts: with m events in the window, lower <= count <= upper,
upper - lower < epsilon m, and a list for a share s >= epsilon misses none that has s m events. What
is held follows from the events, so no split shows. A text of more than 256 bytes is shown, and
stored, cut and with an ellipsis, but counted by all of it.
Two texts with the same id are counted as one, under the name that came last.
Of x texts that were not chosen for it, some two have the same id with a chance of x^2 / 2^65; one
who wants to can find such texts, and gets a wrong name shown, no more.
Space: that of paired_items.py, with ids of 8 bytes; and at most 258 bytes for each id held.
Cost, order, limits: as for `PairedItems`. Merge: merge/items.py.

>>> from slidestat.synopses import NamedItems, PairedParameters
>>> paths = NamedItems.create(PairedParameters(epsilon=0.01, span=60_000))
>>> paths.insert([1_000, 2_000, 2_000, 59_000], ["/", "/", "/about", "/"])
>>> paths.query(60_000, 0.5)
[NamedItem(text='/', estimate=3.0, lower=3.0, upper=3.0)]
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.memory import FREQUENT
from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.blocks.run import summary_error
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import NO_QUERIES, Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import Stored, moving
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.frequent.frequent_items import FrequentItems
from slidestat.synopses.frequent.named_batch import (
    ItemParameters,
    Known,
    NamedBatch,
    run_ids,
    run_named_items_batch,
    was_cut,
)
from slidestat.synopses.frequent.named_codec import IN_BLOCKS, IN_PAIRS, open_inner
from slidestat.synopses.frequent_pairs.layout import PAIRED
from slidestat.synopses.frequent_pairs.paired_items import PairedItems
from slidestat.synopses.frequent_pairs.parameters import PairedParameters

__all__ = [
    "FrequentParameters",
    "NamedBatch",
    "NamedItem",
    "NamedItems",
    "PairedParameters",
    "run_named_items_batch",
]

Column = tuple[Integers, list[str]]


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

        1 <= n <= span; `now` is the summary's if None, a later one is a look ahead that changes
        nothing. The share is taken to the millionth; one below epsilon raises SynopsisError, for
        texts would be missed.
        """
        epsilon = self._parameters.epsilon
        if not (epsilon <= share <= 1):
            raise SynopsisError(f"a share must be from epsilon, {epsilon}, to 1, not {share!r}")
        result = self._listed(self._question(n, now), share)
        bounds = zip(result.names, result.lowers.tolist(), result.uppers.tolist(), strict=True)
        items = [
            NamedItem(text, (lower + upper) / 2, float(lower), float(upper))
            for text, lower, upper in bounds
        ]
        return sorted(items, key=lambda item: (-item.estimate, item.text))

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

    def _no_values(self) -> Column:
        return NO_QUERIES, []

    def _run(self, batch: Batch) -> NamedBatch:
        return self._listed(batch, 0)

    def _listed(self, batch: Batch, share: float) -> NamedBatch:
        codes, texts = batch.values
        own = batch.holding(codes)
        return run_named_items_batch(self._parameters, [self._data], own, texts, share)


def _counts_of(data: bytes) -> PairedItems | FrequentItems:
    """Return the summary of ids in stored bytes; raises SynopsisError."""
    array = np.frombuffer(bytearray(data), np.uint8)
    if len(array) < wire.BODY:
        raise summary_error(error_codes.NOT_A_SYNOPSIS, 0, 0, -1)
    is_old = array[3] == IN_BLOCKS
    kinds = (IN_BLOCKS, FREQUENT) if is_old else (IN_PAIRS, PAIRED)
    error_code, _, a, b, inner, ends = open_inner(
        array, np.array([0, len(array)], np.int64), *kinds
    )
    if error_code != error_codes.OK:
        raise summary_error(error_code, int(a), int(b), -1)
    state = inner[: ends[1]].tobytes()
    return FrequentItems.from_bytes(state) if is_old else PairedItems.from_bytes(state)
