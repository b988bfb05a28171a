"""Quantiles of one key over any window, with a rank error that is a share of the window's events.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004): their
deterministic sketch for fixed-size, variable-size and n-of-N windows, as one set of blocks.

Contract: with m events in the window [now - n, now), n <= N, the p-quantile is the element of rank
max(1, ceil(p m)) in order of value. lower <= quantile <= upper, always. A rank of the estimate is
at most epsilon m from the one asked for, and one of lower or upper at most 2 epsilon m. Up to
2^(levels + 2) events, about 10/epsilon, the answer is exact. Proofs: blocks.py, quantile_layout.py,
quantile_answer.py.
Made with `FixedQuantileParameters`, it is for the window of the last `span` events alone, each with
a number of its own, in O(1/epsilon log^2(1/epsilon)) values and the fresh ones (one_window.py); of
windows of n < span events, ranks are off by at most epsilon min(span, events so far) then.
Space: O(1/epsilon log^2(1/epsilon) log(epsilon m)) doubles; few events, few bytes.
Cost: an event O(log(1/epsilon)) amortised; a query O(layers/epsilon log(1/epsilon)).
Order: times must not fall. Merge: merge/quantile_union.py answers for blocks of several streams,
side by side; the promise stays. (Blocks are numbered by one stream's events.)

>>> from slidestat.synopses import QuantileParameters, Quantiles
>>> latencies = Quantiles.create(QuantileParameters(epsilon=0.01, span=60_000))
>>> latencies.insert([1_000, 2_000, 2_000, 59_000], [12.5, 8.0, 31.0, 9.5])
>>> latencies.query(60_000, 0.5)
QuantileEstimate(estimate=9.5, lower=9.5, upper=9.5, rank_error=0.0)
"""

from typing import Any, ClassVar, NamedTuple, TypeVar

from slidestat.synopses.blocks.memory import FIXED_QUANTILES, QUANTILES
from slidestat.synopses.blocks.parameters import (
    FixedQuantileParameters,
    QuantileParameters,
    RandomQuantileParameters,
)
from slidestat.synopses.blocks.summary import BlockSummary
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.stored import asking
from slidestat.synopses.core.stored_values import NO_VALUES, StoredSynopsis
from slidestat.synopses.quantiles.quantile_batch import keys_of, run_quantile_batch

__all__ = ["QuantileEstimate", "QuantileParameters", "Quantiles"]


class QuantileEstimate(NamedTuple):
    """`lower <= exact <= upper`, always; a rank of `estimate` is at most `rank_error` from exact's.

    rank_error is what is certain of this window, in events: at most epsilon times the events of
    the window, and often less. All four are NaN for a window without events.
    """

    estimate: float
    lower: float
    upper: float
    rank_error: float


P = TypeVar("P", bound=QuantileParameters | RandomQuantileParameters)


class QuantileSummary(BlockSummary[P], StoredSynopsis[P]):
    """The part that is the same however quantiles are kept."""

    def query(self, n: int, quantile: float, now: int | None = None) -> QuantileEstimate:
        """Answer for the window [now - n, now), 1 <= n <= span; `now` is the summary's if None.

        `quantile`, from 0 to 1, has at most six decimals. A later `now` is a look ahead that
        changes nothing; an earlier one raises SynopsisError.
        """
        asked = asking(NO_VALUES, self._at(now), n)
        result = run_quantile_batch(self._parameters, [self._data], asked, [quantile])
        return QuantileEstimate(
            float(result.estimates[0, 0, 0]),
            float(result.lowers[0, 0, 0]),
            float(result.uppers[0, 0, 0]),
            float(result.rank_errors[0, 0, 0]),
        )

    def _moved(self, times: Integers, values: Any, to: Integers | None) -> bytes:
        return super()._moved(times, keys_of(values), to)


class Quantiles(QuantileSummary[QuantileParameters]):
    """A synopsis of the values of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (QUANTILES,)
    kind: ClassVar[int] = QUANTILES
    fixed_kind: ClassVar[int] = FIXED_QUANTILES
    shares: ClassVar[int] = 1

    @classmethod
    def _made_with(
        cls,
        shares: list[float],
        span: int,
        seed: int,  # noqa: ARG003
        *,
        fixed: bool,
    ) -> QuantileParameters:
        return (FixedQuantileParameters if fixed else QuantileParameters)(shares[0], span)
