"""Quantiles over the union of a bundle's parts.

Source: Arasu and Manku 2004, lemma 4.2, for the parts of several streams; as answer.py.

Contract: as of one part (quantiles.py), with m the events of the union: lower <= quantile <= upper,
always; a rank of the estimate is at most epsilon m from the one asked for, and the answer says how
far at most for this window; ranks of lower and upper are at most 2 epsilon m off.
Cost: O(bytes), and of a window O(values kept * log), then O(values kept) for each quantile.

Proof. Let the parts have c events in known blocks in all. Of part i, 0 <= u_i <= U_i more may be in
the window, all that is known being that their values are from least_i to most_i. The rank asked for
is t(c + sum u_i), t(m) = max(1, ceil(p m)). For x, let F(x) be the number of the union's events
<= x. What the known ones add to it is between S(x) - D(x) and S(x): these add up (see
quantile_layout.py). As u - t(c + u) and -t(c + u) are monotone in u (see answer.py),

    F(x) - t <= S(x) + I - t(c + I),              I: the sum of U_i over least_i <= x
    F(x) - t >= S(x) - D(x) - t(c + O),           O: the sum of U_i over most_i > x

for a part with x < least_i has none of its u_i in F, so u_i = 0 is the most F - t can be, and a
part with x >= most_i has all, so that u_i = 0 is the least; in between it may have all or none.
The two are at most D(x) + sum U_i apart: I and O together have no U_i twice but of parts in
between, and t(c + O) - t(c + I) is at most the sum of U_i of parts in O alone. That is the sum of
the parts' widths, each less than 2 epsilon m_i by one at least. Hence the ranks as of one part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.blocks.codec import put_parameters
from slidestat.synopses.blocks.columns import doubles
from slidestat.synopses.blocks.memory import STATE_SIZE, TAIL, TOTAL
from slidestat.synopses.blocks.parameters import QuantileParameters
from slidestat.synopses.blocks.run import load, open_state, summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import windows
from slidestat.synopses.core.quantile_parts import parts_of
from slidestat.synopses.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.merge.asked import ask
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.quantiles.answer import collect, rank_of
from slidestat.synopses.quantiles.quantiles import Quantiles

# Rows of the steps of a union, by rising value: the value, the events it stands for, the width that
# ends at it, and how many more straddling events may be, and are for certain, up to it.
_VALUE, _EVENTS, _WIDTH, _POSSIBLE, _CERTAIN = 0, 1, 2, 3, 4
_ROWS = 5


@dataclass(frozen=True)
class UnionQuantiles:
    """Answers over the union of each bundle's parts: float64[bundles, spans, quantiles].

    rank_errors: no rank of the estimate is farther from the one asked for. NaN for no events.
    """

    estimates: Floats
    lowers: Floats
    uppers: Floats
    rank_errors: Floats


@kernel
def _known(
    head: Integers, shares: Floats, data: Bytes, starts: Integers
) -> tuple[int, int, int, Floats, Integers, Integers, Floats]:
    """Return what a part knows of the windows that start at `starts`.

    Returns (error, its two numbers, steps, ends, events, extremes): steps[:, ends[k]:ends[k + 1]]
    are the values that `collect` gives of window k, and their figures. Of the events, events[k, 0]
    are in known blocks and events[k, 1] straddle, with values from extremes[k, 0] to
    extremes[k, 1].
    """
    state = np.empty(STATE_SIZE, np.int64)
    steps = np.empty((3, 0), np.float64)
    ends = np.zeros(len(starts) + 1, np.int64)
    events = np.zeros((len(starts), 2), np.int64)
    extremes = np.zeros((len(starts), 2), np.float64)
    made_with = put_parameters(head, shares)
    error_code, a, b, at = open_state(head, shares, made_with, data, 0, len(data), state)
    if error_code != error_codes.OK:
        return error_code, a, b, steps, ends, events, extremes
    times = np.empty(state[TOTAL] - state[TAIL], np.int64)
    payload = np.empty(len(times), np.int64)
    error_code, blocks = load(head, data, at, len(data), state, 0, times, payload)
    if error_code != error_codes.OK:
        return error_code, 0, 0, steps, ends, events, extremes
    for k in range(len(starts)):
        keys, figures, covered, straddling, least, most = collect(
            head, state, times, payload, blocks, starts[k]
        )
        ends[k + 1] = ends[k] + len(keys)
        longer = np.empty((3, ends[k + 1]), np.float64)
        longer[:, : ends[k]] = steps[:, : ends[k]]
        longer[0, ends[k] :] = doubles(keys)
        longer[1:, ends[k] :] = figures
        steps = longer
        events[k, 0] = covered
        events[k, 1] = straddling
        extremes[k] = doubles(np.array([least, most]))
    return error_codes.OK, 0, 0, steps, ends, events, extremes


@borrowing_kernel
def _answer(steps: Floats, covered: int, part: int) -> tuple[float, float, float, float]:
    """Return (estimate, lower, upper, rank error) of the part/PARTS quantile; NaN for no events.

    `covered` is the number of events in known blocks, the c of the proof. Cost: O(steps).
    """
    estimate = lower = upper = error = np.nan
    width = int(np.sum(steps[_WIDTH]))
    later = int(np.sum(steps[_CERTAIN]))
    if covered + later == 0:
        return estimate, lower, upper, error
    count = 0
    inside = 0
    high_before = -1
    i = 0
    while i < steps.shape[1]:
        value = steps[_VALUE, i]
        while i < steps.shape[1] and steps[_VALUE, i] == value:
            count += int(steps[_EVENTS, i])
            width -= int(steps[_WIDTH, i])
            inside += int(steps[_POSSIBLE, i])
            later -= int(steps[_CERTAIN, i])
            i += 1
        high = count + inside - rank_of(part, covered + inside)
        low = max(count - width, 0) - rank_of(part, covered + later)
        if np.isnan(lower) and high >= 0:
            lower = value
        if np.isnan(estimate) and low + high >= 0:
            estimate = value
            error = float(max(0, -low, high_before + 1))
        if low >= 0:
            upper = value
            break
        high_before = high
    return estimate, lower, upper, error


def union_quantiles(
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
    quantiles: npt.ArrayLike,
) -> UnionQuantiles:
    """Answer for the windows [time - span, time) of each bundle of quantile summaries.

    times: int64[B]; spans: int64[K], 1 to the span kept; quantiles: numbers from 0 to 1, of at most
    six decimals. Raises SynopsisError as `ask` does, and for any other span or quantile.
    """
    asked = ask(QuantileParameters, Quantiles.kinds, bundles, times, spans)
    windows(asked.spans, asked.parameters.span)
    parts = parts_of(quantiles)
    answers = np.empty((4, len(bundles), len(asked.spans), len(parts)), np.float64)
    for bundle, first in enumerate(asked.starts[:-1].tolist()):
        pieces: list[list[Floats]] = [[] for _ in asked.spans]
        covered = np.zeros(len(asked.spans), np.int64)
        for part in range(first, int(asked.starts[bundle + 1])):
            steps, ends, events, extremes = _steps(
                asked.parameters, asked.states[part], asked.times[part] - asked.spans
            )
            for k, window in enumerate(pieces):
                window.append(_united(steps[:, ends[k] : ends[k + 1]], events[k, 1], extremes[k]))
            covered += events[:, 0]
        for k, window in enumerate(pieces):
            together = np.concatenate(window, axis=1)
            together = together[:, np.argsort(together[_VALUE], kind="stable")]
            for j, asked_for in enumerate(parts.tolist()):
                answers[:, bundle, k, j] = _answer(together, int(covered[k]), asked_for)
    return UnionQuantiles(*answers)


def known_steps(
    parameters: QuantileParameters, state: bytes, start: int
) -> tuple[Floats, int, int, Floats]:
    """Return what a state knows of its events from time `start` on.

    Returns (steps, c, U, extremes): steps, float64[3, :], are values, not falling, the events that
    each stands for, and the width that ends at it; extremes are the least and the largest value
    that the U straddling events may have. Raises SynopsisError.
    """
    steps, _, events, extremes = _steps(parameters, state, np.array([start], np.int64))
    return steps, int(events[0, 0]), int(events[0, 1]), extremes[0]


def _steps(
    parameters: QuantileParameters, state: bytes, starts: Integers
) -> tuple[Floats, Integers, Integers, Floats]:
    data = np.frombuffer(bytearray(state), np.uint8)
    error_code, a, b, steps, ends, events, extremes = _known(
        parameters.head, parameters.shares, data, starts
    )
    if error_code != error_codes.OK:
        raise summary_error(error_code, int(a), int(b), -1)
    return steps, ends, events, extremes


def _united(steps: Floats, straddling: int, extremes: Floats) -> Floats:
    """Return the steps of a part as those of a union."""
    rows = np.zeros((_ROWS, steps.shape[1] + 2), np.float64)
    rows[:3, :-2] = steps
    if straddling == 0:
        return rows[:, :-2]
    rows[_VALUE, -2:] = extremes
    rows[_POSSIBLE, -2] = straddling
    rows[_CERTAIN, -1] = straddling
    return rows
