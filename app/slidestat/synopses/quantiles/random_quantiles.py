"""Quantiles over any window by random thinning: right but for a stated chance.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004), sections 5
and 7: their randomised sketch for fixed-size, variable-size and n-of-N windows, as one set of
blocks. What differs from theirs, and the proof: random_layout.py.

Contract: of each answer, with a chance of at least 1 - delta: lower <= the quantile <= upper, and a
rank of the estimate is at most epsilon m from the one asked for, in a window [now - n, now) of m
events, n <= N. The draws are a function of the seed and the events' numbers: replays repeat them,
and answers of overlapping windows fail together. Values must not be chosen by one who knows the
seed. Up to 2^(levels + 2) events the answer is exact. For the last `span` events alone, made with
`FixedRandomQuantileParameters`, as `Quantiles` has it.
Space, cost, order: as for `Quantiles`. Merge: not offered. The bound is of the same size at the
usual delta; what random thinning buys is that errors cancel where values come in order.

>>> from slidestat.synopses import RandomQuantileParameters, RandomQuantiles
>>> parameters = RandomQuantileParameters(epsilon=0.01, span=60_000, delta=0.01, seed=7)
>>> latencies = RandomQuantiles.create(parameters)
>>> latencies.insert([1_000, 2_000, 2_000, 59_000], [12.5, 8.0, 31.0, 9.5])
>>> latencies.query(60_000, 0.5)
QuantileEstimate(estimate=9.5, lower=9.5, upper=9.5, rank_error=0.0)
"""

from typing import ClassVar

from slidestat.synopses.blocks.memory import FIXED_RANDOM_QUANTILES, RANDOM_QUANTILES
from slidestat.synopses.blocks.parameters import (
    FixedRandomQuantileParameters,
    RandomQuantileParameters,
)
from slidestat.synopses.quantiles.quantiles import QuantileSummary

__all__ = ["RandomQuantileParameters", "RandomQuantiles"]


class RandomQuantiles(QuantileSummary[RandomQuantileParameters]):
    """A synopsis of the values of one stream, with bounds that hold but for a chance of delta."""

    kind: ClassVar[int] = RANDOM_QUANTILES
    fixed_kind: ClassVar[int] = FIXED_RANDOM_QUANTILES
    shares: ClassVar[int] = 2

    @classmethod
    def _made_with(
        cls, shares: list[float], span: int, seed: int, *, fixed: bool
    ) -> RandomQuantileParameters:
        made = FixedRandomQuantileParameters if fixed else RandomQuantileParameters
        return made(shares[0], span, shares[1], seed)
