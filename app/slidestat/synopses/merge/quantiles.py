"""Quantiles over the union of a bundle's parts.

Source: Arasu and Manku 2004, lemma 4.2, for the parts of several streams; as answer.py. What is
promised: README.md, as of one part. Cost: O(bytes), and of a window O(values kept * log), then
O(values kept) for each quantile. Proof: docs/proofs.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel, kernel
from slidestat.synopses.blocks.codec import put_parameters
from slidestat.synopses.blocks.columns import column_limit, doubles, get_column, ordered, put_column
from slidestat.synopses.blocks.memory import STATE_SIZE, TAIL, TOTAL
from slidestat.synopses.blocks.parameters import QuantileParameters
from slidestat.synopses.blocks.run import load, open_state, summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.batch import parts_of, windows
from slidestat.synopses.core.envelope import Body, damaged, varint
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.merge.bundle import Bundle, ask
from slidestat.synopses.merge.summary import WindowFigure, WindowSummary
from slidestat.synopses.quantiles.answer import collect, rank_of
from slidestat.synopses.quantiles.quantiles import QuantileEstimate, Quantiles

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
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike, quantiles: npt.ArrayLike
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
        raise summary_error(error_code, int(a), int(b), -1, Quantiles.kinds)
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


# Quantiles of one window, as step functions that bound the number of events up to each value.
#
# Source: mergeable summaries (Agarwal, Cormode, Huang, Phillips, Wei, Yi 2012) for what is asked of
# a merge; intervals of ranks as above, whose proof it shares. The compression is ours.
#
# What is promised: README.md. Values are left out beyond MOST_VALUES: each compression on the way
# of an event to the answer adds at most m / (MOST_VALUES - 4) + 1 ranks, m being the events (and
# what straddles) in it. So merge many at once: that compresses once, whatever their order.
#
# Why, and how a compression chooses: docs/proofs.md.
#
# The body (see summary.py) has c, U, and how many values there are; then (columns.py) the values,
# and for each H, H - L, P, P - C.

MOST_VALUES = 2_048
_MOST_EVENTS = 1 << 43
"""So that a millionth's share of them, times a million, is a 64-bit number."""

HIGH, LOW, POSSIBLE, CERTAIN = 0, 1, 2, 3
_STEP_ROWS = 4


@kernel
def _starts(upper: Integers, lower: Integers, budget: int) -> Integers:
    """Return where intervals begin, each but single values and the last within `budget`."""
    last = len(upper) - 1
    starts = np.empty(last + 1, np.int64)
    kept = 0
    at = 0
    while at < last:
        starts[kept] = at
        kept += 1
        at = max(at + 1, min(last, np.searchsorted(upper, lower[at] + budget, side="right")))
    starts[kept] = last
    return starts[: kept + 1]


@kernel
def _compressed(upper: Integers, lower: Integers, room: int) -> Integers:
    """Return where intervals begin, at most `room` of them, for the least budget."""
    least, most = 0, upper[-1]
    while least < most:
        middle = (least + most) // 2
        if len(_starts(upper, lower, middle)) <= room:
            most = middle
        else:
            least = middle + 1
    return _starts(upper, lower, least)


@borrowing_kernel
def _summary_answer(
    rows: Integers, covered: int, straddling: int, part: int
) -> tuple[int, int, int, int]:
    """Return where (estimate, lower, upper) are, and the rank error. Cost: O(values)."""
    estimate = lower = -1
    error = 0
    high_before = -1
    for i in range(rows.shape[1]):
        possible = rows[POSSIBLE, i]
        later = straddling - rows[CERTAIN, i]
        high = rows[HIGH, i] + possible - rank_of(part, covered + possible)
        low = rows[LOW, i] - rank_of(part, covered + later)
        if lower < 0 and high >= 0:
            lower = i
        if estimate < 0 and low + high >= 0:
            estimate = i
            error = max(0, -low, high_before + 1)
        if low >= 0:
            return estimate, lower, i, error
        high_before = high
    return -1, -1, -1, 0  # no rows that were read come here


@dataclass(frozen=True)
class WindowQuantiles(WindowSummary):
    """Values, float64[k], rising; rows, int64[4, k]: H, L, P and C of each; c and U."""

    values: Floats
    rows: Integers
    covered: int
    straddling: int

    form: ClassVar[int] = 4
    kinds: ClassVar[tuple[int, ...]] = Quantiles.kinds
    are_values: ClassVar[bool] = True

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowQuantiles":
        summary = Quantiles.from_bytes(state)
        at = summary.now if now is None else now
        summary.query(n, 0.5, at)  # which refuses a window that cannot be
        steps, covered, straddling, extremes = known_steps(summary.parameters, state, at - n)
        values, last = np.unique(steps[0], return_index=True)
        if len(values) == 0:
            return cls(values, np.zeros((_STEP_ROWS, 0), np.int64), 0, 0)
        ends = np.append(last[1:], steps.shape[1]) - 1
        count = np.cumsum(steps[1])[ends]
        width = steps[2].sum() - np.cumsum(steps[2])[ends]
        rows = np.empty((_STEP_ROWS, len(values)), np.int64)
        rows[HIGH] = np.minimum(count, covered)
        rows[LOW] = np.minimum(np.maximum(count - width, 0), covered)
        rows[POSSIBLE] = np.where(values >= extremes[0], straddling, 0)
        rows[CERTAIN] = np.where(values >= extremes[1], straddling, 0)
        return _within_room(cls(values, rows, covered, straddling))

    def merge(self, *others: "WindowQuantiles") -> "WindowQuantiles":
        parts = (self, *others)
        if sum(part.events_high for part in parts) > _MOST_EVENTS:
            raise WindowTooLargeError("the windows hold more than 2^43 events together")
        values = np.concatenate([part.values for part in parts])
        rises = np.concatenate([np.diff(part.rows, axis=1, prepend=0) for part in parts], axis=1)
        order = np.argsort(values, kind="stable")
        values = values[order]
        ends = np.flatnonzero(np.append(values[1:] != values[:-1], True)[: len(values)])
        together = WindowQuantiles(
            values[ends],
            np.cumsum(rises[:, order], axis=1)[:, ends],
            sum(part.covered for part in parts),
            sum(part.straddling for part in parts),
        )
        return _within_room(together)

    def quantile(self, quantile: float) -> QuantileEstimate:
        """Return a quantile, from 0 to 1 of at most six decimals; NaN for no events.

        rank_error: no rank of the estimate is farther from the one asked for, in events.
        """
        return self.quantiles([quantile])[0]

    def quantiles(self, quantiles: Sequence[float]) -> list[QuantileEstimate]:
        """Return several quantiles; SynopsisError for numbers that are no quantiles."""
        parts = parts_of(quantiles)
        if len(self.values) == 0:
            return [QuantileEstimate(np.nan, np.nan, np.nan, np.nan)] * len(parts)
        answers = []
        for part in parts.tolist():
            estimate, lower, upper, error = _summary_answer(
                self.rows, self.covered, self.straddling, part
            )
            middle, low, high = self.values[[estimate, lower, upper]].tolist()
            answers.append(QuantileEstimate(middle, low, high, float(error)))
        return answers

    @property
    def events_low(self) -> int:
        """At least so many events are in the window."""
        return self.covered

    @property
    def events_high(self) -> int:
        """At most so many events are in the window."""
        return self.covered + self.straddling

    def figures(self, quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("quantile", self.quantile(p), quantile=p) for p in quantiles]

    def body(self) -> bytes:
        size = len(self.values)
        head = varint(self.covered) + varint(self.straddling) + varint(size)
        room = np.empty((1 + _STEP_ROWS) * column_limit(size), np.uint8)
        at = put_column(room, 0, ordered(self.values), True)
        for column in _differences(self.rows):
            at = put_column(room, at, column, False)
        return head + room[:at].tobytes()

    @classmethod
    def from_body(cls, body: Body) -> "WindowQuantiles":
        covered, straddling = (body.number(most=_MOST_EVENTS) for _ in range(2))
        size = body.number(most=MOST_VALUES)
        columns = [np.empty(size, np.int64) for _ in range(1 + _STEP_ROWS)]
        for i, column in enumerate(columns):
            body.at = get_column(body.array, body.at, len(body.array), column, i == 0)
            if body.at < 0:
                raise damaged()
        high, unsure, possible, uncertain = columns[1:]
        rows = np.stack([high, high - unsure, possible, possible - uncertain])
        read = cls(doubles(columns[0]), rows, covered, straddling)
        if not read._is_sound():
            raise damaged()
        return read

    def _is_sound(self) -> bool:
        """Return whether the functions rise, keep their order, and end at c and U."""
        if len(self.values) == 0:
            return self.events_high == 0
        rises = bool(np.all(np.diff(self.rows, axis=1, prepend=0) >= 0))
        above = bool(np.all(self.rows[[HIGH, POSSIBLE]] >= self.rows[[LOW, CERTAIN]]))
        total = np.array([self.covered, self.covered, self.straddling, self.straddling])
        ends = bool(np.all(self.rows[:, -1] == total))
        return (
            rises
            and above
            and ends
            and bool(np.all(np.diff(self.values) > 0))
            and (0 < self.events_high <= _MOST_EVENTS)
        )


def _differences(rows: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    high, possible = rows[HIGH], rows[POSSIBLE]
    return high, high - rows[LOW], possible, possible - rows[CERTAIN]


def _within_room(whole: WindowQuantiles) -> WindowQuantiles:
    """Return a summary of the same window that has at most MOST_VALUES values."""
    if len(whole.values) <= MOST_VALUES:
        return whole
    rows = whole.rows
    starts = _compressed(rows[HIGH] + rows[POSSIBLE], rows[LOW] + rows[CERTAIN], MOST_VALUES // 2)
    ends = np.append(starts[1:], rows.shape[1]) - 1
    kept = rows[:, starts]
    kept[HIGH] = rows[HIGH, ends]
    kept[POSSIBLE] = rows[POSSIBLE, ends]
    return WindowQuantiles(whole.values[starts], kept, whole.covered, whole.straddling)
