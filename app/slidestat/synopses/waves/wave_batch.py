"""Waves of all keys of a batch in one call: stored bytes and events in, new bytes and answers out.

`CountWave`, `SumWave` and `PositionWave` are the same for a single key.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.batch import (
    BatchResult,
    integers,
    joined,
    slices,
    split,
    targets,
    windows,
)
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.exponential_histogram.codec import Integers
from slidestat.synopses.waves.wave_codec import COUNT, POSITION, SUM
from slidestat.synopses.waves.wave_kernel import run
from slidestat.synopses.waves.wave_parameters import MAX_VALUE, WaveParameters

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


def _numbers(asks: npt.ArrayLike) -> Integers:
    if not all(1 <= ask <= MAX_NUMBER for ask in np.asarray(asks).flat):
        raise SynopsisError(f"the number of an event asked for must be from 1 to {MAX_NUMBER}")
    return integers("asks", asks)


def run_wave_batch(
    kind: str,
    parameters: WaveParameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    values: npt.ArrayLike | None,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    asks: npt.ArrayLike,
    advances: npt.ArrayLike | None = None,
) -> BatchResult:
    """Feed and ask many waves of one kind ("count", "sum" or "position") at once, one a group.

    states: G stored states, None for a new key. starts: int64[G + 1]; the events of group g are
    times[starts[g]:starts[g + 1]] (int64, not falling; of a sum, values are int64 alike, 0 to 2^53,
    else None). query_starts, query_times: the same for queries. asks: int64[K], asked by every
    query: of counts and sums, windows from 1 to the span kept; of positions, which newest event
    (1 is the last), from 1 to 2^61 - 1. A query at q sees the state and the events with time < q.
    It leaves no trace in the state. advances: int64[G], the time each group is moved on to after
    its events, if any.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries that go back, for values that cannot be summed, and if the
    span's upper bound would come to 2^62. Cost: O(bytes in + events + queries * items + bytes out).
    """
    if kind not in KINDS:
        raise SynopsisError(f"a wave is one of {', '.join(KINDS)}, not {kind!r}")
    groups = len(states)
    times = integers("times", times)
    query_times = integers("query_times", query_times)
    starts = slices("starts", starts, groups, len(times))
    query_starts = slices("query_starts", query_starts, groups, len(query_times))
    asks = _numbers(asks) if kind == "position" else windows(asks, parameters.span)
    values = _values(KINDS[kind], values, len(times))
    arena, offsets = joined(states)
    answers = np.empty((3, len(query_times), len(asks)), np.float64)
    head = np.array([KINDS[kind], parameters.span, parameters.per_level], np.int64)
    error_code, group, a, b, out, ends = run(
        head,
        arena,
        offsets,
        starts,
        times,
        values,
        query_starts,
        query_times,
        asks,
        targets(advances, groups),
        answers,
    )
    if error_code != error_codes.OK:
        raise error_codes.synopsis_error(error_code, int(a), int(b), group if groups > 1 else -1)
    return BatchResult(split(out, ends), answers[0], answers[1], answers[2])
