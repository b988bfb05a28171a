"""All keys of a batch in one call: quantile summaries and events in, the same and answers out.

`Quantiles` and `RandomQuantiles` are the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.columns import ordered
from slidestat.synopses.blocks.convert import for_one_window
from slidestat.synopses.blocks.memory import QUANTILES
from slidestat.synopses.blocks.parameters import (
    FixedQuantileParameters,
    QuantileParameters,
    RandomQuantileParameters,
)
from slidestat.synopses.blocks.run import run_blocks
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.quantile_parts import parts_of

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
    array = np.asarray(values, np.float64)
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

    However the events are split into batches, the states end in the same bytes. With
    `FixedQuantileParameters`, states of windows of any length with the same epsilon and span are
    taken, too, and go on as states of one.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries before a state's time, for values that are not
    finite, and for windows of more than 2^40 events. Cost: O(bytes in + events * log(1/epsilon) +
    bytes out), and of a query and window O(layers/epsilon * log(1/epsilon)) once, then as much for
    each quantile. Source: Arasu and Manku 2004.
    """
    if isinstance(parameters, FixedQuantileParameters):
        states = [
            for_one_window(parameters, state) if state and state[3:4] == _ANY_WINDOW else state
            for state in states
        ]
    result = run_blocks(parameters, states, batch, keys_of(batch.values), parts_of(quantiles))
    return QuantileBatch(result.states, *result.answers)
