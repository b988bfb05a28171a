"""Totals of all events since the first one, exactly: the landmark window.

A landmark window begins at a fixed moment, here at a key's first event, and does not slide: two
numbers are all there is to it. The count is exact; so is the sum of values that are decimals of so
many places, up to 2^53 units, and within a rounding of a double beyond; other values leave parts of
units, which are carried, so that lower <= exact <= upper, about 10^-decimals apart, however many
values. Space: at most 46 bytes. Merge: add the counts and the sums of separate streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult, Columns, split
from slidestat.synopses.core.keyed import drive, open_body, open_envelope, seal
from slidestat.synopses.core.parameters import MAX_DECIMALS, check_whole
from slidestat.synopses.exponential_histogram.units import ONE, bounds, to_units

LANDMARK = 25

_COUNT, _HIGH, _LOW, _PART, _INEXACT, _SIZE = 0, 1, 2, 3, 4, 5
_LIMB = 1 << 60
# At most so many events, and so many units of 2^-60: no stream reaches them, and nothing overflows
# below.
_MOST = 1 << 61
_ROOM = wire.BODY + 1 + 5 * wire.MAX_VARINT
_ROUNDING = 2.0**-48


@dataclass(frozen=True)
class LandmarkParameters:
    """Totals of values in units of 10^-decimals, 0 to 9. Raises SynopsisError for anything else."""

    decimals: int = 3

    def __post_init__(self) -> None:
        check_whole("decimals", self.decimals, 0, MAX_DECIMALS)


@dataclass(frozen=True)
class LandmarkBatch:
    """New states, and int64[Q] counts and float64[Q] sums with their bounds for the queries."""

    states: list[bytes]
    counts: Integers
    sums: BatchResult


@borrowing_kernel
def _decode(data: Bytes, start: int, end: int, decimals: int, state: Integers) -> tuple[int, int]:
    """Fill `state` from data[start:end]; return (error, its number)."""
    error_code, number, at = open_body(data, start, end, LANDMARK, LANDMARK)
    if error_code != error_codes.OK:
        return error_code, number
    if at >= end or data[at] != decimals:
        return error_codes.OTHER_PARAMETERS, 0
    at += 1
    for i in range(_SIZE):
        state[i], at = wire.get_varint(data, at, end)
        if state[i] < 0:
            return error_codes.CORRUPTED, 0
    limits = state[_LOW] < _LIMB and state[_PART] < ONE and state[_INEXACT] <= 1
    far = state[_COUNT] >= _MOST or state[_HIGH] >= _MOST
    # units come with events, and parts of units with a value that left some
    nothing = state[_HIGH] == 0 and state[_LOW] == 0 and state[_INEXACT] == 0
    unfounded = state[_COUNT] == 0 and not nothing
    unmarked = state[_PART] > 0 and state[_INEXACT] == 0
    if at != end or not limits or far or unfounded or unmarked:
        return error_codes.CORRUPTED, 0
    return error_codes.OK, 0


@borrowing_kernel
def _answer(state: Integers, scale: int) -> tuple[float, float, float]:
    """Return (estimate, lower, upper) of the sum."""
    if state[_HIGH] == 0 and state[_INEXACT] == 0:
        _, lower, upper = bounds(state[_LOW] - 1, 1, scale, False)
        return state[_LOW] / scale, lower, upper
    units = float(state[_HIGH]) * _LIMB + float(state[_LOW])
    part = float(state[_PART]) / ONE
    more = 1.0 + 2.0**-20 if state[_INEXACT] != 0 else 0.0
    lower = units * (1.0 - _ROUNDING) / scale
    upper = (units + more) * (1.0 + _ROUNDING) / scale
    return (units + part) / scale, lower, upper


@kernel
def _run(
    decimals: int,
    arena: Bytes,
    offsets: Integers,
    columns: Columns,
    values: Floats,
    counts: Integers,
    sums: Floats,
) -> tuple[int, int, int, int, Bytes, Integers]:
    """Run each group's events and queries, as `drive` describes."""
    starts, _, query_starts, _, _, _, cuts = columns
    groups = len(starts) - 1
    scale = 10**decimals
    state = np.zeros(_SIZE, np.int64)
    out = np.empty(groups * _ROOM, np.uint8)
    ends = np.zeros(groups + 1, np.int64)
    at = 0
    for group in range(groups):
        state[:] = 0
        if offsets[group + 1] > offsets[group]:
            error_code, number = _decode(arena, offsets[group], offsets[group + 1], decimals, state)
            if error_code != error_codes.OK:
                return error_code, group, number, 0, out, ends
        query = query_starts[group]
        for event in range(starts[group], starts[group + 1] + 1):
            while query < query_starts[group + 1] and cuts[group + query] == event:
                counts[query] = state[_COUNT]
                sums[0, query], sums[1, query], sums[2, query] = _answer(state, scale)
                query += 1
            if event == starts[group + 1]:
                break
            whole, part, exact = to_units(values[event], scale)
            if whole < 0:
                return error_codes.BAD_VALUE, group, event, 0, out, ends
            if state[_COUNT] + 1 >= _MOST or state[_HIGH] + 1 >= _MOST:
                return error_codes.TOTAL_TOO_LARGE, group, 0, 0, out, ends
            state[_COUNT] += 1
            state[_LOW] += whole
            state[_PART] += part
            if state[_PART] >= ONE:
                state[_PART] -= ONE
                state[_LOW] += 1
            state[_HIGH] += state[_LOW] // _LIMB
            state[_LOW] %= _LIMB
            if not exact:
                state[_INEXACT] = 1
        begin = at
        at = open_envelope(out, at, LANDMARK)
        out[at] = decimals
        at += 1
        for i in range(_SIZE):
            at = wire.put_varint(out, at, state[i])
        seal(out, begin, at)
        ends[group + 1] = at
    return error_codes.OK, 0, 0, 0, out, ends


def run_landmark_batch(
    parameters: LandmarkParameters, states: Sequence[bytes | None], batch: Batch
) -> LandmarkBatch:
    """Feed and ask the totals of many keys at once.

    The values are float64; times and windows are not used. Raises SynopsisError also for values
    that are negative, not finite, or more than 2^53 units. Cost: O(bytes in + events + queries +
    bytes out).
    """
    values = batch.doubles()
    counts = np.empty(batch.shape[0], np.int64)
    sums = np.empty((3, batch.shape[0]), np.float64)
    given = (parameters.decimals,), states, batch.columns, values, counts, sums
    out, ends = drive(_run, *given, kinds=(LANDMARK,), values=values)
    new = split(out, ends)
    return LandmarkBatch(new, counts, BatchResult(new, *sums))
