"""All keys of a batch in one call: stored bytes and events in, new bytes and answers out.

This is what a stream processor uses; `ExponentialHistogram` is the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import Parameters, SumParameters
from slidestat.synopses.core.wire import Bytes
from slidestat.synopses.exponential_histogram.codec import COUNT, SUM, TIME_MAX, TIME_MIN, Integers
from slidestat.synopses.exponential_histogram.kernel import Floats, run

NO_QUERIES: Integers = np.empty(0, np.int64)


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch: the new state of each group, and an answer for each query and span.

    estimates, lowers and uppers are float64[queries, spans].
    """

    states: list[bytes]
    estimates: Floats
    lowers: Floats
    uppers: Floats

    def only(self) -> Estimate:
        """Return the answer of a batch with one query and one span."""
        figures = (self.estimates, self.lowers, self.uppers)
        return Estimate(*(float(figure[0, 0]) for figure in figures))


def head_of(parameters: Parameters) -> Integers:
    """Return `parameters` as kernels take them: kind, span, l, decimals."""
    if isinstance(parameters, SumParameters):
        head = [SUM, parameters.span, parameters.buckets_per_level, parameters.decimals]
    else:
        head = [COUNT, parameters.span, parameters.buckets_per_level, 0]
    return np.array(head, np.int64)


def integers(name: str, numbers: npt.ArrayLike) -> Integers:
    """Return a contiguous int64 array, or raise SynopsisError for what is not whole numbers."""
    array = np.asarray(numbers)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise SynopsisError(f"{name} must be one row of 64-bit whole numbers, not {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def slices(name: str, numbers: npt.ArrayLike, groups: int, length: int) -> Integers:
    """Return int64[groups + 1] that rises from 0 to `length`, or raise SynopsisError."""
    array = integers(name, numbers)
    if (
        len(array) != groups + 1
        or array[0] != 0
        or array[-1] != length
        or bool(np.any(array[1:] < array[:-1]))
    ):
        raise SynopsisError(f"{name} must rise from 0 to {length} in {groups + 1} numbers")
    return array


def windows(spans: npt.ArrayLike, most: int) -> Integers:
    """Return the windows asked for, int64[K], or raise SynopsisError: each is from 1 to `most`."""
    if not all(1 <= n <= most for n in np.asarray(spans).flat):
        raise SynopsisError(f"a window asked for must be from 1 to {most}, the span kept")
    return integers("spans", spans)


def targets(advances: npt.ArrayLike | None, groups: int) -> Integers:
    """Return the time each group is moved on to, TIME_MIN for none, or raise SynopsisError."""
    if advances is None:
        return np.full(groups, TIME_MIN)
    array = integers("advances", advances)
    if len(array) != groups or bool(np.any(array > TIME_MAX + 1)):
        raise SynopsisError(f"advances must be {groups} times of at most 2^61")
    return array


def joined(states: Sequence[bytes | None]) -> tuple[Bytes, Integers]:
    """Return stored states one after another, and int64[G + 1]: where each begins, and the end."""
    blobs = [state or b"" for state in states]
    offsets = np.zeros(len(blobs) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, blobs), np.int64, len(blobs)), out=offsets[1:])
    return np.frombuffer(bytearray().join(blobs), np.uint8), offsets


def split(out: Bytes, ends: Integers) -> list[bytes]:
    """Return the states out[ends[g]:ends[g + 1]]."""
    written = out[: ends[-1]].tobytes()
    bounds = ends.tolist()
    return [written[bounds[i] : bounds[i + 1]] for i in range(len(bounds) - 1)]


def _values(parameters: Parameters, values: npt.ArrayLike | None, length: int) -> Floats:
    if not isinstance(parameters, SumParameters):
        if values is not None:
            raise SynopsisError("a count takes times alone, no values")
        return np.empty(0, np.float64)
    if values is None:
        raise SynopsisError("a sum needs a value for each time")
    array = np.ascontiguousarray(values, np.float64)
    if array.shape != (length,):
        raise SynopsisError(f"a sum needs a value for each time: {length}, not {array.shape}")
    return array


def run_batch(
    parameters: Parameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    values: npt.ArrayLike | None,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    advances: npt.ArrayLike | None = None,
) -> BatchResult:
    """Feed and ask many exponential histograms at once, one a group (key).

    states: G stored states, None for a new key. starts: int64[G + 1]; the events of group g are
    times[starts[g]:starts[g + 1]] (int64, not falling; values float64 alike for a sum, None for a
    count). query_starts, query_times: the same for queries. spans: int64[K], the windows asked for
    by every query, each from 1 to the span kept. A query at q sees the state and the events with
    time < q, in the window [q - span, q). It leaves no trace in the state. advances: int64[G], the
    time each group is moved on to after its events, if any.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries that go back, for values that cannot be summed, and for windows
    of more than 2^62 units. Cost: O(bytes in + events + queries * log + bytes out).
    Source: Datar et al. 2002, sections 2 and 4.
    """
    groups = len(states)
    times = integers("times", times)
    query_times = integers("query_times", query_times)
    starts = slices("starts", starts, groups, len(times))
    query_starts = slices("query_starts", query_starts, groups, len(query_times))
    spans = windows(spans, parameters.span)
    values = _values(parameters, values, len(times))
    arena, offsets = joined(states)
    answers = np.empty((3, len(query_times), len(spans)), np.float64)
    error_code, group, a, b, out, ends = run(
        head_of(parameters),
        arena,
        offsets,
        starts,
        times,
        values,
        query_starts,
        query_times,
        spans,
        targets(advances, groups),
        answers,
    )
    if error_code != error_codes.OK:
        value = float(values[a]) if error_code == error_codes.BAD_VALUE else 0.0
        raise error_codes.synopsis_error(
            error_code, int(a), int(b), group if groups > 1 else -1, value
        )
    return BatchResult(split(out, ends), answers[0], answers[1], answers[2])
