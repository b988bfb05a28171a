"""The part that quantiles and frequent items of one key share: a state made of blocks."""

from abc import abstractmethod
from typing import ClassVar, Self, TypeVar

import numpy as np

from slidestat.synopses.blocks.codec import (
    BLOCK,
    LAYER,
    PHASE,
    WAITS,
    WHOLE,
    column_size,
    list_blocks,
    read_numbers,
    read_parameters,
)
from slidestat.synopses.blocks.memory import (
    DEAD,
    LAST,
    NOW,
    STATE_SIZE,
    TAIL,
    TIME,
    TOTAL,
    Blocks,
    kept_facts,
    waiting_facts,
)
from slidestat.synopses.blocks.parameters import BlockParameters
from slidestat.synopses.blocks.run import load, run_blocks, summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import NO_QUERIES
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import Stored, moving
from slidestat.synopses.core.wire import VERSION

P = TypeVar("P", bound=BlockParameters)


class BlockSummary(Stored[P]):
    """A synopsis of one stream, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept.
    """

    kind: ClassVar[int]
    fixed_kind: ClassVar[int]
    shares: ClassVar[int]

    @classmethod
    @abstractmethod
    def _made_with(cls, shares: list[float], span: int, seed: int, *, fixed: bool) -> P:
        """Return the parameters that bytes name; raises SynopsisError."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; raises SynopsisError for anything else."""
        parameters, state, _, _ = cls._read(data)
        summary = cls(parameters, bytes(data), int(state[NOW]))
        summary.check()
        return summary

    def stored_entries(self) -> int:
        """Return how many values or items the state holds, minima and maxima included."""
        parameters, state, _, blocks = self._read(self._data)
        listed = list_blocks(parameters.head, state[TOTAL], state[DEAD])
        return int(column_size(parameters.head, listed, blocks, int(state[TOTAL] - state[TAIL])))

    def check(self) -> None:
        """Raise SynopsisError unless the state is what blocks.py says: what decoding checks, and
        that known times rise with the events they belong to."""
        parameters, state, times, blocks = self._read(self._data)
        total, dead, now = int(state[TOTAL]), int(state[DEAD]), int(state[NOW])
        known = [(int(state[TAIL]) + i, int(time)) for i, time in enumerate(times)]
        for row in list_blocks(parameters.head, total, dead):
            layer, block = int(row[LAYER]), int(row[BLOCK])
            facts = kept_facts(parameters.head, blocks, layer, block)
            if row[PHASE] == WAITS:
                facts = waiting_facts(parameters.head, blocks, layer)
                known.append((((block + 1) << layer) - 1, int(facts[LAST])))
            if row[WHOLE]:
                known.append((block << layer, int(facts[TIME])))
        known.sort()
        ordered = [time for _, time in known]
        if ordered != sorted(ordered) or (ordered and ordered[-1] >= now):
            raise SynopsisError("times of events do not rise with their numbers")

    def _moved(self, times: Integers, values: Integers, to: Integers | None) -> bytes:
        batch = moving(times, None, to)
        return run_blocks(self._parameters, [self._data], batch, values, NO_QUERIES).states[0]

    @classmethod
    def _read(cls, data: bytes) -> tuple[P, Integers, Integers, Blocks]:
        """Decode `data`; returns its parameters, numbers, times of the tail, and blocks."""
        array = np.frombuffer(bytearray(data), np.uint8)
        state = np.empty(STATE_SIZE, np.int64)
        shares = np.empty(cls.shares)
        kind = cls.fixed_kind if data[3:4] == bytes([cls.fixed_kind]) else cls.kind
        error_code, number, seed, at = read_parameters(array, 0, len(array), kind, shares)
        if error_code != error_codes.OK:
            known = VERSION if error_code == error_codes.NEWER_VERSION else cls.kind
            raise summary_error(error_code, int(number), known, -1)
        try:
            parameters = cls._made_with(
                shares.tolist(), int(number), int(seed), fixed=kind == cls.fixed_kind
            )
        except SynopsisError:
            raise summary_error(error_codes.CORRUPTED, 0, 0, -1) from None
        head = parameters.head
        error_code, at = read_numbers(array, at, len(array), head, state)
        if error_code == error_codes.OK:
            times = np.empty(int(state[TOTAL] - state[TAIL]), np.int64)
            payload = np.empty(len(times), np.int64)
            error_code, blocks = load(head, array, at, len(array), state, 0, times, payload)
        if error_code != error_codes.OK:
            raise summary_error(error_code, 0, 0, -1)
        return parameters, state, times, blocks
