"""Counts and sums of all keys of a batch in one call: exponential histograms.

`ExponentialHistogram` is the same for a single key.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult, split
from slidestat.synopses.core.envelope import refusals
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.parameters import Parameters, SumParameters
from slidestat.synopses.exponential_histogram.codec import COUNT, KIND, SUM
from slidestat.synopses.exponential_histogram.kernel import run


def head_of(parameters: Parameters) -> Integers:
    """Return `parameters` as kernels take them: kind, span, l, decimals."""
    if isinstance(parameters, SumParameters):
        head = [SUM, parameters.span, parameters.buckets_per_level, parameters.decimals]
    else:
        head = [COUNT, parameters.span, parameters.buckets_per_level, 0]
    return np.array(head, np.int64)


def _values(parameters: Parameters, values: npt.ArrayLike | None, length: int) -> Floats:
    if not isinstance(parameters, SumParameters):
        if values is not None:
            raise SynopsisError("a count takes times alone, no values")
        return np.empty(0, np.float64)
    if values is None:
        raise SynopsisError("a sum needs a value for each time")
    array = np.ascontiguousarray(values, np.float64)
    if array.shape != (length,):
        raise SynopsisError(f"a sum needs a value for each time: {length}, not {array.shape}")
    return array


def run_batch(parameters: Parameters, states: Sequence[bytes | None], batch: Batch) -> BatchResult:
    """Feed and ask many exponential histograms at once, one a group (key).

    states: G stored states, None for a new key. The values of `batch` are float64 for a sum, None
    for a count; its windows are from 1 to the span kept.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries before a state's time, for values that cannot be
    summed, and for windows of more than 2^62 units. Cost: O(bytes in + events + queries * log +
    bytes out). Source: Datar et al. 2002, sections 2 and 4.
    """
    columns = batch.within(parameters.span)
    values = _values(parameters, batch.values, len(columns.times))
    answers = np.empty((3, *batch.shape), np.float64)
    head = head_of(parameters)
    error_of = refusals(states, int(head[KIND]))
    own = values, answers
    out, ends = drive(run, (head,), states, columns, *own, values=values, error_of=error_of)
    return BatchResult(split(out, ends), *answers)
