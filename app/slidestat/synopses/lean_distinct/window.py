"""A window of a state, on its own: what was seen in it, without its times."""

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.distinct.distinct_codec import COUNT, SPAN
from slidestat.synopses.kernels.compile import kernel
from slidestat.synopses.lean_distinct.batch import head_of
from slidestat.synopses.lean_distinct.codec import (
    BITMAPS,
    HEAD_SIZE,
    LEVELS,
    MOST_LEVELS,
    NEVER,
    SHORTEST_ITEM,
    STATE_SIZE,
    read_bits,
)
from slidestat.synopses.lean_distinct.kernel import bit_of, finish, read_state, set_bit
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters


def window_of(parameters: LeanDistinctParameters, state: bytes, start: int) -> bytes:
    """Return a state of span 1 at time 1 that has, as events at 0, those that `state`, made with
    `parameters`, has from `start` on.

    Raises SynopsisError for bytes that are no such state. Cost: O(bytes).
    """
    arena = np.frombuffer(bytearray(state), np.uint8)
    error_code, a, b, out, end = _window(head_of(parameters), arena, start)
    if error_code != error_codes.OK:
        raise error_codes.synopsis_error(error_code, int(a), int(b), -1)
    return bytes(out[:end])


@kernel
def _window(head: Integers, arena: Bytes, start: int) -> tuple[int, int, int, Bytes, int]:
    """Return (error, its two numbers, bytes, how many of them are the state)."""
    ids = np.empty(len(arena) // SHORTEST_ITEM + 1, np.int64)
    times = np.empty(len(ids), np.int64)
    last = np.full(MOST_LEVELS * head[BITMAPS], NEVER, np.int64)
    touched = np.empty(len(last), np.int64)
    stored = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    out = np.empty(len(arena) + 64, np.uint8)
    error_code, a, b, at = read_state(arena, 0, len(arena), head, stored, state, ids, times)
    number = 0
    if error_code == error_codes.OK and state[LEVELS] > 0:
        error_code, number = read_bits(arena, at, len(arena), head, state, last, touched, 0)
    if error_code != error_codes.OK:
        return error_code, a, b, out, 0
    for i in range(number):
        last[touched[i]] = 0 if last[touched[i]] >= start else NEVER
    first = 0
    while first < state[COUNT] and times[first] < start:
        first += 1
    for slot in range(first, state[COUNT]):
        times[slot] = 0
        number = set_bit(bit_of(ids[slot], head), 0, last, touched, number)
    alone = head.copy()
    alone[SPAN] = 1
    kept = np.arange(state[COUNT] - 1, first - 1, -1)
    out, end = finish(out, 0, alone, 1, ids, times, kept, last, touched, number)
    return error_codes.OK, 0, 0, out, end
