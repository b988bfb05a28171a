"""Mean, variance and standard deviation over the union of a bundle's parts.

Known about a part's window: all events K_i of its whole buckets, and of the bucket A_i that the
window cuts, if any, one at least and all but one at most. Moments are exact and add up, so the
union is such a window itself, of K, all K_i, and A, all A_i, and is answered as one. So the
promises of one part stay: README.md, docs/proofs.md. Cost: O(bytes), and a query O(parts * log).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Integers
from slidestat.synopses.core.batch import BatchResult, joined, questions, split, windows
from slidestat.synopses.core.envelope import Body, damaged, refused
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.keyed import with_room
from slidestat.synopses.merge.bundle import Bundle, UnionAnswers, ask
from slidestat.synopses.merge.summary import StateSummary, WindowFigure, must_agree
from slidestat.synopses.moments import codec
from slidestat.synopses.moments.kernel import DEVIATION, MEAN, VARIANCE
from slidestat.synopses.moments.moments import ABOVE, BELOW, COUNT, MAX_COUNT, MAX_MAGNITUDES, add
from slidestat.synopses.moments.spread import (
    Spread,
    SpreadParameters,
    large_spread,
    run_spread_batch,
)

# The pooled window as a stream: events of A at times 0 and 1, those of K at 1, window [1, 2).
_INSIDE, _AFTER = 1, 2
POOLED_NOW, POOLED_SPAN = _AFTER, _AFTER - _INSIDE


@dataclass(frozen=True)
class UnionSpreads:
    """The three statistics of each bundle's windows."""

    mean: UnionAnswers
    variance: UnionAnswers
    deviation: UnionAnswers


@kernel
def _pooled(
    arena: Bytes,
    offsets: Integers,
    starts: Integers,
    times: Integers,
    spans: Integers,
    large: Integers,
) -> tuple[int, int, Bytes, Integers]:
    """Write a state of the pooled window for each bundle and span; none where it has no event, or
    more than a state can hold: large[bundle * spans + span] is 1 then, and else 0.

    Returns (error, the part that has it, the states, their offsets). The parts are
    arena[offsets[p]:offsets[p + 1]], asked at times[p]; `starts` is of `Asked`.
    """
    bundles = len(starts) - 1
    head = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    buckets = np.empty((codec.BUCKET_ROWS, 64), np.int64)
    pools = np.empty((codec.BUCKET_ROWS, 2 * len(spans)), np.int64)
    exact = np.empty(len(spans), np.int64)
    one = np.empty((codec.BUCKET_ROWS, 2), np.int64)
    out = np.empty(0, np.uint8)
    ends = np.zeros(bundles * len(spans) + 1, np.int64)
    end = 0
    for bundle in range(bundles):
        pools[:, :] = 0
        exact[:] = 1
        for part in range(starts[bundle], starts[bundle + 1]):
            error_code, _, buckets = codec.read(
                arena, offsets[part], offsets[part + 1], head, state, buckets
            )
            if error_code != error_codes.OK:
                return error_code, part, out, ends
            for k in range(len(spans)):
                start = times[part] - spans[k]
                for i in range(state[codec.KEPT] - 1, -1, -1):
                    if buckets[codec.NEWEST, i] < start or large[bundle * len(spans) + k] != 0:
                        break
                    cut = 2 * k + (1 if buckets[codec.FIRST, i] < start else 0)
                    add(pools, cut, buckets, i)
                    exact[k] &= 1 - state[codec.INEXACT]
                    size = pools[ABOVE, 2 * k] + pools[BELOW, 2 * k]
                    size += pools[ABOVE, 2 * k + 1] + pools[BELOW, 2 * k + 1]
                    events = pools[COUNT, 2 * k] + pools[COUNT, 2 * k + 1]
                    if size > MAX_MAGNITUDES or events > MAX_COUNT:
                        large[bundle * len(spans) + k] = 1
        for k in range(len(spans)):
            at = bundle * len(spans) + k
            codec.clear(state)
            state[codec.NOW] = _AFTER
            state[codec.INEXACT] = 1 - exact[k]
            for which in (1, 0):
                if pools[COUNT, 2 * k + which] > 0 and large[at] == 0:
                    one[:, state[codec.KEPT]] = pools[:, 2 * k + which]
                    one[codec.FIRST, state[codec.KEPT]] = _INSIDE - which
                    one[codec.NEWEST, state[codec.KEPT]] = _INSIDE
                    state[codec.KEPT] += 1
            if state[codec.KEPT] > 0:
                head[codec.SPAN] = _AFTER
                more = codec.room_for(state)
                out = with_room(out, end, more)
                state[codec.OLDEST] = 0
                end = codec.write(out, end, head, state, one)
            ends[at + 1] = end
    return error_codes.OK, 0, out, ends


def union_spreads(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionSpreads:
    """Answer for the windows [time - span, time) of each bundle of spreads.

    times: int64[B]; spans: int64[K], 1 to the span kept. Raises SynopsisError as `ask` does. Cost:
    some ns a bucket; of a union whose magnitudes come to more than 2^60 units, microseconds.
    """
    asked = ask(SpreadParameters, Spread.kinds, bundles, times, spans)
    states, large = _pool(asked.parameters, asked.states, asked.starts, asked.times, asked.spans)
    windows = len(states)
    result = run_spread_batch(
        _pooled_parameters(asked.parameters),
        states,
        questions(np.full(windows, POOLED_NOW), [POOLED_SPAN]),
    )
    several = (result.mean, result.variance, result.deviation)
    for place in np.flatnonzero(large).tolist():
        bundle, k = divmod(place, len(asked.spans))
        mine = slice(int(asked.starts[bundle]), int(asked.starts[bundle + 1]))
        starts = (asked.times[mine] - asked.spans[k]).tolist()
        found = large_spread(asked.states[mine], starts)
        for statistic, of in zip((MEAN, VARIANCE, DEVIATION), several, strict=True):
            for number, column in enumerate(of.figures):
                column[place, 0] = found[statistic, number]
    shape = (len(bundles), len(asked.spans))
    return UnionSpreads(*(_shaped(of, shape) for of in several))


def pooled(parameters: SpreadParameters, parts: Sequence[bytes], time: int, span: int) -> bytes:
    """Return the pooled window [time - span, time) of states made with `parameters`, as a state.

    All of its events are in its window [POOLED_NOW - POOLED_SPAN, POOLED_NOW), or cut by it. To
    pool such states is to add up their moments, so order and grouping do not show. Raises
    SynopsisError as `union_spreads`, and for magnitudes that come to more than 2^60 units or events
    to more than 2^50. Cost: O(bytes).
    """
    starts = np.array([0, len(parts)], np.int64)
    times = np.full(len(parts), time, np.int64)
    (state,), large = _pool(parameters, parts, starts, times, np.array([span], np.int64))
    if large[0]:
        raise WindowTooLargeError(
            "the magnitudes of the union come to more than 2^60 units, or its events to more than "
            "2^50, which is more than a state can hold"
        )
    return state or Spread.create(_pooled_parameters(parameters)).to_bytes()


def _pooled_parameters(parameters: SpreadParameters) -> SpreadParameters:
    return SpreadParameters(parameters.epsilon, POOLED_NOW, parameters.decimals)


def _pool(
    parameters: SpreadParameters,
    parts: Sequence[bytes],
    starts: Integers,
    times: Integers,
    spans: Integers,
) -> tuple[list[bytes], Integers]:
    """Return the state of each bundle's pooled window of each span, no bytes where it is empty; and
    1 for each that is too large to have one.
    """
    asked = windows(spans, parameters.span)
    large = np.zeros((len(starts) - 1) * len(spans), np.int64)
    error_code, number, out, ends = _pooled(*joined(parts), starts, times, asked, large)
    if error_code != error_codes.OK:
        raise refused(error_code, number, codec.SPREAD)
    return split(out, ends), large


def _shaped(of: BatchResult, shape: tuple[int, int]) -> UnionAnswers:
    return UnionAnswers(*(figure.reshape(shape) for figure in of.figures))


# Mean, variance and standard deviation of one window.
#
# The promises of one state hold in any tree of merges: the exact moments of whole buckets, and of
# what the window cuts, add up. The body (see summary.py) is the pooled window, a stored spread.


@dataclass(frozen=True)
class WindowSpread(StateSummary):
    """A window as a spread of its own, which is asked for its whole length."""

    form: ClassVar[int] = 3
    kinds: ClassVar[tuple[int, ...]] = Spread.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowSpread":
        spread = Spread.from_bytes(state)
        at = spread.now if now is None else now
        spread.mean(n, at)  # which refuses a window that cannot be
        return cls(pooled(spread.parameters, [spread.to_bytes()], at, n))

    def merge(self, *others: "WindowSpread") -> "WindowSpread":
        parts = [part._spread for part in (self, *others)]
        must_agree(parts[0].parameters, tuple(part.parameters for part in parts[1:]))
        states = [part.to_bytes() for part in parts]
        return WindowSpread(pooled(parts[0].parameters, states, POOLED_NOW, POOLED_SPAN))

    def mean(self) -> Estimate:
        """Return the mean; NaN for no events."""
        return self._spread.mean(POOLED_SPAN, POOLED_NOW)

    def variance(self) -> Estimate:
        """Return the population variance; NaN for no events."""
        return self._spread.variance(POOLED_SPAN, POOLED_NOW)

    def deviation(self) -> Estimate:
        """Return the population standard deviation; NaN for no events."""
        return self._spread.deviation(POOLED_SPAN, POOLED_NOW)

    @property
    def _spread(self) -> Spread:
        return Spread.from_bytes(self.data)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [
            WindowFigure("mean", self.mean()),
            WindowFigure("variance", self.variance()),
            WindowFigure("deviation", self.deviation()),
        ]

    @classmethod
    def from_body(cls, body: Body) -> "WindowSpread":
        summary = cls(body.rest())
        spread = summary._spread
        if spread.parameters.span != POOLED_NOW or spread.now > POOLED_NOW:
            raise damaged()
        spread.check()
        return summary.merge()
