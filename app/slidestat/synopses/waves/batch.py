"""Waves of all keys of a batch in one call: stored bytes and events in, new bytes and answers out.

`CountWave`, `SumWave` and `PositionWave` are the same for a single key.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult, integers, split
from slidestat.synopses.core.envelope import refusals
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.waves.codec import COUNT, POSITION, SUM
from slidestat.synopses.waves.kernel import run
from slidestat.synopses.waves.parameters import MAX_VALUE, WaveParameters

KINDS = {"count": COUNT, "sum": SUM, "position": POSITION}
MAX_NUMBER = (1 << 61) - 1
"""No event further back than this is asked for by number."""


def _values(kind: int, values: npt.ArrayLike | None, length: int) -> Integers:
    if kind != SUM:
        if values is not None:
            raise SynopsisError("a wave of counts or of positions takes times alone, no values")
        return np.empty(0, np.int64)
    if values is None:
        raise SynopsisError("a sum needs a value for each time")
    array = integers("values", values)
    if array.shape != (length,):
        raise SynopsisError(f"a sum needs a value for each time: {length}, not {len(array)}")
    outside = (array < 0) | (array > MAX_VALUE)
    if outside.any():
        value = int(array[np.argmax(outside)])
        raise SynopsisError(f"value {value} cannot be summed: values are from 0 to 2^53")
    return array


def require_numbers(asks: Integers) -> None:
    """Raise SynopsisError for numbers that no event has, from the newest on."""
    if not all(1 <= ask <= MAX_NUMBER for ask in asks.tolist()):
        raise SynopsisError(f"the number of an event asked for must be from 1 to {MAX_NUMBER}")


def run_wave_batch(
    kind: str, parameters: WaveParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many waves of one kind ("count", "sum" or "position") at once, one a group.

    states: G stored states, None for a new key. The values of `batch` are int64 for a sum, 0 to
    2^53, else None. Its spans are, of counts and sums, windows from 1 to the span kept; of
    positions, which newest event is asked for (1 is the last), from 1 to 2^61 - 1.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries before a state's time, for values that cannot be
    summed, and if the span's upper bound would come to 2^62. Cost: O(bytes in + events + queries *
    items + bytes out).
    """
    if kind not in KINDS:
        raise SynopsisError(f"a wave is one of {', '.join(KINDS)}, not {kind!r}")
    if kind == "position":
        require_numbers(batch.columns.spans)
        columns = batch.columns
    else:
        columns = batch.within(parameters.span)
    values = _values(KINDS[kind], batch.values, len(columns.times))
    answers = np.empty((3, *batch.shape), np.float64)
    head = np.array([KINDS[kind], parameters.span, parameters.per_level], np.int64)
    error_of = refusals(states, KINDS[kind])
    out, ends = drive(run, (head,), states, columns, values, answers, error_of=error_of)
    return BatchResult(split(out, ends), *answers)
