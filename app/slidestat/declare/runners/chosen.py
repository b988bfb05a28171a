"""Any runner, of the events alone for which a condition holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.runners.runner import Answered, CombinableRunner, Runner, combined
from slidestat.declare.runners.work import Work


@dataclass(frozen=True)
class ChosenRunner(CombinableRunner):
    """Another runner, given only the events for which a condition holds."""

    runner: Runner
    condition: Expression

    @property
    def meaning(self) -> str:
        return f"{self.runner.meaning}, where {self.condition.text}"

    def combined(self, other: Self) -> Self:
        return replace(self, runner=combined(self.runner, other.runner))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        return self.runner.run(states, work.chosen(self.condition))
