"""The synopsis of a statistic: all keys of a batch in one call.

A runner takes the stored states and the events of many keys, and gives new states and the answers
to queries. Two statistics whose runners are equal share one state.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.runners.work import Work

Float64s = npt.NDArray[np.float64]


class Listed(NamedTuple):
    """An item that a synopsis lists: (estimate, lower, upper) of how often it came."""

    item: str
    numbers: tuple[float, float, float]


class Answered(NamedTuple):
    """New states, one a group; and for each answer's name float64[3, Q, W] (or [3, Q, W, S]):
    estimates, lowers, uppers. Lists, for each query and window, the most frequent item first.
    """

    states: list[bytes]
    answers: dict[str, Float64s]
    lists: Sequence[Sequence[Sequence[Listed]]] = ()


class Runner(Protocol):
    """A kind of synopsis, one of each key; hashable, and equal to a runner that keeps the same."""

    @property
    def meaning(self) -> str:
        """Return the meaning of its states; states of another meaning cannot be used."""

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        """Take events in and answer; raises SynopsisError for states that are not its own."""


class CombinableRunner(Runner, ABC):
    """A runner with questions of its own: two of one meaning share a state that is asked both."""

    @abstractmethod
    def combined(self, other: Self) -> Self:
        """Return a runner that answers the questions of both."""


def combined(known: Runner, runner: Runner) -> Runner:
    """Return a runner that answers for two of one meaning."""
    if isinstance(known, CombinableRunner) and isinstance(runner, type(known)):
        return known.combined(runner)
    return known


def shared(runners: Sequence[Runner]) -> tuple[Runner, ...]:
    """Return the runners with those of one meaning combined into one, which answers for all of
    them.
    """
    found: dict[str, Runner] = {}
    for runner in runners:
        found[runner.meaning] = combined(found.get(runner.meaning, runner), runner)
    return tuple(found[runner.meaning] for runner in runners)


class Bounded(Protocol):
    """Arrays of one shape: the answers of a kernel, each with its bounds."""

    @property
    def estimates(self) -> Float64s: ...

    @property
    def lowers(self) -> Float64s: ...

    @property
    def uppers(self) -> Float64s: ...


def figures_of(result: Bounded) -> Float64s:
    """Return the estimates, lowers and uppers of a result as float64[3, ...]."""
    return np.stack((result.estimates, result.lowers, result.uppers))


def of_field(field: FieldPath, what: str) -> str:
    """Return the meaning of states that keep something of a field."""
    return f"{what}, of {field_text(field)}"
