"""Lean distinct items of all keys of a batch in one call.

`LeanDistinct` is the same for a single key.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult, joined, split
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.distinct.distinct_batch import item_column
from slidestat.synopses.distinct.distinct_parameters import DELTAS, EPSILONS
from slidestat.synopses.lean_distinct.figures import figures_for
from slidestat.synopses.lean_distinct.kernel import run, unite
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters


@lru_cache(maxsize=64)
def head_of(parameters: LeanDistinctParameters) -> Integers:
    """Return `parameters` as kernels take them."""
    head = [
        round(parameters.epsilon * EPSILONS),
        round(parameters.delta * DELTAS),
        parameters.span,
        parameters.seed,
        parameters.bitmaps,
        parameters.exact,
    ]
    return np.array(head, np.int64)


def run_lean_distinct_batch(
    parameters: LeanDistinctParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many synopses of distinct items at once, one a group (key).

    states: G stored states, None for a new key. The values of `batch` are items, int64 or uint64;
    its windows are from 1 to the span kept. The answer is the number of distinct items in each.

    An answer below `parameters.exact` is exact: estimate, lower and upper are one. For others
    lower <= exact <= upper, and the estimate is off by at most epsilon of the exact number, with a
    confidence of 1 - delta each.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, and for times or queries before a state's time. Cost: O(bytes in + events
    + queries * (bits set, or events in a window with fewer than `exact` items) + bytes out), and
    once a millisecond or so for each number of bits that comes up.
    """
    columns = batch.within(parameters.span)
    items = item_column(batch.values, len(columns.times))
    answers = np.empty((2, *batch.shape), np.float64)
    out, ends = drive(run, (head_of(parameters),), states, columns, items, answers)
    return BatchResult(split(out, ends), *figures_for(parameters, answers[0], answers[1]))


def united(parameters: LeanDistinctParameters, states: Sequence[bytes]) -> bytes:
    """Return the state of the union of the streams of `states`, of the latest `now` of them.

    Raises SynopsisError for bytes that are not a state made with these parameters. Cost: O(bytes).
    """
    error_code, part, a, b, out, ends = unite(head_of(parameters), *joined(states))
    if error_code != error_codes.OK:
        raise error_codes.synopsis_error(
            error_code, int(a), int(b), part if len(states) > 1 else -1
        )
    return bytes(out[: ends[1]])
