"""The exponential histogram of one key: a count, or a sum of non-negative values, over any window.

Source: Datar, Gionis, Indyk, Motwani 2002. (OpenTelemetry's "exponential histogram" is another
thing: a histogram of values with buckets of growing width.)

>>> from slidestat.synopses import CountParameters, ExponentialHistogram
>>> visits = ExponentialHistogram.create(CountParameters(epsilon=0.1, span=60_000))
>>> visits.insert([1_000, 2_000, 2_000, 59_000])
>>> visits.query(60_000)
Estimate(estimate=4.0, lower=4.0, upper=4.0)
>>> visits.query(1_000, now=60_000)
Estimate(estimate=1.0, lower=1.0, upper=1.0)
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult, reals, split
from slidestat.synopses.core.envelope import refused
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.parameters import CountParameters, Parameters, SumParameters
from slidestat.synopses.core.stored import NO_VALUES, Estimating
from slidestat.synopses.exponential_histogram import codec
from slidestat.synopses.exponential_histogram.canonical import bucket_at
from slidestat.synopses.exponential_histogram.kernel import run


def head_of(parameters: Parameters) -> Integers:
    """Return `parameters` as kernels take them: kind, span, l, decimals."""
    kind, decimals = codec.COUNT, 0
    if isinstance(parameters, SumParameters):
        kind, decimals = codec.SUM, parameters.decimals
    return np.array([kind, parameters.span, parameters.buckets_per_level, decimals], np.int64)


def run_batch(parameters: Parameters, states: Sequence[bytes | None], batch: Batch) -> BatchResult:
    """Feed and ask many exponential histograms at once, one a group (key).

    The values of `batch` are float64 for a sum, None for a count. Raises SynopsisError also for
    values that cannot be summed, and for windows of more than 2^62 units. Cost: O(bytes in + events
    + queries * log + bytes out). Source: Datar et al. 2002, sections 2 and 4.
    """
    columns = batch.within(parameters.span)
    values = NO_VALUES
    if isinstance(parameters, SumParameters):
        values = batch.doubles()
    else:
        batch.require_no_values()
    answers = np.empty((3, *batch.shape), np.float64)
    head = head_of(parameters)
    given = (head,), states, columns, values, answers
    out, ends = drive(run, *given, kinds=(int(head[codec.KIND]),), values=values)
    return BatchResult(split(out, ends), *answers)


class ExponentialHistogram(Estimating[Parameters]):
    """A count or a sum of one stream of events; windows and times are as in `Stored`."""

    kinds: ClassVar[tuple[int, ...]] = (codec.COUNT, codec.SUM)

    run_batch = staticmethod(run_batch)

    @classmethod
    def _opened(cls, data: bytes) -> tuple[Parameters, int]:
        head, state, _ = _read(data)
        kind, span, per_level, decimals = head.tolist()
        if kind == codec.COUNT:
            return CountParameters(0.5 / per_level, span), int(state[codec.NOW])
        return SumParameters(0.5 / per_level, span, decimals), int(state[codec.NOW])

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike | None = None) -> None:
        """Take in events: `times` not falling, from `now` - 1 on; of a sum, a value for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or a value is negative, not
        finite or more than 2^53 units. Cost: O(events + buckets).
        """
        if values is not None:
            values = np.atleast_1d(reals("values", values))
        self._insert(times, values)

    def buckets(self) -> list[tuple[int, int]]:
        """Return the live buckets, oldest to newest, as (size, time of the newest unit)."""
        head, state, runs = _read(self._data)
        total, per_level = int(state[codec.TOTAL]), int(head[codec.PER_LEVEL])
        times = np.repeat(runs[0], np.diff(runs[1], prepend=0)).tolist()
        sizes = (int(bucket_at(total, per_level, i)[1]) for i in range(len(times)))
        return list(zip(sizes, times, strict=True))[::-1]

    @property
    def is_exact(self) -> bool:
        """Return whether all values were decimals of so many places."""
        return not _read(self._data)[1][codec.INEXACT]

    def check(self) -> None:
        """Raise SynopsisError unless the stored state keeps the paper's invariants.

        2.1: a bucket of size c has at least l (c - 1) newer units. 2.2: sizes are powers of two
        that do not fall from new to old, l or l + 1 of each size but the oldest, none left out.
        And all live edges are inside the span, in order. Cost: O(buckets * log).
        """
        buckets = self.buckets()[::-1]
        per_level = self._parameters.buckets_per_level
        newer = 0
        of_size: dict[int, int] = {}
        later = self._now - 1
        for size, time in buckets:
            if newer < per_level * (size - 1):
                raise SynopsisError(f"invariant 2.1 fails: size {size} behind {newer} units")
            if not (self._now - self._parameters.span <= time <= later):
                raise SynopsisError(f"edge {time} is out of order or expired")
            newer += size
            later = time
            of_size[size] = of_size.get(size, 0) + 1
        for level, (size, number) in enumerate(of_size.items()):
            few = number < per_level and level < len(of_size) - 1
            if size != 1 << level or few or number > per_level + 1:
                raise SynopsisError(f"invariant 2.2 fails: {number} buckets of size {size}")

    def _no_values(self) -> list[float] | None:
        return [] if isinstance(self._parameters, SumParameters) else None


def _read(data: bytes) -> tuple[Integers, Integers, Integers]:
    """Decode `data`; returns what it was made with, its numbers, and its runs of edges."""
    array = np.frombuffer(bytearray(data), np.uint8)
    head = np.empty(codec.HEAD_SIZE, np.int64)
    state = np.empty(codec.STATE_SIZE, np.int64)
    error_code, number, at = codec.read_head(array, 0, len(array), codec.COUNT, codec.SUM, head)
    runs = np.empty((2, codec.FIRST_ROOM), np.int64)
    if error_code == error_codes.OK:
        error_code, runs = codec.decode(array, at, len(array), head, state, runs)
    if error_code != error_codes.OK:
        raise refused(error_code, number, codec.COUNT, codec.SUM)
    return head, state, runs[:, : state[codec.RUNS]]
