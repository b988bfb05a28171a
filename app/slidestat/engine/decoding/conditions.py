"""Which events a topology counts, and which of them each statistic takes in."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.evaluation import Computed, Evaluation

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]


class Judged(NamedTuple):
    """Of n events: bool[n] which are counted, why some cannot be told, by their places; and which
    of them each of the topology's `columns.conditions` holds for.
    """

    counted: Bools
    faults: dict[int, str]
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
        """Judge n events, `rows`, by the `columns` of what is read of them."""
        found: list[Bools] = []
        faults: dict[int, str] = {}
        counted = np.ones(rows, bool)
        for place, (what, known) in enumerate(self._all):
            of_it = {path: columns[path, sort] for path, sort in known.fields}
            holds, wrong = Evaluation(rows, of_it).holds(known.node)
            if wrong is not None:
                for row in np.flatnonzero(wrong & counted).tolist():
                    faults.setdefault(row, f"{what}: {_fault(row, known, of_it)}")
            if place == 0 and self._is_limited:
                counted = holds
            else:
                found.append(holds)
        return Judged(counted, faults, tuple(found))


def doubles(values: Float64s) -> pa.Array:
    """Numbers, of which NaN is none."""
    nothing = np.isnan(values)
    return pa.array(values, mask=nothing) if nothing.any() else pa.array(values)


def _fault(row: int, known: Expression, columns: Mapping[FieldPath, Computed]) -> str:
    for path, sort in known.fields:
        faults = columns[path].faults
        if faults is not None and faults[row]:
            return f"{field_text(path)} is no {sort.value}"
    return "a division by zero, or a number beyond those of doubles"
