"""The part that summaries of frequent items of one key share: items in, lists of them out."""

from abc import abstractmethod
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import NO_QUERIES, integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.stored import Stored
from slidestat.synopses.frequent.frequent_batch import FrequentBatch

P = TypeVar("P")


class FrequentItem(NamedTuple):
    """`lower <= count of item <= upper`; the estimate is in the middle."""

    item: int
    estimate: float
    lower: float
    upper: float


class ItemSummary(Stored[P]):
    """A synopsis of the items of one stream."""

    def insert(self, times: npt.ArrayLike, items: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and an item (int64) for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or an item is no number.
        """
        self._insert(times, integers("items", np.atleast_1d(items)))

    def frequent(self, n: int, share: float, now: int | None = None) -> list[FrequentItem]:
        """Return the items that may have `share` of the window [now - n, now), most frequent first.

        1 <= n <= span; `now` is the summary's if None, a later one is a look ahead that changes
        nothing. The share is taken to the millionth; one below epsilon raises SynopsisError, for
        items would be missed.
        """
        if not (self._epsilon() <= share <= 1):
            raise SynopsisError(
                f"a share must be from epsilon, {self._epsilon()}, to 1, not {share!r}"
            )
        return self._counts(n, share, now)[0]

    def query(self, n: int, item: int, now: int | None = None) -> Estimate:
        """Return the count of `item` in the window [now - n, now); n and now as for `frequent`."""
        counts, unlisted = self._counts(n, 0, now)
        for known in counts:
            if known.item == item:
                return Estimate(known.estimate, known.lower, known.upper)
        return Estimate(unlisted / 2, 0.0, float(unlisted))

    def _counts(self, n: int, share: float, now: int | None) -> tuple[list[FrequentItem], int]:
        result = self._asked(n, share, self._at(now))
        columns = (result.items.tolist(), result.lowers.tolist(), result.uppers.tolist())
        counts = [
            FrequentItem(item, (lower + upper) / 2, float(lower), float(upper))
            for item, lower, upper in zip(*columns, strict=True)
        ]
        counts.sort(key=lambda count: -count.estimate)
        return counts, int(result.unlisted[0, 0])

    def _no_values(self) -> Integers:
        return NO_QUERIES

    @abstractmethod
    def _epsilon(self) -> float:
        """Return the least share that can be asked for."""

    @abstractmethod
    def _asked(self, n: int, share: float, at: int) -> FrequentBatch:
        """Ask the state at time `at`."""
