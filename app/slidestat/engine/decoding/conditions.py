"""Which events a topology counts, and which of them each statistic takes in.

A record that the decoder refuses is judged here on its own, whatever is in it: it may be one that
is not asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.evaluation import Evaluation
from slidestat.engine.decoding.field_values import FieldColumns, FieldValues, column_of, fault_of
from slidestat.engine.decoding.record_type import reader, struct_of

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
    """The conditions of a topology. One comparison costs about 45 ns an event, of a number that a
    statistic reads too; 75 where it must be read for it.
    """

    def __init__(self, topology: Topology, record: type[msgspec.Struct]) -> None:
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
        self._values = FieldValues(topology, record, [known for _, known in self._all])
        paths = dict.fromkeys(path for path, _ in self._values.fields)
        alone = struct_of(dict.fromkeys(paths, Any), paths)
        self._decode = msgspec.json.Decoder(alone).decode
        self._read_alone = {path: reader(alone, path) for path in paths}

    def __bool__(self) -> bool:
        return bool(self._all)

    def of(self, events: Sequence[Any], numbers: Mapping[FieldPath, Float64s]) -> Judged:
        """Judge events, as the decoder's type has them, by the conditions; `numbers` are those that
        are read already.
        """
        return self._judged(len(events), self._values.of(events, numbers))

    def of_record(self, record: bytes) -> Judged | None:
        """Judge one record; return None if it cannot be read even so far."""
        try:
            event = self._decode(record)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        columns = {
            (path, sort): column_of(sort, [self._read_alone[path](event)])
            for path, sort in self._values.fields
        }
        return self._judged(1, columns)

    def _judged(self, rows: int, columns: FieldColumns) -> Judged:
        found: list[Bools] = []
        faults: dict[int, str] = {}
        counted = np.ones(rows, bool)
        for place, (what, known) in enumerate(self._all):
            of_it = {path: columns[path, sort] for path, sort in known.fields}
            holds, wrong = Evaluation(rows, of_it).holds(known.node)
            if wrong is not None:
                for row in np.flatnonzero(wrong & counted).tolist():
                    faults.setdefault(row, f"{what}: {fault_of(row, known, of_it)}")
            if place == 0 and self._is_limited:
                counted = holds
            else:
                found.append(holds)
        return Judged(counted, faults, tuple(found))
