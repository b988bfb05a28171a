"""The L_p norm, 1 <= p <= 2, of how much each item came to, over any window n <= N.

Source: Datar, Gionis, Indyk, Motwani 2002, section 5.1; Indyk 2000 (p-stable sketches). With a_i
the weights of item i in the window, added up, the norm is (sum of a_i^p)^(1/p): for p = 1 all there
is, for p = 2 the root of the self-join's size. f = norm^p qualifies for composition.py, of order p:
weights being positive, (a + b)^p >= a^p + b^p gives P3, and Minkowski's inequality P4. What it
promises and costs: README.md. Bounds are proven (docs/proofs.md) for an n tried once, of a
stream that does not know the seed; that the estimate is within epsilon rests on merging by rough
sizes, so it is measured. For p = 1 no chance is left: the sketch is the sum itself. 32 rows, which
never answer, decide which buckets are merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum, log, log1p

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import (
    NO_QUERIES,
    Batch,
    BatchResult,
    Columns,
    follows,
    integers,
    require_states,
    row_of,
)
from slidestat.synopses.core.envelope import Body, body_of, named_by_bytes, varint
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import MAX_SPAN, check_whole, is_from
from slidestat.synopses.core.stored import Estimating
from slidestat.synopses.norm import composition, stable
from slidestat.synopses.norm.composition import MAX_WEIGHT, Buckets, Function

LP_NORM = 15

_PARTS = 1_000_000
_DECIDING = 32
_MAX_ROWS = 1 << 15
_SLACK = 2.0**-9
_OUTWARD = 2.0**-40


@dataclass(frozen=True)
class LpNormParameters:
    """An L_p norm over windows of up to `span`.

    p: 1, or from 1.05 to 2. epsilon: relative error wanted, 0.05 to 0.9. delta: the chance of a
    miss, 10^-6 to 0.5 (there is none for p = 1). All three are taken as whole millionths. span:
    longest window kept, 1 to 2^53, in the unit of the event times. seed: 0 to 2^62 - 1. Raises
    SynopsisError for anything else.
    """

    p: float
    epsilon: float
    delta: float
    span: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name, share, least, most in (
            ("p", self.p, 1, 2),
            ("epsilon", self.epsilon, 0.05, 0.9),
            ("delta", self.delta, 1e-6, 0.5),
        ):
            if not is_from(least, most, share) or round(share * _PARTS) / _PARTS != share:
                raise SynopsisError(
                    f"{name} must be from {least} to {most}, in whole millionths, not {share!r}"
                )
        if 1 < self.p < 1.05:
            raise SynopsisError(f"p must be 1, or from 1.05 to 2, not {self.p!r}")
        check_whole("span", self.span, 1, MAX_SPAN)
        check_whole("seed", self.seed, 0, (1 << 62) - 1)
        if self.p > 1 and _rows(self.p, self.epsilon, self.delta)[0] == _MAX_ROWS:
            raise SynopsisError(
                f"epsilon or delta must be larger: {self.epsilon!r} and {self.delta!r} ask for "
                f"sketches of {_MAX_ROWS} rows or more"
            )

    @property
    def beta(self) -> float:
        """The share that a merged bucket has of what is newer, at most: half of epsilon's room."""
        ratio = (1 + self.epsilon) / (1 - self.epsilon)
        root: float = ratio if self.p == 1 else ratio**0.5
        return float((root - 1) ** self.p)

    @property
    def rows(self) -> int:
        """The number of rows that answer."""
        return 0 if self.p == 1 else _rows(self.p, self.epsilon, self.delta)[0]

    @property
    def settings(self) -> bytes:
        """The parameters, as they are encoded in the state."""
        shares = (self.p - 1, self.epsilon, self.delta)
        whole = (self.span, *(round(share * _PARTS) for share in shares), self.seed)
        return b"".join(map(varint, whole))


def _ranks(rows: int, u: float, delta: float) -> tuple[int, int]:
    """Return the ranks low and high of the proof: 0, or above `rows`, if there is none."""
    k = np.arange(rows + 1)
    factorials = np.cumsum(np.log(np.maximum(k, 1)))
    choose = factorials[-1] - factorials - factorials[::-1]
    below = np.cumsum(np.exp(choose + k * log(u - _SLACK) + (rows - k) * log1p(_SLACK - u)))
    pmf = np.exp(choose + k * log(u + _SLACK) + (rows - k) * log1p(-u - _SLACK))
    above = np.cumsum(pmf[::-1])[::-1]
    low = int(np.count_nonzero(below <= delta / 2))
    high = rows + 1 - int(np.count_nonzero(above <= delta / 2))
    return low, high


@lru_cache(maxsize=64)
def _rows(p: float, epsilon: float, delta: float) -> tuple[int, int, int]:
    """Return the least rows (a multiple of 4) whose bounds are as near as wanted, and the ranks.

    Wanted is that the quantiles at which the two bounds are expected are within half of epsilon's
    room, the root of (1 + epsilon) / (1 - epsilon), of each other.
    """
    u = _level(p)
    room = ((1 + epsilon) / (1 - epsilon)) ** 0.5

    def near(rows: int) -> bool:
        low, high = _ranks(rows, u, delta)
        if low < 1 or high > rows:
            return False
        a, b = stable.quantile(p, [1 - low / (rows + 1), 1 - high / (rows + 1)])
        return bool(b <= a * room)

    few, many = 1, _MAX_ROWS // 4
    while few < many:
        middle = (few + many) // 2
        few, many = (few, middle) if near(4 * middle) else (middle + 1, many)
    return (4 * few, *_ranks(4 * few, u, delta))


def _level(p: float) -> float:
    """Return the u at which |x| is looked at: near the one that estimates the norm best."""
    return 0.5 + 0.35 * (p - 1)


class Weight(Function):
    """p = 1: the sum of the weights, its own sketch."""

    order = 1.0
    width = 1

    def sketches(self, items: Integers, weights: Integers) -> Integers:  # noqa: ARG002
        return weights[:, None]

    def sizes(self, sketches: Integers) -> Floats:
        """Return the sums."""
        return sketches[:, 0].astype(np.float64)

    def bounds(self, inner: Integers, outer: Integers) -> tuple[float, float, float]:
        """Return (estimate, lower, upper)."""
        low, high = float(inner[0]), float(outer[0])
        return _between(low, high), low, high


class StableRows(Function):
    """1 < p <= 2: rows of p-stable sums, the first 32 to decide with, the others to answer with."""

    def __init__(self, parameters: LpNormParameters) -> None:
        self.order = parameters.p
        rows, self._low, self._high = _rows(parameters.p, parameters.epsilon, parameters.delta)
        self.width = _DECIDING + rows
        self._seed = parameters.seed
        self._table = stable.table(parameters.p)
        u = _level(parameters.p)
        # Processors compute it with other last digits, and figures are to have the same on all.
        # What is cut off is far below what _SLACK covers.
        self._quantile = float(f"{stable.quantile(parameters.p, 1 - u):.12g}") * stable.UNIT
        self._deciding_rank = round(u * _DECIDING) - 1
        self._middle = round(u * rows) - 1

    def sketches(self, items: Integers, weights: Integers) -> Integers:
        """Return weight * draw for each row."""
        columns = np.ascontiguousarray(items), np.ascontiguousarray(weights)
        return stable.sketches(self._table, self._seed, *columns, self.width)

    def sizes(self, sketches: Integers) -> Floats:
        """Return norm^p as the deciding rows have it."""
        rank = self._deciding_rank
        found = np.partition(np.abs(sketches[:, :_DECIDING]), rank, axis=1)[:, rank]
        sizes: Floats = (found / self._quantile) ** self.order
        return sizes

    def bounds(self, inner: Integers, outer: Integers) -> tuple[float, float, float]:
        """Return (estimate, lower, upper) of the norm, by the rows that answer."""
        of_inner = np.sort(np.abs(inner[_DECIDING:])) / self._quantile
        of_outer = np.sort(np.abs(outer[_DECIDING:])) / self._quantile
        low = float(of_inner[self._low - 1]) * (1 - _OUTWARD)
        high = max(low, float(of_outer[self._high - 1]) * (1 + _OUTWARD))
        estimate = _between(float(of_inner[self._middle]), float(of_outer[self._middle]))
        return min(max(estimate, low), high), low, high


@lru_cache(maxsize=64)
def _function(parameters: LpNormParameters) -> Weight | StableRows:
    return Weight() if parameters.p == 1 else StableRows(parameters)


def _between(low: float, high: float) -> float:
    return low if low == high else 2 * low * (high / (low + high))


def _exact(p: float, items: Integers, weights: Integers) -> tuple[float, float, float]:
    _, places = np.unique(items, return_inverse=True)
    totals = np.zeros(len(items), np.int64)
    np.add.at(totals, places, weights)
    if p == 1:
        norm = float(totals.sum())
        return norm, norm, norm
    norm = fsum(float(total) ** p for total in totals.tolist()) ** (1 / p)
    return norm, norm * (1 - _OUTWARD), norm * (1 + _OUTWARD)


def _run_group(
    parameters: LpNormParameters,
    state: bytes | None,
    columns: Columns,
    group: int,
    items: Integers,
    weights: Integers,
    answers: Floats,
) -> bytes:
    function, settings, span = _function(parameters), parameters.settings, parameters.span
    buckets = _read(parameters, state) if state else Buckets(function.width)
    error_code, a, b, after = follows(columns, group, buckets.now)
    if error_code != error_codes.OK:
        raise error_codes.synopsis_error(error_code, int(a), int(b), -1)
    event, last = int(columns.starts[group]), int(columns.query_starts[group + 1])
    for query in range(int(columns.query_starts[group]), last + 1):
        mine = slice(event, int(columns.cuts[group + query]))
        times = columns.times[mine]
        composition.absorb(
            function, parameters.beta, span, buckets, times, items[mine], weights[mine]
        )
        event = mine.stop
        if query == last:
            break
        for k, n in enumerate(columns.spans.tolist()):
            window = composition.look(function, buckets, int(columns.query_times[query]) - n)
            answers[:, query, k] = (
                _exact(parameters.p, window.items, window.weights)
                if window.inner is None or window.outer is None
                else function.bounds(window.inner, window.outer)
            )
    buckets.now = int(after)
    return composition.write(buckets, LP_NORM, settings, span)


def run_lp_norm_batch(
    parameters: LpNormParameters,
    states: Sequence[bytes | None],
    batch: Batch,
    weights: npt.ArrayLike | None = None,
) -> BatchResult:
    """Feed and ask many norms, one a group (key), one after the other.

    The values of `batch` are items, int64. weights: int64, one an event, from 1 on, or None for 1
    each. Raises SynopsisError also for weights below 1, and (WindowTooLargeError) where the weights
    in the span, with older ones in one bucket with them, come to more than 2^30.
    """
    columns = batch.within(parameters.span)
    items, events = integers("items", batch.values), len(columns.times)
    weights = np.ones(events, np.int64) if weights is None else integers("weights", weights)
    if not events == len(items) == len(weights):
        raise SynopsisError(
            f"an item and a weight is needed for each time: {events}, not {len(items)} and "
            f"{len(weights)}"
        )
    if bool(np.any((weights < 1) | (weights > MAX_WEIGHT))):
        raise SynopsisError("weights must be from 1 to 2^30")
    require_states(states, columns)
    answers: Floats = np.empty((3, *batch.shape), np.float64)
    new = []
    for group, state in enumerate(states):
        try:
            new.append(_run_group(parameters, state, columns, group, items, weights, answers))
        except SynopsisError as error:
            if batch.groups == 1:
                raise
            raise type(error)(error.rule, group) from None
    return BatchResult(new, *answers)


class LpNorm(Estimating[LpNormParameters]):
    """The L_p norm of one stream's items, over any window up to the span.

    >>> from slidestat.synopses import LpNorm, LpNormParameters
    >>> pages = LpNorm.create(LpNormParameters(p=2, epsilon=0.5, delta=0.05, span=60_000))
    >>> pages.insert([1_000, 2_000, 50_000], [7, 9, 7], [2, 4, 1])
    >>> pages.query(60_000).estimate
    5.0
    """

    @classmethod
    def _opened(cls, data: bytes) -> tuple[LpNormParameters, int]:
        body = Body(body_of(data, LP_NORM))
        span, p, epsilon, delta, seed = (body.number() for _ in range(5))
        shares = (p + _PARTS) / _PARTS, epsilon / _PARTS, delta / _PARTS
        parameters = named_by_bytes(LpNormParameters, *shares, span, seed)
        return parameters, _read(parameters, data).now

    def insert(
        self, times: npt.ArrayLike, items: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, an item (int64) for each, and a
        weight from 1 on, or 1 each. Raises SynopsisError, and takes in nothing, as the batch does.
        """
        taken = None if weights is None else np.atleast_1d(row_of("weights", weights))
        column = integers("items", np.atleast_1d(row_of("items", items)))
        self._insert(times, (column, taken))

    def buckets(self) -> list[tuple[int, int, int]]:
        """Return the live buckets, oldest to newest: weight, times of the oldest and the newest."""
        found = _read(self._parameters, self._data)
        rows = (found.weights.tolist(), found.first.tolist(), found.newest.tolist())
        return list(zip(*rows, strict=True))

    def check(self) -> None:
        """Raise SynopsisError unless the merged buckets are small compared with what is newer.

        For p = 1, that is invariant 5.1; else sizes are known but roughly, so only the order of the
        buckets and the promise of the decoder are looked at. Cost: O(buckets).
        """
        newer = 0
        later = self._now - 1
        for weight, first, newest in reversed(self.buckets()):
            if not (first <= newest <= later):
                raise SynopsisError(f"bucket {first}..{newest} is out of order")
            most = self._parameters.beta * newer * (1 + _OUTWARD)
            if self._parameters.p == 1 and first < newest and weight > most:
                raise SynopsisError(f"invariant 5.1 fails: {weight} behind {newer}")
            newer += weight
            later = first

    def _no_values(self) -> tuple[Integers, None]:
        return NO_QUERIES, None

    def _run(self, batch: Batch) -> BatchResult:
        items, weights = batch.values
        own = batch.holding(items)
        return run_lp_norm_batch(self._parameters, [self._data], own, weights)


def _read(parameters: LpNormParameters, data: bytes) -> Buckets:
    width = _function(parameters).width
    return composition.read(data, LP_NORM, parameters.settings, parameters.span, width)
