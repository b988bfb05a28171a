"""A uniform sample of a window's values, for questions that nobody foresaw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slidestat.declare.columns import Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import ListStatistic, Promise
from slidestat.errors import SlidestatError
from slidestat.synopses.core.rounding import EXACT, with_rounded

if TYPE_CHECKING:
    from slidestat.declare.runners import Listed, Runner

_LARGEST_SIZE = 1_000


@dataclass(frozen=True, kw_only=True)
class Sample(ListStatistic):
    """Values of the window drawn at random, each set of them as likely as any other, old to new.

    Each has a figure, whose estimate and bounds are the value, and whose item is the event's number
    among the key's events since its state began. A window of at most `size` events is given whole.
    A share that is estimated from k values is within 1.36 / sqrt(k) in 95 of 100 cases. Replays
    draw the same. Keys with one seed draw events of the same numbers: estimates of one key hold,
    those of different keys are not independent.

    size: how many values are drawn, 1 to 1,000.
    seed: of the draws, 0 to 2^63 - 1.
    promise: values as they were, none drawn twice; all of them if there are at most `size`.
    """

    kind: ClassVar[str] = "sample"
    can_be_united: ClassVar[bool] = False
    size: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.size) is not int or not 1 <= self.size <= _LARGEST_SIZE:
            raise SlidestatError(
                f"the size of {self.kind} is {self.size!r}.",
                f"Give a whole number from 1 to {_LARGEST_SIZE:,}.",
            )
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise SlidestatError(
                f"the seed of {self.kind} is {self.seed!r}.", "Give a whole number from 0 on."
            )

    @property
    def limits(self) -> Limits:
        """The limits: any number."""
        return Limits()

    def runner(self, span: int, field: FieldPath) -> Runner:
        from slidestat.declare.runners.samples import SampleRunner
        from slidestat.synopses.sampling.sample import SampleParameters

        return SampleRunner(SampleParameters(self.size, span, self.seed), field)

    def promise(self, _span: int) -> Promise:
        return Promise()

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return [
            found._replace(numbers=tuple(with_rounded(np.array(found.numbers)).tolist()))
            if abs(found.numbers[0]) >= EXACT
            else found
            for found in listed
        ]
