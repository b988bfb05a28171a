"""Which events a topology counts, and which of them each statistic takes in."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.evaluation import Computed, Evaluation, error_of

Bools = npt.NDArray[np.bool_]


class Judged(NamedTuple):
    """The outcome of conditions for n events: bool[n] which are counted; errors by row for events
    whose condition cannot be computed; and, for each of the topology's `columns.conditions`,
    bool[n] where it holds.
    """

    counted: Bools
    errors: dict[int, str]
    conditions: tuple[Bools, ...]


class Conditions:
    """The conditions of a topology. One comparison costs about 45 ns an event."""

    def __init__(self, topology: Topology) -> None:
        self._all: list[tuple[str, Expression]] = []
        if topology.condition is not None:
            self._all.append(("where", topology.condition))
        self._is_limited = bool(self._all)
        for known in topology.columns.conditions:
            labels = [
                label
                for label, statistic in zip(topology.labels, topology.statistics, strict=True)
                if statistic.condition == known
            ]
            self._all.append((f"where of {', '.join(labels)}", known))
        self.fields = list(dict.fromkeys(field for _, known in self._all for field in known.fields))
        """What they read, each field with the sort that it is read as."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def judged(self, rows: int, columns: Mapping[tuple[FieldPath, Sort], Computed]) -> Judged:
        """Evaluate the conditions for n events, `rows`, by the `columns` that are read of them."""
        found: list[Bools] = []
        errors: dict[int, str] = {}
        counted = np.ones(rows, bool)
        for place, (what, known) in enumerate(self._all):
            of_it = {path: columns[path, sort] for path, sort in known.fields}
            holds, wrong = Evaluation(rows, of_it).holds(known.node)
            if wrong is not None:
                for row in np.flatnonzero(wrong & counted).tolist():
                    errors.setdefault(row, f"{what}: {error_of(row, known, of_it)}")
            if place == 0 and self._is_limited:
                counted = holds
            else:
                found.append(holds)
        return Judged(counted, errors, tuple(found))
