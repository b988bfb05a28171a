"""The answer of every query: a figure and the two bounds that hold for it."""

from typing import NamedTuple


class Estimate(NamedTuple):
    """`lower <= exact <= upper`, always; `estimate` lies between and keeps the promised error.

    All three are in the unit of what is estimated: events for a count, the values' unit for a sum.
    """

    estimate: float
    lower: float
    upper: float
