"""Quantiles of one key over any window, with a rank error that is a share of the window's events.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004): their
deterministic sketch for fixed-size, variable-size and n-of-N windows, as one set of blocks.

Contract: with m events in the window [now - n, now), n <= N, the p-quantile is the element of rank
max(1, ceil(p m)) in order of value. lower <= quantile <= upper, always. A rank of the estimate is
at most epsilon m from the one asked for, and one of lower or upper at most 2 epsilon m. Up to
2^(levels + 2) events, about 10/epsilon, the answer is exact. Proofs: blocks.py, quantile_layout.py,
quantile_answer.py.
Space: O(1/epsilon log^2(1/epsilon) log(epsilon m)) doubles; few events, few bytes.
Cost: an event O(log(1/epsilon)) amortised; a query O(layers/epsilon log(1/epsilon)).
Order: times must not fall. Merge: not offered (blocks are numbered by one stream's events).

>>> from app.synopses.levels.quantiles import QuantileParameters, Quantiles
>>> latencies = Quantiles.create(QuantileParameters(epsilon=0.01, span=60_000))
>>> latencies.insert([1_000, 2_000, 2_000, 59_000], [12.5, 8.0, 31.0, 9.5])
>>> latencies.query(60_000, 0.5)
QuantileEstimate(estimate=9.5, lower=9.5, upper=9.5, rank_error=0.0)
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.synopses import faults
from app.synopses.batch import NO_QUERIES, integers
from app.synopses.errors import SynopsisError
from app.synopses.histogram_codec import TIME_MIN
from app.synopses.levels.block_codec import read_envelope, summary_error
from app.synopses.levels.blocks import BASE, LIVE_LIMIT, bit_length, oldest_kept, phase
from app.synopses.levels.quantile_batch import finite, head_of, run_quantile_batch
from app.synopses.levels.quantile_codec import (
    QUANTILES,
    blocks_for,
    decode,
    read_numbers,
)
from app.synopses.levels.quantile_kernel import (
    DEAD,
    GONE,
    NOW,
    SPAN,
    STATE_SIZE,
    TAIL,
    TOTAL,
    Blocks,
    Floats,
    Integers,
    kept_values,
)
from app.synopses.levels.quantile_parameters import QuantileParameters
from app.synopses.wire import VERSION

__all__ = ["QuantileEstimate", "QuantileParameters", "Quantiles"]


class QuantileEstimate(NamedTuple):
    """`lower <= exact <= upper`, always; a rank of `estimate` is at most `rank_error` from exact's.

    rank_error is what is certain of this window, in events: at most epsilon times the events of
    the window, and often less. All four are NaN for a window without events.
    """

    estimate: float
    lower: float
    upper: float
    rank_error: float


class Quantiles:
    """A synopsis of the values of one stream, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept.
    """

    def __init__(self, parameters: QuantileParameters, data: bytes, now: int) -> None:
        self._parameters = parameters
        self._data = data
        self._now = now

    @classmethod
    def create(cls, parameters: QuantileParameters) -> "Quantiles":
        """Return a summary that has seen nothing."""
        empty = run_quantile_batch(parameters, [None], [0, 0], [], [], [0, 0], [], [], [])
        return cls(parameters, empty.states[0], TIME_MIN)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Quantiles":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else."""
        parameters, state, _, _, _ = _read(data)
        summary = cls(parameters, bytes(data), int(state[NOW]))
        summary.check()
        return summary

    @property
    def parameters(self) -> QuantileParameters:
        """What the summary was made with."""
        return self._parameters

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to; -2^61 before any."""
        return self._now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        return self._data

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a finite value for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or a value is not finite.
        """
        times = integers("times", np.atleast_1d(times))
        self._run(times, finite(np.atleast_1d(np.asarray(values, np.float64)), len(times)), None)

    def advance(self, now: int) -> None:
        """Move on to `now` without events, dropping what expires; SynopsisError if it goes back."""
        self._run(NO_QUERIES, np.empty(0), np.array([_time(now)], np.int64))

    def query(self, n: int, quantile: float, now: int | None = None) -> QuantileEstimate:
        """Answer for the window [now - n, now), 1 <= n <= span; `now` is the summary's if None.

        `quantile`, from 0 to 1, is taken to the millionth. A later `now` is a look ahead that
        changes nothing; an earlier one raises SynopsisError.
        """
        at = self._now if now is None else _time(now)
        result = run_quantile_batch(
            self._parameters, [self._data], [0, 0], [], [], [0, 1], [at], [n], [quantile]
        )
        return QuantileEstimate(
            float(result.estimates[0, 0, 0]),
            float(result.lowers[0, 0, 0]),
            float(result.uppers[0, 0, 0]),
            float(result.rank_errors[0, 0, 0]),
        )

    def stored_values(self) -> int:
        """Return how many values the state holds, minima and maxima included."""
        _, state, head, _, blocks = _read(self._data)
        total, dead = int(state[TOTAL]), int(state[DEAD])
        values = total - int(state[TAIL])
        for layer in range(BASE, total.bit_length()):
            complete = total >> layer
            if complete & 1 and (complete << layer) - 1 > dead:
                whole = (complete - 1) << layer > dead
                values += 1 + (min(1 << layer, 1 << int(head[4])) if whole else 1)
            oldest = oldest_kept(total, layer, dead, int(head[2]))
            for block in range((complete - 2) | 1, oldest - 1, -2):
                whole = block << layer > dead
                age = phase(complete - block)
                values += 1 + (len(kept_values(head, blocks, layer, block, age)) if whole else 1)
        return values

    def check(self) -> None:
        """Raise SynopsisError unless the state is what blocks.py says: what decoding checks, and
        that known times rise with the events they belong to."""
        _, state, head, times, blocks = _read(self._data)
        total, dead, now = int(state[TOTAL]), int(state[DEAD]), int(state[NOW])
        if total - 1 - dead > LIVE_LIMIT or bit_length(total) > 62:
            raise SynopsisError(f"{total - 1 - dead} events are more than can be kept")
        known = [(int(state[TAIL]) + i, int(time)) for i, time in enumerate(times)]
        for layer in range(BASE, total.bit_length()):
            complete = total >> layer
            if complete & 1 and (complete << layer) - 1 > dead:
                known.append(((complete << layer) - 1, int(blocks[4][layer])))
                known.append(((complete - 1) << layer, int(blocks[3][layer])))
            oldest = oldest_kept(total, layer, dead, int(head[2]))
            for block in range((complete - 2) | 1, oldest - 1, -2):
                slot = (block >> 1) % blocks[0].shape[1]
                known.append((block << layer, int(blocks[0][layer, slot])))
        known.sort()
        ordered = [time for _, time in known]
        if ordered != sorted(ordered) or (ordered and ordered[-1] >= now):
            raise SynopsisError("times of events do not rise with their numbers")
        if any((event <= dead) != (time == GONE) for event, time in known):
            raise SynopsisError("an event that has expired is known, or one alive is not")

    def _run(self, times: Integers, values: Floats, to: Integers | None) -> None:
        result = run_quantile_batch(
            self._parameters,
            [self._data],
            [0, len(times)],
            times,
            values,
            [0, 0],
            NO_QUERIES,
            [],
            [],
            to,
        )
        if to is not None:
            self._now = int(to[0])
        elif len(times) > 0:
            self._now = max(self._now, int(times[-1]) + 1)
        self._data = result.states[0]


def _time(number: int) -> int:
    if not (TIME_MIN <= number <= -TIME_MIN):
        raise SynopsisError(f"{number} is out of range: times are from -2^61 to 2^61 - 1")
    return number


def _read(data: bytes) -> tuple[QuantileParameters, Integers, Integers, Integers, Blocks]:
    """Decode `data`; returns its parameters, numbers, layout, times of the tail, and blocks."""
    array = np.frombuffer(bytearray(data), np.uint8)
    state = np.empty(STATE_SIZE, np.int64)
    fault, number, epsilon = read_envelope(array, 0, len(array), QUANTILES)
    if fault != faults.OK:
        known = VERSION if fault == faults.NEWER_VERSION else QUANTILES
        raise summary_error(fault, int(number), known, -1)
    try:
        head = head_of(QuantileParameters(float(epsilon), 1))
    except SynopsisError:
        raise summary_error(faults.CORRUPTED, 0, 0, -1) from None
    fault, begin, at = read_numbers(array, 0, len(array), head, state)
    if fault != faults.OK:
        raise summary_error(fault, 0, 0, -1)
    times = np.empty(int(state[TOTAL]) - int(begin), np.int64)
    blocks = blocks_for(head, state, 0)
    fault = decode(array, at, len(array), head, state, times, np.empty(len(times)), blocks)
    if fault != faults.OK:
        raise summary_error(fault, 0, 0, -1)
    return QuantileParameters(float(epsilon), int(head[SPAN])), state, head, times, blocks
