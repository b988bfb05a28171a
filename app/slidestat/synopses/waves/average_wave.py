"""The sliding average of one key: the mean of whole numbers from 0 to 2^53 over any window.

Source: Gibbons and Tirthapura, "Distributed Streams Algorithms for Sliding Windows" (2002), section
5: a sum wave divided by a count wave, each with an error of epsilon / (2 + epsilon). What it
promises: README.md. Why: docs/proofs.md.

The body (envelope: see wire.py): the length of the count wave's bytes, these, and those of the sum.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import NO_QUERIES, Batch, BatchResult, row_of
from slidestat.synopses.core.envelope import Body, body_of, damaged, sealed, varint
from slidestat.synopses.core.rounding import down, up
from slidestat.synopses.core.stored import Estimating
from slidestat.synopses.waves.parameters import AverageParameters
from slidestat.synopses.waves.waves import CountWave, SumWave, run_wave_batch

AVERAGE = 6

Bounds = tuple[Floats, Floats, Floats]
"""Estimates, lowers and uppers."""


def halves_of(data: bytes) -> tuple[bytes, bytes]:
    """Return the count wave and the sum wave of a stored average; SynopsisError for others."""
    body = Body(body_of(data, AVERAGE))
    return body.taken(body.number()), body.rest()


def averages(sums: Bounds, counts: Bounds) -> Bounds:
    """Return estimates, lowers and uppers of sums by counts, the same three of each; NaN for no
    events. Cost: microseconds a bound.
    """
    counts = tuple(np.where(counts[1] > 0, each, 0) for each in counts)  # type: ignore[assignment]
    with np.errstate(invalid="ignore", divide="ignore"):
        estimates = np.where(counts[0] > 0, sums[0] / counts[0], np.nan)
    return estimates, _quotients(sums[1], counts[2], down), _quotients(sums[2], counts[1], up)


def _quotients(above: Floats, below: Floats, rounded: Callable[[Fraction], float]) -> Floats:
    """Return above / below, rounded; NaN where `below` is 0."""
    quotients = np.full(above.shape, np.nan)
    for at in zip(*np.nonzero(below), strict=True):
        quotients[at] = rounded(Fraction(float(above[at])) / Fraction(float(below[at])))
    return quotients


def run_average_batch(
    parameters: AverageParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many sliding averages at once, one a group; as `run_wave_batch`."""
    halves = [halves_of(state) if state else (None, None) for state in states]
    waves = parameters.waves
    sums = run_wave_batch("sum", waves, [total for _, total in halves], batch)
    counts = run_wave_batch("count", waves, [count for count, _ in halves], batch.holding(None))
    new = [
        sealed(AVERAGE, varint(len(count)) + count + total)
        for count, total in zip(counts.states, sums.states, strict=True)
    ]
    return BatchResult(new, *averages(sums.figures, counts.figures))


class AverageWave(Estimating[AverageParameters]):
    """A deterministic wave of averages; a window of n at `now` is [now - n, now)."""

    kinds: ClassVar[tuple[int, ...]] = (AVERAGE,)

    run_batch = staticmethod(run_average_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[AverageParameters, int]:
        count, total = _waves_of(data)
        least = count.parameters.per_level - 1
        differ = count.parameters != total.parameters or count.now != total.now
        if differ or not (1 <= least <= 100_000):
            raise damaged()
        return AverageParameters(1 / least, count.parameters.span), count.now

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events with their values, as `SumWave.insert`."""
        self._insert(times, np.atleast_1d(row_of("values", values)))

    def check(self) -> None:
        """Raise SynopsisError unless both waves keep their invariants. Cost: O(items)."""
        for wave in _waves_of(self._data):
            wave.check()

    def _no_values(self) -> Integers:
        return NO_QUERIES


def _waves_of(data: bytes) -> tuple[CountWave, SumWave]:
    count, total = halves_of(data)
    return CountWave.from_bytes(count), SumWave.from_bytes(total)
