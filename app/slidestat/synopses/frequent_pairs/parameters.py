"""Parameters of frequent items in pairs, checked once, and the errors that follow."""

from dataclasses import dataclass

import numpy as np

from slidestat.synopses.blocks.parameters import MAX_EPSILON, MIN_EPSILON
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SPAN, check_whole
from slidestat.synopses.frequent_pairs import layout


@dataclass(frozen=True)
class PairedParameters:
    """Frequent items of windows of up to `span`, in pairs.

    epsilon: by which share of the window's events a count may be too low, 0.001 to 0.5. span:
    longest window kept, 1 to 2^53, in the unit of the event times: for the last N events, number
    the events and give the numbers as times. Raises SynopsisError for anything else.
    """

    epsilon: float
    span: int

    def __post_init__(self) -> None:
        if not (MIN_EPSILON <= self.epsilon <= MAX_EPSILON):
            raise SynopsisError(
                f"epsilon of frequent items must be from {MIN_EPSILON} to {MAX_EPSILON}, "
                f"not {self.epsilon!r}"
            )
        check_whole("span", self.span, 1, MAX_SPAN)

    @property
    def head(self) -> Integers:
        """The whole numbers that kernels take: see layout.py."""
        return np.array([self.span, *layout.choose(self.epsilon)], np.int64)

    @property
    def relative_width(self) -> float:
        """The promise: upper - lower is less than this share of the window's events, or 0.

        It is at most epsilon; the estimate, in the middle, is off by half of it at most.
        """
        return layout.promise(layout.choose(self.epsilon)[0])
