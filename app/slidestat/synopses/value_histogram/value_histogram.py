"""How many events had a value in each of some fixed bins, over any window n <= N.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.3: each bin has an exponential histogram of
counts (cells.py). Promises: norm/README.md.

Edges e_1 < ... < e_b part the values into b + 1 bins: below e_1, from e_i up to but not including
e_(i+1), and from e_b on. So "how many were at least x" is a sum of bins for each edge x, and so is
"how many were below". Each bin keeps its relative error (canonical.py), and errors add up as counts
do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isfinite
from struct import pack, unpack
from typing import ClassVar

import numpy as np

from slidestat.synopses.core import error_codes, wire
from slidestat.synopses.core.arrays import Floats
from slidestat.synopses.core.batch import Batch, BatchResult, real
from slidestat.synopses.core.envelope import Body, body_of, damaged, named_by_bytes, varint
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import (
    MAX_BUCKETS_PER_LEVEL,
    MAX_DECIMALS,
    MAX_SPAN,
    CountingParameters,
)
from slidestat.synopses.core.stored import StoredSynopsis
from slidestat.synopses.value_histogram.cells_batch import Settings, check_cells, inspect, run_cells

# The edges of bins as bytes: how many there are; then a byte, the least number of decimals, 0 to
# 9, with which all of them are whole multiples of 10^-decimals (below 2^51): the first multiple,
# zigzag coded, and the differences. Or that byte is 255, and each edge is a double of 8 bytes,
# little-endian.


MAX_EDGES = 1_000
_MAX_MULTIPLE = 1 << 51
_DOUBLES = 255


def checked_edges(edges: Sequence[float]) -> tuple[float, ...]:
    """Return `edges` as rising finite doubles, 1 to 1,000 of them; SynopsisError otherwise."""
    try:
        numbers = tuple(real("edges", edge) + 0.0 for edge in edges)  # -0.0 is 0.0
    except TypeError:
        raise SynopsisError(f"edges must be numbers, not {edges!r}") from None
    if not (1 <= len(numbers) <= MAX_EDGES):
        raise SynopsisError(f"there must be 1 to {MAX_EDGES} edges, not {len(numbers)}")
    if not all(isfinite(edge) for edge in numbers) or any(b <= a for a, b in pairwise(numbers)):
        raise SynopsisError("edges must be finite, and each must be above the one before")
    return numbers


def _multiples(edges: tuple[float, ...]) -> tuple[int, list[int]] | None:
    for decimals in range(MAX_DECIMALS + 1):
        scale = 10**decimals
        if max(abs(edges[0]), abs(edges[-1])) * scale >= _MAX_MULTIPLE:
            return None
        multiples = [round(edge * scale) for edge in edges]
        if all(q / scale == edge for q, edge in zip(multiples, edges, strict=True)):
            return decimals, multiples
    return None


def edges_to_bytes(edges: tuple[float, ...]) -> bytes:
    """Return `edges`, which `checked_edges` has returned, as bytes. Cost: O(edges)."""
    found = _multiples(edges)
    count = varint(len(edges))
    if found is None:
        return count + bytes([_DOUBLES]) + pack(f"<{len(edges)}d", *edges)
    decimals, multiples = found
    steps = [wire.zigzag(multiples[0]), *(b - a for a, b in pairwise(multiples))]
    return count + bytes([decimals]) + b"".join(varint(int(step)) for step in steps)


def edges_from_body(body: Body) -> tuple[float, ...]:
    """Read edges, or raise SynopsisError if there are none in the form they have to have."""
    count = body.number(1, MAX_EDGES)
    (form,) = body.taken(1)
    if form == _DOUBLES:
        return checked_edges(unpack(f"<{count}d", body.taken(8 * count)))
    first, *steps = (body.number() for _ in range(count))
    multiples = list(accumulate(steps, initial=int(wire.unzigzag(first))))
    if form > MAX_DECIMALS or max(abs(multiples[0]), multiples[-1]) >= _MAX_MULTIPLE:
        raise damaged()
    return checked_edges([multiple / 10**form for multiple in multiples])


VALUE_HISTOGRAM = 16


@dataclass(frozen=True)
class ValueHistogramParameters(CountingParameters):
    """Counts of events by value over windows of up to `span`.

    epsilon, span: as for `CountParameters`. edges: 1 to 1,000 finite numbers that rise; a value
    equal to an edge is in the bin above it. The promise is for each bin and each sum of bins.
    Raises SynopsisError for anything else.
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", checked_edges(self.edges))

    @property
    def bins(self) -> int:
        """The number of bins: one more than edges."""
        return len(self.edges) + 1

    @property
    def settings(self) -> Settings:
        """The parameters, as kernels and bytes have them."""
        per_level = self.buckets_per_level
        head = [VALUE_HISTOGRAM, self.span, per_level, self.bins, self.bins]
        stored = varint(self.span) + varint(per_level)
        stored += edges_to_bytes(self.edges)
        return Settings(np.array(head, np.int64), np.frombuffer(bytearray(stored), np.uint8))


def run_value_histogram_batch(
    parameters: ValueHistogramParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many value histograms at once, one a group (key).

    The values are float64. The answers are float64[queries, spans, bins]; `at_least` and `below`
    add them up. Raises SynopsisError also for values that are not finite.
    """
    values = batch.doubles()
    finite = np.isfinite(values)
    if not finite.all():
        worst = float(values[np.argmin(finite)])
        raise error_codes.synopsis_error(error_codes.NOT_FINITE, 0, 0, -1, value=worst)
    bins = np.searchsorted(np.array(parameters.edges), values, side="right").astype(np.int64)
    result = run_cells(parameters.settings, states, batch, bins)
    lists = len(result.ends) - 1
    figures = np.zeros((3, lists, parameters.bins), np.float64)
    rows = np.repeat(np.arange(lists), np.diff(result.ends))
    figures[:, rows, result.ids] = (result.estimates, result.lowers, result.uppers)
    return BatchResult(result.states, *figures.reshape(3, *batch.shape, parameters.bins))


def _edge(parameters: ValueHistogramParameters, edge: float) -> int:
    if edge not in parameters.edges:
        raise SynopsisError(f"{edge!r} is not an edge: a threshold is one of {parameters.edges}")
    return parameters.edges.index(edge) + 1


def at_least(parameters: ValueHistogramParameters, edge: float, figures: Floats) -> Floats:
    """Return how many values were `edge` or more, of estimates, lowers or uppers[..., bins].

    The relative error is that of a bin. Raises SynopsisError if `edge` is not an edge.
    """
    total: Floats = figures[..., _edge(parameters, edge) :].sum(axis=-1)
    return total


def below(parameters: ValueHistogramParameters, edge: float, figures: Floats) -> Floats:
    """Return how many values were below `edge`, as `at_least` does for the others."""
    total: Floats = figures[..., : _edge(parameters, edge)].sum(axis=-1)
    return total


class ValueHistogram(StoredSynopsis[ValueHistogramParameters]):
    """Counts of one stream's events by value, over any window up to the span.

    >>> from slidestat.synopses import ValueHistogram, ValueHistogramParameters
    >>> delays = ValueHistogram.create(ValueHistogramParameters(0.01, 60_000, (0, 10, 60)))
    >>> delays.insert([1_000, 2_000, 50_000], [-4.0, 12.0, 60.0])
    >>> [bin.estimate for bin in delays.query(60_000)]
    [1.0, 0.0, 1.0, 1.0]
    >>> delays.at_least(10, 60_000)
    Estimate(estimate=2.0, lower=2.0, upper=2.0)
    """

    kinds: ClassVar[tuple[int, ...]] = (VALUE_HISTOGRAM,)

    run_batch = staticmethod(run_value_histogram_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[ValueHistogramParameters, int]:
        body = Body(body_of(data, VALUE_HISTOGRAM))
        span, per_level = body.number(1, MAX_SPAN), body.number(1, MAX_BUCKETS_PER_LEVEL)
        edges = named_by_bytes(edges_from_body, body)
        parameters = ValueHistogramParameters(0.5 / per_level, span, edges)
        return parameters, inspect(parameters.settings, data)[0]

    def query(self, n: int, now: int | None = None) -> list[Estimate]:
        """Return the count of each bin in the window [now - n, now), 1 <= n <= span, `now` as in
        `Stored`. Cost: O(bytes).
        """
        return [Estimate(*map(float, column)) for column in self._figures(n, now).T]

    def at_least(self, edge: float, n: int, now: int | None = None) -> Estimate:
        """Return how many values were `edge` or more; SynopsisError if it is not an edge."""
        return Estimate(*map(float, at_least(self._parameters, edge, self._figures(n, now))))

    def below(self, edge: float, n: int, now: int | None = None) -> Estimate:
        """Return how many values were below `edge`; SynopsisError if it is not an edge."""
        return Estimate(*map(float, below(self._parameters, edge, self._figures(n, now))))

    def check(self) -> None:
        """Raise SynopsisError unless each bin keeps the invariants of an exponential histogram."""
        check_cells(self._parameters.settings, self._data)

    def _figures(self, n: int, now: int | None) -> Floats:
        result = self._run(self._question(n, now))
        return np.stack([figure[0, 0] for figure in result.figures])
