"""Parameters of frequent items in pairs, checked once, and the errors that follow."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat.synopses.blocks.parameters import SummaryParameters
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.frequent_pairs import layout


@dataclass(frozen=True)
class PairedParameters(SummaryParameters):
    """Frequent items of windows of up to `span`, in pairs.

    epsilon: by which share of the window's events a count may be too low, 0.001 to 0.5. span:
    longest window kept, 1 to 2^53, in the unit of the event times: for the last N events, number
    the events and give the numbers as times. Raises SynopsisError for anything else.
    """

    what: ClassVar[str] = "frequent items"

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
