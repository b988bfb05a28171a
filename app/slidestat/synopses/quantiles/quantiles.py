"""Quantiles of one key over any window, with a rank error that is a share of the window's events.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004): their
deterministic sketch for fixed-size, variable-size and n-of-N windows, as one set of blocks. With m
events in the window, the p-quantile is the element of rank max(1, ceil(p m)) in order of value.
Promises and costs: blocks/README.md. Why: docs/proofs.md.

Made with `FixedQuantileParameters`, it has O(1/epsilon log^2(1/epsilon)) values and the fresh ones
(one_window.py).

>>> from slidestat.synopses import QuantileParameters, Quantiles
>>> latencies = Quantiles.create(QuantileParameters(epsilon=0.01, span=60_000))
>>> latencies.insert([1_000, 2_000, 2_000, 59_000], [12.5, 8.0, 31.0, 9.5])
>>> latencies.query(60_000, 0.5)
QuantileEstimate(estimate=9.5, lower=9.5, upper=9.5, rank_error=0.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.columns import ordered
from slidestat.synopses.blocks.memory import QUANTILES
from slidestat.synopses.blocks.parameters import (
    FixedQuantileParameters,
    FixedRandomQuantileParameters,
    QuantileParameters,
    RandomQuantileParameters,
)
from slidestat.synopses.blocks.run import run_blocks
from slidestat.synopses.blocks.summary import BlockSummary, for_one_window
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, parts_of, reals
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import StoredSynopsis

_ANY_WINDOW = bytes([QUANTILES])


@dataclass(frozen=True)
class QuantileBatch:
    """The result of a batch: the new state of each group, and an answer for each query.

    estimates, lowers, uppers and rank_errors are float64[queries, spans, quantiles].
    """

    states: list[bytes]
    estimates: Floats
    lowers: Floats
    uppers: Floats
    rank_errors: Floats


def keys_of(values: npt.ArrayLike) -> Integers:
    """Return finite values as whole numbers of the same order, or raise SynopsisError."""
    array = reals("values", values)
    if array.size == 0:
        array = array.reshape(0)
    if array.ndim != 1:
        raise SynopsisError(f"values must be one row of numbers, not {array.shape}")
    if not np.all(np.isfinite(array)):
        wrong = float(array[~np.isfinite(array)][0])
        raise SynopsisError(f"value {wrong!r} has no rank: it must be finite")
    return ordered(np.ascontiguousarray(array + 0.0))  # -0.0 is 0.0


def run_quantile_batch(
    parameters: QuantileParameters | RandomQuantileParameters,
    states: Sequence[bytes | None],
    batch: Batch,
    quantiles: npt.ArrayLike,
) -> QuantileBatch:
    """Feed and ask many quantile summaries at once, one a group (key).

    The values are float64, finite. quantiles: numbers from 0 to 1 of at most six decimals; each
    query answers for each window and each of them.

    With `FixedQuantileParameters`, states of windows of any length with the same epsilon and span
    are taken, too, and become states of one window. Raises SynopsisError also for values that are
    not finite, and for windows of more than 2^40 events. Cost: O(bytes in + events * log(1/epsilon)
    + bytes out), and of a query and window O(layers/epsilon * log(1/epsilon)) once, then as much
    for each quantile. Source: Arasu and Manku 2004.
    """
    if isinstance(parameters, FixedQuantileParameters):
        states = [
            for_one_window(parameters, state) if state and state[3:4] == _ANY_WINDOW else state
            for state in states
        ]
    result = run_blocks(parameters, states, batch, keys_of(batch.values), parts_of(quantiles))
    return QuantileBatch(result.states, *result.answers)


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


class _QuantileSummary(BlockSummary[P], StoredSynopsis[P]):
    """The part that is the same however quantiles are kept."""

    def query(self, n: int, quantile: float, now: int | None = None) -> QuantileEstimate:
        """Answer for the window [now - n, now), 1 <= n <= span, `now` as in `Stored`.

        `quantile`, from 0 to 1, has at most six decimals.
        """
        result = self._run(self._question(n, now), [quantile])
        figures = (result.estimates, result.lowers, result.uppers, result.rank_errors)
        return QuantileEstimate(*(float(figure[0, 0, 0]) for figure in figures))

    def _run(self, batch: Batch, quantiles: Sequence[float] = ()) -> QuantileBatch:
        return run_quantile_batch(self._parameters, [self._data], batch, quantiles)


class Quantiles(_QuantileSummary[QuantileParameters]):
    """A synopsis of the values of one stream, with bounds that always hold."""

    kinds: ClassVar[tuple[int, ...]] = (QUANTILES,)

    made_with = QuantileParameters, FixedQuantileParameters


class RandomQuantiles(_QuantileSummary[RandomQuantileParameters]):
    """A synopsis of the values of one stream, by random thinning: right but for a stated chance.

    Source: Arasu and Manku 2004, sections 5 and 7: their randomised sketch, as one set of blocks.
    random_layout.py says what differs from theirs.

    Promises and costs: blocks/README.md. The draws are a function of the seed and of the
    events' numbers: replays repeat them, and answers of overlapping windows fail together. For the
    last `span` events alone, made with `FixedRandomQuantileParameters`, as `Quantiles` has it. The
    bound is of the same size at the usual delta; what random thinning buys is that errors cancel
    where values come in order.

    >>> from slidestat.synopses import RandomQuantileParameters, RandomQuantiles
    >>> parameters = RandomQuantileParameters(epsilon=0.01, span=60_000, delta=0.01, seed=7)
    >>> latencies = RandomQuantiles.create(parameters)
    >>> latencies.insert([1_000, 2_000, 2_000, 59_000], [12.5, 8.0, 31.0, 9.5])
    >>> latencies.query(60_000, 0.5)
    QuantileEstimate(estimate=9.5, lower=9.5, upper=9.5, rank_error=0.0)
    """

    made_with = RandomQuantileParameters, FixedRandomQuantileParameters
