"""What an entry of every.py is made of: a stream, a question and its oracle, a synopsis's laws.

A stream is times and units: whole numbers of any sign, which an entry turns into the columns that
its synopsis takes. Oracles are plain Python and NumPy, exact, and know none of the product's code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isfinite, isnan, log2
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Integers

Columns = tuple[npt.NDArray[Any], ...]
Figures = tuple[float, float, float]
Exact = int | float | Fraction
Units = Callable[[np.random.Generator, int], Integers]

UNITS: dict[str, Units] = {
    "uniform": lambda rng, size: rng.integers(-10_000, 10_000, size),
    "zipf": lambda rng, size: np.minimum(rng.zipf(1.3, size), 10**9),
    "constant": lambda rng, size: np.full(size, 10),  # noqa: ARG005
    "zeros": lambda rng, size: np.zeros(size, np.int64),  # noqa: ARG005
    "sorted": lambda rng, size: np.sort(np.rint(rng.normal(0, 5_000, size)).astype(np.int64)),
    "reversed": lambda rng, size: -np.sort(np.rint(rng.normal(0, 5_000, size)).astype(np.int64)),
    "mostly nothing": lambda rng, size: np.where(rng.random(size) < 0.05, 325, 0),
    "all different": lambda rng, size: rng.permutation(size),
    "powers of two": lambda rng, size: 1 << rng.integers(0, 30, size),
    "one below powers of two": lambda rng, size: (1 << rng.integers(0, 30, size)) - 1,
    "once in a while huge": lambda rng, size: np.where(rng.random(size) < 0.02, 1 << 39, 1),
    "old ones weigh most": lambda rng, size: (1e11 * 0.97 ** np.arange(size)).astype(np.int64),  # noqa: ARG005
    "new ones weigh most": lambda rng, size: -(1.02 ** np.arange(size)).astype(np.int64),  # noqa: ARG005
    "far from zero": lambda rng, size: 10**11 + rng.integers(0, 3, size),
}
"""Named units: what people's values are like, and what hurts one synopsis or another."""


class Window(NamedTuple):
    """What an oracle is asked: the events of [now - n, now), and the times of all before `now`."""

    n: int
    now: int
    units: Integers
    seen: Integers


def exactly(x: Exact) -> Exact:
    """A figure to compute with: no double, whose sums and products would be rounded."""
    return Fraction(x) if isinstance(x, float) and isfinite(x) else x


@cache
def decimal(x: float) -> Fraction:
    """A parameter as it is written."""
    return Fraction(repr(x))


@dataclass(frozen=True)
class Question:
    """A figure that a synopsis is asked for, and how it is judged.

    ask: (synopsis, n, now) to (estimate, lower, upper). exact: the true figure of a window, None
    if it has none (then all three are NaN). kept: (the synopsis's parameters, estimate, exact,
    window) to whether the promise is kept. measure: what turns an answer's figure into what
    `exact` is counted in, exactly; a figure that is counted as `exact` is has none.
    """

    ask: Callable[[Any, int, int], Figures]
    exact: Callable[[Window], Exact | None]
    kept: Callable[[Any, Any, Any, Window], bool]
    measure: Callable[[float], Exact] | None = None

    def judge(self, synopsis: Any, window: Window) -> None:
        """Assert that bounds hold, the estimate is between them, and the promise is kept."""
        answer = [
            x.item() if isinstance(x, np.generic) else x
            for x in self.ask(synopsis, window.n, window.now)
        ]
        exact = self.exact(window)
        if exact is None:
            assert all(isnan(figure) for figure in answer)
            return
        # Python's own whole numbers, fractions and doubles compare exactly with each other.
        estimate, lower, upper = map(self.measure, answer) if self.measure else answer
        assert lower <= exact <= upper, (answer, exact, window)
        assert lower <= estimate <= upper, (answer, exact, window)
        if estimate == exact:  # which keeps any promise
            return
        kept = self.kept(synopsis.parameters, exactly(estimate), exactly(exact), window)
        assert kept, (answer, exact, window)


@dataclass(frozen=True)
class Entry:
    """One synopsis. `span` below is the longest window kept.

    create: the span to one that has seen nothing. columns: units to what `insert` takes behind the
    times. questions: what it answers. most_bytes: (events in the window, sum of their units) to
    how long the state may be, by its theorem. batch: (parameters, states, starts, times, *columns,
    advances) to new states, for all keys of a batch. any_number: an n is the number of an event,
    not a window. places: events have no times but their places.
    """

    create: Callable[[int], Any]
    columns: Callable[[Integers], Columns]
    questions: Sequence[Question]
    most_bytes: Callable[[int, int], float]
    batch: Callable[..., Sequence[bytes]] | None = None
    any_number: bool = False
    places: bool = False

    def insert(self, synopsis: Any, times: npt.ArrayLike, units: npt.ArrayLike) -> None:
        columns = self.columns(np.asarray(units, np.int64))
        synopsis.insert(*(columns if self.places else (times, *columns)))

    def answers(self, synopsis: Any, n: int, now: int) -> list[Figures]:
        return [tuple(question.ask(synopsis, n, now)) for question in self.questions]

    def judge(
        self, synopsis: Any, times: Integers, units: Integers, moments: Sequence[int], ns: Any
    ) -> None:
        """Ask each question at each moment, for each n; `times` are all that the synopsis saw."""
        for now in moments:
            end = int(np.searchsorted(times, now))
            for n in ns:
                start = int(np.searchsorted(times, now - n))
                window = Window(n, now, units[start:end], times[:end])
                for question in self.questions:
                    question.judge(synopsis, window)


def relative(parameters: Any, estimate: Exact, exact: Exact, _: Window) -> bool:
    return abs(estimate - exact) <= Fraction(parameters.relative_error) * abs(exact)


def one_in(parameters: Any) -> Fraction:
    """The promise of counts, sums and waves, 1 / (2 l) and such, not rounded to a double."""
    return Fraction(1, round(1 / parameters.relative_error))


def share_of_it(parameters: Any, estimate: Exact, exact: Exact, _: Window) -> bool:
    return abs(estimate - exact) <= one_in(parameters) * exact


def share_of_sum(parameters: Any, estimate: Exact, exact: Exact, _: Window) -> bool:
    share = one_in(parameters)
    rounding = Fraction(1, 2**52) if exact * 100 >= 2**52 * share else 0  # as SumParameters says
    return abs(estimate - exact) <= (share + rounding) * exact


def is_exact(_: Any, estimate: Exact, exact: Exact, __: Window) -> bool:
    return estimate == exact


def query(synopsis: Any, n: int, now: int) -> Figures:
    return synopsis.query(n, now)


def none(_: Integers) -> Columns:
    return ()


def cents(units: Integers) -> Columns:
    return (units / 100,)


def sizes(units: Integers) -> Columns:
    return (np.abs(units),)


def size_in_cents(units: Integers) -> Columns:
    return (np.abs(units) / 100,)


def count(window: Window) -> int:
    return len(window.units)


def total(window: Window) -> int:
    return sum(map(abs, window.units.tolist()))


def buckets(per_level: int, units: int) -> float:
    return (per_level + 1) * (log2(units / per_level + 1) + 1)


def queries_of_none(groups: int) -> tuple[list[int], list[int], list[int]]:
    return [0] * (groups + 1), [], []
