"""What synopses of one key have in common: bytes that events and time move on."""

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from app.synopses.batch import NO_QUERIES, integers
from app.synopses.errors import SynopsisError
from app.synopses.histogram_codec import TIME_MIN, Integers
from app.synopses.histogram_kernel import Floats

NO_VALUES: Floats = np.empty(0, np.float64)


def time_in_range(number: int) -> int:
    """Return `number`, or raise SynopsisError where it is no time that a synopsis can come to."""
    if not (TIME_MIN <= number <= -TIME_MIN):
        raise SynopsisError(f"{number} is out of range: times are from -2^61 to 2^61 - 1")
    return number


class StoredSynopsis(ABC):
    """A synopsis of one stream of events with values, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept.
    """

    def __init__(self, data: bytes, now: int) -> None:
        self._data = data
        self._now = now

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to; -2^61 before any."""
        return self._now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        return self._data

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a value for each.

        Raises SynopsisError, and takes in nothing, if a time goes back or a value cannot be taken.
        """
        column = integers("times", np.atleast_1d(times))
        self._data = self._moved(column, np.atleast_1d(np.asarray(values, np.float64)), None)
        if len(column) > 0:
            self._now = max(self._now, int(column[-1]) + 1)

    def advance(self, now: int) -> None:
        """Move on to `now` without events, dropping what expires; SynopsisError if it goes back."""
        to = np.array([time_in_range(now)], np.int64)
        self._data = self._moved(NO_QUERIES, NO_VALUES, to)
        self._now = max(self._now, now)

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> "StoredSynopsis":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else."""

    @property
    @abstractmethod
    def parameters(self) -> object:
        """What the synopsis was made with."""

    @abstractmethod
    def check(self) -> None:
        """Raise SynopsisError unless the stored state keeps its invariants."""

    @abstractmethod
    def _moved(self, times: Integers, values: Floats, to: Integers | None) -> bytes:
        """Return the state after the events, moved on to the time `to`, if any."""
