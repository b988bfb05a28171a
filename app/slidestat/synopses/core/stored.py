"""The part that synopses of one key share: bytes that events and time move on."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import index
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import (
    NO_QUERIES,
    TIME_MIN,
    Batch,
    integers,
    questions,
    reals,
    row_of,
)
from slidestat.synopses.core.envelope import stored
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.estimate import Estimate

P = TypeVar("P")


def time_in_range(number: int) -> int:
    """Return `number` as Python's int; SynopsisError if it is no time that a synopsis can have."""
    try:
        time = index(number)
    except TypeError:
        raise SynopsisError(f"a time must be a whole number, not {number!r}") from None
    if not (TIME_MIN <= time <= -TIME_MIN):
        raise SynopsisError(f"{time} is out of range: times are from -2^61 to 2^61 - 1")
    return time


def moving(times: Integers, values: Any, to: Integers | None) -> Batch:
    """Return the batch of one key that has events, is then moved on, asks nothing."""
    return Batch([0, len(times)], times, values, advances=to)


class Stored(ABC, Generic[P]):
    """A synopsis of one stream of events, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept; a question's `now` is the synopsis's own
    if None, a later one is a look ahead that changes nothing, an earlier one raises SynopsisError.
    Threads that change one synopsis take turns, such as by a lock.
    """

    kinds: ClassVar[tuple[int, ...]] = ()
    """The kinds of stored states that can be merged."""
    is_checked_when_read: ClassVar[bool] = False
    """Whether decoding leaves something to `check`."""
    run_batch: ClassVar[Callable[..., Any]]
    """The function that feeds and asks many synopses at once, given parameters, states and a batch.
    """

    def __init__(self, parameters: P, data: bytes, now: int) -> None:
        self._parameters = parameters
        self._data = data
        self._now = now

    @classmethod
    def create(cls, parameters: P) -> Self:
        """Return a synopsis that has seen nothing."""
        made = cls(parameters, b"", TIME_MIN)  # to a batch, no bytes are a key never seen
        made._data = made._moved(NO_QUERIES, made._no_values(), None)
        return made

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        The parameters' error is then the promised one, which may be below the one once asked for.
        Cost: O(len(data)), and what `check` costs where reading does not check all.
        """
        data = stored(data)
        parameters, now = cls._opened(data)
        read = cls(parameters, data, now)
        if cls.is_checked_when_read:
            read.check()
        return read

    @classmethod
    @abstractmethod
    def _opened(cls, data: bytes) -> tuple[P, int]:
        """Decode `data`; return what it was made with, and its time. SynopsisError."""

    @property
    def parameters(self) -> P:
        """Return the synopsis' parameters."""
        return self._parameters

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to; -2^61 before any."""
        return self._now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        return self._data

    def advance(self, now: int) -> None:
        """Move on to `now` without events, dropping what expires; SynopsisError if it goes back."""
        time = time_in_range(now)
        self._move(NO_QUERIES, self._no_values(), np.array([time], np.int64))
        self._now = time

    @abstractmethod
    def check(self) -> None:
        """Raise SynopsisError unless the stored state keeps its invariants."""

    def _insert(self, times: npt.ArrayLike, values: Any) -> None:
        """Take in events, with what `_moved` takes for their values; all of them or none."""
        column = integers("times", np.atleast_1d(row_of("times", times)))
        self._move(column, values, None)
        if len(column) > 0:
            self._now = max(self._now, int(column[-1]) + 1)

    def _move(self, times: Integers, values: Any, to: Integers | None) -> None:
        """Take in events and time, all or none; SynopsisError where another thread has done so
        meanwhile: kernels run beside other threads, and one of the two would be lost.
        """
        before = self._data
        after = self._moved(times, values, to)
        if self._data is not before:
            raise SynopsisError(
                "two threads changed one synopsis at once, and what this one brought is not in it:"
                " give each thread a synopsis of its own, or share a lock"
            )
        self._data = after

    def _at(self, now: int | None) -> int:
        """Return a question's time, the synopsis's own for None; SynopsisError if it is earlier."""
        at = self._now if now is None else time_in_range(now)
        if at < self._now:
            raise error_codes.synopsis_error(error_codes.QUERY_WENT_BACK, at, self._now, -1)
        return at

    def _no_values(self) -> Any:
        """Return what `_moved` takes for the values of no events."""
        return None

    def _question(self, n: int, now: int | None) -> Batch:
        """Return the batch of this key that asks for the window [now - n, now)."""
        return questions([self._at(now)], [n], self._no_values())

    def _moved(self, times: Integers, values: Any, to: Integers | None) -> bytes:
        """Return the state after the events, moved on to the time `to`, if any."""
        states: list[bytes] = self._run(moving(times, values, to)).states
        return states[0]

    def _run(self, batch: Batch) -> Any:
        """Return the result, with the new state, of a batch with values as `_insert` was given."""
        return type(self).run_batch(self._parameters, [self._data], batch)


class Estimating(Stored[P]):
    """A synopsis whose answer for a window is one figure with its bounds."""

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span, `now` as in `Stored`.

        In an empty window, figures that need an event, such as an extreme, are NaN. Cost: O(bytes).
        """
        answer: Estimate = self._run(self._question(n, now)).only()
        return answer


NO_VALUES: Floats = np.empty(0, np.float64)


class StoredSynopsis(Stored[P]):
    """A synopsis of one stream of events with values; windows and times are as in `Stored`."""

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a value for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or a value cannot be taken.
        """
        self._insert(times, np.atleast_1d(reals("values", values)))

    def _no_values(self) -> Floats:
        return NO_VALUES


class StoredItems(Stored[P]):
    """A synopsis of the items of one stream of events; windows and times are as in `Stored`."""

    def insert(self, times: npt.ArrayLike, items: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and an item (int64) for each.

        Distinct items may also be uint64, which are kept by their 64 bits: numbers, or the ids that
        `item_ids` makes of strings. Raises SynopsisError, and takes in nothing, if a time goes back
        or the batch of this family refuses the items.
        """
        self._insert(times, np.atleast_1d(row_of("items", items)))

    def _no_values(self) -> Integers:
        return NO_QUERIES
