"""All keys of a batch in one call: states and events in, states and answers out, for any kind."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.blocks import codec, memory
from slidestat.synopses.blocks.blocks import EVENT_LIMIT, LIVE_LIMIT
from slidestat.synopses.blocks.feeding import absorb, settle, tail_begin
from slidestat.synopses.blocks.one_window import known_dead, not_larger
from slidestat.synopses.blocks.parameters import BlockParameters
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import TIME_MIN, Batch, Columns, Joined, follows, split
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.core.keyed import drive, open_body, with_room
from slidestat.synopses.frequent.answer import list_items
from slidestat.synopses.quantiles.answer import answer_quantiles


@dataclass(frozen=True)
class RunResult:
    """The result of a batch: states, and answers as `answer_quantiles` or `list_items` gave them.

    The state of group g is out[offsets[g]:offsets[g + 1]]. answers: float64[4, queries, spans,
    parts]. facts: int64[3, queries, spans]; the list of query q and span k is
    lists[:, ends[i]:ends[i + 1]], i = q * spans + k. If asked for, the items that group g held
    before and holds now, rising, each once, are before[held[0, g]:held[0, g + 1]] and
    now[held[1, g]:held[1, g + 1]].
    """

    out: Bytes
    offsets: Integers
    answers: Floats
    facts: Integers
    ends: Integers
    lists: Integers
    before: Integers
    now: Integers
    held: Integers

    @property
    def states(self) -> list[bytes]:
        """The new state of each group."""
        return split(self.out, self.offsets)


@kernel
def open_state(
    head: Integers,
    shares: Floats,
    made_with: Bytes,
    arena: Bytes,
    start: int,
    end: int,
    state: Integers,
) -> tuple[int, int, int, int]:
    """Check a stored state and fill `state`; return (error, its two numbers, offset of the rest).

    No bytes are a new state, of offset -1.
    """
    state[memory.TOTAL] = 0
    state[memory.NOW] = TIME_MIN
    state[memory.DEAD] = -1
    state[memory.TAIL] = 0
    if start == end:
        return error_codes.OK, 0, 0, -1
    kind = head[memory.STORED]
    error_code, number, at = open_body(arena, start, end, kind, kind)
    if error_code != error_codes.OK:
        return error_code, number, 0, 0
    # Equal parameters are equal bytes.
    same = end - at >= len(made_with)
    for i in range(len(made_with)):
        same = same and arena[at + i] == made_with[i]
    if not same:
        found = np.empty(len(shares), np.float64)
        error_code, _, _, _ = codec.read_parameters(arena, start, end, kind, found)
        return error_codes.OTHER_PARAMETERS if error_code == error_codes.OK else error_code, 0, 0, 0
    error_code, at = codec.read_numbers(arena, at + len(made_with), end, head, state)
    return error_code, 0, 0, at


@kernel
def load(
    head: Integers,
    arena: Bytes,
    at: int,
    end: int,
    state: Integers,
    added: int,
    times: Integers,
    payload: Integers,
) -> tuple[int, memory.Blocks]:
    """Read the rest of a state, `at` being what `read_numbers` gave, or -1 for a new one.

    Returns (error, its blocks). There is room for `added` more events. The arrays have room for the
    tail, or more.
    """
    if at < 0:
        return error_codes.OK, memory.make_blocks(head, added, -1)
    listed = codec.list_blocks(head, state[memory.TOTAL], state[memory.DEAD])
    tail = state[memory.TOTAL] - state[memory.TAIL]
    if head[memory.KIND] != memory.FREQUENT and end - at < tail + codec.values_size(
        head, listed, tail
    ):
        return error_codes.CORRUPTED, memory.make_blocks(head, 0, -1)
    blocks = memory.make_blocks(head, state[memory.TOTAL] + added, state[memory.DEAD])
    return codec.decode(arena, at, end, head, state, times, payload, listed, blocks), blocks


@kernel
def _note_held(
    head: Integers,
    state: Integers,
    payload: Integers,
    blocks: memory.Blocks,
    held: Integers,
    end: int,
) -> tuple[Integers, int]:
    """Append the items of the tail and of all blocks, rising, each once; as `with_room` does."""
    begin = tail_begin(head, state)
    tail = state[memory.TOTAL] - begin
    listed = codec.list_blocks(head, state[memory.TOTAL], state[memory.DEAD])
    column = np.empty(codec.column_size(head, listed, blocks, tail), np.int64)
    column[:tail] = payload[begin - state[memory.TAIL] : state[memory.TOTAL] - state[memory.TAIL]]
    codec.gather(head, listed, blocks, column, tail)
    column.sort()
    held = with_room(held, end, len(column))
    for i in range(len(column)):
        if i == 0 or column[i] != column[i - 1]:
            held[end] = column[i]
            end += 1
    return held, end


@kernel
def save(
    head: Integers,
    made_with: Bytes,
    state: Integers,
    times: Integers,
    payload: Integers,
    blocks: memory.Blocks,
    out: Bytes,
    end: int,
) -> tuple[Bytes, int]:
    """Append the settled state to out[:end]; return (out or a longer copy, its new end)."""
    begin = tail_begin(head, state)
    tail = state[memory.TOTAL] - begin
    listed = codec.list_blocks(head, state[memory.TOTAL], state[memory.DEAD])
    column = np.empty(codec.column_size(head, listed, blocks, tail), np.int64)
    column[:tail] = payload[begin - state[memory.TAIL] : state[memory.TOTAL] - state[memory.TAIL]]
    out = with_room(out, end, codec.encoded_limit(head, tail, listed, len(column)))
    return out, codec.encode(out, end, head, made_with, state, times, column, listed, blocks, begin)


@kernel
def _run(
    head: Integers,
    shares: Floats,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    payload: Integers,
    parts: Integers,
    answers: Floats,
    facts: Integers,
    ends: Integers,
    held: Integers,
) -> tuple[int, int, int, int, Bytes, Integers, Integers, Integers, Integers]:
    """Run as `drive` describes; return the lists, and the items held before, and now, too.

    held: int64[2, groups + 1], or of no columns if it is not asked for.
    """
    starts, times, query_starts, query_times, spans, _, cuts = columns
    groups = len(starts) - 1
    made_with = codec.put_parameters(head, shares)
    state = np.empty(memory.STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64 * groups + 1024, np.uint8)
    out_offsets = np.zeros(groups + 1, np.int64)
    lists = np.empty((3, 64 if head[memory.KIND] == memory.FREQUENT else 0), np.int64)
    before = np.empty(0, np.int64)
    now = np.empty(0, np.int64)
    length = 0
    end = 0
    for group in range(groups):
        event = starts[group]
        stop = starts[group + 1]
        error_code, a, b, at = open_state(
            head, shares, made_with, arena, offsets[group], offsets[group + 1], state
        )
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets, lists, before, now
        if state[memory.TOTAL] + stop - event > EVENT_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists, before, now
        tail = state[memory.TOTAL] - state[memory.TAIL]
        my_times = np.empty(tail + stop - event, np.int64)
        my_payload = np.empty(tail + stop - event, np.int64)
        my_times[tail:] = times[event:stop]
        my_payload[tail:] = payload[event:stop]
        error_code, blocks = load(
            head, arena, at, offsets[group + 1], state, stop - event, my_times, my_payload
        )
        if error_code != error_codes.OK:
            return error_code, group, 0, 0, out, out_offsets, lists, before, now
        if held.shape[1] > 0:
            before, length_held = _note_held(
                head, state, my_payload, blocks, before, held[0, group]
            )
            held[0, group + 1] = length_held
        error_code, a, b, after = follows(columns, group, state[memory.NOW])
        if error_code != error_codes.OK:
            return error_code, group, a, b, out, out_offsets, lists, before, now
        if memory.is_fixed(head):
            a, b = not_larger(times[event:stop], state[memory.NOW])
            if a <= b:
                error_code = error_codes.NUMBER_NOT_LARGER
                return error_code, group, a, b, out, out_offsets, lists, before, now
        ahead = state[memory.TOTAL] - event
        for query in range(query_starts[group], query_starts[group + 1] + 1):
            absorb(head, state, my_times, my_payload, blocks, ahead + cuts[group + query])
            if query == query_starts[group + 1]:
                break
            # An answer must not depend on whether a batch ends here.
            state[memory.DEAD] = max(state[memory.DEAD], known_dead(head, state[memory.TOTAL]))
            for k in range(len(spans)):
                start = query_times[query] - spans[k]
                if head[memory.KIND] == memory.FREQUENT:
                    lists, length = list_items(
                        head,
                        state,
                        my_times,
                        my_payload,
                        blocks,
                        start,
                        parts[0],
                        facts[:, query, k],
                        lists,
                        length,
                        parts[1],
                    )
                    ends[query * len(spans) + k + 1] = length
                else:
                    answer_quantiles(
                        head,
                        shares,
                        state,
                        my_times,
                        my_payload,
                        blocks,
                        start,
                        parts,
                        answers[:, query, k],
                    )
        state[memory.NOW] = after
        settle(head, state, my_times, blocks)
        if state[memory.TOTAL] - 1 - state[memory.DEAD] > LIVE_LIMIT:
            return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, out_offsets, lists, before, now
        out, end = save(head, made_with, state, my_times, my_payload, blocks, out, end)
        out_offsets[group + 1] = end
        if held.shape[1] > 0:
            now, length_held = _note_held(head, state, my_payload, blocks, now, held[1, group])
            held[1, group + 1] = length_held
    return error_codes.OK, 0, 0, 0, out, out_offsets, lists, before, now


def run_blocks(
    parameters: BlockParameters,
    states: Sequence[bytes | None] | Joined,
    batch: Batch,
    payload: Integers,
    parts: Integers,
    holds: bool = False,
) -> RunResult:
    """Feed and ask many summaries of a kind at once, one a group (key).

    payload: `ordered` values, or items, one a time. parts: quantiles in millionths, or a share and
    how many items are listed where none has it (`list_items`). holds: note which items are held.
    Raises SynopsisError.
    """
    columns = batch.within(parameters.span)
    batch.require("a value", payload.shape)
    is_frequent = parameters.kind == memory.FREQUENT
    queries, windows = batch.shape
    answers = np.empty((4, queries, windows, 0 if is_frequent else len(parts)))
    facts = np.empty((3, queries, windows if is_frequent else 0), np.int64)
    ends = np.zeros(queries * windows + 1, np.int64)
    held = np.zeros((2, batch.groups + 1 if holds else 0), np.int64)
    given = (parameters.head, parameters.shares), states, columns, payload, parts, answers, facts
    out, offsets, lists, before, now = drive(
        _run, *given, ends, held, kinds=(parameters.stored_kind,), error_of=summary_error
    )
    return RunResult(out, offsets, answers, facts, ends, lists[:, : ends[-1]], before, now, held)


def summary_error(
    error_code: int, a: int, b: int, group: int, kinds: Sequence[int]
) -> SynopsisError:
    """Return the error for `error_code`; `group` is its place in the batch, or -1 for no batch."""
    if error_code == error_codes.TOTAL_TOO_LARGE:
        sentence = "the window holds more than 2^40 events, which is more than can be kept"
        return WindowTooLargeError(sentence, None if group < 0 else group)
    return error_codes.synopsis_error(error_code, a, b, group, kinds)
