"""Quantiles over the union of a bundle's parts.

Source: Arasu and Manku 2004, lemma 4.2, for the parts of several streams; as answer.py. What is
promised: README.md, as of one part. Cost: O(bytes), and of a window O(values kept * log), then
O(values kept) for each quantile. Proof: docs/proofs.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
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
from slidestat.synopses.core.batch import parts_of, window_length, windows
from slidestat.synopses.core.envelope import Body, damaged, varint
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.keyed import with_columns, with_room
from slidestat.synopses.core.stored import time_in_range
from slidestat.synopses.merge.bundle import Bundle, ask
from slidestat.synopses.merge.summary import WindowFigure, WindowSummary
from slidestat.synopses.quantiles.answer import WIDTH, find_window, rank_of, steps_of, window_runs
from slidestat.synopses.quantiles.quantiles import QuantileEstimate, Quantiles

# Rows of what is known of a window, for each of its values.
HIGH, LOW, POSSIBLE, CERTAIN = 0, 1, 2, 3
_STEP_ROWS = 4


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
) -> tuple[int, int, int, Integers, Integers, Integers, Integers]:
    """Return what a part knows of the windows that start at `starts`.

    Returns (error, its two numbers, keys, rows, ends, events): keys[ends[k]:ends[k + 1]] are those
    of the values of window k (columns.py), with their rows, of which L may be below 0. The rows
    events[k, 0] are the events in known blocks, and events[k, 1] straddle.
    """
    state = np.empty(STATE_SIZE, np.int64)
    found = np.empty(0, np.int64)
    rows = np.empty((_STEP_ROWS, 0), np.int64)
    ends = np.zeros(len(starts) + 1, np.int64)
    events = np.zeros((len(starts), 2), np.int64)
    made_with = put_parameters(head, shares)
    error_code, a, b, at = open_state(head, shares, made_with, data, 0, len(data), state)
    if error_code != error_codes.OK:
        return error_code, a, b, found, rows, ends, events
    times = np.empty(state[TOTAL] - state[TAIL], np.int64)
    payload = np.empty(len(times), np.int64)
    error_code, blocks = load(head, data, at, len(data), state, 0, times, payload)
    if error_code != error_codes.OK:
        return error_code, 0, 0, found, rows, ends, events
    for k in range(len(starts)):
        after, covered, straddling = find_window(head, state, times, blocks, starts[k])
        keys, begins, facts, _ = window_runs(head, state, payload, blocks, after)
        widths = facts[WIDTH].astype(np.float64)
        keys, figures = steps_of(keys, begins, facts, widths, straddling, False)
        end = ends[k]
        found = with_room(found, end, len(keys))
        rows = with_columns(rows, end, len(keys))
        count = 0
        width = int(np.sum(figures[1]))
        i = 0
        while i < len(keys):
            key = keys[i]
            while i < len(keys) and keys[i] == key:
                count += int(figures[0, i])
                width -= int(figures[1, i])
                i += 1
            found[end] = key
            rows[HIGH, end], rows[LOW, end] = count, count - width
            rows[POSSIBLE, end] = straddling[0] if key >= straddling[1] else 0
            rows[CERTAIN, end] = straddling[0] if key >= straddling[2] else 0
            end += 1
        ends[k + 1] = end
        events[k, 0], events[k, 1] = covered, straddling[0]
    return error_codes.OK, 0, 0, found, rows, ends, events


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
    for bundle, (first, last) in enumerate(pairwise(asked.starts.tolist())):
        known = [
            _windows(asked.parameters, asked.states[part], asked.times[part] - asked.spans)
            for part in range(first, last)
        ]
        for k, of_span in enumerate(zip(*known, strict=True)):
            answers[:, bundle, k] = _together(of_span).figures_of(parts)
    return UnionQuantiles(*answers)


def _windows(
    parameters: QuantileParameters, state: bytes, starts: Integers
) -> list["WindowQuantiles"]:
    """Return what a state knows of its events from each of `starts` on; L may be below 0.

    Raises SynopsisError for bytes that are no such state.
    """
    data = np.frombuffer(bytearray(state), np.uint8)
    error_code, a, b, keys, rows, ends, events = _known(
        parameters.head, parameters.shares, data, starts
    )
    if error_code != error_codes.OK:
        raise summary_error(error_code, int(a), int(b), -1, Quantiles.kinds)
    values = doubles(keys)
    return [
        WindowQuantiles(values[at:to], rows[:, at:to], *of_window)
        for (at, to), of_window in zip(pairwise(ends.tolist()), events.tolist(), strict=True)
    ]


# Quantiles of one window, as step functions that bound the number of events up to each value.
#
# Source: mergeable summaries (Agarwal, Cormode, Huang, Phillips, Wei, Yi 2012) for what is asked of
# a merge; intervals of ranks as above, whose proof it shares. The compression is ours.
#
# Promises: README.md. Values are left out beyond MOST_VALUES: each compression on the way
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


@kernel
def _added(values: Floats, rows: Integers, sizes: Integers) -> tuple[Floats, Integers]:
    """Return the values of all parts, rising, each once, and the sums of the parts' functions."""
    rises = rows.copy()
    last = -1
    for size in sizes:
        for i in range(last + 2, last + size + 1):
            for row in range(_STEP_ROWS):
                rises[row, i] -= rows[row, i - 1]
        last += size
    found = np.empty(len(values), np.float64)
    sums = np.zeros((_STEP_ROWS, len(values)), np.int64)
    total = np.zeros(_STEP_ROWS, np.int64)
    end = 0
    for i in np.argsort(values, kind="mergesort"):
        if end == 0 or found[end - 1] != values[i]:
            found[end] = values[i]
            end += 1
        for row in range(_STEP_ROWS):
            total[row] += rises[row, i]
            sums[row, end - 1] = total[row]
    return found[:end], sums[:, :end].copy()


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
        low = max(rows[LOW, i], 0) - rank_of(part, covered + later)
        if lower < 0 and high >= 0:
            lower = i
        if estimate < 0 and low + high >= 0:
            estimate = i
            error = max(0, -low, high_before + 1)
        if low >= 0:
            return estimate, lower, i, error
        high_before = high
    return -1, -1, -1, 0  # no rows that were read come here


@kernel
def _answers(
    values: Floats, rows: Integers, covered: int, straddling: int, parts: Integers
) -> Floats:
    """Return (estimate, lower, upper, rank error) of the quantiles `parts`, float64[4, parts]; NaN
    for no events. Cost: O(values) each.
    """
    answers = np.full((4, len(parts)), np.nan)
    for j in range(len(parts) if len(values) > 0 else 0):
        estimate, lower, upper, error = _summary_answer(rows, covered, straddling, parts[j])
        answers[0, j], answers[1, j], answers[2, j] = values[estimate], values[lower], values[upper]
        answers[3, j] = error
    return answers


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
        at = summary.now if now is None else time_in_range(now)
        start = at - window_length(n, summary.parameters.span)
        summary.query(n, 0.5, at)  # which refuses a time gone by
        (found,) = _windows(summary.parameters, state, np.array([start], np.int64))
        rows = found.rows.copy()
        rows[LOW] = np.maximum(rows[LOW], 0)
        return _within_room(replace(found, rows=rows))

    def merge(self, *others: "WindowQuantiles") -> "WindowQuantiles":
        parts = (self, *others)
        if sum(part.events_high for part in parts) > _MOST_EVENTS:
            raise WindowTooLargeError("the windows hold more than 2^43 events together")
        return _within_room(_together(parts))

    def quantile(self, quantile: float) -> QuantileEstimate:
        """Return a quantile, from 0 to 1 of at most six decimals; NaN for no events.

        rank_error: no rank of the estimate is farther from the one asked for, in events.
        """
        return self.quantiles([quantile])[0]

    def quantiles(self, quantiles: Sequence[float]) -> list[QuantileEstimate]:
        """Return several quantiles; SynopsisError for numbers that are no quantiles."""
        return [QuantileEstimate(*row) for row in self.figures_of(parts_of(quantiles)).T.tolist()]

    def figures_of(self, parts: Integers) -> Floats:
        """Return (estimate, lower, upper, rank error) of quantiles in millionths, float64[4, n]."""
        return _answers(self.values, self.rows, self.covered, self.straddling, parts)

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


def _together(parts: Sequence[WindowQuantiles]) -> WindowQuantiles:
    """Return the summary of all windows as one, with all of their values."""
    sizes = np.array([len(part.values) for part in parts], np.int64)
    values = np.concatenate([part.values for part in parts])
    rows = np.concatenate([part.rows for part in parts], axis=1)
    covered = sum(part.covered for part in parts)
    return WindowQuantiles(
        *_added(values, rows, sizes), covered, sum(part.straddling for part in parts)
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
    kept = rows.take(starts, axis=1)
    kept[HIGH] = rows[HIGH, ends]
    kept[POSSIBLE] = rows[POSSIBLE, ends]
    return WindowQuantiles(whole.values[starts], kept, whole.covered, whole.straddling)
