"""All keys of a batch in one call: quantile summaries and events in, the same and answers out.

`Quantiles` is the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.synopses import faults
from app.synopses.batch import integers, slices
from app.synopses.compile import kernel
from app.synopses.errors import SynopsisError
from app.synopses.histogram_codec import TIME_MAX, TIME_MIN
from app.synopses.levels.block_codec import read_envelope, summary_error
from app.synopses.levels.blocks import BASE, EVENT_LIMIT, LIVE_LIMIT, tail_length
from app.synopses.levels.quantile_answer import PARTS, answer, collect
from app.synopses.levels.quantile_codec import (
    QUANTILES,
    blocks_for,
    decode,
    encode,
    encoded_limit,
    read_numbers,
)
from app.synopses.levels.quantile_kernel import (
    DEAD,
    LEVELS,
    NOW,
    SPAN,
    STATE_SIZE,
    TAIL,
    TOTAL,
    Floats,
    Integers,
    absorb,
    settle,
)
from app.synopses.levels.quantile_layout import choose
from app.synopses.levels.quantile_parameters import QuantileParameters
from app.synopses.wire import VERSION, Bytes


@dataclass(frozen=True)
class QuantileBatch:
    """What a batch left: the new state of each group, and an answer for each query.

    estimates, lowers, uppers and rank_errors are float64[queries, spans, quantiles].
    """

    states: list[bytes]
    estimates: Floats
    lowers: Floats
    uppers: Floats
    rank_errors: Floats


def head_of(parameters: QuantileParameters) -> Integers:
    """Return `parameters` as kernels take them: kind, span, and the layout of their epsilon."""
    return np.array([QUANTILES, parameters.span, *choose(parameters.epsilon)], np.int64)


@kernel
def _run(
    head: Integers,
    epsilon: float,
    arena: Bytes,
    offsets: Integers,
    starts: Integers,
    times: Integers,
    values: Floats,
    query_starts: Integers,
    query_times: Integers,
    spans: Integers,
    parts: Integers,
    advances: Integers,
    answers: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries in time order; `run_quantile_batch` says what these are.

    Returns (fault, group, its two numbers, new arena, its offsets).
    """
    groups = len(starts) - 1
    found = head.copy()
    state = np.empty(STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    end = 0
    for group in range(groups):
        first = starts[group]
        added = starts[group + 1] - first
        stored = offsets[group + 1] > offsets[group]
        state[TOTAL] = 0
        state[NOW] = TIME_MIN
        state[DEAD] = -1
        state[TAIL] = 0
        at = 0
        if stored:
            fault, number, other = read_envelope(
                arena, offsets[group], offsets[group + 1], QUANTILES
            )
            if fault != faults.OK:
                known = VERSION if fault == faults.NEWER_VERSION else QUANTILES
                return fault, group, number, known, out, out_offsets
            if other != epsilon:
                return faults.OTHER_PARAMETERS, group, 0, 0, out, out_offsets
            fault, _, at = read_numbers(arena, offsets[group], offsets[group + 1], found, state)
            if fault != faults.OK:
                return fault, group, 0, 0, out, out_offsets
            if found[SPAN] != head[SPAN]:
                return faults.OTHER_PARAMETERS, group, 0, 0, out, out_offsets
        if state[TOTAL] + added > EVENT_LIMIT:
            return faults.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets
        tail = state[TOTAL] - state[TAIL]
        my_times = np.empty(tail + added, np.int64)
        my_values = np.empty(tail + added, np.float64)
        my_times[tail:] = times[first : first + added]
        my_values[tail:] = values[first : first + added]
        blocks = blocks_for(head, state, added)
        if stored:
            fault = decode(arena, at, offsets[group + 1], head, state, my_times, my_values, blocks)
            if fault != faults.OK:
                return fault, group, 0, 0, out, out_offsets
        event = first
        total = state[TOTAL]
        previous = max(state[NOW] - 1, TIME_MIN)
        asked = state[NOW]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            is_query = query < query_starts[group + 1]
            until = query_times[query] if is_query else TIME_MAX + 1
            if until < asked or until > TIME_MAX + 1:
                return faults.QUERY_WENT_BACK, group, until, asked, out, out_offsets
            while event < starts[group + 1] and (times[event] < until or not is_query):
                time = times[event]
                if time > TIME_MAX or time < TIME_MIN:
                    return faults.TIME_OUT_OF_RANGE, group, time, 0, out, out_offsets
                if time < previous:
                    return faults.TIME_WENT_BACK, group, time, previous, out, out_offsets
                previous = time
                event += 1
                total += 1
            absorb(head, state, my_times, my_values, blocks, total)
            if is_query:
                asked = until
                begin = max((total >> BASE << BASE) - tail_length(head[LEVELS]), state[TAIL])
                for k in range(len(spans)):
                    steps, covered, straddling, least, most = collect(
                        head, state, my_times, my_values, blocks, begin, until - spans[k]
                    )
                    for j in range(len(parts)):
                        figures = answer(steps, covered, straddling, least, most, parts[j])
                        for i in range(4):
                            answers[i, query, k, j] = figures[i]
        if advances[group] > TIME_MIN:
            if advances[group] < state[NOW]:
                return faults.TIME_WENT_BACK, group, advances[group], state[NOW], out, out_offsets
            state[NOW] = advances[group]
        begin = settle(head, state, my_times, blocks)
        if state[TOTAL] - 1 - state[DEAD] > LIVE_LIMIT:
            return faults.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets
        limit = encoded_limit(head, state, begin)
        if len(out) - end < limit:
            longer = np.empty(2 * len(out) + limit, np.uint8)
            longer[:end] = out[:end]
            out = longer
        end = encode(out, end, head, epsilon, state, my_times, my_values, blocks, begin)
        out_offsets[group + 1] = end
    return faults.OK, 0, 0, 0, out, out_offsets


def parts_of(quantiles: npt.ArrayLike) -> Integers:
    """Return quantiles from 0 to 1 in millionths; raises SynopsisError for any other number."""
    array = np.atleast_1d(np.asarray(quantiles, np.float64))
    if array.ndim != 1 or not np.all((array >= 0) & (array <= 1)):
        raise SynopsisError(f"a quantile must be a number from 0 to 1, not {quantiles!r}")
    return np.ascontiguousarray(np.rint(array * PARTS), np.int64)


def finite(values: npt.ArrayLike, length: int) -> Floats:
    """Return `length` doubles, -0.0 as 0.0, or raise SynopsisError."""
    array = np.asarray(values, np.float64)
    if array.size == 0:
        array = array.reshape(0)
    if array.shape != (length,):
        raise SynopsisError(f"quantiles need a value for each time: {length}, not {array.shape}")
    if not np.all(np.isfinite(array)):
        wrong = float(array[~np.isfinite(array)][0])
        raise SynopsisError(f"value {wrong!r} has no rank: it must be finite")
    return np.ascontiguousarray(array + 0.0)


def run_quantile_batch(
    parameters: QuantileParameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    values: npt.ArrayLike,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    quantiles: npt.ArrayLike,
    advances: npt.ArrayLike | None = None,
) -> QuantileBatch:
    """Feed and ask many quantile summaries at once, one a group (key).

    states, starts, times, query_starts, query_times, spans, advances: as `run_batch` has them.
    values: float64, finite, one a time. quantiles: numbers from 0 to 1, taken to the millionth;
    each query answers for each window and each of them. A query leaves no trace in the state.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries that go back, for values that are not finite, and for windows
    of more than 2^40 events. Cost: O(bytes in + events * log(1/epsilon) + bytes out), and of a
    query and window O(layers/epsilon * log(1/epsilon)) once, then as much for each quantile.
    Source: Arasu and Manku 2004.
    """
    groups = len(states)
    times = integers("times", times)
    query_times = integers("query_times", query_times)
    starts = slices("starts", starts, groups, len(times))
    query_starts = slices("query_starts", query_starts, groups, len(query_times))
    if not all(1 <= span <= parameters.span for span in np.asarray(spans).flat):
        raise SynopsisError(
            f"a window asked for must be from 1 to {parameters.span}, the span kept"
        )
    spans = integers("spans", spans)
    parts = parts_of(quantiles)
    values = finite(values, len(times))
    blobs = [state or b"" for state in states]
    offsets = np.zeros(groups + 1, np.int64)
    np.cumsum(np.fromiter(map(len, blobs), np.int64, groups), out=offsets[1:])
    arena = np.frombuffer(bytearray().join(blobs), np.uint8)
    targets = np.full(groups, TIME_MIN) if advances is None else integers("advances", advances)
    answers = np.empty((4, len(query_times), len(spans), len(parts)), np.float64)
    fault, group, a, b, out, ends = _run(
        head_of(parameters),
        parameters.epsilon,
        arena,
        offsets,
        starts,
        times,
        values,
        query_starts,
        query_times,
        spans,
        parts,
        targets,
        answers,
    )
    if fault != faults.OK:
        raise summary_error(fault, int(a), int(b), group if groups > 1 else -1)
    written = out[: ends[-1]].tobytes()
    bounds = ends.tolist()
    new = [written[bounds[i] : bounds[i + 1]] for i in range(groups)]
    return QuantileBatch(new, *answers)
