"""All keys of a batch in one call: summaries of frequent items and events in, lists out.

`FrequentItems` is the same for a single key.
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
from app.synopses.levels.blocks import EVENT_LIMIT, LIVE_LIMIT
from app.synopses.levels.frequent_answer import tally
from app.synopses.levels.frequent_codec import FREQUENT, decode, encode, encoded_limit, read_numbers
from app.synopses.levels.frequent_kernel import (
    DEAD,
    NOW,
    SPAN,
    STATE_SIZE,
    TAIL,
    TOTAL,
    Integers,
    absorb,
    make_blocks,
    settle,
)
from app.synopses.levels.frequent_layout import choose
from app.synopses.levels.frequent_parameters import FrequentParameters
from app.synopses.wire import VERSION, Bytes

PARTS = 1_000_000
"""A share is asked for in whole millionths."""


@dataclass(frozen=True)
class FrequentBatch:
    """What a batch left: the new state of each group, and a list for each query and span.

    The list of query q and span k is items[at:to] with lowers[at:to] and uppers[at:to], rising by
    item, where at, to = ends[q * spans + k], ends[q * spans + k + 1]. unlisted[q, k] is what any
    other item's count may be at most; events_low and events_high bound the window's events.
    """

    states: list[bytes]
    ends: Integers
    items: Integers
    lowers: Integers
    uppers: Integers
    unlisted: Integers
    events_low: Integers
    events_high: Integers


def head_of(parameters: FrequentParameters) -> Integers:
    """Return `parameters` as kernels take them: kind, span, and the layout of their epsilon."""
    return np.array([FREQUENT, parameters.span, *choose(parameters.epsilon)], np.int64)


@kernel
def _run(
    head: Integers,
    epsilon: float,
    arena: Bytes,
    offsets: Integers,
    starts: Integers,
    times: Integers,
    items: Integers,
    query_starts: Integers,
    query_times: Integers,
    spans: Integers,
    part: int,
    advances: Integers,
    facts: Integers,
    ends: Integers,
) -> tuple[int, int, int, int, Bytes, Integers, Integers]:
    """Run each group's events and queries in time order; `run_frequent_batch` says what these are.

    facts[0..2, query, span] receives unlisted, fewest and most events; ends the ends of the lists.
    Returns (fault, group, its two numbers, new arena, its offsets, the lists).
    """
    groups = len(starts) - 1
    found = head.copy()
    state = np.empty(STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    lists = np.empty((3, 64), np.int64)
    listed = 0
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
                arena, offsets[group], offsets[group + 1], FREQUENT
            )
            if fault != faults.OK:
                known = VERSION if fault == faults.NEWER_VERSION else FREQUENT
                return fault, group, number, known, out, out_offsets, lists
            if other != epsilon:
                return faults.OTHER_PARAMETERS, group, 0, 0, out, out_offsets, lists
            fault, _, at = read_numbers(arena, offsets[group], offsets[group + 1], found, state)
            if fault != faults.OK:
                return fault, group, 0, 0, out, out_offsets, lists
            if found[SPAN] != head[SPAN]:
                return faults.OTHER_PARAMETERS, group, 0, 0, out, out_offsets, lists
        if state[TOTAL] + added > EVENT_LIMIT:
            return faults.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists
        tail = state[TOTAL] - state[TAIL]
        my_times = np.empty(tail + added, np.int64)
        my_items = np.empty(tail + added, np.int64)
        my_times[tail:] = times[first : first + added]
        my_items[tail:] = items[first : first + added]
        blocks = make_blocks(head, state[TOTAL] + added, state[DEAD])
        if stored:
            fault = decode(arena, at, offsets[group + 1], head, state, my_times, my_items, blocks)
            if fault != faults.OK:
                return fault, group, 0, 0, out, out_offsets, lists
        event = first
        total = state[TOTAL]
        previous = max(state[NOW] - 1, TIME_MIN)
        asked = state[NOW]
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            is_query = query < query_starts[group + 1]
            until = query_times[query] if is_query else TIME_MAX + 1
            if until < asked or until > TIME_MAX + 1:
                return faults.QUERY_WENT_BACK, group, until, asked, out, out_offsets, lists
            while event < starts[group + 1] and (times[event] < until or not is_query):
                time = times[event]
                if time > TIME_MAX or time < TIME_MIN:
                    return faults.TIME_OUT_OF_RANGE, group, time, 0, out, out_offsets, lists
                if time < previous:
                    return faults.TIME_WENT_BACK, group, time, previous, out, out_offsets, lists
                previous = time
                event += 1
                total += 1
            absorb(head, state, my_times, my_items, blocks, total)
            if is_query:
                asked = until
                for k in range(len(spans)):
                    counts, unlisted, covered, straddling = tally(
                        head, state, my_times, my_items, blocks, until - spans[k]
                    )
                    if listed + counts.shape[1] > lists.shape[1]:
                        longer_lists = np.empty((3, 2 * (listed + counts.shape[1])), np.int64)
                        longer_lists[:, :listed] = lists[:, :listed]
                        lists = longer_lists
                    for i in range(counts.shape[1]):
                        if counts[2, i] * PARTS >= part * covered:
                            for j in range(3):
                                lists[j, listed] = counts[j, i]
                            listed += 1
                    facts[0, query, k] = unlisted
                    facts[1, query, k] = covered
                    facts[2, query, k] = covered + straddling
                    ends[query * len(spans) + k + 1] = listed
        if advances[group] > TIME_MIN:
            if advances[group] < state[NOW]:
                back = faults.TIME_WENT_BACK
                return back, group, advances[group], state[NOW], out, out_offsets, lists
            state[NOW] = advances[group]
        begin = settle(head, state, my_times, blocks)
        if state[TOTAL] - 1 - state[DEAD] > LIVE_LIMIT:
            return faults.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists
        limit = encoded_limit(head, state, begin)
        if len(out) - end < limit:
            longer = np.empty(2 * len(out) + limit, np.uint8)
            longer[:end] = out[:end]
            out = longer
        end = encode(out, end, head, epsilon, state, my_times, my_items, blocks, begin)
        out_offsets[group + 1] = end
    return faults.OK, 0, 0, 0, out, out_offsets, lists


def run_frequent_batch(
    parameters: FrequentParameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    items: npt.ArrayLike,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    share: float,
    advances: npt.ArrayLike | None = None,
) -> FrequentBatch:
    """Feed and ask many summaries of frequent items at once, one a group (key).

    states, starts, times, query_starts, query_times, spans, advances: as `run_batch` has them.
    items: int64, one a time. share: each list has all items that may have at least this share of
    the window's events, 0 to 1, taken to the millionth, and none that is short of it by
    2 epsilon of them or more. With a share of at least epsilon, no item that has it is missing;
    with less, one that is not listed has at most `unlisted`. A query leaves no trace in the state.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries that go back, for items that are not 64-bit whole numbers, and
    for windows of more than 2^40 events. Cost: O(bytes in + events * log(1/epsilon) + bytes out),
    and of a query and window O(items listed * log). Source: Arasu and Manku 2004.
    """
    groups = len(states)
    times = integers("times", times)
    items = integers("items", items)
    if len(items) != len(times):
        raise SynopsisError(f"there must be an item for each time: {len(times)}, not {len(items)}")
    query_times = integers("query_times", query_times)
    starts = slices("starts", starts, groups, len(times))
    query_starts = slices("query_starts", query_starts, groups, len(query_times))
    if not all(1 <= span <= parameters.span for span in np.asarray(spans).flat):
        raise SynopsisError(
            f"a window asked for must be from 1 to {parameters.span}, the span kept"
        )
    spans = integers("spans", spans)
    if not (0 <= share <= 1):
        raise SynopsisError(f"a share must be a number from 0 to 1, not {share!r}")
    blobs = [state or b"" for state in states]
    offsets = np.zeros(groups + 1, np.int64)
    np.cumsum(np.fromiter(map(len, blobs), np.int64, groups), out=offsets[1:])
    arena = np.frombuffer(bytearray().join(blobs), np.uint8)
    targets = np.full(groups, TIME_MIN) if advances is None else integers("advances", advances)
    facts = np.empty((3, len(query_times), len(spans)), np.int64)
    list_ends = np.zeros(len(query_times) * len(spans) + 1, np.int64)
    fault, group, a, b, out, ends, lists = _run(
        head_of(parameters),
        parameters.epsilon,
        arena,
        offsets,
        starts,
        times,
        items,
        query_starts,
        query_times,
        spans,
        round(share * PARTS),
        targets,
        facts,
        list_ends,
    )
    if fault != faults.OK:
        raise summary_error(fault, int(a), int(b), group if groups > 1 else -1)
    written = out[: ends[-1]].tobytes()
    bounds = ends.tolist()
    new = [written[bounds[i] : bounds[i + 1]] for i in range(groups)]
    return FrequentBatch(new, list_ends, *lists[:, : list_ends[-1]], *facts)
