"""Quantiles of one key over any window, by value: a p99 that is right, small and quick.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.3 (histograms over sliding windows), with the
bins of DDSketch (Masson, Rim, Lee 2019, section 2), and times that neighbouring bins share
(bands.py). Promises and costs: README.md. (A q-quantile is any number with at least q m
events up to it and at most q m below it, of m events.) As long as no cell has events of several
times, the estimate is within relative_error of the p-quantile itself. Proofs: docs/proofs.md.

>>> from slidestat.synopses import ValueQuantileParameters, ValueQuantiles
>>> latencies = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, 60_000))
>>> latencies.insert([1_000, 2_000, 2_000, 59_000], [12.5, 8.0, 31.0, 9.5])
>>> [round(figure, 2) for figure in latencies.query(60_000, 0.5)]
[9.55, 9.46, 9.65]
>>> latencies.rank(60_000, 10.0).share_at_most
Estimate(estimate=0.5, lower=0.5, upper=0.5)
"""

from typing import ClassVar, NamedTuple

import numpy as np

from slidestat.synopses.core import envelope, error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import TIME_MAX
from slidestat.synopses.core.envelope import Body, body_of, damaged
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import PARTS
from slidestat.synopses.core.stored import StoredSynopsis
from slidestat.synopses.exponential_histogram.canonical import bucket_at
from slidestat.synopses.exponential_histogram.codec import NOW, PER_LEVEL, RUNS, TOTAL
from slidestat.synopses.value_quantiles import bands, codec
from slidestat.synopses.value_quantiles.batch import head_of, run_value_quantile_batch
from slidestat.synopses.value_quantiles.bounds import bins_at
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters


class Rank(NamedTuple):
    """lower <= exact <= upper, always, of each; shares are from 0 to 1, NaN without events.

    Of the two sides the one with the lower estimate is within epsilon of itself, and so is its
    share, of what is exact for some value in the bin of the one asked about: off by at most
    `rank_value_error` of it, or for values near zero by 2^-30. (Of the events equal to that value
    any part may count.) The other side is what is left of all events, which are known to
    epsilon^2. Proof: docs/proofs.md.
    """

    at_most: Estimate
    more_than: Estimate
    share_at_most: Estimate
    share_more_than: Estimate


def rank_of(numbers: Floats) -> Rank:
    """Return the rank in float64[4, 3]."""
    return Rank(*(Estimate(*map(float, row)) for row in numbers))


class ValueQuantiles(StoredSynopsis[ValueQuantileParameters]):
    """Quantiles of the values of one stream, over any window up to the span."""

    kinds: ClassVar[tuple[int, ...]] = (codec.VALUE_QUANTILES,)

    run_batch = staticmethod(run_value_quantile_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[ValueQuantileParameters, int]:
        body = Body(body_of(data, codec.VALUE_QUANTILES))
        span, per_octave, epsilon = (body.number() for _ in range(3))
        parameters = ValueQuantileParameters.of_bytes(per_octave, epsilon, span)
        if parameters is None:
            raise damaged()
        return parameters, int(decoded(parameters, data)[0][NOW])

    def query(self, n: int, quantile: float, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span, `now` as in `Stored`.

        `quantile`, from 0 to 1, has at most six decimals; NaN, three times, for a window without
        events. Cost: O(bytes).
        """
        asked = self._question(n, now)
        result = run_value_quantile_batch(self._parameters, [self._data], asked, [quantile])
        figures = (result.estimates, result.lowers, result.uppers)
        return Estimate(*(float(figure[0, 0, 0]) for figure in figures))

    def rank(self, n: int, value: float, now: int | None = None) -> Rank:
        """Return how many of the window's events are at most `value`, how many are more, and the
        shares of both. SynopsisError for NaN. Cost: O(bytes).
        """
        asked = self._question(n, now)
        result = run_value_quantile_batch(self._parameters, [self._data], asked, ranked=[value])
        return rank_of(result.ranks[:, :, 0, 0, 0])

    def check(self) -> None:
        """Raise SynopsisError unless the stored state keeps its invariants: each cell that a window
        may cut is one that the rule of bands.py lets be; times are in order and inside the span;
        edges of the total keep invariant 2.1 of an exponential histogram. Cost: O(cells).
        """
        state, runs, table, cells = decoded(self._parameters, self._data)
        head = head_of(self._parameters)
        oldest = int(state[NOW]) - self._parameters.span
        nothing = np.zeros(bands.COLUMNS, np.int64)
        for band in range(int(state[codec.BANDS])):
            allowed = np.zeros(bands.WIDTH, np.int64)
            later = int(state[NOW]) - 1
            for cell in range(
                int(table[bands.END, band]) - 1, int(table[bands.START, band]) - 1, -1
            ):
                pair = np.stack([cells[cell], nothing])
                alone = cells[cell, bands.ONE_TIME] == 1
                if not alone and not bands.may_be_one(pair, 0, 1, allowed, PARTS):
                    raise SynopsisError(f"a cell of {cells[cell, bands.LAST]} events is too large")
                time = int(cells[cell, bands.TIME])
                if not (oldest <= time <= later):
                    raise SynopsisError(f"time {time} is out of order or expired")
                later = time
                allowed += 2 * head[codec.EPSILON] * cells[cell, : bands.WIDTH]
        per_level = int(head[PER_LEVEL])
        for run in range(int(state[RUNS])):
            newer, size = bucket_at(int(state[TOTAL]), per_level, int(runs[1, run]) - 1)
            if newer < per_level * (size - 1):
                raise SynopsisError(f"invariant 2.1 fails: size {size} behind {newer} events")


def decoded(parameters: ValueQuantileParameters, data: bytes) -> tuple[Integers, ...]:
    """Return the numbers, the runs of the total's edges, the table of bands and the cells of a
    stored state; SynopsisError for other bytes."""
    state = np.zeros(codec.STATE_SIZE, np.int64)
    shapes = (2, 64), (bands.ROWS, 16), (64, bands.COLUMNS)
    given = head_of(parameters), state, *(np.empty(shape, np.int64) for shape in shapes)
    _, runs, table, cells = envelope.decoded(codec.read, data, ValueQuantiles.kinds, *given)
    return state, runs, table, cells


class Known(NamedTuple):
    """bands: int64[B], ids, rising. counts: int64[2, windows, B, WIDTH], what adds up, from the
    lowest bin on, to the least and the most events up to each. totals: int64[2, windows], of all.
    """

    bands: Integers
    counts: Integers
    totals: Integers


def known_of(parameters: ValueQuantileParameters, state: bytes, now: int, spans: Integers) -> Known:
    """Return what a stored state knows of the windows [now - span, now).

    Raises SynopsisError for bytes that are no such state, and for a `now` before its own.
    Cost: O(bytes).
    """
    numbers, runs, table, cells = decoded(parameters, state)
    if not (numbers[NOW] <= now <= TIME_MAX + 1):
        raise error_codes.synopsis_error(error_codes.QUERY_WENT_BACK, now, int(numbers[NOW]), -1)
    number = int(numbers[codec.BANDS])
    upto = np.empty((2, len(spans), bands.WIDTH * number), np.int64)
    totals = np.empty((2, len(spans)), np.int64)
    bins_at(head_of(parameters), numbers, runs, table, cells, now, spans, upto, totals)
    counts = np.diff(upto, axis=2, prepend=0).reshape(2, len(spans), number, bands.WIDTH)
    return Known(table[bands.ID, :number], counts, totals)
