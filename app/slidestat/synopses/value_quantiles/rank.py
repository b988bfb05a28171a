"""The rank of a value in a window: the number of events at most as large, and of larger ones."""

from typing import NamedTuple

from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.estimate import Estimate


class Rank(NamedTuple):
    """lower <= exact <= upper, always, of each; shares are from 0 to 1, NaN without events.

    Of the two sides the one with the lower estimate is within epsilon of itself, and so is its
    share, of what is exact for some value in the bin of the one asked about: off by at most
    `rank_value_error` of it, or for values near zero by 2^-30. (Of the events equal to that value
    any part may count.) The other side is what is left of all events, which are known to
    epsilon^2. Proof: bounds.py.
    """

    at_most: Estimate
    more_than: Estimate
    share_at_most: Estimate
    share_more_than: Estimate


def rank_of(numbers: Floats) -> Rank:
    """Return the rank in float64[4, 3]."""
    return Rank(*(Estimate(*map(float, row)) for row in numbers))
