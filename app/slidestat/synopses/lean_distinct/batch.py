"""Lean distinct items of all keys of a batch in one call.

`LeanDistinct` is the same for a single key.

From how many bits are set to how many items there were, with bounds.

n items are in a window; Z bits are set, of m bitmaps. An item sets one bit: of one of the m bitmaps
bit i, i = 0..62, with a probability of 2^-(i+1) (the last two alike), so each bit of it with
q_i = 2^-(i+1) / m.

The distribution of Z for each n is known: the number of items that hit each bit would be
independent and Poisson if n were, and given their sum they are those of n items. So the chance of
Z = z is n! times the coefficient of w^z y^n in the product over the bits of 1 + w (e^(y q_i) - 1):
finite sums compute it (tests/synopses/occupied_bits.py). Its mean and variance are, but for terms
of the order of one bit,
    mu(n) = m sum over i of 1 - e^-x_i,  x_i = n q_i
    V(n) = m sum of e^-x_i (1 - e^-x_i) - (m sum of x_i e^-x_i)^2 / n.
V rises to m: the first sum telescopes. Z grows with n: an item more never clears a bit. So the
counts n whose Z is not in its lower or upper tail of delta / 2 are an interval, and it contains the
exact count with a confidence of 1 - delta, whatever the stream (Clopper and Pearson 1934).

The bounds use that mu(n) +- (k sqrt(V(n)) + c), with k the normal quantile of 1 - delta / 2 and
c = 1.6 + k^2 / 10, leave no more than delta / 2 on either side. This is no limit theorem: the law
test computes the exact tails for numbers of bitmaps, deltas and counts throughout their range.
c is one bit for Z being whole, and the rest for its skewness.

The estimate is 2 lower upper / (lower + upper): off by at most (upper - lower) / (upper + lower)
of any count between the bounds, which is at most epsilon (parameters.py).

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.5; Flajolet, Martin 1983. By all bits that are
set instead of the lowest that is not, the standard error is ln(2) / sqrt(m), not 0.78 / sqrt(m).
"""

from collections.abc import Sequence
from functools import lru_cache
from math import inf

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, BatchResult, joined, split
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.distinct.batch import item_column
from slidestat.synopses.distinct.parameters import DELTAS, EPSILONS
from slidestat.synopses.lean_distinct.codec import MOST_LEVELS
from slidestat.synopses.lean_distinct.kernel import run, unite
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters, reach

MOST_ITEMS = 2.0**62
_CHANCES = 2.0 ** -np.minimum(np.arange(1, MOST_LEVELS + 1), MOST_LEVELS - 1)


def moments(items: Floats, bitmaps: int) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the number of bits that so many items set."""
    hits = np.multiply.outer(items, _CHANCES / bitmaps)
    free = np.exp(-hits)
    sets = -np.expm1(-hits)
    slope = bitmaps * (hits * free).sum(axis=-1)
    variance = bitmaps * (free * sets).sum(axis=-1) - slope * slope / items
    return bitmaps * sets.sum(axis=-1), np.maximum(variance, 0.0)


class Figures:
    """The answer for each number of bits set; made when it is first asked for."""

    def __init__(self, bitmaps: int, delta: float) -> None:
        self._bitmaps = bitmaps
        self._reach = reach(delta)
        self._known = np.full((3, MOST_LEVELS * bitmaps + 1), np.nan)
        self._known[:, 0] = 0.0

    def _root(self, bits: Floats, side: int) -> Floats:
        """Return the number of items whose likely range of bits ends with `bits` on `side`."""
        k, c = self._reach
        low, high = np.full(len(bits), 1e-9), np.full(len(bits), MOST_ITEMS)
        for _ in range(110):
            middle = np.sqrt(low * high)
            mean, variance = moments(middle, self._bitmaps)
            below = mean + side * (k * np.sqrt(variance) + c) < bits
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low if side > 0 else high

    def of(self, bits: Integers) -> Floats:
        """Return float64[3, len(bits)]: estimates, lowers and uppers."""
        new = np.unique(bits[np.isnan(self._known[0, bits])])
        if len(new) > 0:
            column = new.astype(np.float64)
            lower = np.maximum(np.floor(self._root(column, 1)), column)
            upper = np.maximum(np.ceil(self._root(column, -1)), lower)
            estimate = np.clip(2 * lower * (upper / (lower + upper)), lower, upper)
            self._known[:, new] = np.stack([estimate, lower, upper])
        return self._known[:, bits]


_figures = lru_cache(maxsize=4)(Figures)  # Of the finest, each takes 170 MB.


def figures_for(
    parameters: LeanDistinctParameters,
    exact: npt.NDArray[np.float64],
    set_bits: npt.NDArray[np.float64],
) -> Floats:
    """Return float64[3, ...]: estimates, lowers and uppers of the windows of a kernel's answers.

    exact: the number of distinct items where it is known, else -1. set_bits: of the others, how
    many bits are set. No answer of these is below `parameters.exact`: so many are there for sure.
    """
    known = exact >= 0
    bits = np.minimum(np.where(known, 0.0, set_bits), MOST_LEVELS * parameters.bitmaps).astype(
        np.int64
    )
    found = _figures(parameters.bitmaps, parameters.delta).of(bits.ravel())
    found = found.reshape(3, *bits.shape).clip(float(parameters.exact), inf)
    return np.where(known, exact, found)


@lru_cache(maxsize=64)
def head_of(parameters: LeanDistinctParameters) -> Integers:
    """Return `parameters` as kernels take them."""
    head = [
        round(parameters.epsilon * EPSILONS),
        round(parameters.delta * DELTAS),
        parameters.span,
        parameters.seed,
        parameters.bitmaps,
        parameters.exact,
    ]
    return np.array(head, np.int64)


def run_lean_distinct_batch(
    parameters: LeanDistinctParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many synopses of distinct items at once, one a group (key).

    states: G stored states, None for a new key. The values of `batch` are items, int64 or uint64;
    its windows are from 1 to the span kept. The answer is the number of distinct items in each.

    An answer below `parameters.exact` is exact: estimate, lower and upper are one. For others
    lower <= exact <= upper, and the estimate is off by at most epsilon of the exact number, with a
    confidence of 1 - delta each.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, and for times or queries before a state's time. Cost: O(bytes in + events
    + queries * (bits set, or events in a window with fewer than `exact` items) + bytes out), and
    once a millisecond or so for each number of bits that comes up.
    """
    columns = batch.within(parameters.span)
    items = item_column(batch.values, len(columns.times))
    answers = np.empty((2, *batch.shape), np.float64)
    out, ends = drive(run, (head_of(parameters),), states, columns, items, answers)
    return BatchResult(split(out, ends), *figures_for(parameters, answers[0], answers[1]))


def united(parameters: LeanDistinctParameters, states: Sequence[bytes]) -> bytes:
    """Return the state of the union of the streams of `states`, of the latest `now` of them.

    Raises SynopsisError for bytes that are not a state made with these parameters. Cost: O(bytes).
    """
    error_code, part, a, b, out, ends = unite(head_of(parameters), *joined(states))
    if error_code != error_codes.OK:
        raise error_codes.synopsis_error(
            error_code, int(a), int(b), part if len(states) > 1 else -1
        )
    return bytes(out[: ends[1]])
