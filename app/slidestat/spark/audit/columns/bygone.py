"""Events that no window of a key has any more: what is still asked of them."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class Totals(NamedTuple):
    """The totals of a statistic of all events since the key's first: the number taken in, and their
    sum.
    """

    taken: int = 0
    total: Fraction = Fraction()

    def plus(self, other: "Totals") -> "Totals":
        """Return the sum of both."""
        return Totals(self.taken + other.taken, self.total + other.total)


@dataclass
class Bygone:
    """The state of dropped events, by the label of a statistic: totals since the key's first event,
    or since it was forgotten last; and the times of the last events that were taken in, as many as
    an age may go back.

    `last_offset` is the largest of any event.
    """

    last_offset: int = -1
    totals: dict[str, Totals] = field(default_factory=dict)
    times: dict[str, Int64s] = field(default_factory=dict)

    def totals_of(self, label: str) -> Totals:
        """Return the totals of a statistic; zeros for one that has none."""
        return self.totals.get(label, Totals())

    def times_of(self, label: str) -> Int64s:
        """Return the kept times of a statistic, rising."""
        return self.times.get(label, np.zeros(0, np.int64))
