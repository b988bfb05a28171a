"""Which events a topology counts, and which of them each statistic takes in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.evaluation import Computed, Evaluation, error_of
from slidestat.synopses.core.arrays import Bools, Integers


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
        """The fields that they read, each with the sort that it is read as."""

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


# The statistics that leave an event out, because it lacks a field that they read.
#
# As in SQL, a field that is null is a missing one: a statistic counts the events that have its
# field.

# Numbers as an array, where NaN is nothing; or items, a list or of Arrow, where None and null are.
Column = Any


class LackedFields:
    """A counter of the fields that events lack. A nanosecond a number, where nothing is lacked."""

    def __init__(self, topology: Topology) -> None:
        columns = topology.columns
        self._names = [field_text(c.path) for c in (*columns.numbers, *columns.items)]
        # The places of the columns that each statistic reads, numbers first.
        self._read_by = {
            label: tuple(
                columns.index(column) + (0 if column.is_number else len(columns.numbers))
                for column in statistic.columns(topology.value_path)
            )
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
        }
        # The place of the condition that chooses the events of each, None where it takes all.
        self._chosen_by = {
            label: None
            if statistic.condition is None
            else columns.conditions.index(statistic.condition)
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
        }

    def left_out(
        self,
        numbers: Sequence[Column],
        items: Sequence[Column],
        conditions: Sequence[Bools] | None = None,
    ) -> dict[str, Integers]:
        """Return, by its label, the rows in rising order that each statistic leaves out; no entry
        for one that takes all. Rows that its condition leaves out are not among them, where
        `conditions` are given.
        """
        return self._left_out(self._absent(numbers, items), conditions)

    def _left_out(
        self, absent: Mapping[int, Bools], conditions: Sequence[Bools] | None = None
    ) -> dict[str, Integers]:
        if not absent:
            return {}
        found: dict[tuple[object, ...], Integers] = {}
        left_out: dict[str, Integers] = {}
        for label, places in self._read_by.items():
            condition = None if conditions is None else self._chosen_by[label]
            if (places, condition) not in found:
                masks = [absent[place] for place in places if place in absent]
                lacking = np.any(masks, axis=0) if masks else np.zeros(0, bool)
                if masks and condition is not None and conditions is not None:
                    lacking &= conditions[condition]
                found[places, condition] = np.flatnonzero(lacking)
            left_out[label] = found[places, condition]
        return {label: rows for label, rows in left_out.items() if len(rows)}

    def of_no_use(
        self, numbers: Sequence[Column], items: Sequence[Column]
    ) -> Iterator[tuple[int, str]]:
        """Yield the rows that every statistic leaves out, and the fields that they lack."""
        if not all(self._read_by.values()):
            return  # One reads times alone, and takes every event.
        absent = self._absent(numbers, items)
        left_out = self._left_out(absent)
        if len(left_out) < len(self._read_by):
            return
        rows, by = np.unique(np.concatenate(list(left_out.values())), return_counts=True)
        for row in rows[by == len(self._read_by)].tolist():
            lacked = dict.fromkeys(self._names[place] for place in absent if absent[place][row])
            yield row, f"Object missing required field `{'`, `'.join(lacked)}`"

    @staticmethod
    def _absent(numbers: Sequence[Column], items: Sequence[Column]) -> dict[int, Bools]:
        """Return the masks of missing values by column; no entry for a column without any."""
        found: dict[int, Bools] = {}
        for place, column in enumerate((*numbers, *items)):
            mask = _nothing_in(column)
            if mask is not None and mask.any():
                found[place] = mask
        return found


def _nothing_in(column: Column) -> Bools | None:
    if isinstance(column, np.ndarray):
        is_nan: Bools = np.isnan(column)
        return is_nan
    if isinstance(column, pa.Array):
        if not column.null_count:
            return None
        mask: Bools = column.is_null().to_numpy(zero_copy_only=False)
        return mask
    return np.array([item is None for item in column], bool) if None in column else None
