"""A batch as each synopsis takes it: the events and questions of many keys, as columns.

A group is what a batch has of one key. The columns are checked once, where a `Batch` is made, and
its events are cut at its questions; all synopses of a topology take the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Bytes, Floats, Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.parameters import PARTS

TIME_MIN = -(1 << 61)
"""The earliest event time; also the `now` of a synopsis that has seen no event."""

TIME_MAX = (1 << 61) - 1
"""The latest event time."""

Row = TypeVar("Row", Integers, Floats)

_STARTS, _QUERY_STARTS = -1, -2  # errors of columns alone
_WHOLE = 1 << 53
"""Doubles hold all whole numbers up to it, of either sign."""
_DOUBLE = 8
"""The bytes of a double, and of a whole number that it may not hold."""

NO_QUERIES: Integers = np.empty(0, np.int64)


class Columns(NamedTuple):
    """The columns of a `Batch`; kernels take them as a plain tuple, which costs less to hand over.

    cuts[g + q]: the first event of group g that is not before its query q; cuts[g +
    query_starts[g + 1]] is where its events end.
    """

    starts: Integers
    times: Integers
    query_starts: Integers
    query_times: Integers
    spans: Integers
    advances: Integers
    cuts: Integers


@dataclass(frozen=True, init=False, eq=False, slots=True)
class Batch:
    """The events and questions of G groups (keys), checked once, for any number of synopses.

    However the events are split into batches, the states of a synopsis end in the same bytes.

    starts: int64[G + 1]; the events of group g are times[starts[g]:starts[g + 1]] (int64, not
    falling) and `values` alike: one a time, of the kind that a synopsis takes; None for a count.
    query_starts, query_times: the same for queries. spans: int64[K], the windows that every query
    asks for. A query at q sees the state and the events with time < q, in the window
    [q - span, q), and leaves no trace. advances: int64[G], the time each group is moved on to after
    its events, if any.

    Every `run_..._batch` takes G stored states, None for a new key, and windows from 1 to the span
    kept. It raises SynopsisError, and changes nothing, for bytes that are not a state made with its
    parameters, and for times or queries before a state's time; its docstring names what else.

    Arrays that kernels can take as they are, are not copied: leave them alone while it is in use.
    Raises SynopsisError for columns that do not fit each other, and for times or queries of a group
    that go back. Cost: O(events + queries).
    """

    columns: Columns
    values: Any

    def __init__(
        self,
        starts: npt.ArrayLike,
        times: npt.ArrayLike,
        values: Any = None,
        query_starts: npt.ArrayLike | None = None,
        query_times: npt.ArrayLike = (),
        spans: npt.ArrayLike = (),
        advances: npt.ArrayLike | None = None,
    ) -> None:
        firsts = integers("starts", starts)
        groups = max(len(firsts) - 1, 0)
        events, queries = integers("times", times), integers("query_times", query_times)
        if query_starts is None:
            query_starts = np.zeros(groups + 1, np.int64)
        asked = integers("query_starts", query_starts)
        moved_to = _targets(advances, groups)
        cuts = np.empty(len(queries) + groups, np.int64)
        error_code, group, a, b = _cut(firsts, events, asked, queries, cuts)
        if error_code in (_STARTS, _QUERY_STARTS):
            name = "starts" if error_code == _STARTS else "query_starts"
            raise SynopsisError(f"{name} must rise from 0 to {a} in {b} numbers")
        if error_code != error_codes.OK:
            raise error_codes.synopsis_error(error_code, a, b, group if groups > 1 else -1)
        windows = _spans(spans)
        self._set(Columns(firsts, events, asked, queries, windows, moved_to, cuts), values)

    def _set(self, columns: Columns, values: Any) -> Self:
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "values", values)
        return self

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.columns.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """The number of queries, and of windows that each asks for."""
        return len(self.columns.query_times), len(self.columns.spans)

    def holding(self, values: Any) -> "Batch":
        """Return the same batch with other values, one a time; nothing is checked again."""
        return Batch.__new__(Batch)._set(self.columns, values)

    def taking(self, rows: Integers, values: Any = None) -> "Batch":
        """Return the batch of the events `rows` alone, rising, with `values` for each of them."""
        c = self.columns
        kept = c._replace(
            starts=np.searchsorted(rows, c.starts),
            times=c.times[rows],
            cuts=np.searchsorted(rows, c.cuts),
        )
        return Batch.__new__(Batch)._set(kept, values)

    def repeated(self, copies: int, values: Any) -> "Batch":
        """Return the batch in which each event comes `copies` times in a row, with other values."""
        c = self.columns
        longer = c._replace(
            starts=c.starts * copies, times=np.repeat(c.times, copies), cuts=c.cuts * copies
        )
        return Batch.__new__(Batch)._set(longer, values)

    def asking_for(self, spans: npt.ArrayLike) -> "Batch":
        """Return the same batch with other windows; raises SynopsisError for no whole numbers."""
        asked = self.columns._replace(spans=_spans(spans))
        return Batch.__new__(Batch)._set(asked, self.values)

    def doubles(self) -> Floats:
        """Return the values as float64, one a time, or raise SynopsisError."""
        array = reals("values", self.values)
        self.require("a value", array.shape)
        return array

    def items(self, name: str = "items") -> Integers:
        """Return the values as int64, one a time, or raise SynopsisError."""
        array = integers(name, self.values)
        self.require("an item", array.shape)
        return array

    def require_no_values(self) -> None:
        """Raise SynopsisError if the batch has values."""
        if self.values is not None:
            raise SynopsisError("what counts events takes times alone, no values")

    def require(self, what: str, shape: tuple[int, ...]) -> None:
        """Raise SynopsisError unless a column has one number for each event."""
        length = len(self.columns.times)
        if shape != (length,):
            raise SynopsisError(f"{what} is needed for each time: {length}, not {shape}")

    def within(self, span: int) -> Columns:
        """Return the columns, or raise SynopsisError unless each window is from 1 to `span`."""
        require_windows(self.columns.spans, span)
        return self.columns


def questions(times: Integers | Sequence[int], spans: npt.ArrayLike, no_values: Any = ()) -> Batch:
    """Return the batch of a group without events for each of `times`, which asks for `spans` then.

    no_values: what a synopsis takes for the values of no events.
    """
    each = np.arange(len(times) + 1)
    return Batch(np.zeros_like(each), (), no_values, each, times, spans)


class Answers:
    """Answers with their bounds, alike in shape."""

    estimates: Floats
    lowers: Floats
    uppers: Floats

    @property
    def figures(self) -> tuple[Floats, Floats, Floats]:
        """Estimates, lowers and uppers."""
        return self.estimates, self.lowers, self.uppers


@dataclass(frozen=True)
class BatchResult(Answers):
    """The result of a batch: the new state of each group, and an answer for each query and span.

    estimates, lowers and uppers are float64[queries, spans].
    """

    states: list[bytes]
    estimates: Floats
    lowers: Floats
    uppers: Floats

    def only(self) -> Estimate:
        """Return the answer of a batch with one query and one span."""
        return Estimate(*(float(figure[0, 0]) for figure in self.figures))


def row_of(name: str, numbers: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return an array, or raise SynopsisError for rows of different lengths, and for masked ones:
    without the mask, what is below it would count.
    """
    if isinstance(numbers, np.ma.MaskedArray) and np.ma.is_masked(numbers):
        raise SynopsisError(f"{name} must not be masked: leave these events out")
    try:
        return np.asarray(numbers)
    except ValueError:
        raise SynopsisError(f"{name} must be one row of numbers") from None


def is_uint64(array: npt.NDArray[Any]) -> bool:
    """Return whether these are whole numbers without a sign that int64 may not hold."""
    return array.dtype.kind == "u" and array.dtype.itemsize == 8


def reals(name: str, numbers: npt.ArrayLike) -> Floats:
    """Return a contiguous float64 array, or raise SynopsisError for what is no number, and for one
    from 2^53 on that no double is equal to: bounds would be those of another.
    """
    array = row_of(name, numbers)
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "O" or (kind == "f" and size > _DOUBLE):
        found = [real(name, number) for number in array.flat]
        array = np.array(found, np.float64).reshape(array.shape)
    elif kind in "iu" and size == _DOUBLE:
        for number in array[(array > _WHOLE) | (array < -_WHOLE)].tolist():
            real(name, number)
    elif kind not in "biuf" and array.size > 0:
        raise SynopsisError(f"{name} must be numbers, not {array.dtype}")
    return _as_kernels_take(np.ascontiguousarray(array, np.float64))


def _as_kernels_take(array: Row) -> Row:
    """Return the array, or a copy of one that is read-only or not aligned, as those of Arrow are,
    or those read from a buffer: this process would compile each kernel once more for such.
    """
    return array if array.flags.carray else array.copy()


def real(name: str, number: Any) -> float:
    """Return the double nearest to a number, or raise SynopsisError as `reals`."""
    try:
        taken = np.nan if isinstance(number, str | bytes) else float(number)
    except (TypeError, ValueError, OverflowError):
        taken = np.nan
    if np.isnan(taken) and not isinstance(number, float):
        raise SynopsisError(f"{name} must be numbers that a double can hold, not {number!r}")
    if abs(taken) >= _WHOLE and taken != number:
        raise SynopsisError(
            f"{name} must be numbers that a double can hold, not {number}: give {taken!r}, the"
            " nearest one, if that will do"
        )
    return taken


def integers(name: str, numbers: npt.ArrayLike) -> Integers:
    """Return a contiguous int64 array, or raise SynopsisError for what is not whole numbers."""
    array = row_of(name, numbers)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or is_uint64(array):
        rows = "" if array.ndim == 1 else f" of the shape {array.shape}"
        raise SynopsisError(
            f"{name} must be one row of 64-bit whole numbers, not {array.dtype}{rows}"
        )
    return _as_kernels_take(np.ascontiguousarray(array, np.int64))


def _spans(spans: npt.ArrayLike, most: str = "") -> Integers:
    """Return the windows asked for, or raise SynopsisError: of any synopsis some are too long.

    most: the longest one of the synopsis asked, if it is one, as the message has it.
    """
    array = row_of("spans", spans)
    if is_uint64(array) and bool((array <= TIME_MAX).all()):
        array = array.astype(np.int64)
    if is_uint64(array) or (
        array.dtype == object and all(isinstance(n, int) for n in array.ravel().tolist())
    ):
        raise SynopsisError(f"a window asked for must be from 1 to {most}the span kept")
    return integers("spans", array)


def require_windows(spans: Integers, most: int) -> None:
    """Raise SynopsisError unless each window asked for is from 1 to `most`."""
    if not all(1 <= n <= most for n in spans.tolist()):
        raise SynopsisError(f"a window asked for must be from 1 to {most}, the span kept")


def windows(spans: npt.ArrayLike, most: int) -> Integers:
    """Return the windows asked for, int64[K], or raise SynopsisError: each is from 1 to `most`."""
    asked = _spans(spans, f"{most}, ")
    require_windows(asked, most)
    return asked


def window_length(n: int, most: int) -> int:
    """Return the window asked for as Python's int, or raise SynopsisError as `windows`."""
    return int(windows([n], most)[0])


def _targets(advances: npt.ArrayLike | None, groups: int) -> Integers:
    """Return the time each group is moved on to, TIME_MIN for none, or raise SynopsisError."""
    if advances is None:
        return np.full(groups, TIME_MIN)
    array = integers("advances", advances)
    if len(array) != groups or bool(np.any(array > TIME_MAX + 1)):
        raise SynopsisError(f"advances must be {groups} times of at most 2^61")
    return array


def require_states(states: Sequence[bytes | None], columns: Columns) -> None:
    """Raise SynopsisError unless there is a state, or None, for each group."""
    if len(states) != len(columns.starts) - 1:
        events = len(columns.times)
        raise SynopsisError(f"starts must rise from 0 to {events} in {len(states) + 1} numbers")


class Joined(NamedTuple):
    """Stored states one after another, and int64[G + 1]: where each begins, and the end."""

    arena: Bytes
    offsets: Integers


def joined(states: Sequence[bytes | None]) -> Joined:
    """Return stored states one after another; of None there is nothing."""
    blobs = [state or b"" for state in states]
    offsets = np.zeros(len(blobs) + 1, np.int64)
    np.fromiter(map(len, blobs), np.int64, len(blobs)).cumsum(out=offsets[1:])
    return Joined(np.frombuffer(bytearray().join(blobs), np.uint8), offsets)


def split(out: Bytes, ends: Integers) -> list[bytes]:
    """Return the states out[ends[g]:ends[g + 1]]."""
    written = BytesIO(out[: ends[-1]].data)
    # Twice as fast as slices: each of these would be made first.
    return list(map(written.read, np.diff(ends).tolist()))


@borrowing_kernel
def _rises(slices: Integers, groups: int, length: int) -> bool:
    """Return whether `slices` cut a column of `length` values into slices of `groups` groups."""
    if len(slices) != groups + 1 or slices[0] != 0 or slices[groups] != length:
        return False
    falls = False
    for group in range(groups):
        falls |= slices[group + 1] < slices[group]
    return not falls


@borrowing_kernel
def _cut(
    starts: Integers, times: Integers, query_starts: Integers, query_times: Integers, cuts: Integers
) -> tuple[int, int, int, int]:
    """Check the columns, fill `cuts` as `Columns` has them; return (error, group, two numbers)."""
    groups = max(len(starts) - 1, 0)
    if not _rises(starts, groups, len(times)):
        return _STARTS, 0, len(times), groups + 1
    if not _rises(query_starts, groups, len(query_times)):
        return _QUERY_STARTS, 0, len(query_times), groups + 1
    for group in range(groups):
        first, stop = starts[group], starts[group + 1]
        for event in range(first, stop):
            time = times[event]
            if time > TIME_MAX or time < TIME_MIN:
                return error_codes.TIME_OUT_OF_RANGE, group, time, 0
            if event > first and time < times[event - 1]:
                return error_codes.TIME_WENT_BACK, group, time, times[event - 1]
        event = first
        for query in range(query_starts[group], query_starts[group + 1]):
            until = query_times[query]
            if query > query_starts[group]:
                before = query_times[query - 1]
                if until < before or until > TIME_MAX + 1:
                    return error_codes.QUERY_WENT_BACK, group, until, before
            while event < stop and times[event] < until:
                event += 1
            cuts[group + query] = event
        cuts[group + query_starts[group + 1]] = stop
    return error_codes.OK, 0, 0, 0


@borrowing_kernel
def follows(columns: Columns, group: int, now: int) -> tuple[int, int, int, int]:
    """Check that the events and queries of a group go on from its state's `now`.

    Returns (error, its two numbers, the `now` after its events, and after what it is moved on to).
    """
    starts, times, query_starts, query_times, _, advances, _ = columns
    first, stop = starts[group], starts[group + 1]
    query = query_starts[group]
    if query < query_starts[group + 1]:
        until = query_times[query]
        if until < now or until > TIME_MAX + 1:
            return error_codes.QUERY_WENT_BACK, until, now, 0
    after = now
    if first < stop:
        if times[first] < now - 1:
            return error_codes.TIME_WENT_BACK, times[first], now - 1, 0
        after = times[stop - 1] + 1
    advance = advances[group]
    if advance > TIME_MIN:
        if advance < after:
            return error_codes.TIME_WENT_BACK, advance, after, 0
        after = advance
    return error_codes.OK, 0, 0, after


def parts_of(quantiles: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return quantiles from 0 to 1 in millionths; raises SynopsisError for any other number, and
    for one of more than six decimals: bounds of the nearest one that has fewer are not its own.
    """
    array = np.atleast_1d(reals("quantiles", quantiles))
    if array.ndim != 1 or not np.all((array >= 0) & (array <= 1)):
        raise SynopsisError(f"a quantile must be a number from 0 to 1, not {quantiles!r}")
    parts = np.ascontiguousarray(np.rint(array * PARTS), np.int64)
    if np.any(parts / PARTS != array):
        raise SynopsisError(f"a quantile must have at most six decimals, not {quantiles!r}")
    return parts
