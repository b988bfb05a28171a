"""The minimum or the maximum of a window, exact or to a relative error, for any window n <= N.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.4: the list of pairs of value and time that
both rise (the monotone queue), and why an exact extreme needs N log(R / N) bits for R values at
worst. Rounding the values, which bounds it, is ours. Contract: lower <= exact <= upper and
|estimate - exact| <= relative_error * |exact|, always; exact with epsilon 0, and where it is 0. All
are NaN for an empty window. Space: exact, an event is kept while no later one
is as extreme: all of them if values fall steadily (maximum), H_n for n values in random order, one
for each distinct time at most; approximate, 2^m ranks for each doubling between the extremes of the
window's values, with 2^m < 1 / epsilon. Update O(1) amortised, query O(log kept) after reading the
state. Order: times must not fall. Merge: merge/extremes.py; of separate streams, the extreme of
the answers, of the lowers and of the uppers are those of the union, and the relative error stays.

Proof of the space: kept ranks differ, and a rank is one of 2^m for each power of two of the
value. Of the error: see kernel.py; an answer is the middle of the exact one's rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult, split
from slidestat.synopses.core.envelope import refusals, refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.parameters import MAX_SPAN, MIN_EPSILON, check_whole
from slidestat.synopses.core.stored import NO_VALUES, StoredSynopsis, asking, moving
from slidestat.synopses.extremes.kernel import (
    ALL_BITS,
    APPROXIMATE,
    EXACT,
    FRACTION_BITS,
    HEAD_SIZE,
    KEPT,
    NOW,
    SIDE,
    SPAN,
    STATE_SIZE,
    read,
    run,
)

_SIDES = ("minimum", "maximum")


@dataclass(frozen=True)
class ExtremeParameters:
    """A minimum or a maximum over windows of up to `span`.

    side: "minimum" or "maximum". span: longest window kept, 1 to 2^53, in the unit of the event
    times. epsilon: 0 for the exact one, else the largest relative error wanted, 10^-6 to 1/2.
    Raises SynopsisError for anything else.
    """

    side: str
    span: int
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.side not in _SIDES:
            raise SynopsisError(f"side must be minimum or maximum, not {self.side!r}")
        check_whole("span", self.span, 1, MAX_SPAN)
        if not (self.epsilon == 0 or MIN_EPSILON <= self.epsilon <= 0.5):
            raise SynopsisError(f"epsilon must be 0 or 1e-06 to 0.5, not {self.epsilon!r}")

    @property
    def fraction_bits(self) -> int:
        """The number of bits of a value's fraction that are kept: the fewest that keep epsilon."""
        if self.epsilon == 0:
            return ALL_BITS
        bits = 0
        while 0.5 ** (bits + 1) > self.epsilon:
            bits += 1
        return bits

    @property
    def relative_error(self) -> float:
        """The promise: 2^-(m + 1) <= epsilon for m fraction bits; 0 for the exact one."""
        return 0.0 if self.epsilon == 0 else 0.5 ** (self.fraction_bits + 1)


def run_extreme_batch(
    parameters: ExtremeParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many extremes at once, one a group (key); the values are float64.

    Raises SynopsisError, and changes nothing, for bytes that are not a state of these parameters,
    for times or queries before a state's time, and for values that are not finite.
    Cost: O(bytes in + events + queries * log + bytes out).
    """
    columns, values = batch.within(parameters.span), batch.doubles()
    head = np.empty(HEAD_SIZE, np.int64)
    head[SIDE] = _SIDES.index(parameters.side)
    head[FRACTION_BITS] = parameters.fraction_bits
    head[SPAN] = parameters.span
    answers: Floats = np.empty((3, *batch.shape), np.float64)
    own = values.view(np.int64), answers.view(np.int64)
    error_of = refusals(states, EXACT, APPROXIMATE)
    out, ends = drive(run, (head,), states, columns, *own, values=values, error_of=error_of)
    return BatchResult(split(out, ends), *answers)


class Extreme(StoredSynopsis[ExtremeParameters]):
    """The minimum or the maximum of one stream's values, over any window up to the span.

    >>> from slidestat.synopses import Extreme, ExtremeParameters
    >>> warmest = Extreme.create(ExtremeParameters("maximum", span=60_000))
    >>> warmest.insert([1_000, 2_000, 50_000], [21.5, 23.0, 19.5])
    >>> warmest.query(60_000).estimate, warmest.query(1_000).estimate
    (23.0, 19.5)
    """

    kinds: ClassVar[tuple[int, ...]] = (EXACT, APPROXIMATE)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Extreme":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        The parameters' epsilon is then the promised error, which may be below the one once asked
        for. Cost: O(len(data)).
        """
        head, state, _ = _read(data)
        bits = int(head[FRACTION_BITS])
        epsilon = 0.0 if bits == ALL_BITS else max(MIN_EPSILON, 0.5 ** (bits + 1))
        parameters = ExtremeParameters(_SIDES[int(head[SIDE])], int(head[SPAN]), epsilon)
        return cls(parameters, bytes(data), int(state[NOW]))

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span; `now` is the synopsis's if None.

        NaN, three times, for an empty window. A later `now` is a look ahead that changes nothing;
        an earlier one raises SynopsisError. Cost: O(bytes).
        """
        asked = asking(NO_VALUES, self._at(now), n)
        return run_extreme_batch(self._parameters, [self._data], asked).only()

    def kept(self) -> int:
        """Return how many events are kept."""
        return int(_read(self._data)[1][KEPT])

    def check(self) -> None:
        """Raise SynopsisError unless the state is sound: live times, and ranks that fall strictly.

        Cost: O(bytes).
        """
        _, state, queue = _read(self._data)
        kept = int(state[KEPT])
        times, ranks = queue[0, :kept], queue[1, :kept]
        if bool(np.any(np.diff(times) <= 0)) or bool(np.any(ranks[1:] >= ranks[:-1])):
            raise SynopsisError("the queue is out of order")
        if kept > 0 and not (self._now - self._parameters.span <= times[0] <= self._now - 1):
            raise SynopsisError("the queue holds what has expired")

    def _moved(self, times: Integers, values: Floats, to: Integers | None) -> bytes:
        batch = moving(times, values, to)
        return run_extreme_batch(self._parameters, [self._data], batch).states[0]


def _read(data: bytes) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and its queue."""
    array = np.frombuffer(bytearray(data), np.uint8)
    head = np.empty(HEAD_SIZE, np.int64)
    state = np.empty(STATE_SIZE, np.int64)
    error_code, number, queue = read(array, 0, len(array), head, state, np.empty((2, 0), np.int64))
    if error_code != error_codes.OK:
        raise refused(data, error_code, int(number), EXACT, APPROXIMATE)
    return head, state, queue
