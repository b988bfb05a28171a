"""The alerts of a topology, computed: of many emissions at once, what is true and how surely."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from slidestat.declare.alerts import Alert, figure_name, read_figures
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.intervals import Intervals, Numbers, Truths
from slidestat.engine.alerts.standing import alert_id
from slidestat.schemas.emission import Figure

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome for n emissions, bool[n] each: whether the alert's condition holds and whether
    that is certain; whether the alert would be resolved, and whether that is certain.
    """

    holds: Bools
    holds_surely: Bools
    resolves: Bools
    resolves_surely: Bools


class Rule:
    """An alert over the figures of an emission, which are in `columns` of a table."""

    def __init__(self, alert: Alert, columns: dict[str, int], models: Sequence[Figure]) -> None:
        self.name = alert.name
        self.id = alert_id(alert.name)
        self.ticks = alert.for_
        self.columns = [columns[name] for name in read_figures(alert)]
        self.models = [models[column] for column in self.columns]
        misses = (1 - Fraction(repr(model.confidence)) for model in self.models)
        self.confidence = float(max(Fraction(0), 1 - sum(misses, Fraction(0))))
        self._certain = alert.certain
        self._when, self._resolve = alert.condition, alert.resolution
        self._columns = columns

    def figures(self, row: Float64s) -> list[Figure]:
        """Return the figures that the alert reads, from the float64[figures, 3] of an emission."""
        return [
            replace(model, estimate=numbers[0], lower=numbers[1], upper=numbers[2])
            for model, numbers in zip(self.models, row[self.columns].tolist(), strict=True)
        ]

    def judge(self, table: Float64s, whole: Bools | None = None) -> Judged:
        """Judge emissions by their figures, float64[n, figures, 3]: estimates, lowers, uppers. Only
        of those that are `whole`, bool[n], None for all, bounds make anything certain.
        """
        when = self._truths(self._when, table)
        holds, surely = when.is_true, when.surely_true
        if self._resolve is None:
            resolves, resolves_surely = ~when.is_true, when.surely_not_true
        else:
            other = self._truths(self._resolve, table)
            resolves, resolves_surely = other.is_true, other.surely_true
        if whole is not None:
            surely, resolves_surely = surely & whole, resolves_surely & whole
        if self._certain:
            return Judged(surely, surely, resolves_surely, resolves_surely)
        return Judged(holds, surely & holds, resolves, resolves_surely & resolves)

    def _truths(self, expression: Expression, table: Float64s) -> Truths:
        figures = {
            path: Numbers.of(table[:, self._columns[figure_name(path)]])
            for path in expression.paths
        }
        return Intervals(len(table), figures).truths(expression.node)


def rules_of(topology: Topology, models: Sequence[Figure]) -> list[Rule]:
    """Return the rules of a topology's alerts; `models` are the figures of an emission except those
    of lists, in the order of a table's columns.
    """
    rules = []
    for alert, window in zip(topology.alerts, topology.alert_windows, strict=True):
        columns = {
            figure.name: column
            for column, figure in enumerate(topology.named_figures)
            if figure.window in (None, window)
        }
        rules.append(Rule(alert, columns, models))
    return rules
