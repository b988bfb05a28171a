"""The part that summaries of single windows share: one envelope, and merging within a form.

The body (kind 26; envelope and numbers: see wire.py) begins with the form, and continues as the
module of that form defines. Reading is strict: what is read is written back and must be the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self

from slidestat.synopses.core.envelope import Body, body_of, sealed, varint
from slidestat.synopses.core.errors import SynopsisError

SUMMARY = 26


class SummaryAnswer(NamedTuple):
    """`lower <= exact <= upper`, and |estimate - exact| <= error; NaN for an empty window."""

    estimate: float
    lower: float
    upper: float
    error: float


class Bounded(Protocol):
    """An answer with its bounds; NaN where there is none."""

    @property
    def estimate(self) -> float: ...

    @property
    def lower(self) -> float: ...

    @property
    def upper(self) -> float: ...


class WindowFigure(NamedTuple):
    """One of the figures of a window: its name, its answer, and the quantile or item it is of."""

    figure: str
    answer: Bounded
    quantile: float | None = None
    item: str | None = None


class WindowSummary(ABC):
    """The summary of one window, on its own; it never changes, `merge` makes another.

    It knows no times: that the windows merged are of separate events is for the caller to see to.
    """

    form: ClassVar[int]
    kinds: ClassVar[tuple[int, ...]]
    """The kinds of state that it is taken of."""
    are_values: ClassVar[bool] = False
    """Its figures are values that came, of which a double may have been rounded."""

    @classmethod
    @abstractmethod
    def take(cls, state: bytes, n: int, now: int | None) -> Self:
        """Return the summary of the window [now - n, now) of a state; SynopsisError."""

    @classmethod
    @abstractmethod
    def from_body(cls, body: Body) -> Self:
        """Read what `body` wrote, all of it or less; SynopsisError."""

    @abstractmethod
    def body(self) -> bytes:
        """Return what follows the form."""

    @abstractmethod
    def merge(self, *others: Self) -> Self:
        """Return the summary of all windows as one, whatever their order; SynopsisError."""

    @abstractmethod
    def figures(self, quantiles: Sequence[float], share: float) -> Sequence[WindowFigure]:
        """Return its figures: of values these quantiles, of items those that may have a share."""

    def to_bytes(self) -> bytes:
        """Return the summary: equal summaries are equal bytes. Cost: O(bytes)."""
        return sealed(SUMMARY, varint(self.form) + self.body())


@dataclass(frozen=True)
class StateSummary(WindowSummary):
    """A window as the stored state of a synopsis of its own."""

    data: bytes

    def body(self) -> bytes:
        return self.data


def opened_summary(data: bytes) -> tuple[int, Body]:
    """Return the form of a stored summary and what follows it; SynopsisError for anything else."""
    body = Body(body_of(data, SUMMARY))
    return body.number(), body


def must_agree(one: object, others: tuple[object, ...]) -> None:
    """Raise SynopsisError unless summaries were made with the same."""
    for other in others:
        if other != one:
            raise SynopsisError(
                f"summaries can be merged if they are of the same, not of {one} and {other}"
            )
