"""The part that quantiles and frequent items of one key share: a state made of blocks."""

from typing import Any, ClassVar, TypeVar

import numpy as np

from slidestat.kernels.compile import kernel
from slidestat.synopses.blocks import codec, memory
from slidestat.synopses.blocks.blocks import left_tail
from slidestat.synopses.blocks.feeding import settle, summarise
from slidestat.synopses.blocks.one_window import phase_of
from slidestat.synopses.blocks.parameters import (
    BlockParameters,
    FixedFrequentParameters,
    FixedQuantileParameters,
)
from slidestat.synopses.blocks.run import load, open_state, save, summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.envelope import named_by_bytes, refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import Stored

P = TypeVar("P", bound=BlockParameters)


class BlockSummary(Stored[P]):
    """A synopsis of one stream, kept as blocks; windows and times are as in `Stored`."""

    is_checked_when_read = True

    made_with: ClassVar[tuple[type[Any], type[Any]]]
    """Its parameters: for any window, and for one of a fixed number of events."""

    @classmethod
    def _opened(cls, data: bytes) -> tuple[P, int]:
        parameters, state, _, _ = cls._read(data)
        return parameters, int(state[memory.NOW])

    def stored_entries(self) -> int:
        """Return how many values or items the state holds, minima and maxima included."""
        parameters, state, times, blocks = self._read(self._data)
        listed = codec.list_blocks(parameters.head, state[memory.TOTAL], state[memory.DEAD])
        return int(codec.column_size(parameters.head, listed, blocks, len(times)))

    def check(self) -> None:
        """Raise SynopsisError unless the state is what blocks.py says: what decoding checks, and
        that known times rise with the events they belong to."""
        parameters, state, times, blocks = self._read(self._data)
        total, dead, now = int(state[memory.TOTAL]), int(state[memory.DEAD]), int(state[memory.NOW])
        known = [(int(state[memory.TAIL]) + i, int(time)) for i, time in enumerate(times)]
        for row in codec.list_blocks(parameters.head, total, dead):
            layer, block = int(row[codec.LAYER]), int(row[codec.BLOCK])
            facts = memory.kept_facts(parameters.head, blocks, layer, block)
            if row[codec.PHASE] == codec.WAITS:
                facts = memory.waiting_facts(parameters.head, blocks, layer)
                known.append((((block + 1) << layer) - 1, int(facts[memory.LAST])))
            if row[codec.WHOLE]:
                known.append((block << layer, int(facts[memory.TIME])))
        known.sort()
        ordered = [time for _, time in known]
        if ordered != sorted(ordered) or (ordered and ordered[-1] >= now):
            raise SynopsisError("times of events do not rise with their numbers")

    @classmethod
    def _read(cls, data: bytes) -> tuple[P, Integers, Integers, memory.Blocks]:
        """Decode `data`; returns its parameters, numbers, times of the tail, and blocks."""
        array = np.frombuffer(bytearray(data), np.uint8)
        state = np.empty(memory.STATE_SIZE, np.int64)
        any_window, fixed = cls.made_with
        made_with = fixed if data[3:4] == bytes([fixed.stored_kind]) else any_window
        shares = np.empty(made_with.stored_shares)
        error_code, number, seed, at = codec.read_parameters(
            array, 0, len(array), made_with.stored_kind, shares
        )
        if error_code != error_codes.OK:
            raise refused(error_code, number, any_window.kind)
        parameters = named_by_bytes(made_with.of_bytes, shares.tolist(), int(number), int(seed))
        head = parameters.head
        error_code, at = codec.read_numbers(array, at, len(array), head, state)
        if error_code == error_codes.OK:
            times = np.empty(int(state[memory.TOTAL] - state[memory.TAIL]), np.int64)
            payload = np.empty(len(times), np.int64)
            error_code, blocks = load(head, array, at, len(array), state, 0, times, payload)
        if error_code != error_codes.OK:
            raise refused(error_code, 0)
        return parameters, state, times, blocks


# A summary of windows of any length, made one of a single window of a fixed number of events.
#
# Both have the same fresh blocks, and one for a single window keeps some of the other's blocks, no
# less coarse: of first values of 2^e in order, the first of every 2^f are the first of every
# 2^(e+f), and items left out over two steps are those left out in one. So the bytes are those that
# the events would have given themselves, where each has a number and none is missing.


@kernel
def _convert(
    head: Integers, fixed_head: Integers, shares: Floats, data: Bytes
) -> tuple[int, int, int, Bytes]:
    """Return (error, its two numbers, the new bytes)."""
    nothing = np.empty(0, np.uint8)
    state = np.empty(memory.STATE_SIZE, np.int64)
    made_with = codec.put_parameters(head, shares)
    error_code, a, b, at = open_state(head, shares, made_with, data, 0, len(data), state)
    if error_code != error_codes.OK:
        return error_code, a, b, nothing
    times = np.empty(state[memory.TOTAL] - state[memory.TAIL], np.int64)
    payload = np.empty(len(times), np.int64)
    error_code, blocks = load(head, data, at, len(data), state, 0, times, payload)
    if error_code != error_codes.OK:
        return error_code, 0, 0, nothing
    for i in range(1, len(times)):
        if times[i] <= times[i - 1]:
            return error_codes.NUMBER_NOT_LARGER, times[i], times[i - 1], nothing
    settle(fixed_head, state, times, blocks)
    left = left_tail(state[memory.TOTAL], head[memory.LEVELS])
    fixed = memory.make_blocks(fixed_head, state[memory.TOTAL], state[memory.DEAD])
    fixed[0][:] = blocks[0]
    listed = codec.list_blocks(fixed_head, state[memory.TOTAL], state[memory.DEAD])
    for i in range(len(listed)):
        if listed[i, codec.WHOLE] == 0:
            continue
        layer = listed[i, codec.LAYER]
        block = listed[i, codec.BLOCK]
        if listed[i, codec.PHASE] == codec.WAITS:
            memory.waiting_rows(fixed_head, fixed, layer)[:] = memory.waiting_rows(
                head, blocks, layer
            )
            continue
        facts = memory.kept_facts(fixed_head, fixed, layer, block)
        if facts[memory.TIME] > state[memory.NOW] - state[memory.TOTAL] + (block << layer):
            # There are more events behind it than numbers.
            return error_codes.NUMBER_NOT_LARGER, facts[memory.TIME], facts[memory.TIME], nothing
        old = memory.kept_rows(head, blocks, layer, block, phase_of(head, left, layer, block))
        new = memory.kept_rows(fixed_head, fixed, layer, block, listed[i, codec.PHASE])
        summarise(fixed_head, layer, block, listed[i, codec.PHASE], old, new, facts)
    made_with = codec.put_parameters(fixed_head, shares)
    out, end = save(fixed_head, made_with, state, times, payload, fixed, nothing, 0)
    return error_codes.OK, 0, 0, out[:end]


def for_one_window(
    parameters: FixedQuantileParameters | FixedFrequentParameters, data: bytes
) -> bytes:
    """Return the bytes of a summary of windows of any length as those of one for a single window.

    `parameters` are those of the latter; both have the same epsilon and span. The events' times are
    numbers, each larger than the one before. Raises SynopsisError for anything else. Cost:
    O(bytes).
    """
    head = parameters.head
    before = head.copy()
    before[memory.STORED] = before[memory.KIND]
    array = np.frombuffer(bytearray(data), np.uint8)
    error_code, a, b, out = _convert(before, head, parameters.shares, array)
    if error_code != error_codes.OK:
        raise summary_error(error_code, int(a), int(b), -1, (parameters.kind,))
    return out.tobytes()
